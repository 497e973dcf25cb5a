"""Signals that wait while a process is started or ended: Ctrl-C, the end of a time limit and the word to stop come afterwards.

Python runs hooks in `os.fork` that take locks, among them that of `logging`, and swallows what is raised in them. If a handler
raises there, its signal is lost and the lock stays taken: the next fork of another thread then waits for ever. That a thread
blocks signals is not enough, since the system gives them to another thread, and Python runs the handler in the main thread.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class _Gate:
    """Stands before the handlers of signals.

    Attributes:
        waiting: the signals that wait; None lets them pass.
    """

    def __init__(self) -> None:
        self.waiting: list[int] | None = None

    def before(self, handler: Callable[[int, Any], object]) -> Callable[[int, Any], None]:
        def hear(number: int, frame: Any) -> None:
            if self.waiting is None:
                handler(number, frame)
            else:
                self.waiting.append(number)

        return hear


@contextmanager
def signals_wait() -> Iterator[None]:
    """No handler of a signal runs meanwhile; those of signals that came run at the end. Other threads never run handlers."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    gate = _Gate()
    known = ((number, signal.getsignal(number)) for number in signal.valid_signals())
    handlers = {number: handler for number, handler in known if callable(handler)}
    try:
        for number, handler in handlers.items():
            signal.signal(number, gate.before(handler))
        gate.waiting = []
        yield
    finally:
        waiting, gate.waiting = gate.waiting or [], None  # from here on a handler may raise: what is left of the gate is open
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        finally:
            _raise_all(waiting)


def _raise_all(numbers: Sequence[int]) -> None:
    """Sends signals to this process, each of them also when the handler of one before it raises."""
    if numbers:
        try:
            signal.raise_signal(numbers[0])
        finally:
            _raise_all(numbers[1:])
