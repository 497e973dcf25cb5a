"""`fix --verify`: whether a rewritten model says what it said before, as far as its rules promise that.

Firings of kind exact and approx promise the same numbers. Each stretch of them is compared from its beginning to its end, so
that what a repair before it or after it changes on purpose does not count. Where the numbers differ by more than the bounds of
the stretch, the firing that did it is found by bisection. Repairs, lossy rules and rules on the interface say themselves that
something changes: what did is told, and whether the result runs at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rewriter.engine.log import Firing, Verification
from rewriter.errors import RewriterError
from rewriter.language.rules import RuleSet
from rewriter.proof.agreement import PROMISING, Bound, Difference, bound_of, coarsest_eps, differences
from rewriter.proof.model_inputs import Feed, random_feeds, recorded_feed
from rewriter.proof.model_runs import CannotRun, ModelRun, Outputs, runtime_version, runtimes
from rewriter.proof.replay import Attempt, Culprit, Plan, Replay, first_bad
from rewriter.proof.validity import Candidate
from rewriter.record import field, record, replace


class Baseline:
    """A model that runs, what it was given and what it answered.

    Raises:
        RewriterError: it cannot be run, or no input for it can be had.
    """

    def __init__(self, candidate: Candidate, inputs: str | None) -> None:
        self._candidate = candidate
        self._eps = coarsest_eps(candidate.proto)
        self.random: list[str] = []
        self._asked_twice = False
        refusals = []
        for runtime in runtimes():
            try:
                self.runtime, self.feeds, self.outputs = runtime, *_first_answers(candidate, runtime, inputs)
                return
            except CannotRun as error:
                refusals.append(str(error))
        raise CannotRun(refusals[0])

    def against(self, candidate: Candidate, bound: Bound) -> Difference:
        """The worst difference of another model; it has a message when that is more than the bound, or when it does not run."""
        bound = replace(bound, eps=self._eps)
        try:
            run = ModelRun(candidate, self.runtime)
            pairs = [(old, run(feed)) for old, feed in zip(self.outputs, self.feeds, strict=True)]
        except CannotRun as error:
            return Difference("", float("inf"), str(error))
        worst = self._worst(pairs, bound)
        if worst.message and not self._asked_twice:
            self._find_random(bound)
            worst = self._worst(pairs, bound)
        return worst

    def _worst(self, pairs: Sequence[tuple[Outputs, Outputs]], bound: Bound) -> Difference:
        found = [d for old, new in pairs for d in differences(old, new, bound) if d.output not in self.random]
        return max(found, key=lambda d: (bool(d.message), d.largest), default=Difference("", 0.0))

    def _find_random(self, bound: Bound) -> None:
        """A model may draw random numbers; an output that differs from itself cannot be compared."""
        self._asked_twice = True
        again = ModelRun(self._candidate, self.runtime)(self.feeds[0])
        self.random = [d.output for d in differences(self.outputs[0], again, bound) if d.message]


def _first_answers(candidate: Candidate, runtime: str, inputs: str | None) -> tuple[list[Feed], list[Outputs]]:
    """The first feeds on which a model runs. Of made-up ones, only the first of a list has to be accepted."""
    run, model = ModelRun(candidate, runtime), candidate.proto
    if inputs is not None:
        feed = recorded_feed(inputs, model)
        return [feed], [run(feed)]
    refusal = None
    for feeds in random_feeds(model):
        answers: list[Outputs] = []
        for feed in feeds:
            try:
                answers.append(run(feed))
            except CannotRun as error:
                refusal = refusal or error
                if not answers:
                    break
        if answers:
            return [feed for feed, _ in zip(feeds, answers, strict=False)], answers
    raise refusal or CannotRun("no input could be made up")


@record
class _Findings:
    """What a verification has found so far."""

    sentences: list[str] = field(default_factory=list)
    random: list[str] = field(default_factory=list)
    runtime: str = ""
    inputs: int = 0
    outputs: int = 0
    largest: float | None = None
    differ: bool = False

    def take(self, baseline: Baseline) -> None:
        self.runtime, self.inputs = runtime_version(baseline.runtime), len(baseline.feeds)
        self.outputs = len(baseline.outputs[0]) - len(baseline.random)
        self.random.extend(name for name in baseline.random if name not in self.random)


class Verifier:
    """Compares results of one model with what the model was."""

    def __init__(self, rules: RuleSet, replay: Replay, inputs: str | None = None) -> None:
        """`inputs` is an .npz file with the model's inputs; None makes them up."""
        self._rules = rules
        self._replay = replay
        self._inputs = inputs

    def __call__(self, attempt: Attempt, plan: Plan) -> Verification | Culprit:
        """What the comparison shows, or the firing that broke a promise.

        Args:
            attempt: the result.
            plan: what it was made by.
        """
        return _Comparison(self, attempt, plan).verdict()

    def state(self, attempt: Attempt, plan: Plan, firings: int) -> Candidate:
        """The model after so many firings."""
        last = firings == len(attempt.log.firings)
        return attempt.candidate if last else self._replay(plan.upto(firings)).candidate

    def baseline(self, candidate: Candidate) -> Baseline:
        return Baseline(candidate, self._inputs)

    def bound(self, firings: Sequence[Firing]) -> Bound:
        """How much these firings may change together."""
        return bound_of(rule for firing in firings if (rule := self._rules.get(firing.rule)) is not None)


