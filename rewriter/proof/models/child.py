"""Runs models in a child process, so that native code which ends the process ends only the child.

Kernels of a runtime may crash on the values that they meet: an integer division by 0 does so in some versions of ONNX Runtime.
The child is forked once, when the first model is to be run, and answers one request after the other: it shares what the parent
has loaded, and a request costs little more than making the session. One that crashed or took too long is replaced.
"""

from __future__ import annotations

import faulthandler
import os
import pickle
import signal
import socket
import struct
import warnings
from collections.abc import Callable
from typing import Any

MOST = 1 << 16
"""Bytes of an answer; a longer one is cut."""
_LENGTH = struct.Struct("<Q")


def possible() -> bool:
    """Whether this system can fork."""
    return hasattr(os, "fork")


class Child:
    """A forked process that calls one function for each request.

    Args:
        call: gets what `ask` was given, and gives a text; must not raise. What it changes, changes in the child only.
    """

    def __init__(self, call: Callable[..., str]) -> None:
        self._call = call
        self._number = 0
        self._parent = 0
        self._socket: socket.socket | None = None

    def ask(self, seconds: float, *arguments: Any) -> str | None:
        """The answer to one request.

        Args:
            seconds: after which the child is ended.
            arguments: of the call, for `pickle`.

        Returns:
            The text, "it ends the process (SIGFPE)" where the child died of a signal, None where it was not done in time.
        """
        connection = self._connected()
        connection.settimeout(seconds)
        try:
            _send(connection, pickle.dumps(arguments, pickle.HIGHEST_PROTOCOL))
            answer = _receive(connection)
        except TimeoutError:
            os.kill(self._number, signal.SIGKILL)
            self._forget()
            return None
        except OSError:
            answer = None
        if answer is not None:
            return answer.decode("utf-8", "replace")
        status = self._forget()
        signaled = os.WIFSIGNALED(status)
        return f"it ends the process ({signal.Signals(os.WTERMSIG(status)).name if signaled else os.WEXITSTATUS(status)})"

    def close(self) -> None:
        """Ends the child; a later request makes another one."""
        if self._socket is not None and self._parent == os.getpid():
            os.kill(self._number, signal.SIGKILL)
            self._forget()

    def _connected(self) -> socket.socket:
        """The connection to a child of this very process."""
        if self._socket is None or self._parent != os.getpid():
            here, there = socket.socketpair()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of other threads, of which the child needs none
                number = os.fork()
            if number == 0:
                here.close()
                _serve(there, self._call)
            there.close()
            self._socket, self._number, self._parent = here, number, os.getpid()
        return self._socket

    def _forget(self) -> int:
        """Waits for a child that has ended or is about to; its status."""
        assert self._socket is not None
        self._socket.close()
        self._socket = None
        return os.waitpid(self._number, 0)[1]


def _serve(connection: socket.socket, call: Callable[..., str]) -> None:
    """The child: it answers until the parent is gone, and ends without touching what it shares with the parent."""
    try:
        faulthandler.disable()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        while (request := _receive(connection)) is not None:
            _send(connection, call(*pickle.loads(request)).encode("utf-8", "replace")[:MOST])
    finally:
        os._exit(0)


def _send(connection: socket.socket, data: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(data)) + data)


def _receive(connection: socket.socket) -> bytes | None:
    """What was sent; None when the other end is gone."""
    head = _exactly(connection, _LENGTH.size)
    return None if head is None else _exactly(connection, _LENGTH.unpack(head)[0])


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
