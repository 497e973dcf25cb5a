"""`fix --verify`: whether a rewritten model computes the same as before, as far as its rules promise this.

Firings of kind exact and approx promise the same outputs. Each stretch of them is compared from its beginning to its end, so
intended changes of a repair before or after it do not count. If the outputs differ by more than the bounds of the stretch,
bisection finds the firing that did it. Repairs, lossy rules and rules on the interface announce a change: the report has the
change of the outputs, and whether the result runs at all. Whether the outputs are now the framework's can be checked only
against outputs that the framework computed. Only then do the findings say so.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewriter.core.errors import RewriterError, counted
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Firing, Verification
from rewriter.core.record import record, replace
from rewriter.trust.proof.guard import Culprit, Replay, ReplayedRun, Variation, first_bad, state_after, stretches
from rewriter.trust.proof.model_inputs import EDGES, INFINITE, LARGE, LIMITS, Feed, FeedSet, feed_sets, is_of_run, recorded_feed
from rewriter.trust.proof.output_agreement import (
    PROMISING,
    Bound,
    FrameworkOutputs,
    OutputDifference,
    bound_of,
    coarsest_eps,
    differences,
)
from rewriter.trust.proof.validity import Candidate, CannotRun, GaveUp, ModelRun, Outputs, runtime_version, runtimes, size_of

# A model that runs, with its inputs and outputs: other states of the model are compared with these outputs.

RECORDED = "recorded"

SAYING = {
    EDGES: " on inputs of 0, 1, -1 and the like",
    LARGE: " on large inputs",
    LIMITS: " on inputs near the limits of the type",
    INFINITE: " on inputs with infinities and NaN",
}
"""Additions to a difference that ordinary inputs do not show."""

MOST_BYTES_FOR_ALL = 1 << 28
"""Bytes of a model with its data, and of the inputs and outputs of one run, up to which all sets of inputs are used."""

FEW_SETS = 3
"""Sets of inputs for a larger model."""


@record(frozen=True, slots=True)
class RunAnswer:
    """The outputs of a model for inputs of one sort."""

    sort: str
    feed: Feed
    outputs: Outputs


class Baseline:
    """The outputs of a model.

    Attributes:
        runtime: the best runtime that runs the model.
        refused: why a better runtime does not run it; "" if none is better. Another model may run there and not here.
        random: names of outputs that differ between two runs of the model itself, as far as they were compared.

    Raises:
        RewriterError: the model cannot be run, or there is no input for it.
    """

    def __init__(self, candidate: Candidate, inputs: str | None) -> None:
        self._candidate = candidate
        self._eps = coarsest_eps(candidate.proto)
        self.random: list[str] = []
        self._asked_twice = False
        self.refused = ""
        for runtime in runtimes():
            try:
                self.runtime, self.answers = runtime, _answers(candidate, runtime, inputs)
                return
            except GaveUp:
                raise
            except CannotRun as error:
                self.refused = self.refused or str(error)
        raise CannotRun(self.refused)

    def against(self, candidate: Candidate, bound: Bound) -> OutputDifference:
        """How another model differs.

        Returns:
            With a message if something exceeds the bound, or if the other model does not run on inputs on which this one does;
            of several, the difference on the most ordinary inputs. Otherwise the largest difference on ordinary inputs.

        Raises:
            GaveUp: the other model takes too long.
        """
        bound = replace(bound, eps=self._eps)
        answers = [answer for answer in self.answers if not (bound.approximate and answer.sort == INFINITE)]
        try:
            run = ModelRun(candidate, self.runtime)
            found = [(answer, run(answer.feed)) for answer in answers]
        except GaveUp:
            raise
        except CannotRun as error:
            return OutputDifference("", float("inf"), str(error))
        worst = self._worst(found, bound)
        if worst.message and not self._asked_twice:
            self._find_random(bound)
            worst = self._worst(found, bound)
        return worst

    def _worst(self, found: list[tuple[RunAnswer, Outputs]], bound: Bound) -> OutputDifference:
        ordinary = OutputDifference("", 0.0)
        for answer, outputs in found:
            allowed = replace(bound, finite=bound.approximate and answer.sort in (LARGE, LIMITS))
            every = [d for d in differences(answer.outputs, outputs, allowed) if d.output not in self.random]
            worst = max(every, key=lambda d: (bool(d.message), d.largest), default=ordinary)
            if worst.message:
                return replace(worst, message=worst.message + SAYING.get(answer.sort, ""))
            if answer.sort not in (LARGE, LIMITS) and worst.largest > ordinary.largest:
                ordinary = worst
        return ordinary

    def _find_random(self, bound: Bound) -> None:
        """Finds outputs that differ from themselves and cannot be compared, since a model may draw random numbers.

        The same session runs twice, since a generator with a seed begins anew in each session.
        """
        self._asked_twice = True
        again = ModelRun(self._candidate, self.runtime)
        for _ in range(2):
            for answer in self.answers:
                found = differences(answer.outputs, again(answer.feed), bound)
                self.random += [d.output for d in found if d.message and d.output not in self.random]


def _answers(candidate: Candidate, runtime: str, inputs: str | None) -> list[RunAnswer]:
    """Outputs for the inputs of a file, or for made-up inputs: of each set the first choice that the model accepts.

    The model has to accept the ordinary set; it may reject some of the other sets.
    """
    run, model = ModelRun(candidate, runtime), candidate.proto
    if inputs is not None:
        feed = recorded_feed(inputs, model)
        return [RunAnswer(RECORDED, feed, run(feed))]
    refusals: list[CannotRun] = []
    for sets in feed_sets(model):
        first = _answer(run, sets[0], refusals)
        if first is not None:
            further = sets[1:] if _is_small(candidate, first) else sets[1:FEW_SETS]
            return [first, *(answer for one in further if (answer := _answer(run, one, refusals)) is not None)]
    raise refusals[0] if refusals else CannotRun("no inputs could be generated")


def _answer(run: ModelRun, feeds: FeedSet, refusals: list[CannotRun]) -> RunAnswer | None:
    for feed in feeds.choices():
        try:
            return RunAnswer(feeds.sort, feed, run(feed))
        except GaveUp:
            raise
        except CannotRun as error:
            refusals.append(error)
    return None


def _is_small(candidate: Candidate, answer: RunAnswer) -> bool:
    return candidate.size() <= MOST_BYTES_FOR_ALL and size_of([answer.feed, answer.outputs]) <= MOST_BYTES_FOR_ALL


class Verifier:
    """Compares results of one model with the model before."""

    def __init__(self, rules: RuleSet, replay: Replay, inputs: str | None = None) -> None:
        """`inputs` is an .npz file with the model's inputs, and perhaps the framework's outputs; None makes inputs up."""
        self._rules = rules
        self.replay = replay
        self._inputs = inputs
        self.framework = None if inputs is None or is_of_run(inputs) else FrameworkOutputs(inputs)

    def __call__(self, attempt: ReplayedRun, plan: Variation) -> Verification | Culprit:
        """The result of the comparison, or the firing that broke a promise.

        Args:
            attempt: the result.
            plan: the variation that made the result.
        """
        return _NumberComparison(self, attempt, plan).verdict()

    def baseline(self, candidate: Candidate) -> Baseline:
        return Baseline(candidate, self._inputs)

    def bound(self, firings: Sequence[Firing]) -> Bound:
        """How much these firings may change together."""
        return bound_of(rule for firing in firings if (rule := self._rules.get(firing.rule)) is not None)


class _NumberComparison:
    def __init__(self, verifier: Verifier, attempt: ReplayedRun, plan: Variation) -> None:
        self._verifier = verifier
        self._attempt = attempt
        self._plan = plan
        self._firings = attempt.log.firings
        self._found = Verification("not verified")
        self._random: list[str] = []
        self._differ = False
        self._off: str | None = None  # the message about recorded outputs, "" if they match

    def verdict(self) -> Verification | Culprit:
        try:
            if not (lacking := self._attempt.candidate.lacking):
                return self._verdict()
            reason = f"ONNX Runtime does not have {lacking}"
        except GaveUp as error:
            reason = str(error)
        self._found.findings += (f"not verified: {_codes(self._firings)}, because {reason}",)
        return self._summary()

    def _verdict(self) -> Verification | Culprit:
        for start, end in stretches(self._firings, lambda firing: firing.kind in PROMISING):
            if (culprit := self._promised(start, end)) is not None:
                return culprit
        if (culprit := self._framework()) is not None:
            return culprit
        announced = [firing for firing in self._firings if firing.kind not in PROMISING]
        return (self._announced(announced) if announced else None) or self._summary()

    def _state(self, firings: int) -> Candidate:
        return state_after(firings, self._attempt, self._plan, self._verifier.replay)

    def _promised(self, start: int, end: int) -> Culprit | None:
        found, firings = self._found, self._firings
        codes = _codes(firings[start:end])
        try:
            baseline = self._verifier.baseline(self._state(start))
        except RewriterError as error:
            found.findings += (f"not verified: {codes}, because the model before does not run ({error})",)
            return None

        def ask(number: int) -> str:
            return str(baseline.against(self._state(number), self._verifier.bound(firings[start:number])))

        difference = baseline.against(self._state(end), self._verifier.bound(firings[start:end]))
        if difference.message and not difference.output and baseline.refused:
            found.findings += (f"not verified: {codes}, because the result does not run ({difference.message})",)
            return None
        if difference.message:
            number, reason = first_bad(start, end, str(difference), ask)
            return Culprit(firings[number - 1], reason)
        self._take(baseline)
        found.largest = max(found.largest or 0.0, difference.largest)
        found.verified += tuple(firing.number for firing in firings[start:end])
        return None

    def _framework(self) -> Culprit | None:
        """Compares the result with the framework's outputs; a culprit if the model had these before and does not now."""
        framework, end = self._verifier.framework, len(self._firings)
        if framework is None or not framework.recorded(self._state(end)):
            return None
        reason = framework.off(self._state(end))
        if reason and end and not framework.off(self._state(0)):
            number, reason = first_bad(0, end, reason, lambda number: framework.off(self._state(number)))
            return Culprit(self._firings[number - 1], f"the outputs were those of {framework.path} before: {reason}")
        self._off = reason
        return None

    def _announced(self, announced: Sequence[Firing]) -> Culprit | None:
        """The changes by repairs, lossy and interface rules; a culprit if the model ran before and does not now."""
        found, end = self._found, len(self._firings)
        says = f"as {_codes(announced)} {'says' if len({firing.rule for firing in announced}) == 1 else 'say'}"
        try:
            baseline = self._verifier.baseline(self._state(0))
        except RewriterError as error:
            self._ran_not_before(announced, str(error))
            return None
        difference = baseline.against(self._state(end), Bound())
        if difference.message and not difference.output and baseline.refused:
            self._ran_not_before(announced, baseline.refused)
            return None
        if difference.message and not difference.output:
            if any(firing.kind == "interface" for firing in announced):
                found.findings += (
                    f"not verified: the result rejects the inputs of the model before, {says}: {difference.message}",
                )
                return None

            def ask(number: int) -> str:
                worst = baseline.against(self._state(number), Bound())
                return worst.message if not worst.output else ""

            number, reason = first_bad(0, end, difference.message, ask)
            return Culprit(self._firings[number - 1], f"the model ran before: {reason}")
        self._take(baseline)
        if difference.message:
            self._differ = True
            how = f"differs by up to {difference.largest:.2g}" if difference.largest < float("inf") else difference.message
            what = f"output {difference.output!r} {how}; {self._ran}"
            found.findings += (f"outputs changed, {says}{self._whose(announced)} ({what})",)
        else:
            found.findings += (f"outputs unchanged, though {_codes(announced)} may change them ({self._ran})",)
        return None

    def _ran_not_before(self, announced: Sequence[Firing], error: str) -> None:
        found = self._found
        try:
            self._take(self._verifier.baseline(self._state(len(self._firings))))
        except RewriterError as still:
            found.findings += (
                f"not verified: {_codes(announced)}, because the model before does not run ({error}), nor the result ({still})",
            )
            return
        self._differ = True
        compare = ". To compare with the framework, pass --inputs FILE with its outputs" if self._whose(announced) else ""
        found.findings += (f"the result runs after {_codes(announced)}; the input did not run ({error}){compare}",)

    def _whose(self, announced: Sequence[Firing]) -> str:
        """Whether the outputs are now the framework's, as far as it is known."""
        if self._off is not None or not any(firing.kind == "repair" for firing in announced):
            return ""
        return "; whether they are now the framework's was not checked"

    def _take(self, baseline: Baseline) -> None:
        found = self._found
        found.runtime, found.inputs = runtime_version(baseline.runtime), len(baseline.answers)
        found.outputs = len(baseline.answers[0].outputs) - len(baseline.random)
        self._random.extend(name for name in baseline.random if name not in self._random)

    @property
    def _ran(self) -> str:
        return f"{counted(self._found.inputs, 'set')} of inputs, {self._found.runtime}"

    def _summary(self) -> Verification:
        found = self._found
        if found.verified:
            outputs, agree = counted(found.outputs, "output"), "agrees" if found.outputs == 1 else "agree"
            how = f"within {found.largest:.2g} on ordinary inputs, and as promised" if found.largest else "exactly"
            codes = _codes([firing for firing in self._firings if firing.number in found.verified])
            found.findings += (f"verified: {codes}: {outputs} {agree} {how} on {self._ran}",)
        if self._off is not None and self._verifier.framework is not None:
            path = self._verifier.framework.path
            found.findings += (
                f"wrong outputs: they differ from the outputs in {path}: {self._off}"
                if self._off
                else f"verified: the outputs equal the framework's outputs, as recorded in {path}",
            )
        if self._random:
            found.findings += (f"random and not compared: {', '.join(map(repr, self._random))}",)
        found.verdict = "not verified" if not found.runtime else "differ" if self._differ else "agree"
        if self._off:
            found.verdict = "wrong"
        return found


def _codes(firings: Sequence[Firing]) -> str:
    return ", ".join(sorted({firing.rule for firing in firings}))
