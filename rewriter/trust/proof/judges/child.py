"""Calls in a child process with limits of time and memory: native code may hang, take all memory or end its process."""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from rewriter.core.errors import RewriterError
from rewriter.core.signals import signals_wait

# How much memory a process may take: what the machine has, and the system's own limit.
#
# The limit is one of private data (`RLIMIT_DATA`): files that are mapped to be read, as weights are, do not count.

SHARE = 0.75
"""Of the memory of the machine that all processes together may take by default."""

LEAST = 1 << 30
"""Bytes that a process may take in any case: ONNX and ONNX Runtime alone take a third of it."""

_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def share_of_machine(processes: int) -> int | None:
    """Bytes for each of several processes, by what the machine or the container has; None where that is not known."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    for group in _GROUPS:
        with suppress(OSError, ValueError):
            found = min(found, int(group.read_text()))
    return max(LEAST, int(found * SHARE) // processes)


def restrict(most: int | None) -> None:
    """Sets the limit of this process, where the system has one; None leaves it as it is."""
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


def told(size: int) -> str:
    """A number of bytes, as "512 MiB" or "1.5 GiB"."""
    return f"{size / 2**30:.3g} GiB" if size >= 2**30 else f"{size / 2**20:.3g} MiB"


REQUESTS = 2_000
"""After so many a child is worn: what native code forgets to give back is given back with it."""

GROWTH = 1 << 29
"""Bytes by which a child may grow before it is worn."""

LARGE = 1 << 25
"""Bytes of an argument that is not sent: a new child is forked, and has it already."""

_LENGTH = struct.Struct("<QB")
_PIECE = 1 << 20
_ANSWER, _WORN, _MEMORY = range(3)
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG


class NoAnswer(RewriterError):
    """There is no answer to a request; the text goes on after the name of who was asked."""

    def told(self, judge: str) -> str:
        """The whole sentence."""
        return f"{judge} {self}"


class TooSlow(NoAnswer):
    """There was none in time."""


class OutOfMemory(NoAnswer):
    """It would take more memory than there may be."""


class Crashed(NoAnswer):
    """The process has ended by itself."""

    def told(self, judge: str) -> str:
        """The whole sentence."""
        return f"{judge}: {self}"


def possible() -> bool:
    """Whether this system can fork."""
    return hasattr(os, "fork")


Request = tuple[float, "int | None", Any]
"""Seconds, bytes of memory and arguments."""


class Child:
    """A forked process that calls one function for each request.

    Args:
        call: gets what `ask` was given; must not raise, but for MemoryError. Its result is pickled. What it changes, changes in
            the child only.

    Attributes:
        worn: whether it answered so much, or has grown so much, that it is to be closed when nothing in it is needed any more.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._number = 0
        self._parent = 0
        self._socket: socket.socket | None = None
        self._one = threading.Lock()
        self._pending = False  # a request whose answer nobody has read
        self.worn = False

    def ask(self, seconds: float, *arguments: Any, most: int | None = None) -> Any:
        """The answer to one request.

        Args:
            seconds: after which the child is ended.
            arguments: of the call, for `pickle`.
            most: bytes of memory that it may take; None leaves that to the system.

        Raises:
            NoAnswer: there is none.
        """
        with self._one:
            return self._ask(seconds, arguments, most)

    def _ask(self, seconds: float, arguments: tuple[Any, ...], most: int | None) -> Any:
        large = any(isinstance(argument, bytes) and len(argument) >= LARGE for argument in arguments)
        if large or self._pending:  # whoever was interrupted has left an answer, which is not that to this request
            self._end()
        request = seconds, most, arguments
        self._pending = True
        connection = self._connected(request if large else None)
        connection.settimeout(seconds)
        try:
            if not large:
                _send(connection, _ANSWER, pickle.dumps(request, pickle.HIGHEST_PROTOCOL))
            kind, answer = _receive(connection)
        except TimeoutError:
            self._end()
            raise TooSlow(f"did not answer within {seconds:.3g} s") from None
        except (OSError, EOFError):
            raise self._ended(self._forget(), most, seconds) from None
        except BaseException:  # nobody waits for an answer any more
            self._end()
            raise
        self._pending = False
        self.worn = kind == _WORN
        if kind == _MEMORY:
            self._end()
            raise OutOfMemory(_needs(most))
        return pickle.loads(answer)

    @property
    def number(self) -> int:
        """Which process it is; 0 for none."""
        return self._number if self._socket is not None and self._parent == os.getpid() else 0

    def close(self) -> None:
        """Ends the child, unless it is just being asked; a later request makes another one."""
        with signals_wait():
            if not self._one.acquire(blocking=False):
                self.worn = True
                return
            try:
                self._end()
            finally:
                self._one.release()

    def _end(self) -> None:
        with signals_wait():
            if self._socket is not None and self._parent == os.getpid():
                os.kill(self._number, signal.SIGKILL)
                self._forget()

    def _connected(self, request: Request | None) -> socket.socket:
        """The connection to a child of this very process; a new one may have its first request with it."""
        if self._socket is None or self._parent != os.getpid():
            tied = threading.current_thread() is threading.main_thread()  # to another one it would be tied until that ends
            with signals_wait():
                here, there = socket.socketpair()
                number = _forked()
                if number == 0:
                    here.close()
                    _serve(there, self._call, request, tied=tied)
                there.close()
                self._socket, self._number, self._parent = here, number, os.getpid()
                self.worn = False
        return self._socket

    def _forget(self) -> int:
        """Waits for a child that has ended or is about to; its status."""
        with signals_wait():
            assert self._socket is not None
            self._socket.close()
            self._socket = None
            return os.waitpid(self._number, 0)[1]

    def _ended(self, status: int, most: int | None, seconds: float) -> NoAnswer:
        if not os.WIFSIGNALED(status):
            return Crashed(f"it ends the process ({os.WEXITSTATUS(status)})")
        number = os.WTERMSIG(status)
        if number in (signal.SIGALRM, signal.SIGXCPU):
            return TooSlow(f"did not answer within {seconds:.3g} s")
        if number == signal.SIGKILL:
            return OutOfMemory(f"was killed, probably because it took too much memory ({_needs(most)})")
        return Crashed(f"it ends the process ({signal.Signals(number).name})")


