"""Signals wait while a process is started: none is lost, and what is left of the waiting does no harm."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from rewriter.core.isolation.child import signals_wait
from rewriter.core.isolation.process import uninterrupted

if not hasattr(os, "fork"):
    pytest.skip("this system cannot fork", allow_module_level=True)

FIRST, SECOND = signal.SIGUSR1, signal.SIGUSR2


class _First(Exception):
    pass


class _Second(Exception):
    pass


@pytest.fixture(autouse=True)
def handlers() -> Iterator[tuple[Any, Any]]:
    """Handlers that raise, as that of Ctrl-C does."""

    def first(*_: object) -> None:
        raise _First

    def second(*_: object) -> None:
        raise _Second

    before = signal.signal(FIRST, first), signal.signal(SECOND, second)
    yield first, second
    signal.signal(FIRST, before[0])
    signal.signal(SECOND, before[1])


def raised_elsewhere(number: int) -> None:
    """A signal that another thread gets; Python runs its handler in this one."""
    thread = threading.Thread(target=signal.raise_signal, args=(number,))
    thread.start()
    thread.join()


@pytest.mark.parametrize("waiting", [signals_wait, uninterrupted])
def test_a_handler_runs_at_the_end(waiting: Any, handlers: tuple[Any, Any]) -> None:
    reached = []
    manager: AbstractContextManager[None] = waiting()
    with pytest.raises(_First), manager:
        raised_elsewhere(FIRST)
        reached.append(1)
    assert reached == [1]
    assert signal.getsignal(FIRST) is handlers[0]


def test_every_signal_is_heard_though_the_first_one_raises() -> None:
    with pytest.raises(_Second) as found, signals_wait():
        raised_elsewhere(FIRST)
        raised_elsewhere(SECOND)
    assert isinstance(found.value.__context__, _First)


def test_one_inside_another() -> None:
    reached = []
    with pytest.raises(_First), signals_wait():
        with signals_wait():
            raised_elsewhere(FIRST)
            reached.append(1)
        reached.append(2)
    assert reached == [1, 2]


def test_an_error_goes_through() -> None:
    with pytest.raises(ValueError), signals_wait():
        raise ValueError
    with pytest.raises(_First):
        signal.raise_signal(FIRST)


def test_a_handler_that_is_left_behind_hears(handlers: tuple[Any, Any]) -> None:
    """As when the first signal interrupts before the second one has its own handler again."""
    with signals_wait():
        left_behind = signal.getsignal(SECOND)
    assert callable(left_behind) and left_behind is not handlers[1]
    with pytest.raises(_Second):
        left_behind(SECOND, None)


def test_in_another_thread_nothing_changes(handlers: tuple[Any, Any]) -> None:
    found = []

    def look() -> None:
        with signals_wait():
            found.append(signal.getsignal(FIRST))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found == [handlers[0]]
