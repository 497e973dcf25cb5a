"""Reading and writing files, without the modules that know what is in them.

What is read is a regular file, and not too large. What is written is never half written, no existing file is lost by accident,
and the system copies large data.

Temporary files and folders of dead processes are collected. The process that makes one holds a lock on it, which ends with the
process, however that ends. A file or folder that has the suffix and is not locked has no owner. Process numbers would not show
that: they are reused, and mean nothing on another machine.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
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


try:
    import fcntl
except ImportError:  # no locks here, so no file is collected
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
        renamed: whether it was renamed, so that it need not be removed.
    """

    __slots__ = ("_folder", "descriptor", "place", "renamed")

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.fspath(folder)
        self.place = ""
        self.descriptor = -1
        self.renamed = False

    def open(self) -> None:
        """Makes the file. Raises OSError. Call `close` in any case, since a signal may end this process at any place."""
        while True:
            self.place = os.path.join(self._folder, f".{os.urandom(6).hex()}{ENDING}")
            self.descriptor = os.open(self.place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o666)
            if _taken(self.descriptor):
                return
            self.close()

    def close(self) -> None:
        """Closes the file, also if `open` was interrupted."""
        if self.place and not self.renamed:
            with contextlib.suppress(OSError):
                os.unlink(self.place)
        if self.descriptor >= 0:
            descriptor, self.descriptor = self.descriptor, -1
            with contextlib.suppress(OSError):
                os.close(descriptor)


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """An empty folder in the system's folder for them; removed with its contents at the end. Raises OSError."""
    import shutil
    import tempfile

    collect(Path(tempfile.gettempdir()))
    place, descriptor = Path(), -1
    try:
        while True:
            place = Path(tempfile.gettempdir(), f".{os.urandom(6).hex()}{ENDING}")
            os.mkdir(place, 0o700)
            with contextlib.suppress(FileNotFoundError):  # another process has just collected it
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
    """Removes files of dead processes from a folder; once in a process, except with `again`."""
    given = os.fspath(folder)
    if fcntl is None or (given in _searched and not again):
        return
    name = os.path.realpath(given)
    known = name in _searched
    _searched.update((name, given) if os.path.isabs(given) else (name,))  # resolving links takes long
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
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if its owner is alive
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
        return False  # another process is about to collect it
    except OSError:  # a file system without locks: no other process can collect it either
        return True
    return os.fstat(descriptor).st_nlink > 0


# Bytes from one file to another, copied by the system if it can, so that they need not pass through this process.

_AT_ONCE = 1 << 17  # bytes that are written in one call: with a megabyte or more, it takes up to five times as long
_MOST_AT_ONCE = 1 << 30  # bytes that the system copies in one call


def transfer(source: int, offset: int, length: int, target: int) -> None:
    """Writes a part of a file to another, at its present position.

    If the file system can share blocks between files, no bytes are copied. Holes stay holes: a file may claim to be larger than
    any disk and take no room.

    Args:
        source, target: descriptors; the position of `source` does not matter and stays.
        offset, length: of the part.
    Raises:
        OSError: the system fails, or the source is too short.
    """
    for start, count in data_parts(source, offset, length):
        if start > offset:
            _leave_hole(target, start - offset)
        _transfer(source, start, count, target)
        offset, length = start + count, length - (start + count - offset)
    if length:
        _leave_hole(target, length)


