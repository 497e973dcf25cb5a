"""Writing files so that nobody ever sees half of one, nothing existing is lost by accident, and no link is followed."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from rewriter.errors import RewriterError, reason
from rewriter.onnxfile.temporary import LOCKS, collect, temporary_file
from rewriter.onnxfile.transfer import write_all

_later: set[Path] | None = None
"""Folders that are to be synced at the end; None: each at once."""


def check_target(path: Path, force: bool) -> os.stat_result | None:
    """What stands at `path` now, or None. RewriterError when it may not be replaced.

    A symbolic link is refused even with `force`: whether the link or what it points to is meant, only its owner knows.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise RewriterError(f"{path}: there is no folder {path.parent}") from None
        return None
    except (OSError, ValueError) as error:
        raise RewriterError(f"{path}: {reason(error)}") from error
    if stat.S_ISLNK(found.st_mode):
        raise RewriterError(f"{path} is a symbolic link and is not written through; name the file itself")
    if not stat.S_ISREG(found.st_mode):
        raise RewriterError(f"{path} exists and is not a regular file")
    if not force:
        raise RewriterError(f"{path} exists; it is overwritten only with force (--force)")
    return found


def write_file(path: Path, fill: Callable[[int], None], force: bool) -> None:
    """Creates `path` with what `fill` writes to the descriptor it is given, at once and completely, or not at all.

    The bytes go to a temporary file in the same folder, which then takes the name; on any failure it is removed, and what a
    process left that was killed is removed by the next one. A file that is replaced keeps its permissions. The bytes are on the
    disk before they have the name, and the name is, too, when this returns.
    Raises RewriterError when the target may not be replaced or the system refuses.
    """
    before = check_target(path, force)
    collect(path.parent)
    try:
        with temporary_file(path.parent) as (descriptor, temporary):
            fill(descriptor)
            os.fsync(descriptor)
            if not LOCKS:  # a system that renames no open file
                os.close(descriptor)
            if before is not None:
                os.chmod(temporary, stat.S_IMODE(before.st_mode))
                os.replace(temporary, path)
            else:
                _take_name(temporary, path, force)
        if _later is None:
            sync_folder(path.parent)
        else:
            _later.add(path.parent)
    except (OSError, ValueError) as error:
        raise RewriterError(f"{path}: {reason(error)}") from error


def write_bytes(path: Path, data: bytes, force: bool) -> None:
    """`write_file` for bytes."""
    write_file(path, lambda descriptor: write_all(descriptor, data), force)


def _take_name(temporary: Path, path: Path, force: bool) -> None:
    """Gives a file its name unless somebody else took it meanwhile; a link fails then, a rename would not."""
    if force:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise RewriterError(f"{path} exists; it is overwritten only with force (--force)") from None
    except OSError:  # a file system without hard links
        check_target(path, force=False)
        os.replace(temporary, path)


@contextlib.contextmanager
def folders_synced_later() -> Iterator[None]:
    """Folders are synced at the end, and not with each file: a batch finds out by itself which of its files have no name."""
    global _later
    _later = set()
    try:
        yield
    finally:
        folders, _later = _later, None
        for folder in folders:
            with contextlib.suppress(OSError):
                sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Has the names in a folder written to the disk, where the system can. Raises OSError when it fails to."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system that knows no such thing
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """A folder with those around it, unless it is there. Raises RewriterError."""
    if os.path.isdir(folder):
        return
    try:
        made = [folder, *(above for above in folder.parents if not above.exists())]
        folder.mkdir(parents=True, exist_ok=True)
        for one in made:
            sync_folder(one.parent)
    except OSError as error:
        raise RewriterError(f"{folder}: the folder cannot be made: {reason(error)}") from None
