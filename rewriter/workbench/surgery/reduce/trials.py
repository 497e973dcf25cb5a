"""What a reduced model has to show still: words with which it is refused, a rule that fires, or all that the whole shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from rewriter.core.conditions.context import Knowledge
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError, install
from rewriter.core.framework.source_info import SourceInfo
from rewriter.core.graph.model import Model
from rewriter.core.isolation import child
from rewriter.core.isolation.budget import Budget, budgeted, current
from rewriter.core.isolation.child import Crashed, NoAnswer
from rewriter.core.language.rules import RuleSet
from rewriter.trust.proof import onnx_runtime
from rewriter.trust.proof.judges.judges import RefusedError
from rewriter.trust.proof.models.model_inputs import feed_sets
from rewriter.trust.proof.models.model_runs import MOST_BYTES, MOST_BYTES_OF_INPUTS, RUN, SECONDS
from rewriter.trust.proof.models.validity import JUDGES, RUNTIME, WRITTEN, Candidate

TRIAL = 20.0
"""Seconds for the judges of one trial, and for the rules."""

Shows = Callable[[Candidate], bool]
Asked = Callable[[Candidate], str | None]


class Trials:
    """Puts one smaller model after the other to the question whether it still shows what is looked for.

    What took the whole model has to take the smaller ones as well, so that nothing else is broken on the way.

    Args:
        whole: the model before it is reduced.
        wanted: "refused: TEXT" or "rule: CODE"; none: the rules fire where they did, and whoever refused the whole still does.
        rules: those that may be meant.
        source: what the framework's own file says.
        runtime: whether ONNX Runtime is asked.

    Raises:
        RewriterError: the whole model does not show it.
    """

    def __init__(
        self, whole: Model, wanted: Sequence[str], rules: RuleSet, source: SourceInfo | None = None, *, runtime: bool = True
    ) -> None:
        self.folder: Path | None = whole.folder
        self._whole = whole
        self._rules, self._source, self._runtime = rules, source, runtime
        self._judges = tuple(name for name in JUDGES if name != WRITTEN and (runtime or name not in RUNTIME))
        self.made = 0
        candidate = Candidate(whole)
        self._shows: list[Shows] = [self._condition(text, candidate) for text in wanted] or [self._everything(candidate)]
        self._takes: list[Asked] = [partial(_refusal, name) for name in self._judges]
        if runtime:
            self._takes.append(_failure)
        self._takes = [ask for ask in self._takes if ask(candidate) == ""]

    def hold(self, model: onnx.ModelProto) -> bool:
        """Whether a smaller model still shows it."""
        self.made += 1
        try:
            candidate = Candidate(self.loaded(model))
            with budgeted(Budget(TRIAL, current().memory)):
                return all(shows(candidate) for shows in self._shows) and not any(ask(candidate) for ask in self._takes)
        except RewriterError:
            return False

    def loaded(self, model: onnx.ModelProto) -> Model:
        """A message as a model; what is constant in it is what was constant in the whole."""
        found = Model.from_proto(model, self.folder)
        found.constant_inputs = "yes" if self._whole.inputs_are_constant else "no"
        return found

    def _condition(self, text: str, whole: Candidate) -> Shows:
        kind, colon, value = text.partition(":")
        value = value.strip()
        if not colon or not value or kind.strip() not in ("refused", "rule"):
            raise RewriterError(f'--keep {text!r}: write "refused: TEXT" or "rule: CODE"')
        return self._refused(value, whole) if kind.strip() == "refused" else self._fires(value, whole)

    def _refused(self, text: str, whole: Candidate) -> Shows:
        words = _plain(text)
        asked: dict[str, Asked] = {name: partial(_refusal, name) for name in self._judges}
        if self._runtime:
            asked[RUN] = _failure
        heard = []
        for judge, ask in asked.items():
            reason = ask(whole)
            if reason and words in _plain(reason):
                return lambda candidate: words in _plain(ask(candidate) or "")
            heard += [f"{judge} says: {reason}"] if reason else []
        told = "; ".join(heard) or "nobody refuses it"
        missing = "" if self._runtime else f" (ONNX Runtime is not installed: {install('verify')})"
        raise RewriterError(f"the model is not refused with {text!r}: {told}{missing}")

    def _fires(self, code: str, whole: Candidate) -> Shows:
        rule = self._rules.get(code.upper())
        if rule is None:
            raise RewriterError(f"there is no rule {code!r}; `rewriter rules` lists them")
        for select in ([rule.code], ["DEFAULT", rule.code]):
            chosen = self._rules.select(select)
            if rule.code in self._fired(whole.model, chosen):
                return lambda candidate: rule.code in self._fired(self.loaded(candidate.proto), chosen)
        raise RewriterError(f"{rule.code} does not fire in the model; `rewriter why {rule.code} MODEL` says why")

    def _fired(self, model: Model, rules: RuleSet) -> dict[str, list[tuple[str, str]]]:
        """Where rules fire, by code; nothing is changed."""
        log = run(
            model.graph,
            rules,
            Knowledge(self._source, overridable=model.overridable, has_kernel=self._kernel()),
            limits=Limits(seconds=TRIAL),
            keep=False,
            detail=False,
        )
        found: dict[str, list[tuple[str, str]]] = {}
        for firing in log.firings:
            found.setdefault(firing.rule, []).append((firing.place, firing.root))
        return found

    def _kernel(self) -> Callable[..., bool | None] | None:
        from rewriter.trust.proof.kernels import has_kernel

        return has_kernel if self._runtime else None

    def _everything(self, whole: Candidate) -> Shows:
        rules = self._rules.select()
        fired = self._fired(whole.model, rules)
        refusing = [name for name in self._judges if whole.refusal(name)]
        return lambda candidate: (
            all(map(candidate.refusal, refusing)) and fired == self._fired(self.loaded(candidate.proto), rules)
        )


def _refusal(judge: str, candidate: Candidate) -> str | None:
    return candidate.refusal(judge)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _failure(candidate: Candidate) -> str | None:
    """Why a model fails when it is run on ordinary inputs; "" where it runs, None where it is not run."""
    if not (onnx_runtime.installed() and child.possible()) or candidate.size() > MOST_BYTES:
        return None
    why = None
    try:
        for feed in (feed for sets in feed_sets(candidate.proto) for feed in sets[0].choices()):
            if sum(np.asarray(value).nbytes for value in feed.values()) > MOST_BYTES_OF_INPUTS:
                continue
            try:
                candidate.session().run([], feed, seconds=SECONDS)
                return ""
            except (RefusedError, Crashed) as error:
                why = why or str(error)
    except (NoAnswer, RewriterError):
        return None  # it takes too long, or nothing can be made up for its inputs
    return why
