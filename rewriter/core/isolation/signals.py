"""Signals that wait while a process is started or ended: Ctrl-C, the end of a time limit and the request to stop come
afterwards.

Python runs hooks in `os.fork` that take locks, such as the lock of `logging`, and swallows errors raised in them. If a handler
raises there, its signal is lost and the lock stays taken: the next fork of another thread then waits for ever. Blocking signals
in a thread is not enough, since the system gives them to another thread, and Python runs the handler in the main thread.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


class _Gate:
    """Delays the handlers of signals.

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
    """No signal handler runs meanwhile; the handlers of signals that came run at the end. Other threads never run handlers."""
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
        waiting, gate.waiting = gate.waiting or [], None  # from here on a handler may raise: the gate is open
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


def end_with_parent(number: int) -> None:
    """Has the system send this process a signal when its parent ends, if the system can."""
    if sys.platform == "linux":
        with suppress(Exception):
            import ctypes

            ctypes.CDLL(None).prctl(_DEATH_SIGNAL, number)


# Ctrl-C and the system's request to end: noted while processes work, so that finished work is kept, printed and reported.


class Interrupted(KeyboardInterrupt):
    """A signal came while no code waits for one; `number` is its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Interruption:
    """The signals that came.

    Attributes:
        number: of the signal that came; 0 for none.
        waited: whether code waits at `reader`, or will check the number. Otherwise, and at a second signal, Interrupted is
            raised.
    """

    def __init__(self) -> None:
        self.number = 0
        self.waited = False
        self.reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)

    @property
    def code(self) -> int:
        """The exit code that shells have for it."""
        return 128 + self.number

    def close(self) -> None:
        for descriptor in (self.reader, self._writer):
            os.close(descriptor)

    def hear(self, number: int, frame: Any) -> None:
        """The handler of signals."""
        again, self.number = self.number, number
        if again or not self.waited:
            raise Interrupted(number)
        os.write(self._writer, b"1")


@contextmanager
def heard() -> Iterator[Interruption]:
    """Has SIGINT and SIGTERM noted, unless they are ignored."""
    found = Interruption()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                before[number] = signal.signal(number, found.hear)
    try:
        yield found
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        found.close()
