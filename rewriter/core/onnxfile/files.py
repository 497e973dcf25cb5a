"""Opening model files, without importing the modules that read them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rewriter.core.errors import RewriterError, reason

MOST_BYTES = 2**31 - 1
"""The most bytes that protobuf can read and write as one message."""

LARGE = 1 << 24
"""Bytes of a model from which on its weights are left out; below, reading it whole takes less than walking through it."""

_LEAST = 1 << 12


def read_bytes(path: Path) -> bytes:
    """All bytes of a regular file, which may be reached through links; RewriterError otherwise."""
    with opened(path) as (descriptor, _):
        return all_bytes(descriptor)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[tuple[int, int]]:
    """Opens a regular file of at most 2 GiB: descriptor and size."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            found = os.fstat(descriptor)
            if stat.S_ISDIR(found.st_mode):
                raise RewriterError(f"{Path(path)}: is a folder, not a model")
            if not stat.S_ISREG(found.st_mode):
                raise RewriterError(f"{Path(path)}: not a regular file")
            if found.st_size > MOST_BYTES:
                raise RewriterError(f"{Path(path)}: {found.st_size / 2**30:.1f} GiB, but one protobuf file holds 2 GiB at most")
            yield descriptor, found.st_size
        finally:
            os.close(descriptor)
    except (OSError, ValueError) as error:
        raise RewriterError(f"{Path(path)}: {reason(error)}") from error


def all_bytes(descriptor: int) -> bytes:
    """The bytes of an open file from its position on."""
    parts = []
    most = max(os.fstat(descriptor).st_size, _LEAST) + 1  # in /proc, a file of size 0 may have content
    while part := os.read(descriptor, most):
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
