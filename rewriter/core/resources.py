"""Files of this program other than Python modules: those that are installed with it, and those that it keeps in the user's
cache.

`grammar/` and `rules/` are packages of an installation, and top folders of a checkout.

The cache has texts that take long to make, which every process needs and which seldom change: compiled rules, operator schemas,
tables of the grammar. An entry belongs to a key and to everything else that decides the compiler's output in addition to the
texts of rules, so it is never out of date. No other user can write to the folder, and no process reads half of a file. The
cache only saves time: without a folder, or with one that cannot be written, everything works as with an empty one.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from binascii import crc32
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

import rewriter


def resource(name: str) -> Path:
    """The file or folder of a name such as "grammar/rules.lark" or "rules".

    Raises FileNotFoundError when neither the installed packages nor the checkout have it.
    """
    top, _, rest = name.partition("/")
    spec = find_spec(f"rewriter.{top}")
    installed = [Path(place) for place in spec.submodule_search_locations or ()] if spec else []
    for folder in (*installed, Path(rewriter.__file__).parent.parent / top):
        if (folder / rest).exists():
            return folder / rest
    raise FileNotFoundError(f"{name} is missing from this installation of rewriter")


MAX_ENTRIES, MAX_BYTES = 1024, 1 << 28
SEAL = 12


def read_or_make(kind: str, make: Callable[[], str], key: str = "") -> str:
    """The text that `make` returned in the first process that needed this key."""
    text = read(kind, key)
    if text is None:
        text = make()
        write(kind, key, text)
    return text


def read(kind: str, key: str = "") -> str | None:
    """The text of an entry; None if it is missing, not this user's alone, or damaged."""
    found = _open(kind, key)
    if found is None:
        return None
    with found as file, contextlib.suppress(OSError):
        with contextlib.suppress(OSError):  # `--sandbox` can read the folder only
            os.utime(file.name)  # the entries that were used last stay
        return _read_sealed(file)
    return None


def read_tail(kind: str, key: str, number: int) -> str | None:
    """One part of the tail of an entry. No other part is read. None like `read`."""
    found = _open(kind, key)
    if found is None:
        return None
    with found as file, contextlib.suppress(OSError):
        _skip_sealed(file)
        sizes = _read_sealed(file)
        if sizes is not None and number < len(listed := json.loads(sizes)):
            file.seek(sum(listed[:number]), os.SEEK_CUR)
            return _read_sealed(file)
    return None


def write(kind: str, key: str, text: str, tail: Sequence[str] = ()) -> None:
    """Adds an entry, of ASCII, and removes the entries that have been unused for longest.

    The file is written next to its final name and renamed, so that no other process ever reads half of it. If that is not
    possible, nothing is written and no error is raised.
    """
    folder = own_folder()
    if folder is None:
        return
    from tempfile import mkstemp

    full, path = _full_key(kind, key), _path(folder, kind, key)
    with contextlib.suppress(OSError):
        handle, name = mkstemp(prefix=f".{path.name}-", dir=folder)  # readable and writable by the user alone
        try:
            with os.fdopen(handle, "wb") as file:
                sizes = json.dumps([SEAL + len(part) for part in tail])
                for part in (full, text, sizes, *tail):
                    data = part.encode("ascii")
                    file.write(_seal(data) + data)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
        entries = [(entry, entry.stat()) for entry in folder.iterdir()]
        kept = 0
        for number, (entry, status) in enumerate(sorted(entries, key=lambda one: one[1].st_mtime, reverse=True)):
            kept += status.st_size
            if number >= MAX_ENTRIES or kept > MAX_BYTES:
                entry.unlink(missing_ok=True)


def discard(kind: str, key: str) -> None:
    """Removes an entry that turned out to be damaged."""
    with contextlib.suppress(OSError):
        if (folder := own_folder()) is not None:
            _path(folder, kind, key).unlink(missing_ok=True)


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
    return folder if _is_ours(folder) else None


def _is_ours(path: Path) -> bool:
    """Whether the file or folder exists, is no link, belongs to this user, and is writable by this user only."""
    try:
        found = path.lstat()
    except OSError:
        return False
    if stat.S_ISLNK(found.st_mode):
        return False
    if not hasattr(os, "getuid"):  # Windows: the user's profile is protected by its access list
        return True
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _open(kind: str, key: str) -> BinaryIO | None:
    """The file of an entry, read up to its text."""
    folder = own_folder()
    if folder is None or not _is_ours(path := _path(folder, kind, key)):
        return None
    with contextlib.suppress(OSError):
        file = open(path, "rb")  # noqa: SIM115 - the caller closes it
        if _read_sealed(file) == _full_key(kind, key):
            return file
        file.close()
    return None


def _path(folder: Path, kind: str, key: str) -> Path:
    """Different keys may have the same checksum, so the file contains its key."""
    return folder / f"{kind}-{crc32(_full_key(kind, key).encode()):08x}"


def _full_key(kind: str, key: str) -> str:
    return json.dumps((kind, key)) + _versions()


@cache
def _versions() -> str:
    """Everything that decides the compiler's output in addition to the texts of rules.

    Size and time replace the content of this package's own files and of the compiled part of ONNX. Python itself compares size
    and time when it decides whether a compiled module is still valid.
    """
    package = Path(rewriter.__file__).parent
    parts = [sys.version, rewriter.__version__, resource("grammar/rules.lark").read_text(encoding="utf-8")]
    parts += [stamp for folder in (package, package / "core", package / "rule_tools") for stamp in _stamps(folder, ".py")]
    for top in (package / "core" / "language", package / "rule_tools" / "checks"):
        for folder in sorted(folder for folder, _, _ in os.walk(top)):
            parts += _stamps(Path(folder), ".py")
    spec = find_spec("onnx")
    if spec is not None and spec.origin is not None:
        onnx = Path(spec.origin).parent
        parts += sorted(name for name in os.listdir(onnx.parent) if name.startswith("onnx") and name.endswith(".dist-info"))
        parts += [stamp for stamp in _stamps(onnx, "") if "cpp2py" in stamp]
    return json.dumps(parts)


def _stamps(folder: Path, ending: str) -> list[str]:
    with os.scandir(folder) as listing:
        files = [(entry.name, entry.stat()) for entry in listing if entry.name.endswith(ending)]
    return sorted(f"{name} {found.st_size} {found.st_mtime_ns}" for name, found in files)


def _seal(data: bytes) -> bytes:
    """A checksum is enough, since no other user can write here. Importing a digest takes longer than reading an entry."""
    return len(data).to_bytes(8, "little") + crc32(data).to_bytes(4, "little")


def _read_sealed(file: BinaryIO) -> str | None:
    """The next part of a file; None if it is not whole."""
    seal = file.read(SEAL)
    size = int.from_bytes(seal[:8], "little")
    if size > os.fstat(file.fileno()).st_size:  # a damaged length may be any number
        return None
    data = file.read(size)
    return str(data, "ascii") if data.isascii() and _seal(data) == seal else None


def _skip_sealed(file: BinaryIO) -> None:
    """Goes behind the next part of a file."""
    file.seek(int.from_bytes(file.read(SEAL)[:8], "little"), os.SEEK_CUR)
