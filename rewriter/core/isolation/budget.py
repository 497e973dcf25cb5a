"""Limits of time and memory: for the work on one model, for the checks of this model, and for this very process. And pauses of
the garbage collector, which would walk a large model again and again while many objects are made that all stay.

A signal interrupts Python code. Native code is interrupted only when it returns. So checks run in a process of their own
(`child`), and in a batch the system ends a process that takes far too much.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

from rewriter.core.errors import RewriterError

# How much memory a process may take: a share of the machine's memory, within the system's own limit.
#
# The limit is for private data (`RLIMIT_DATA`): files that are mapped for reading, such as weights, do not count.

SHARE = 0.75
"""The share of the machine's memory that all processes together may take by default."""

LEAST = 1 << 30
"""Bytes that a process may take in any case: ONNX and ONNX Runtime alone take a third of it."""

_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def share_of_machine(processes: int) -> int | None:
    """Bytes for each of several processes, from the memory of the machine or the container; None if that is not known."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    for group in _GROUPS:
        with suppress(OSError, ValueError):
            found = min(found, int(group.read_text()))
    return max(LEAST, int(found * SHARE) // processes)


def restrict(most: int | None) -> None:
    """Sets the limit of this process, if the system has one; None leaves it as it is."""
    if most is None:
        return
    with suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


@contextmanager
def restricted(most: int | None) -> Iterator[None]:
    """The limit for as long as this lasts."""
    try:
        import resource

        before = resource.getrlimit(resource.RLIMIT_DATA)
    except (ImportError, AttributeError):
        yield
        return
    restrict(most)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def size_text(size: int) -> str:
    """A number of bytes, as "512 MiB" or "1.5 GiB"."""
    return f"{size / 2**30:.3g} GiB" if size >= 2**30 else f"{size / 2**20:.3g} MiB"


# Limits for the judges (checks) of one model: time for all together, and memory for each.
#
# A judge that did not answer in time does not check other states of the same model, and each judge gets at most half of the
# remaining time. So a judge that hangs loses its own answer, but neither other answers nor the result.

SECONDS = 60.0
"""For one model, by default."""


class Budget:
    """The limits of one model.

    Attributes:
        memory: bytes for the process of a judge.
        silent: judges that did not answer, with the message about each.
    """

    def __init__(self, seconds: float = SECONDS, most: int | None = None) -> None:
        self._seconds = seconds
        self._end: float | None = None
        self.memory = most
        self.silent: dict[str, RewriterError] = {}

    def start(self) -> None:
        """Time runs from now on."""
        self._end = time.monotonic() + self._seconds

    def seconds(self) -> float:
        """For the next answer."""
        return (self._seconds if self._end is None else max(self._end - time.monotonic(), 0.2)) / 2


class _Worked(threading.local):
    """The budgets of the models that a thread works on, the last one innermost, and the budget for no model."""

    def __init__(self) -> None:
        self.on: list[Budget] = []
        self.none: Budget | None = None


_worked = _Worked()


def current() -> Budget:
    """The budget of the model in work; without a model, a whole budget."""
    if _worked.on:
        return _worked.on[-1]
    _worked.none = _worked.none or Budget(most=share_of_machine(1))
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


# An end to the work on one model, wherever it is.

AGAIN = 1.0
"""Seconds after which the signal is repeated, in case a handler of all errors caught the first, or no code could."""

BYTES = 1 << 25
"""Bytes of a model file that add one second: reading, hashing and writing take time."""


class BeyondLimitsError(RewriterError):
    """The work on a model takes more time or memory than it may."""


class ClockError(BeyondLimitsError):
    """The clock ended the work on a model: no result is written, since it would depend on the machine."""


class OutOfTimeError(BaseException):
    """The time for a model is over. Not an `Exception`, so that no code handles it as a mere failure and goes on."""


def allowed(path: str, seconds: float) -> float:
    """Seconds for a model: `seconds`, and more if its file is large. Holes of the file do not count."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return seconds
    return seconds + min(found.st_size, getattr(found, "st_blocks", found.st_size) * 512) / BYTES


def limit_processor(path: str, seconds: float | None) -> None:
    """Has the system end this very process, at any point, if a model takes far more processor time than it may."""
    if seconds is not None:
        restrict_processor(3 * allowed(path, seconds) + 10)


def restrict_processor(seconds: float) -> None:
    """Has the system end this process after so much more processor time, if it has such a limit."""
    with suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime + seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


