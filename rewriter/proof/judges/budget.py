"""What the judges of one model may take: time, together, and memory, each.

A judge that did not answer in time is not asked about other states of the same model, and each one gets at most half of the
time that is left: so one that hangs costs its own answer, and neither the others' nor the result.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rewriter.proof.judges import memory
from rewriter.proof.judges.child import NoAnswer

SECONDS = 60.0
"""For one model, by default."""


class Budget:
    """The limits of one model.

    Attributes:
        memory: bytes for the process of a judge.
        silent: judges that did not answer, with what is to be said of them.
    """

    def __init__(self, seconds: float = SECONDS, most: int | None = None) -> None:
        self._seconds = seconds
        self._end: float | None = None
        self.memory = most
        self.silent: dict[str, NoAnswer] = {}

    def start(self) -> None:
        """Time runs from now on."""
        self._end = time.monotonic() + self._seconds

    def seconds(self) -> float:
        """For the next answer."""
        return (self._seconds if self._end is None else max(self._end - time.monotonic(), 0.2)) / 2


class _Worked(threading.local):
    """The budgets of the models that a thread works on, the last one innermost, and that of none."""

    def __init__(self) -> None:
        self.on: list[Budget] = []
        self.none: Budget | None = None


_worked = _Worked()


def current() -> Budget:
    """That of the model which is worked on; of none, a whole one."""
    if _worked.on:
        return _worked.on[-1]
    _worked.none = _worked.none or Budget(most=memory.share_of_machine(1))
    _worked.none.silent.clear()
    return _worked.none


@contextmanager
def budgeted(budget: Budget) -> Iterator[Budget]:
    """A model is worked on meanwhile."""
    budget.start()
    _worked.on.append(budget)
    try:
        yield budget
    finally:
        _worked.on.pop()