class _Comparison:
    def __init__(self, verifier: Verifier, attempt: Attempt, plan: Plan) -> None:
        self._verifier = verifier
        self._attempt = attempt
        self._plan = plan
        self._firings = attempt.log.firings
        self._found = _Findings()

    def verdict(self) -> Verification | Culprit:
        culprit = None
        for start, end in self._stretches():
            culprit = culprit or self._promised(start, end)
        announced = [firing for firing in self._firings if firing.kind not in PROMISING]
        if announced and culprit is None:
            culprit = self._announced(announced)
        return culprit or self._summary()

    def _state(self, firings: int) -> Candidate:
        return self._verifier.state(self._attempt, self._plan, firings)

    def _stretches(self) -> Iterator[tuple[int, int]]:
        """(firings before, firings after) of each stretch whose rules promise the same numbers."""
        position = 0
        for promising, group in groupby(self._firings, lambda firing: firing.kind in PROMISING):
            start, position = position, position + len(list(group))
            if promising:
                yield start, position

    def _promised(self, start: int, end: int) -> Culprit | None:
        found, firings = self._found, self._firings
        codes = _codes(firings[start:end])
        try:
            baseline = self._verifier.baseline(self._state(start))
        except RewriterError as error:
            found.sentences.append(f"{codes} cannot be compared, since the model before cannot run: {error}")
            return None

        def ask(number: int) -> str:
            return _told(baseline.against(self._state(number), self._verifier.bound(firings[start:number])))

        difference = baseline.against(self._state(end), self._verifier.bound(firings[start:end]))
        if difference.message:
            number, reason = first_bad(start, end, _told(difference), ask)
            return Culprit(firings[number - 1], reason)
        found.take(baseline)
        found.largest = max(found.largest or 0.0, difference.largest)
        return None

    def _announced(self, announced: Sequence[Firing]) -> Culprit | None:
        """What repairs, lossy and interface rules changed; a culprit when the model ran before and does not now."""
        found, end = self._found, len(self._firings)
        says = _says(announced)
        try:
            baseline = self._verifier.baseline(self._state(0))
        except RewriterError as error:
            try:
                after = self._verifier.baseline(self._state(end))
            except RewriterError as still:
                found.sentences.append(
                    f"not compared for {_codes(announced)}: the model before does not run ({error}), "
                    f"nor does the result ({still})"
                )
                return None
            found.take(after)
            found.differ = True
            found.sentences.append(f"the result runs; the model before did not ({error}), which {says} repaired")
            return None
        difference = baseline.against(self._state(end), Bound())
        if difference.message and not difference.output:
            if any(firing.kind == "interface" for firing in announced):
                found.sentences.append(f"the result does not take the inputs of before, as {says} says: {difference.message}")
                return None

            def ask(number: int) -> str:
                worst = baseline.against(self._state(number), Bound())
                return worst.message if not worst.output else ""

            number, reason = first_bad(0, end, difference.message, ask)
            return Culprit(self._firings[number - 1], f"the model ran before: {reason}")
        found.take(baseline)
        if difference.message:
            found.differ = True
            how = f"largest difference {difference.largest:.2g}" if difference.largest < float("inf") else "it"
            what = f"{how} in {difference.output!r}" if how != "it" else f"{difference.output!r} {difference.message}"
            found.sentences.append(f"outputs differ as {says} says: {what}")
        else:
            found.sentences.append(f"{says} changed no output on these inputs")
        return None

    def _summary(self) -> Verification:
        found = self._found
        sentences = list(found.sentences)
        if found.largest is not None:
            how = f"within {found.largest:.2g}" if found.largest else "exactly"
            outputs, inputs = _number(found.outputs, "output"), _number(found.inputs, "input")
            apart = "apart from that, " if found.differ else ""
            agree = "agrees" if found.outputs == 1 else "agree"
            sentences.append(f"{apart}{outputs} {agree} {how} on {inputs} ({found.runtime})")
        elif found.runtime and sentences:
            sentences[-1] += f" ({found.runtime}, {_number(found.inputs, 'input')})"
        if found.random:
            sentences.append(f"random and not compared: {', '.join(map(repr, found.random))}")
        verdict = "not verified" if not found.runtime else "differ" if found.differ else "agree"
        return Verification(verdict, found.runtime, found.inputs, found.outputs, found.largest, tuple(sentences))


def _told(difference: Difference) -> str:
    if not difference.message:
        return ""
    return f"output {difference.output!r} {difference.message}" if difference.output else difference.message


def _says(firings: Sequence[Firing]) -> str:
    """ "repair MX003 (MXNet averages over the padding)", or the codes of several."""
    first = {firing.rule: firing for firing in firings}
    if len(first) == 1:
        firing = firings[0]
        return f"{firing.kind} {firing.rule} ({firing.title.rstrip('.')})"
    return _codes(firings)


def _codes(firings: Sequence[Firing]) -> str:
    return ", ".join(sorted({firing.rule for firing in firings}))


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
