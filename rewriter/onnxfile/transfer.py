"""Bytes from one file to another, by the system where it can, so that they need not pass through this process."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator

_AT_ONCE = 1 << 17  # bytes that are written in one call: with a megabyte or more, it takes up to five times as long
_MOST_AT_ONCE = 1 << 30  # what the system is asked for in one call


def transfer(source: int, offset: int, length: int, target: int) -> None:
    """Writes a part of a file to another, at its present position.

    Where the file system can share blocks between files, nothing is copied at all. Holes stay holes: a file may claim to be
    larger than any disk and take no room.

    Args:
        source, target: descriptors; the position of `source` does not matter and stays.
        offset, length: of the part.
    Raises:
        OSError: the system refuses, or the source ends before.
    """
    for start, count in data_parts(source, offset, length):
        if start > offset:
            _leave_hole(target, start - offset)
        _transfer(source, start, count, target)
        offset, length = start + count, length - (start + count - offset)
    if length:
        _leave_hole(target, length)


def data_parts(source: int, offset: int, length: int) -> Iterator[tuple[int, int]]:
    """Where there are data in a part of a file; what is not covered is a hole. Without holes, or where they cannot be asked
    for, that is the part as it is.
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
    """How many bytes one way could transfer; it is left at the first refusal, which the last way tells the reason of."""
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