def _needs(most: int | None) -> str:
    return "needs more memory than there is" if most is None else f"needs more than the memory limit of {told(most)}"


def _forked() -> int:
    """`os.fork`, of which the child hears of no signal before it has settled."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    number = -1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of other threads, of which the child needs none
            number = os.fork()
    finally:
        if number != 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return number


def _serve(connection: socket.socket, call: Callable[..., Any], request: Request | None, *, tied: bool) -> None:
    """The child: it answers until the parent is gone, and ends without touching what it shares with the parent."""
    try:
        flush = _settle(tied=tied)
        small = _peak()
        for number in count(1):
            seconds, most, arguments = request or pickle.loads(_receive(connection)[1])
            request = None
            with _ended_after(seconds), restricted(most):
                kind, answer = _answer(call, arguments)
            flush()
            worn = number >= REQUESTS or _peak() - small > GROWTH
            _send(connection, _WORN if kind == _ANSWER and worn else kind, answer)
    except BaseException:
        os._exit(0)
    os._exit(0)


def _settle(*, tied: bool) -> Callable[[], object]:
    """Makes the child one that does not outlive its parent, and whose last words nobody hears.

    Returns:
        What sends off that which native code has printed to the standard output, as ONNX does its warnings.
    """
    faulthandler.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        import ctypes

        library = ctypes.CDLL(None)
        if tied and sys.platform == "linux":
            library.prctl(_DEATH_SIGNAL, signal.SIGKILL)
        return lambda: library.fflush(None)
    except Exception:  # another C library
        return lambda: None


class _ended_after:
    """Ends this very process after a time, also in the midst of native code and when nobody is left to end it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        import resource

        signal.setitimer(signal.ITIMER_REAL, self._seconds + 1)
        used = resource.getrusage(resource.RUSAGE_SELF)
        most = int(used.ru_utime + used.ru_stime + 2 * self._seconds) + 2
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _answer(call: Callable[..., Any], arguments: Any) -> tuple[int, bytes]:
    try:
        return _ANSWER, pickle.dumps(call(*arguments), pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        return _MEMORY, b""


def _peak() -> int:
    """The most bytes of memory that this process took so far."""
    import resource

    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found << 10


def _send(connection: socket.socket, kind: int, data: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(data), kind) + data if len(data) < _PIECE else _LENGTH.pack(len(data), kind))
    if len(data) >= _PIECE:
        connection.sendall(data)


def _receive(connection: socket.socket) -> tuple[int, bytearray]:
    """What was sent. Raises EOFError when the other end is gone."""
    count, kind = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    return kind, _exactly(connection, count)


def _exactly(connection: socket.socket, count: int) -> bytearray:
    found = bytearray(count)
    view = memoryview(found)
    while view:
        part = connection.recv_into(view[:_PIECE])
        if not part:
            raise EOFError
        view = view[part:]
    return found


# What the judges of one model may take: time, together, and memory, each.
#
# A judge that did not answer in time is not asked about other states of the same model, and each one gets at most half of the
# time that is left: so one that hangs costs its own answer, and neither the others' nor the result.

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
