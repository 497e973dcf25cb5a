"""Where the time of a run goes: a clock that is told what is being done.

Time is exclusive: what is spent on facts while a rule asks for them is counted as facts, and not as the rule's matching.
Without a profile none of this is there, and nothing is slower for it.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from rewriter.core.record import field, record

STAGES = (
    "load",
    "judge",
    "index",
    "rules made ready",
    "facts",
    "match",
    "rewrite",
    "rest of the run",
    "guard",
    "tidy",
    "stamp",
    "save",
)
"""What is told apart, in the order in which it happens."""


@record(slots=True)
class Profile:
    """Seconds by stage, and of matching and rewriting by rule, too.

    Attributes:
        stages: seconds by name.
        matching, rewriting: seconds by code of the rule.
        asked, fired: how often a rule was tried at a node, and how often it fired there.
    """

    stages: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    matching: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    rewriting: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    asked: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    _open: list[str] = field(default_factory=list)
    _since: float = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """What is done inside counts as this stage."""
        self._turn()
        self._open.append(name)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def _turn(self) -> None:
        """Books the time since the last turn under what was going on."""
        now = time.perf_counter()
        if self._open:
            name, _, code = self._open[-1].partition(" of ")
            if code and name in ("match", "rewrite"):
                (self.matching if name == "match" else self.rewriting)[code] += now - self._since
                self.stages[name] += now - self._since
            else:
                self.stages[self._open[-1]] += now - self._since
        self._since = now

    def add(self, other: Profile) -> None:
        """Adds another model's."""
        for name in ("stages", "matching", "rewriting"):
            mine = getattr(self, name)
            for key, seconds in getattr(other, name).items():
                mine[key] += seconds
        self.asked.update(other.asked)
        self.fired.update(other.fired)


def stage(profile: Profile | None, name: str) -> AbstractContextManager[None]:
    """What is done inside counts as this stage, when anybody counts."""
    return nullcontext() if profile is None else profile.stage(name)
