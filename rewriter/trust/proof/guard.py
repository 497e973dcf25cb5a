"""No rewritten model is worse than its input.

The result of a run goes through the checks of `validity`. If the input passes a check and the result fails it, or ends the
process of a check that rejects the input, the guard finds the firing that did it by bisection over the number of firings. The
rules run again without this firing; their other changes are kept. Tidying counts as one more firing. The same is done for a
firing after which the model loads and does not run any more (`running`), and for a firing after which the outputs differ though
its rule promises that they do not (`agreement`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from itertools import groupby

from rewriter.core.graph.model import Model
from rewriter.core.log import RUN, Firing, Judged, Log, RolledBack, Verification
from rewriter.core.record import record, replace
from rewriter.trust.proof.judges import SESSION
from rewriter.trust.proof.validity import JUDGES, Candidate, CrashReason, Running

# Running the rules on a model again, with some firings left out.
#
# Runs are deterministic: the first k firings of a run are the firings of a run that stops after k. So every state of the graph
# can be computed again from the file, and nothing has to be undone.

Place = tuple[str, str, str]  # rule, place, root

TIDYING = "tidying"
"""The removal of unused parts after the last firing: in place of the code of a rule."""


@record(frozen=True, slots=True)
class Variation:
    """How a run differs from the first one.

    Attributes:
        firings: after how many it stops, before anything is tidied; None for the end.
        veto: firings that are left out; the tidying may be among them.
        without: rules that are left out, likewise.
    """

    firings: int | None = None
    veto: frozenset[Place] = frozenset()
    without: frozenset[str] = frozenset()

    @property
    def tidies(self) -> bool:
        """Whether it comes to the tidying."""
        return self.firings is None and self.sweeps

    @property
    def sweeps(self) -> bool:
        """Whether dead nodes are removed before the rules run: after so many firings the state depends on it."""
        return TIDYING not in self.without.union(rule for rule, *_ in self.veto)

    def upto(self, firings: int) -> Variation:
        """The same run, stopped after so many firings."""
        return replace(self, firings=firings)


@record
class ReplayedRun:
    """A model after a run, the log of the run, and how many unused parts were also removed.

    `failure_before` is why the model before the run failed on inputs on which this one runs.
    """

    model: Model
    log: Log
    tidied: int = 0
    failure_before: str = ""

    @property
    def steps(self) -> list[Firing]:
        """The steps in order: the firings, and the tidying as one more."""
        firings = self.log.firings
        if not self.tidied:
            return firings
        title = "Nodes, initializers and imports that nothing uses are removed."
        return [*firings, Firing(len(firings) + 1, TIDYING, title, "exact", "tidy", "main", "", "", (), (), (), (), 0.0)]

    @cached_property
    def candidate(self) -> Candidate:
        """The model in the form in which it is checked."""
        return Candidate(self.model)


@record(frozen=True, slots=True)
class Culprit:
    """A firing that is to be left out, and why; with `everywhere`, all firings of its rule are."""

    firing: Firing
    reason: str
    everywhere: bool = False


Replay = Callable[[Variation], ReplayedRun]


def state_after(firings: int, attempt: ReplayedRun, plan: Variation, replay: Replay) -> Candidate:
    """The model after so many firings of a run; after all of them it is there already."""
    return attempt.candidate if firings == len(attempt.log.firings) else replay(plan.upto(firings)).candidate


def stretches(firings: Sequence[Firing], sort: Callable[[Firing], Hashable]) -> Iterator[tuple[int, int]]:
    """(firings before, firings after) of each stretch of firings of one sort that is not False."""
    position = 0
    for kind, group in groupby(firings, sort):
        start, position = position, position + len(list(group))
        if kind:
            yield start, position


def place_of(firing: Firing) -> Place:
    """The key of a firing in `Variation.veto`."""
    return firing.rule, firing.place, firing.root


def first_bad(good: int, bad: int, reason: str, ask: Callable[[int], str]) -> tuple[int, str]:
    """A firing that turns a good state into a bad one, by bisection.

    Args:
        good, bad: numbers of firings after which the state is good and bad, good < bad.
        reason: the fault of the bad state.
        ask: returns the fault of the state after so many firings, or "".

    Returns:
        The number of the firing (from 1), and the fault after it.
    """
    while bad - good > 1:
        middle = (good + bad) // 2
        found = ask(middle)
        if found:
            bad, reason = middle, found
        else:
            good = middle
    return bad, reason


MOST_CULPRITS = 16
"""Firings that are rolled back one by one; if there are more, the whole run is not trusted and the input is returned."""

MOST_OF_ONE_RULE = 3
"""After so many culprits of one rule, all its changes to this model are rolled back."""

MOST_RULES_TRIED = 12
"""Rules left out one by one to find out whether a model that is rejected before and after would load without one of them."""

ENDLESS = frozenset({"Cycle", "Generation", "Growth"})
"""Kinds of stops of a run that had no end: rules rewrote results of rules."""

Verify = Callable[[ReplayedRun, Variation], "Verification | Culprit | None"]
"""Compares the outputs of a result; a culprit if they differ without permission, None if there is no verdict."""


def guarded(first: ReplayedRun, replay: Replay, verify: Verify | None = None, *, runs_before: bool = False) -> ReplayedRun:
    """The result of a run, or of as much of the run as leaves the model at least as valid as it was.

    Args:
        first: the run.
        replay: runs anew, from a freshly loaded model.
        verify: also compares outputs; its verdict is put into the log.
        runs_before: also runs the model before the run, if the result runs: it may have loaded, and failed.

    Returns:
        `first` itself if nothing is wrong with it. Otherwise another attempt whose log has the firings that were rolled back.
    """
    if not first.steps:
        return first
    return _Guard(first, replay, verify, runs_before=runs_before).result()


class _Guard:
    def __init__(self, first: ReplayedRun, replay: Replay, verify: Verify | None, *, runs_before: bool) -> None:
        self._runs_before = runs_before
        self._first = first
        self._replay = replay
        self._verify = verify
        self._culprits: list[Culprit] = []
        self._before: Candidate | None = None
        self._tried_rules = False
        self._running = Running(lambda: self.before)
        self._ran: dict[Candidate, str | None] = {}

    @property
    def before(self) -> Candidate:
        """The input, loaded when it is first needed: mostly the result passes every check and the input is not needed."""
        if self._before is None:
            self._before = self._replay(Variation(firings=0)).candidate
        return self._before

    def result(self) -> ReplayedRun:
        attempt = self._first
        while (culprit := self._culprit(attempt)) is not None:
            self._add(culprit)
            if len(self._culprits) > MOST_CULPRITS:
                return self._report(self._give_up(attempt))
            attempt = self._replay(_plan(self._culprits))
        return self._report(self._pardon(attempt))

    # --- finding -----------------------------------------------------------------------------------------------------------

    def _culprit(self, attempt: ReplayedRun) -> Culprit | None:
        """The step that made this result less valid than the input, or its outputs different from the promise."""
        if not attempt.steps:
            return None
        culprit = _endless(attempt.log)
        if culprit is None and attempt.candidate.first_refusal() is not None:
            worse = attempt.candidate.worse_than(self.before)
            culprit = self._bisect(attempt, *worse) if worse else self._better_without(attempt)
        return culprit or self._does_not_run(attempt) or self._wrong_numbers(attempt, _plan(self._culprits))

    def _does_not_run(self, attempt: ReplayedRun) -> Culprit | None:
        """The firing after which a model that ran does not run any more, though it loads."""
        if not (reason := self._not_run(attempt)):
            return None

        def ask(state: Candidate) -> str:
            return (self._running.refusal(state) if state.loaded_by else state.runtime_refusal()) or ""

        return self._first_bad(attempt, reason, ask, f"{SESSION} does not run it: ")

    def _not_run(self, attempt: ReplayedRun) -> str | None:
        """Why a result that loads does not run although the input ran; "" if it runs, None if it was not run.

        A rule on the interface may change the inputs; then there are no inputs for both.
        """
        candidate = attempt.candidate
        if candidate.loaded_by is None or any(firing.kind == "interface" for firing in attempt.log.firings):
            return None
        if candidate not in self._ran:
            self._ran = {candidate: self._running.refusal(candidate)}
        return self._ran[candidate]

    def _wrong_numbers(self, attempt: ReplayedRun, plan: Variation) -> Culprit | None:
        found = None if self._verify is None or not attempt.log.changed else self._verify(attempt, plan)
        if isinstance(found, Culprit):
            return found
        attempt.log.verification = found
        return None

    def _bisect(self, attempt: ReplayedRun, judge: str, reason: str) -> Culprit:
        def ask(state: Candidate) -> str:
            worse = state.worse_than(self.before)
            return _fault(*worse) if worse else ""

        return self._first_bad(attempt, _fault(judge, reason), ask)

    def _first_bad(self, attempt: ReplayedRun, reason: str, ask: Callable[[Candidate], str], words: str = "") -> Culprit:
        """The step that turns a good state into a bad one; `ask` returns the fault of a state, "" for none."""
        plan, steps = _plan(self._culprits), attempt.steps
        number, why = first_bad(0, len(steps), reason, lambda number: ask(self._replay(plan.upto(number)).candidate))
        return Culprit(steps[number - 1], f"{words}{why}")

    def _better_without(self, attempt: ReplayedRun) -> Culprit | None:
        """A rule without which the result would be more valid.

        If a check rejects the input for one reason and the result for another, a wrong rule may have undone a repair. Only
        leaving rules out can show this, since perhaps no state of the run was good.
        """
        if self._tried_rules:
            return None
        self._tried_rules = True
        now = attempt.candidate
        moved = [judge for judge in JUDGES if now.refusal(judge) and self.before.refusal(judge) != now.refusal(judge)]
        last = {firing.rule: firing for firing in attempt.steps}
        if not moved or len(last) < 2:
            return None
        plan = _plan(self._culprits)
        for firing in sorted(last.values(), key=lambda firing: -firing.number)[:MOST_RULES_TRIED]:
            trial = self._replay(replace(plan, without=plan.without | {firing.rule})).candidate
            taken = next((judge for judge in moved if trial.refusal(judge) == ""), None)
            if taken is not None and trial.worse_than(now) is None and trial.worse_than(self.before) is None:
                return Culprit(firing, f"{taken}: {now.refusal(taken)}", everywhere=True)
        return None

    def _add(self, culprit: Culprit) -> None:
        known = [place_of(other.firing) for other in self._culprits]
        same = sum(other.firing.rule == culprit.firing.rule for other in self._culprits)
        again = place_of(culprit.firing) in known  # a veto that did not hold it off
        self._culprits.append(replace(culprit, everywhere=culprit.everywhere or again or same + 1 >= MOST_OF_ONE_RULE))

    # --- ending ------------------------------------------------------------------------------------------------------------

    def _pardon(self, attempt: ReplayedRun) -> ReplayedRun:
        """Restores firings that need not have been rolled back.

        A state may have been bad only until a later firing repaired it, and then the firing before was blamed. If two rules are
        blamed, one may fire again elsewhere once the other is restored; it is then rolled back everywhere.
        """
        for culprit in self._culprits[:-1]:
            others = [other for other in self._culprits if other is not culprit]
            elsewhere = [replace(other, everywhere=True) for other in others]
            choices = [others] if any(other.firing.rule == culprit.firing.rule for other in others) else [others, elsewhere]
            for choice in choices:
                trial = self._replay(_plan(choice))
                if self._is_good(trial, attempt) and self._wrong_numbers(trial, _plan(choice)) is None:
                    attempt, self._culprits = trial, choice
                    break
        return attempt

    def _is_good(self, trial: ReplayedRun, attempt: ReplayedRun) -> bool:
        """Whether a result is as valid as the input and as another result."""
        if _endless(trial.log) or self._not_run(trial):
            return False
        if trial.candidate.first_refusal() is None:
            return True
        return not (trial.candidate.worse_than(self.before) or trial.candidate.worse_than(attempt.candidate))

    def _give_up(self, attempt: ReplayedRun) -> ReplayedRun:
        last = {firing.rule: firing for firing in attempt.steps}
        reason = f"more than {MOST_CULPRITS} rewrites made the model worse; the model is returned unchanged"
        self._culprits.extend(Culprit(firing, reason, everywhere=True) for _, firing in sorted(last.items()))
        return self._replay(Variation(firings=0))

    def _report(self, attempt: ReplayedRun) -> ReplayedRun:
        log = attempt.log
        times = Counter(firing.rule for firing in self._first.steps)
        everywhere = {culprit.firing.rule for culprit in self._culprits if culprit.everywhere}
        said: set[str] = set()
        for culprit in self._culprits:
            firing = culprit.firing
            if firing.rule in said:
                continue
            if firing.rule in everywhere:
                said.add(firing.rule)
                count = max(times[firing.rule], 1)
                where = "", "", ""
            else:
                count, where = 1, (firing.place, firing.root, firing.op)
            log.rolled_back.append(
                RolledBack(firing.rule, firing.title, firing.kind, *where, culprit.reason, count, firing.changes)
            )
        if attempt.steps:
            log.notes += filter(None, [attempt.candidate.not_loaded()])
        log.judged = [Judged(judge, refusal) for judge, refusal in attempt.candidate.answers]
        if attempt.candidate in self._ran:
            log.judged.append(Judged(RUN, self._ran[attempt.candidate]))
            if self._runs_before and self._ran[attempt.candidate] == "" and self.before.loaded_by:
                attempt.failure_before = self._running.failure_before()
        verified = () if log.verification is None else log.verification.verified
        for firing in log.firings:
            firing.verdict = "verified" if firing.number in verified else "kept"
        return attempt


def _endless(log: Log) -> Culprit | None:
    """The last firing of a rule that would rewrite results of rules without end. The run was stopped in the middle of it."""
    for stop in log.stops:
        if stop.kind in ENDLESS:
            firing = next((firing for firing in reversed(log.firings) if firing.rule == stop.rules[-1]), None)
            if firing is not None:
                return Culprit(firing, stop.message, everywhere=True)
    return None


def _fault(judge: str, reason: str) -> str:
    return f"{judge} ended the process: {reason}" if isinstance(reason, CrashReason) else f"{judge}: {reason}"


def _plan(culprits: list[Culprit]) -> Variation:
    return Variation(
        veto=frozenset(place_of(culprit.firing) for culprit in culprits if not culprit.everywhere),
        without=frozenset(culprit.firing.rule for culprit in culprits if culprit.everywhere),
    )
