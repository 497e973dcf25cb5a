"""Temporary files and folders that know whether their process is alive, so that those of dead ones can be collected.

Whoever makes one holds a lock on it, which ends with the process, however that ends. What bears the ending and is not locked is
nobody's. Numbers of processes would not tell: they are used again, and mean nothing on another machine.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # no locks here, so nothing is collected
    fcntl = None  # type: ignore[assignment]

LOCKS = fcntl is not None
ENDING = ".rewriter-tmp"
_OURS = re.compile(r"\.[0-9a-f]{12}" + re.escape(ENDING))
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_searched: set[str] = set()


class TemporaryFile:
    """An empty file, open for writing; gone when it is closed, unless it was renamed.

    Attributes:
        place: its path.
        descriptor: -1 while it is not open.
        renamed: nothing is left to be removed.
    """

    __slots__ = ("_folder", "descriptor", "place", "renamed")

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.fspath(folder)
        self.place = ""
        self.descriptor = -1
        self.renamed = False

    def open(self) -> None:
        """Makes it. Raises OSError; `close` is to be called in any case, since a signal may end this process at any place."""
        while True:
            self.place = os.path.join(self._folder, f".{os.urandom(6).hex()}{ENDING}")
            self.descriptor = os.open(self.place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666)
            if _taken(self.descriptor):
                return
            self.close()

    def close(self) -> None:
        """Closes it, however far it came to be open."""
        if self.place and not self.renamed:
            with contextlib.suppress(OSError):
                os.unlink(self.place)
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            with contextlib.suppress(OSError):
                os.close(descriptor)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """An empty folder where the system has such, gone with all that is in it at the end. Raises OSError."""
    import shutil
    import tempfile

    collect(Path(tempfile.gettempdir()))
    place, descriptor = Path(), -1
    try:
        while True:
            place = Path(tempfile.gettempdir(), f".{os.urandom(6).hex()}{ENDING}")
            os.mkdir(place, 0o700)
            with contextlib.suppress(FileNotFoundError):  # somebody has just collected it
                descriptor = os.open(place, os.O_RDONLY)
                if _taken(descriptor):
                    break
                os.close(descriptor)
        yield place
    finally:
        if descriptor >= 0:
            os.close(descriptor)
        if place.name:
            shutil.rmtree(place, ignore_errors=True)


def collect(folder: str | os.PathLike[str], *, again: bool = False) -> None:
    """Removes what dead processes left in a folder, once in a process unless it asks `again`."""
    folder_path = os.fspath(folder)
    if fcntl is None or (folder_path in _searched and not again):
        return
    name = os.path.realpath(folder_path)
    known = name in _searched
    _searched.update(
        (name, folder_path) if os.path.isabs(folder_path) else (name,)
    )  # to find out where a link leads takes long
    if known and not again:
        return
    with contextlib.suppress(OSError), os.scandir(name) as entries:
        left = [entry.path for entry in entries if entry.name.endswith(ENDING) and _OURS.fullmatch(entry.name)]
        for path in left:
            with contextlib.suppress(OSError):
                _remove(path)


def _remove(path: str) -> None:
    folder = stat.S_ISDIR(os.lstat(path).st_mode)
    descriptor = os.open(path, (os.O_RDONLY if folder else os.O_RDWR) | _FLAGS)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused where its owner is alive
        if folder:
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    finally:
        os.close(descriptor)


def _taken(descriptor: int) -> bool:
    """Whether a file that was just made is locked now, and still there."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False  # somebody is about to collect it
    except OSError:  # a file system without locks: nobody can collect it either
        return True
    return os.fstat(descriptor).st_nlink > 0
