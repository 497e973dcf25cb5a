"""Why every run ends: counters of steps, a memory of the states that the graph was in, and a clock.

Steps are firings, tries and generations: a run that they end has ended at the same place on every machine. The clock is for
cases that no counter foresees; the result of a run that the clock ended is not written (`batch.job`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rewriter.core.errors import RewriterError
from rewriter.core.log import Stop
from rewriter.core.record import record

SUSPICIOUS = 2
"""Nodes that descend from rewritten nodes so often may restore an earlier state."""


@record(frozen=True, slots=True)
class Limits:
    """When to stop a run that does not come to its end.

    Attributes:
        generations: how often a node may descend from rewritten nodes. A firing that leaves fewer nodes than it took does not
            count, since that cannot go on forever; nor do nodes that were only matched, so that a rewrite may run along a
            chain of any length.
        growth: how many nodes a rule may add in all by rewriting nodes that rules have made: this number, or eight times as
            many as the model had if that is more.
        firings: of all rules on one model; None for a number that follows from the model's size.
        tries: of rules at nodes, whether they fire or not; None for a number that follows from the model's size.
        per_root: of one rule at one node.
        seconds: processor time for one model, so that a busy machine ends no run; None for no limit.
    """

    generations: int = 32
    growth: int = 10_000
    firings: int | None = None
    tries: int | None = None
    per_root: int = 64
    seconds: float | None = None


def bounds(limits: Limits | None) -> Limits:
    """The limits that an argument of the Python interface means. Raises RewriterError for another object."""
    if limits is not None and not isinstance(limits, Limits):
        raise RewriterError(f"limits is a rewriter.Limits, not {limits!r}")
    return limits or Limits()


FIRINGS, FIRINGS_PER_NODE = 10_000, 16
TRIES, TRIES_PER_NODE = 1_000_000, 1_000
"""By default: for any model, and more for each of its nodes. Optimizing takes one firing and twenty tries a node
(`benchmarks/growth.py --tries`).
"""

OF_MODEL = 8
"""A model may become so many times as large by rules that rewrite nodes that rules have made."""


class Watch:
    """Counts firings and remembers states.

    Attributes:
        is_timed: whether there is a limit of time.
        recalls: whether states are remembered.
        restrains: whether some rule may not fire any more, anywhere or at some node.
        tries: of rules at nodes so far.
    """

    def __init__(self, limits: Limits, size: int = 0) -> None:
        """`size` is how many nodes the model has."""
        self.limits = limits
        self.tries = 0
        self._most_firings = FIRINGS + FIRINGS_PER_NODE * size if limits.firings is None else limits.firings
        self._most_tries = TRIES + TRIES_PER_NODE * size if limits.tries is None else limits.tries
        self._grown: dict[str, int] = {}
        self._overgrown: dict[str, Stop] = {}
        self._deadline = None if limits.seconds is None else time.process_time() + limits.seconds
        self.is_timed = self._deadline is not None
        self.recalls = self.restrains = False
        self._place: Callable[[], str] | None = None
        self._since = 0.0
        self._longest: tuple[float, Callable[[], str] | None] = (0.0, None)
        self._per_root: dict[tuple[str, int], int] = {}
        self._state = 0
        self._states: dict[int, int] = {}
        self._rules: list[str] = []

    def out_of_time(self, place: Callable[[], str]) -> Stop | None:
        """The reason to stop when the time is over.

        Args:
            place: names the node at which rules are to be tried next.
        """
        if self._deadline is None:
            return None
        now = time.process_time()
        if self._place is not None and now - self._since > self._longest[0]:
            self._longest = now - self._since, self._place
        if now > self._deadline:
            return Stop("Time", f"the limit of {self.limits.seconds:g} s was reached {self._spent()}", tuple(self._last()))
        self._place, self._since = place, now
        return None

    def _spent(self) -> str:
        """The stages that took the time."""
        seconds, place = self._longest
        if place is None:
            return f"{self._rewrites()}: preparing the model and the rules took all of the time"
        return f"{self._rewrites()}; most time at one node, {seconds:.2g} s, went into the rules at {place()}"

    def _rewrites(self) -> str:
        number = len(self._rules)
        return f"after {number} rewrite{'s' * (number > 1)}" if number else "before any rule fired"

    def _last(self) -> list[str]:
        """The rules that fired last, each once."""
        return list(dict.fromkeys(self._rules[-8:]))

    @property
    def is_spent(self) -> bool:
        """Whether the limit of firings is reached."""
        return len(self._rules) >= self._most_firings

    def out_of_budget(self) -> Stop | None:
        if not self.is_spent:
            return None
        return Stop("Budget", f"the limit of {self._most_firings} firings was reached", tuple(self._last()))

    def out_of_tries(self) -> Stop | None:
        """The reason to stop once rules were tried as often as they may."""
        if self.tries < self._most_tries:
            return None
        text = f"the limit of {self._most_tries} tries of rules was reached {self._rewrites()}"
        return Stop("Budget", text, tuple(self._last()))

    def overgrown(self, code: str, generation: int, more: int, nodes: Callable[[], int]) -> Stop | None:
        """The reason to stop a rule, once it has added too many nodes by rewriting what rules have made.

        Args:
            code: of the rule that fired.
            generation: of the nodes that the firing removed and made.
            more: the number of nodes that it added.
            nodes: returns the number of nodes in the model.
        """
        if generation < SUSPICIOUS or more <= 0:
            return None
        grown = self._grown[code] = self._grown.get(code, 0) + more
        if grown > self.limits.growth and grown > OF_MODEL * (nodes() - sum(self._grown.values())):
            text = f"adding {grown:,} nodes by rewriting what rules had made; does it match what it makes?"
            self._overgrown[code] = Stop("Growth", f"{code} was stopped after {text}", (code,))
            self.restrains = True
        return self._overgrown.get(code)

    def exhausted(self, code: str, root: int) -> bool:
        """Whether a rule fired as often at this root as it may."""
        return self._per_root.get((code, root), 0) >= self.limits.per_root

    def is_stopped(self, code: str) -> bool:
        """Whether a rule may not fire any more."""
        return code in self._overgrown

    def suspects(self, code: str, root: int, generation: int) -> bool:
        """Whether a firing may restore an earlier state: at a node where the rule fired already, or on nodes that descend from
        rewritten ones. Every circle has such a firing.
        """
        return generation >= SUSPICIOUS or (code, root) in self._per_root

    def recall(self, deltas: Sequence[int]) -> None:
        """Remembers the states after the firings so far, from the change of each firing."""
        self.recalls, self._states = True, {0: 0}
        for number, delta in enumerate(deltas, 1):
            self._state = (self._state + delta) & 0xFFFF_FFFF_FFFF_FFFF
            self._states.setdefault(self._state, number)

    def count(self, code: str, root: int) -> None:
        """Counts a firing."""
        place = code, root
        times = self._per_root[place] = self._per_root.get(place, 0) + 1
        self._rules.append(code)
        if times >= self.limits.per_root:
            self.restrains = True

    def record(self, code: str, root: int, delta: int) -> Sequence[str]:
        """Counts a firing and remembers the state, which it changed by `delta`. A state that was there before is a cycle: the
        rules that fired since then, () for none.
        """
        self.count(code, root)
        self._state = (self._state + delta) & 0xFFFF_FFFF_FFFF_FFFF
        first = self._states.setdefault(self._state, len(self._rules))
        return self._rules[first:]


def cycle_stop(circle: Sequence[str], root_name: str) -> Stop:
    """The message about rules that restored an earlier state of the graph; the last one fired at this root."""
    rules = tuple(dict.fromkeys(circle))
    if len(rules) == 1:
        return Stop("Cycle", f"{rules[0]} undoes itself; see `rewriter explain E407`", rules, (root_name,))
    shown = " -> ".join([*circle, circle[0]]) if len(circle) <= 8 else f"{len(circle)} firings of {', '.join(rules)}"
    return Stop("Cycle", f"these rules undo each other: {shown}", rules, (root_name,))