@contextmanager
def ended_after(seconds: float | None) -> Iterator[None]:
    """Raises OutOfTimeError in the running code after a time. Does nothing for None, another thread or another system."""
    possible = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if seconds is None or not possible or signal.getitimer(signal.ITIMER_REAL)[0]:
        yield
        return
    before, hook = signal.signal(signal.SIGALRM, _end), sys.unraisablehook
    sys.unraisablehook = partial(_unless_late, hook)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook


def _end(*_: object) -> NoReturn:
    raise OutOfTimeError


def _unless_late(hook: Callable[[sys.UnraisableHookArgs], object], found: sys.UnraisableHookArgs) -> None:
    """Ignores a signal that came while an object was finalized, when no error can be raised: the signal comes again."""
    if found.exc_type is not OutOfTimeError:
        hook(found)


STAGES = {
    "onnxfile": "reading or writing the file",
    "graph": "building or writing the graph",
    "facts": "inferring types and shapes",
    **dict.fromkeys(("conditions", "matching", "rewriting", "engine", "dim_follow"), "running the rules"),
    "explain": "explaining the rule",
    "proof": "checking the model",
    "inspect": "looking at the model",
    "source": "reading the framework's file",
    "surgery": "changing the model",
    "report": "writing down what was found",
}
"""The work of a tier's folder, for messages about the stage that took the time."""


@contextmanager
def within_limits(seconds: float | None, memory: int | None, path: str = "") -> Iterator[None]:
    """The limits of the work on one model; without `seconds`, only its checks have a time limit.

    Args:
        seconds: of the clock.
        memory: bytes.
        path: of the model, for error messages that do not already name it.

    Raises:
        BeyondLimitsError: the work was not done within the limits.
    """
    of = f"{path}: " if path else ""
    try:
        with budgeted(Budget(SECONDS if seconds is None else seconds, memory)):
            if seconds is None and memory is None:
                yield
            else:
                with restricted(memory), ended_after(seconds):
                    yield
    except (OutOfTimeError, RuntimeError) as error:
        late = error if isinstance(error, OutOfTimeError) else error.__cause__  # Python 3.11 wraps errors in class statements
        if seconds is None or not isinstance(late, OutOfTimeError):
            raise  # another limit raised it
        raise ClockError(f"{of}not done within the time limit of {seconds:.3g} s{_stage(error)}") from None
    except MemoryError:
        least = "" if memory is None else f": it needs more than the memory limit of {size_text(memory)}"
        raise BeyondLimitsError(f"{of}out of memory{least}") from None


def _stage(error: BaseException) -> str:
    """The work during which an error was raised, from the innermost package that has a name for it."""
    found, trace = "", error.__traceback__
    while trace is not None:
        parts = str(trace.tb_frame.f_globals.get("__name__", "")).split(".")
        found = STAGES.get(parts[2], found) if parts[0] == "rewriter" and len(parts) > 3 else found
        trace = trace.tb_next
    return f", while {found}" if found else ""


@contextmanager
def undisturbed() -> Iterator[None]:
    """For work that must be finished once begun: the time does not run meanwhile."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    left, again = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left, again)


MANY = 500_000
"""Objects of models, which are circular, as graphs are: so many may become garbage before a collection."""

FEW = 10_000
"""Objects that the collector may as well walk through: to count the frozen ones takes longer if a program has millions."""

FROZEN = 1000
"""Objects that may be frozen without a request: Python 3.12 itself freezes some hundreds at its start."""

_object_count = 0


@contextmanager
def collector_off(*, circular: bool = True) -> Iterator[None]:
    """No collections inside; afterwards as before. One full collection of a model of 100,000 nodes takes about a second.

    Objects made inside count as old at once: freezing and thawing moves them there without a walk. If they are few, or the
    program keeps frozen objects, the walk is made. Objects that are not `circular` are freed without a collection.
    """
    enabled = gc.isenabled()
    gc.disable()
    before = gc.get_count()[0]
    try:
        yield
    finally:
        if enabled:
            global _object_count
            count = gc.get_count()[0] - before
            if count > FEW and gc.get_freeze_count() < FROZEN:
                _object_count += count if circular else 0
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def collect_between_models() -> None:
    """Collects garbage of earlier models, once it may be much: Python does not collect objects that count as old at once."""
    global _object_count
    if _object_count > MANY:
        gc.collect()
        _object_count = 0
