"""Calls in a child process with limits of time and memory: native code may hang, take all memory or end its process.

`Child` forks this process, so that the called function needs no import and is not pickled. A child answers one request at a
time. `run_program` runs another program with such limits. The processes of `process` are no copies of this one and work side
by side.

Signals wait while a process is started or ended: Ctrl-C, the end of a time limit and the request to stop come afterwards.
Python runs hooks in `os.fork` that take locks, such as the lock of `logging`, and swallows errors raised in them. If a handler
raises there, its signal is lost and the lock stays taken: the next fork of another thread then waits for ever. Blocking signals
in a thread is not enough, since the system gives them to another thread, and Python runs the handler in the main thread.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from rewriter.core.errors import RewriterError
from rewriter.core.isolation.budget import current, restrict_processor, restricted, size_text

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


REQUESTS = 2_000
"""A child is worn after so many requests: its end frees memory that native code leaks."""

GROWTH = 1 << 29
"""Bytes by which a child may grow before it is worn."""

LARGE = 1 << 25
"""Bytes of an argument that is not sent: a new child is forked, and has it already."""

_LENGTH = struct.Struct("<QB")
_PIECE = 1 << 20
_ANSWER, _WORN, _MEMORY = range(3)


class NoAnswer(RewriterError):
    """There is no answer to a request; the text continues a sentence that begins with the name of the judge."""

    def sentence(self, judge: str) -> str:
        """The whole sentence."""
        return f"{judge} {self}"


class TooSlow(NoAnswer):
    """There was none in time."""


class OutOfMemory(NoAnswer):
    """It would take more memory than there may be."""


class Crash(NoAnswer):
    """The process has ended by itself."""

    def sentence(self, judge: str) -> str:
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
        call: gets the arguments of `ask`; may raise MemoryError only. Its result is pickled. Its changes stay in the child.

    Attributes:
        worn: whether the child answered so much, or has grown so much, that it is to be closed when it is not needed any more.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self._number = 0
        self._parent = 0
        self._socket: socket.socket | None = None
        self._one = threading.Lock()
        self._pending = False  # whether the answer to a request was not read
        self.worn = False

    def ask(self, seconds: float, *arguments: Any, most: int | None = None) -> Any:
        """The answer to one request.

        Args:
            seconds: after which the child is ended.
            arguments: of the call, for `pickle`.
            most: bytes of memory that it may take; None leaves that to the system.

        Raises:
            NoAnswer: there is no answer.
        """
        with self._one:
            return self._ask(seconds, arguments, most)

    def _ask(self, seconds: float, arguments: tuple[Any, ...], most: int | None) -> Any:
        large = any(isinstance(argument, bytes) and len(argument) >= LARGE for argument in arguments)
        if large or self._pending:  # an interrupted request left its answer in the socket
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
            raise ending(os.waitstatus_to_exitcode(self._forget()), most, seconds) from None
        except BaseException:  # the answer is not needed any more
            self._end()
            raise
        self._pending = False
        self.worn = kind == _WORN
        if kind == _MEMORY:
            self._end()
            raise OutOfMemory(_needs(most))
        return pickle.loads(answer)

    def ask_within_limits(self, *arguments: Any, seconds: float | None = None) -> Any:
        """Like `ask`, within the limits of the model in work; `seconds` may be less."""
        limits = current()
        within = limits.seconds() if seconds is None else min(seconds, limits.seconds())
        return self.ask(within, *arguments, most=limits.memory)

    @property
    def number(self) -> int:
        """Which process it is; 0 for none."""
        return self._number if self._socket is not None and self._parent == os.getpid() else 0

    def close(self) -> None:
        """Ends the child, unless it is answering a request; a later request makes another one."""
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
            tied = threading.current_thread() is threading.main_thread()  # a tie to another thread ends with that thread
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


def ending(code: int, most: int | None, seconds: float) -> NoAnswer:
    """The error for a process that ended without an answer, from its exit code, or its signal as a negative number."""
    if code >= 0:
        return Crash(f"crashed ({code})")
    if -code in (signal.SIGALRM, signal.SIGXCPU):
        return TooSlow(f"did not answer within {seconds:.3g} s")
    if -code == signal.SIGKILL:
        return OutOfMemory(f"was killed, probably because it took too much memory ({_needs(most)})")
    return Crash(f"crashed ({signal.Signals(-code).name})")


def _needs(most: int | None) -> str:
    return "needs more memory than there is" if most is None else f"needs more than the memory limit of {size_text(most)}"


def _forked() -> int:
    """`os.fork`; the child gets no signal before it has settled."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    number = -1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about other threads; the child needs none
            number = os.fork()
    finally:
        if number != 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return number


def _serve(connection: socket.socket, call: Callable[..., Any], request: Request | None, *, tied: bool) -> None:
    """The child: it answers until the parent is gone, and ends without touching anything that it shares with the parent."""
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
    """Makes the child end with its parent, and silences its standard error.

    Returns:
        A function that flushes the standard output of native code; ONNX prints its warnings there.
    """
    faulthandler.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if tied:
        end_with_parent(signal.SIGKILL)
    try:
        import ctypes

        library = ctypes.CDLL(None)
        return lambda: library.fflush(None)
    except Exception:  # another C library
        return lambda: None


@contextmanager
def _ended_after(seconds: float) -> Iterator[None]:
    """Ends this very process after a time, also inside native code and if the parent is gone."""
    signal.setitimer(signal.ITIMER_REAL, seconds + 1)
    restrict_processor(2 * seconds + 2)
    yield
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
    """The bytes that were sent. Raises EOFError if the other end is gone."""
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


# Another program run within limits: it ends in time with all that it started, and its last words are kept.

WORDS = "words.txt"
MOST_WORDS = 1 << 14
"""Bytes that are read from the end of a program's output."""


def run_program(command: Sequence[str], folder: Path, seconds: float, most: int | None = None) -> str:
    """Runs a program in a folder, which gets a file with its output. Returns the end of the output.

    Args:
        command: the program and its arguments. It limits its memory itself.
        seconds: after which it is ended.
        most: bytes of memory that it may take, for the error message.

    Raises:
        NoAnswer: it did not end in time, or not with 0.
        OSError: there is no such program.
    """
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    with open(folder / WORDS, "wb") as words, signals_wait():
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, cwd=folder, env=environment, start_new_session=True
        )
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise TooSlow(f"did not answer within {seconds:.3g} s") from None
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if code:
        raise ending(code, most, seconds)
    return last_words(folder)


def last_words(folder: Path) -> str:
    """The end of the output of a program in this folder."""
    with open(folder / WORDS, "rb") as words:
        words.seek(max(words.seek(0, os.SEEK_END) - MOST_WORDS, 0))
        return words.read().decode(errors="replace")