def data_parts(source: int, offset: int, length: int) -> Iterator[tuple[int, int]]:
    """The ranges with data in a part of a file; the rest are holes. Without holes, or if the system cannot find them, it is the
    whole part.
    """
    end = offset + length
    found = os.fstat(source)
    if not hasattr(os, "SEEK_DATA") or end > found.st_size or found.st_blocks * 512 >= found.st_size:
        yield offset, length
        return
    before = os.lseek(source, 0, os.SEEK_CUR)
    try:
        while offset < end:
            try:
                start = os.lseek(source, offset, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:  # there are no more data
                    yield offset, end - offset
                return
            if start >= end:
                return
            stop = min(os.lseek(source, start, os.SEEK_HOLE), end)
            yield start, stop - start
            offset = stop
    finally:
        os.lseek(source, before, os.SEEK_SET)


def _leave_hole(target: int, length: int) -> None:
    os.lseek(target, length, os.SEEK_CUR)
    if os.fstat(target).st_size < (end := os.lseek(target, 0, os.SEEK_CUR)):
        os.ftruncate(target, end)


def _transfer(source: int, offset: int, length: int, target: int) -> None:
    for way in (_copy_file_range, _sendfile, _read_and_write):
        done = _with(way, source, offset, length, target)
        offset, length = offset + done, length - done
        if not length:
            return
    raise OSError("the file became shorter while it was read")


def write_all(target: int, data: bytes | memoryview) -> None:
    """Writes bytes completely; the system may take them in parts."""
    view = memoryview(data)
    while view:
        view = view[os.write(target, view[:_AT_ONCE]) :]


def _with(way: Callable[[int, int, int, int], int], source: int, offset: int, length: int, target: int) -> int:
    """How many bytes one way could transfer. It stops at the first error; only the last way raises it."""
    done = 0
    while done < length:
        try:
            count = way(source, offset + done, length - done, target)
        except OSError:
            if way is _read_and_write:
                raise
            break
        if not count:
            break
        done += count
    return done


def _copy_file_range(source: int, offset: int, length: int, target: int) -> int:
    if not hasattr(os, "copy_file_range"):
        return 0
    return os.copy_file_range(source, target, min(length, _MOST_AT_ONCE), offset_src=offset)


def _sendfile(source: int, offset: int, length: int, target: int) -> int:
    if not hasattr(os, "sendfile"):
        return 0
    return os.sendfile(target, source, offset, min(length, _MOST_AT_ONCE))


def _read_and_write(source: int, offset: int, length: int, target: int) -> int:
    data = os.pread(source, min(length, _AT_ONCE), offset)
    write_all(target, data)
    return len(data)


def check_target(path: Path, force: bool) -> os.stat_result | None:
    """The status of the file at `path`, or None. RewriterError if the file may not be replaced.

    A symbolic link is rejected even with `force`: only its owner knows whether the link or its target is meant.
    """
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(path) or "."):
            create = f"create it first: mkdir -p {shlex.quote(str(path.parent))}"
            raise RewriterError(f"{path}: the folder {path.parent} does not exist; {create}") from None
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


def write_file(path: Path, content: bytes | Callable[[int], None], force: bool) -> None:
    """Creates `path` with bytes, or with those that a function writes to its descriptor, at once and completely, or not at all.

    The bytes go to a temporary file in the same folder, which then gets the name. On any failure it is removed. The next
    process removes the files of a killed one. A file that is replaced keeps its permissions. The bytes are on the disk before
    they have the name, and the name is also on the disk when this returns.
    Raises RewriterError if the target may not be replaced or the system fails.
    """
    with NewFile(path, force) as file:
        file.fill(content)
        file.sync()
        file.name()
    try:
        sync_folder(os.path.dirname(path) or ".")
    except OSError as error:
        raise RewriterError(f"{path}: {reason(error)}") from error


