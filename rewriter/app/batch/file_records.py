"""The files that a job read and wrote, with their hashes: for its report, and for the journal that later runs read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rewriter.app.batch.work import FileStamp, StampRole, Stat
from rewriter.app.report.document import FileRecord, FileRole
from rewriter.core.errors import RewriterError

if TYPE_CHECKING:
    from rewriter.core.graph.model import Model

_AT_ONCE = 1 << 20  # bytes

MOST_HASHED = 1 << 30
"""Bytes of data that are hashed: a file may be 64 GiB of zeros, and reading it takes longer than all other work."""

SETTLED = 2_000_000_000
"""Nanoseconds after a change in which a second change may not change the times of a file: clocks are coarse."""


def _settled(status: os.stat_result) -> Stat:
    """The state of a file that others write. If the file has just changed, a state that no later state equals."""
    import time

    size, changed, noted, number = stat_of(status)
    return size, changed, noted if time.time_ns() - noted > SETTLED else 0, number


def stat_of(status: os.stat_result) -> Stat:
    """The values by which two states of a file differ."""
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def stamps_of(
    role: Literal["input", "output"], path: str, model: Model, read: tuple[bytes, os.stat_result] | None = None
) -> Iterator[FileStamp]:
    """The stamps of a model's file and of the files next to it with its weights.

    Args:
        role: of the file.
        path: of the file.
        model: what is in it.
        read: the bytes of the input, if they are known and there are no files with weights.
    """
    yield read_stamp(path, *read) if role == "input" and read is not None else file_stamp(role, path)
    data_role: StampRole = "input data" if role == "input" else "output data"
    for location in () if read is not None else _locations(model):
        yield data_stamp(data_role, Path(path).parent, location)


def file_stamp(role: StampRole, path: str) -> FileStamp:
    """The stamp of a file as it is now."""
    try:
        with open(path, "rb") as file:
            return _stamp(role, path, file.fileno())
    except (OSError, ValueError):
        return FileStamp(role, path, None, None)


def data_stamp(role: StampRole, folder: Path, location: str) -> FileStamp:
    """The stamp of a file with weights next to a model."""
    from rewriter.core.onnxfile import external_data

    try:
        with external_data.opened(folder, location) as (descriptor, _):
            return _stamp(role, location, descriptor)
    except (RewriterError, OSError):
        return FileStamp(role, location, None, None)


def read_stamp(path: str, data: bytes, status: os.stat_result) -> FileStamp:
    """The stamp of a model whose bytes were just read."""
    return FileStamp("input", path, sha256(data).hexdigest(), _settled(status))


def copied_stamp(of: FileStamp, path: str) -> FileStamp:
    """The stamp of a copy that was just written."""
    return FileStamp("output", path, of.sha256, stat_of(os.stat(path)))


def file_records(stamps: Iterable[FileStamp]) -> Iterator[FileRecord]:
    """The files as a report names them."""
    for stamp in stamps:
        if stamp.role != "beside":
            role: FileRole = stamp.role
            yield FileRecord(role, stamp.path, stamp.sha256, None if stamp.stat is None else stamp.stat[0])


def _stamp(role: StampRole, path: str, descriptor: int) -> FileStamp:
    found = os.fstat(descriptor)
    stat, digest = stat_of(found) if role.startswith("output") else _settled(found), sha256()
    if role.endswith("data") and found.st_size > MOST_HASHED:
        return FileStamp(role, path, None, stat)
    while data := os.read(descriptor, _AT_ONCE):
        digest.update(data)
    return FileStamp(role, path, digest.hexdigest(), stat)


def _locations(model: Model) -> list[str]:
    """Files that a model refers to."""
    from rewriter.trust.proof.models.validity import Candidate

    try:
        return sorted({reference.location for reference in Candidate(model).references})
    except RewriterError:
        return []
