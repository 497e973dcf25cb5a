"""Ctrl-C and the end that a system asks for: noted while processes work, so that what is done is kept, told and reported."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(KeyboardInterrupt):
    """A signal came where nothing waits for one; `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


class Interruption:
    """What signals say.

    Attributes:
        number: of the signal that came; 0 for none.
        waited: whether somebody waits at `reader`, or will look at the number. Otherwise, and when a second signal comes,
            Interrupted is raised.
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
