"""The user's own cache folder, where nobody else can have put anything; and files in it that are never half there.

What is kept there saves time and nothing else: without such a folder, or with one that cannot be written, everything works as
it does with an empty one.
"""

from __future__ import annotations

import contextlib
import os
import stat
from binascii import crc32
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

SEAL = 12


def own_folder() -> Path | None:
    """The user's cache folder for this program, made when it is missing; None when it is not theirs alone to write."""
    try:
        home = os.environ.get("XDG_CACHE_HOME")
        base = Path(home) if home and os.path.isabs(home) else Path.home() / ".cache"
        folder = base / "rewriter"
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder if only_ours(folder) else None


def only_ours(path: Path) -> bool:
    """Whether the file or folder exists, is no link, belongs to this user, and is writable by nobody else."""
    try:
        found = path.lstat()
    except OSError:
        return False
    if stat.S_ISLNK(found.st_mode):
        return False
    if not hasattr(os, "getuid"):  # Windows: the user's profile is protected by its access list
        return True
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _keep(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes a file beside its final name and renames it, so that no other process ever reads half of it.

    Where that is not possible nothing is kept, and nothing is said.
    """
    from tempfile import mkstemp

    with contextlib.suppress(OSError):
        handle, name = mkstemp(prefix=f".{path.stem}-", dir=path.parent)  # readable and writable by the user alone
        try:
            with os.fdopen(handle, "wb") as file:
                write(file)
            os.replace(name, path)
        except OSError:
            os.unlink(name)


def keep_sealed(path: Path, text: str) -> None:
    """Keeps a text of ASCII behind its size and checksum, so that `read_sealed` takes nothing that was damaged on the disk."""
    data = text.encode("ascii")
    _keep(path, lambda file: (file.write(_seal(data)), file.write(data)))


def read_sealed(path: Path) -> str | None:
    """What `keep_sealed` wrote; None when it is not there, not this user's alone, or not whole."""
    if not only_ours(path):
        return None
    try:
        with open(path, "rb") as file:
            seal, data = file.read(SEAL), file.read()
    except OSError:
        return None
    return str(data, "ascii") if data.isascii() and _seal(data) == seal else None


def _seal(data: bytes) -> bytes:
    """Nobody else can write here, so that a checksum will do; importing a digest takes longer than reading what is kept."""
    return len(data).to_bytes(8, "little") + crc32(data).to_bytes(4, "little")
