"""Writing files so that nobody ever sees half of one, nothing existing is lost by accident, and no link is followed."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from rewriter.errors import RewriterError, reason
from rewriter.onnxfile.transfer import write_all


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

    The bytes go to a temporary file in the same folder, which then takes the name; on any failure it is removed. A file that is
    replaced keeps its permissions, and the new one is on the disk before the old one is gone.
    Raises RewriterError when the target may not be replaced or the system refuses.
    """
    before = check_target(path, force)
    temporary = path.with_name(f".{path.name[:100]}.{os.urandom(6).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        try:  # around the opening, too: a signal may end this process as soon as the file is there
            descriptor = os.open(temporary, flags, 0o666)
            try:
                fill(descriptor)
                if before is not None:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if before is not None:
                os.chmod(temporary, stat.S_IMODE(before.st_mode))
                os.replace(temporary, path)
            else:
                _take_name(temporary, path, force)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
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
        return
    os.unlink(temporary)


def make_folder(folder: Path) -> None:
    """A folder with those around it, unless it is there. Raises RewriterError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RewriterError(f"{folder}: the folder cannot be made: {reason(error)}") from None
