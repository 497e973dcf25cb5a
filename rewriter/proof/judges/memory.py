"""How much memory a process may take: what the machine has, and the system's own limit.

The limit is one of private data (`RLIMIT_DATA`): files that are mapped to be read, as weights are, do not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
