"""Another program run within limits: it ends in time with all that it started, and its last words are kept."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from rewriter.core.isolation.child import TooSlow, ending
from rewriter.core.isolation.signals import signals_wait

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