class NewFile:
    """A file that gets its name when it has all its bytes; without a name it is removed when it is closed.

    The caller can close it before anything of it is on the disk, since a signal may end this process at any place.

    Args:
        path: the name that it is to have.
        force: an existing file may be replaced.

    Attributes:
        place: the temporary name, in the same folder.
    """

    __slots__ = ("_before", "_file", "_force", "_path")

    def __init__(self, path: Path, force: bool) -> None:
        self._path = path
        self._force = force
        self._file = TemporaryFile(os.path.dirname(path) or ".")
        self._before: os.stat_result | None = None

    @property
    def place(self) -> str:
        return self._file.place

    def fill(self, content: bytes | Callable[[int], None]) -> None:
        """Writes the bytes, or has a function write them to a descriptor.

        Raises:
            RewriterError: the target may not be replaced, or the system fails.
        """
        self._before = check_target(self._path, self._force)
        collect(os.path.dirname(self._path) or ".")
        try:
            self._file.open()
            if isinstance(content, bytes):
                write_all(self._file.descriptor, content)
            else:
                content(self._file.descriptor)
        except (OSError, ValueError) as error:
            raise RewriterError(f"{self._path}: {reason(error)}") from error

    def close(self) -> None:
        """Removes the file if it has no name. It may be called again, also when a signal ended the first call."""
        self._file.close()

    def __enter__(self) -> NewFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def begin_sync(self) -> None:
        """Has the system begin to write the bytes to the disk, if it can: the bytes of several files then arrive together."""
        with contextlib.suppress(AttributeError, OSError):
            os.posix_fadvise(self._file.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def sync(self) -> None:
        """Waits until the bytes are on the disk. Raises RewriterError."""
        try:
            os.fsync(self._file.descriptor)
        except OSError as error:
            raise RewriterError(f"{self._path}: {reason(error)}") from error

    def name(self) -> None:
        """Gives the file its name, after its bytes are on the disk. Raises RewriterError."""
        try:
            if not LOCKS:  # a system that renames no open file
                os.close(self._file.descriptor)
            if self._before is not None:
                os.chmod(self.place, stat.S_IMODE(self._before.st_mode))
                self._rename()
            elif self._force:
                self._rename()
            else:
                self._take_name()
        except (OSError, ValueError) as error:
            raise RewriterError(f"{self._path}: {reason(error)}") from error

    def _rename(self) -> None:
        os.replace(self.place, self._path)
        self._file.renamed = True

    def _take_name(self) -> None:
        """Gives the file its name unless another process took it meanwhile; a link fails then, a rename would not."""
        try:
            os.link(self.place, self._path)
        except FileExistsError:
            raise RewriterError(f"{self._path} exists; --force overwrites it") from None
        except OSError:  # a file system without hard links
            check_target(self._path, force=False)
            self._rename()


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Has the names in a folder written to the disk, if the system can. Raises OSError if that fails."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system without this call
            raise
    finally:
        os.close(descriptor)


def make_folder(folder: str | os.PathLike[str]) -> None:
    """Makes a folder and its parents, unless it exists. Raises RewriterError."""
    if os.path.isdir(folder):
        return
    folder = Path(folder)
    try:
        new_folders = [folder, *(above for above in folder.parents if not above.exists())]
        folder.mkdir(parents=True, exist_ok=True)
        for one in new_folders:
            sync_folder(one.parent)
    except OSError as error:
        raise RewriterError(f"{folder}: the folder cannot be made: {reason(error)}") from None


@contextlib.contextmanager
def sole_run(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Keeps other processes from writing results into a folder, which is made for it. The lock ends with this process, however
    that ends. A folder that stays empty since the input is bad is removed again.

    Raises:
        RewriterError: another process has the lock, or the folder cannot be made.
    """
    is_new = not os.path.isdir(folder)
    make_folder(folder)
    descriptor = -1
    try:
        if LOCKS:
            descriptor = _locked(folder)
        yield
    except RewriterError:
        if is_new:
            with contextlib.suppress(OSError):
                os.rmdir(folder)  # fails if the folder is not empty
        raise
    finally:
        if descriptor >= 0:
            _unlock(descriptor)


def _unlock(descriptor: int) -> None:
    """Releases the lock also in child processes that were forked meanwhile and share the descriptor."""
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _locked(folder: str | os.PathLike[str]) -> int:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise RewriterError(f"{folder}: {reason(error)}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise RewriterError(
            f"{folder}: another run writes its results there; wait for its end, or name another folder"
        ) from None
    except OSError:  # a file system without locks
        pass
    return descriptor
