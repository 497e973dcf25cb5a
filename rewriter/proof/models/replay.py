"""Running the rules on a model again, with some firings left out.

Runs are deterministic: the first k firings of a run are those of a run that stops after k. So every state that the graph went
through can be had again from the file, and nothing has to be undone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from rewriter.graph.model import Model
from rewriter.log.records import Firing, Log
from rewriter.proof.models.validity import Candidate
from rewriter.record import record, replace

Place = tuple[str, str, str]  # rule, place, root

TIDYING = "tidying"
"""What removes, after the last firing, that which nothing uses: in place of the code of a rule."""


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
        return self.firings is None and TIDYING not in self.without.union(rule for rule, *_ in self.veto)

    def upto(self, firings: int) -> Variation:
        """The same run, stopped after so many firings."""
        return replace(self, firings=firings)


@record
class ReplayedRun:
    """A model after a run, the log of it, and how much unused was tidied away besides."""

    model: Model
    log: Log
    tidied: int = 0

    @property
    def steps(self) -> list[Firing]:
        """What was done, in order: the firings, and the tidying as one more."""
        firings = self.log.firings
        if not self.tidied:
            return firings
        title = "Nodes, initializers and imports that nothing uses are removed."
        return [*firings, Firing(len(firings) + 1, TIDYING, title, "exact", "tidy", "main", "", "", (), (), (), (), 0.0)]

    @cached_property
    def candidate(self) -> Candidate:
        """The model as it is put before the judges."""
        return Candidate(self.model)


@record(frozen=True, slots=True)
class Culprit:
    """A firing that is to be left out, and why; with `everywhere`, all firings of its rule are."""

    firing: Firing
    reason: str
    everywhere: bool = False


Replay = Callable[[Variation], ReplayedRun]


def place_of(firing: Firing) -> Place:
    """What `Variation.veto` knows a firing by."""
    return firing.rule, firing.place, firing.root


def first_bad(good: int, bad: int, reason: str, ask: Callable[[int], str]) -> tuple[int, str]:
    """A firing that turns a good state into a bad one, by bisection.

    Args:
        good, bad: numbers of firings after which the state is good and bad, good < bad.
        reason: what is wrong with the bad one.
        ask: what is wrong with the state after so many firings, or "".

    Returns:
        The number of the firing (from 1), and what is wrong after it.
    """
    while bad - good > 1:
        middle = (good + bad) // 2
        found = ask(middle)
        if found:
            bad, reason = middle, found
        else:
            good = middle
    return bad, reason
