"""Where the processes that do jobs come from: a server that has imported once what each of them needs.

A process that is spawned imports everything anew, which takes longer than most models. The server is started once, has nothing
of this process (no thread, no lock, no open progress bar), and forks the others in milliseconds. They share its memory.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING

from rewriter.core.signals import signals_wait

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext, SpawnContext

_HERE = os.getpid()

_OPEN = {(3, 10, patch) for patch in range(9)} | {(3, 11, 0)}
"""Versions of Python in which anybody on the machine can talk to such a server (CVE-2022-42919)."""

_LONGEST = 60
"""Bytes of the name of the folder for temporary files: with more of them the name of a socket in it becomes too long."""


def process_context(*needed: str) -> ForkServerContext | SpawnContext:
    """How processes are started: forked by a server, or spawned where there cannot be one.

    Args:
        needed: modules that each of them needs. The server imports those that are named when its first process is started.
    """
    if not _possible():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(needed))
    return context


def _possible() -> bool:
    """Whether the system knows such servers, this process may talk to one, and it has not inherited one that is not its own."""
    if "forkserver" not in multiprocessing.get_all_start_methods() or os.getpid() != _HERE or sys.version_info[:3] in _OPEN:
        return False
    try:
        socket.socket(socket.AF_UNIX).close()  # a container may take that right away
        return len(os.fsencode(tempfile.gettempdir())) <= _LONGEST
    except OSError:  # there may also be no folder for temporary files
        return False


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Whatever is started meanwhile never hears of Ctrl-C, not even while it imports; the parent hears of it afterwards."""
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


def take_environment(environment: Mapping[str, str]) -> None:
    """Gives this process the environment of the one that wants it, which may have changed since the server was started."""
    if dict(os.environ) != environment:
        os.environ.clear()
        os.environ.update(environment)
