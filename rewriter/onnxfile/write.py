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
        raise RewriterError(f"{path} exists; --force overwrites it")
    return found


def write_file(path: Path, fill: Callable[[int], None], force: bool) -> None:
    """Creates `path` with what `fill` writes to the descriptor it is given, at once and completely, or not at all.

    The bytes go to a temporary file in the same folder, which then takes the name; on any failure it is removed, and what a
    process left that was killed is removed by the next one. A file that is replaced keeps its permissions. The bytes are on the
    disk before they have the name, and the name is, too, when this returns.
    Raises RewriterError when the target may not be replaced or the system refuses.
    """
    with new_file(path, fill, force) as file:
        file.sync()
        file.name()
    try:
        sync_folder(path.parent)
    except OSError as error:
        raise RewriterError(f"{path}: {reason(error)}") from error


class NewFile:
    """A file with all its bytes, which has only a temporary name yet.

    Args:
        path: the name that it is to have.
        place: the temporary one, in the same folder.
        descriptor: of the file.
        before: the file that it replaces; None for none.
        force: one that came meanwhile may be replaced.
    """

    def __init__(self, path: Path, place: Path, descriptor: int, before: os.stat_result | None, force: bool) -> None:
        self._path = path
        self.place = place
        self._descriptor = descriptor
        self._before = before
        self._force = force

    def begin_sync(self) -> None:
        """Has the system begin to write the bytes to the disk, where it can: those of several files then arrive together."""
        with contextlib.suppress(AttributeError, OSError):
            os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def sync(self) -> None:
        """Waits until the bytes are on the disk. Raises RewriterError."""
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            raise RewriterError(f"{self._path}: {reason(error)}") from error

    def name(self) -> None:
        """Gives the file its name, after its bytes are on the disk. Raises RewriterError."""
        try:
            if not LOCKS:  # a system that renames no open file
                os.close(self._descriptor)
            if self._before is not None:
                os.chmod(self.place, stat.S_IMODE(self._before.st_mode))
                os.replace(self.place, self._path)
            else:
                _take_name(self.place, self._path, self._force)
        except (OSError, ValueError) as error:
            raise RewriterError(f"{self._path}: {reason(error)}") from error


@contextlib.contextmanager
def new_file(path: Path, content: bytes | Callable[[int], None], force: bool) -> Iterator[NewFile]:
    """Writes a file that is to have a name later; without one it is removed at the end.

    Args:
        path: the name.
        content: its bytes, or what writes them to a descriptor.
        force: an existing file may be replaced.

    Raises:
        RewriterError: the target may not be replaced, or the system refuses.
    """
    before = check_target(path, force)
    collect(path.parent)
    with contextlib.ExitStack() as stack:
        try:
            descriptor, place = stack.enter_context(temporary_file(path.parent))
            if isinstance(content, bytes):
                write_all(descriptor, content)
            else:
                content(descriptor)
        except (OSError, ValueError) as error:
            raise RewriterError(f"{path}: {reason(error)}") from error
        yield NewFile(path, place, descriptor, before, force)


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
        raise RewriterError(f"{path} exists; --force overwrites it") from None
    except OSError:  # a file system without hard links
        check_target(path, force=False)
        os.replace(temporary, path)


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
