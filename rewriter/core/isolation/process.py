"""Processes that do jobs, and the server that forks them, which has imported their modules once.

A process that is spawned imports everything anew, which takes longer than most models. The server is started once, has no state
of this process (no thread, no lock, no open progress bar), and forks the others in milliseconds. They share its memory.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from rewriter.core.isolation.child import end_with_parent, signals_wait

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

_HERE = os.getpid()

_OPEN = {(3, 10, patch) for patch in range(9)} | {(3, 11, 0)}
"""Versions of Python in which anybody on the machine can talk to such a server (CVE-2022-42919)."""

_LONGEST = 60
"""Bytes of the name of the folder for temporary files: with more of them the name of a socket in it becomes too long."""


def process_context(*needed: str) -> ForkServerContext | SpawnContext:
    """The way to start processes: forked by a server, or spawned if a server is not possible.

    Args:
        needed: modules that each process needs. The server imports the modules that are named when its first process is
            started.
    """
    if not _possible():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(needed))
    return context


def _possible() -> bool:
    """Whether the system has such servers, this process may talk to one, and it has not inherited another process's server."""
    if "forkserver" not in multiprocessing.get_all_start_methods() or os.getpid() != _HERE or sys.version_info[:3] in _OPEN:
        return False
    try:
        socket.socket(socket.AF_UNIX).close()  # a container may forbid that
        return len(os.fsencode(tempfile.gettempdir())) <= _LONGEST
    except OSError:  # there may also be no folder for temporary files
        return False


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Processes that are started meanwhile never get Ctrl-C, not even while they import. The parent gets it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    with signals_wait():
        resource_tracker.ensure_running()  # it is started with the first process, and would let the signal through again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _without_current_folder() -> Iterator[None]:
    """Processes that are started meanwhile import nothing from the current folder, which may be a stranger's.

    Python starts them with `-c`, and searches the current folder first. Python 3.10 cannot leave it out.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONSAFEPATH"]
        else:
            os.environ["PYTHONSAFEPATH"] = before


def take_environment(environment: Mapping[str, str]) -> None:
    """Gives this process the environment of its parent, which may have changed since the server was started."""
    if dict(os.environ) != environment:
        os.environ.clear()
        os.environ.update(environment)


PATIENCE = 5.0
"""Seconds for processes that are to end."""


class Process:
    """A process with a connection, over which it first gets the environment of this process and the data that all its jobs
    share.

    Args:
        serve: its function, which gets its end of the connection. It begins with `received` and ends with the other end.
        shared: the data that `received` returns.
        needed: modules that it imports.

    Attributes:
        connection: to send jobs and to receive their results.
    """

    def __init__(self, serve: Callable[[Connection[Any, Any]], None], shared: object, *needed: str) -> None:
        context = process_context(*needed)
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        with _without_current_folder(), uninterrupted():
            self._process.start()
        theirs.close()
        self.send((dict(os.environ), shared))  # as an argument, it would hide a process that cannot begin

    def send(self, message: object) -> None:
        """Sends a message; that a process has died meanwhile is found out when its answer is read."""
        with suppress(OSError):
            self.connection.send(message)

    def end(self) -> int | None:
        """Closes the connection, so that the process ends if it has not, and waits for it. Returns its exit code."""
        self.connection.close()
        self._process.join()
        return self._process.exitcode

    def kill(self) -> None:
        """Ends the process at once, at any point."""
        self._process.kill()
        self.end()

    @staticmethod
    def stop(processes: Iterable[Process]) -> None:
        """Ends processes together, at any point; they may clean up first."""
        ending = list(processes)
        for one in ending:
            one.connection.close()
            one._process.terminate()
        end = time.monotonic() + PATIENCE
        for one in ending:
            one._process.join(max(0.0, end - time.monotonic()))
            if one._process.is_alive():
                one.kill()


def received(connection: Connection[Any, Any]) -> Any:
    """The beginning of a process. Returns the shared data. The process ends with its parent."""
    try:
        environment, shared = connection.recv()
    except (EOFError, OSError):
        raise SystemExit(1) from None
    take_environment(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is also interrupted, and ends this one
    end_with_parent(signal.SIGTERM)
    parent = multiprocessing.parent_process()
    if parent is not None and not parent.is_alive():
        raise SystemExit(1)
    return shared
