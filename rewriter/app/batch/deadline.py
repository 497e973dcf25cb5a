"""An end to the work on one model, wherever it is: a signal interrupts what Python does.

Native code is interrupted only once it comes back; what judges models therefore runs in a process of its own (`proof.judges`),
and in a batch the system ends a worker that takes far too much.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import NoReturn

from rewriter.core.errors import RewriterError
from rewriter.trust.proof.judges.child import SECONDS, Budget, budgeted, restricted, told

AGAIN = 1.0
"""Seconds after which the signal comes again, should whoever catches everything have caught it, or nobody could."""

BYTES = 1 << 25
"""Of a model file, for which a second more is allowed: reading, hashing and writing take their time."""


class BeyondLimitsError(RewriterError):
    """The work on a model takes more time or memory than it may."""


class ClockError(BeyondLimitsError):
    """The clock ended the work on a model: nothing is written, since what was done by then depends on the machine."""


class OutOfTimeError(BaseException):
    """The time for a model is over. No `Exception`, since nothing may take it for a mere failure and go on."""


def allowed(path: str, seconds: float) -> float:
    """Seconds for a model: those for any one, and more where its file is large. What is not on the disk does not count."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return seconds
    return seconds + min(found.st_size, getattr(found, "st_blocks", found.st_size) * 512) / BYTES


def limit_processor(path: str, seconds: float | None) -> None:
    """Has the system end this very process, whatever it is at, when a model takes far more of the processor than it may."""
    if seconds is None:
        return
    with suppress(ImportError, AttributeError, ValueError, OSError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime + 3 * allowed(path, seconds)) + 10
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))


@contextmanager
def ended_after(seconds: float | None) -> Iterator[None]:
    """Raises OutOfTimeError in whatever runs here after a time; None, another thread or another system: nothing happens."""
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
    """Says nothing of a signal that came while an object was finalized, where nothing can be raised: it comes again."""
    if found.exc_type is not OutOfTimeError:
        hook(found)


STAGES = {
    "onnxfile": "reading or writing the file",
    "graph": "building or writing the graph",
    "facts": "inferring types and shapes",
    **dict.fromkeys(("conditions", "matching", "rewriting", "engine", "model_faults", "dim_follow"), "running the rules"),
    "explain": "explaining the rule",
    "proof": "judging the model",
    **dict.fromkeys(("inspect", "diff"), "looking at the model"),
    "source": "reading the framework's file",
    "provenance": "checking the record",
    "surgery": "changing the model",
    "report": "writing down what was found",
}
"""What a folder of a tier is at, for who asks what took the time."""


@contextmanager
def within_limits(seconds: float | None, memory: int | None, path: str = "") -> Iterator[None]:
    """The limits of the work on one model; without `seconds` only its judges have one.

    Args:
        seconds: of the clock.
        memory: bytes.
        path: of the model, where nobody else says which one it is.

    Raises:
        BeyondLimitsError: it was not done within them.
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
        late = error if isinstance(error, OutOfTimeError) else error.__cause__  # Python 3.11 wraps what ends a class statement
        if seconds is None or not isinstance(late, OutOfTimeError):
            raise  # somebody else has a limit
        raise ClockError(f"{of}not done within the time limit of {seconds:.3g} s{_stage(error)}") from None
    except MemoryError:
        least = "" if memory is None else f": it needs more than the memory limit of {told(memory)}"
        raise BeyondLimitsError(f"{of}out of memory{least}") from None


def _stage(error: BaseException) -> str:
    """What was going on when an error was raised, by the innermost package that has a name for it."""
    found, trace = "", error.__traceback__
    while trace is not None:
        parts = str(trace.tb_frame.f_globals.get("__name__", "")).split(".")
        found = STAGES.get(parts[2], found) if parts[0] == "rewriter" and len(parts) > 3 else found
        trace = trace.tb_next
    return f", while {found}" if found else ""


@contextmanager
def undisturbed() -> Iterator[None]:
    """What must come to its end once it has begun: the time does not run meanwhile."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    left, again = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        if left:
            signal.setitimer(signal.ITIMER_REAL, left, again)
