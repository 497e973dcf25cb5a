"""Group commit: the results of several models are written under temporary names, synced together, and only then named.

A sync waits for the disk, for thirty small files about as long as for one. A model is reported only after its result has its
name and the folder is synced. So every result in a journal is on the disk, and the files of a killed process have no name.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType

from rewriter.app.batch.file_records import FileStamp, stat_of
from rewriter.app.batch.work import Job, Outcome, Work
from rewriter.core.errors import RewriterError, reason
from rewriter.core.onnxfile.write import NewFile, make_folder, sync_folder, write_bytes
from rewriter.core.record import replace

MOST = 32
"""Results that wait; each has an open descriptor."""

MOST_BYTES = 1 << 25
"""Bytes of all results that wait."""

SECONDS = 0.5
"""Seconds for which a result waits for others, unless the next model takes longer."""

Numbered = tuple[int, Outcome]
"""An outcome and the number of its job."""


class GroupCommit:
    """Results that have no name yet. Results without a name at the end are removed."""

    def __init__(self) -> None:
        self._files: dict[str, NewFile] = {}
        self._outcomes: list[Numbered] = []
        self._bytes = 0
        self._since = 0.0

    def write(self, target: str, data: bytes, *, force: bool) -> None:
        """Writes a result that is named later. It joins the group before it is on the disk. Raises RewriterError."""
        self.close_file(target)
        self._files[target] = file = NewFile(Path(target), force)
        try:
            file.fill(data)
        except RewriterError:
            self.close_file(target)
            raise
        self._bytes += len(data)

    def add(self, number: int, outcome: Outcome) -> list[Numbered]:
        """Adds the outcome of a model. Returns the outcomes that are now complete, with the numbers of their jobs."""
        if outcome.error or outcome.output not in self._files:
            self.close_file(outcome.output)
            return [(number, outcome)]
        self._since = self._since or time.monotonic()
        self._outcomes.append((number, outcome))
        full = len(self._files) >= MOST or self._bytes >= MOST_BYTES
        return self.commit() if full or time.monotonic() - self._since > SECONDS else []

    def commit(self) -> list[Numbered]:
        """Syncs and names all results that wait. Returns their outcomes, which are failures if that was not possible."""
        for file in self._files.values():
            file.begin_sync()
        for step in (NewFile.sync, NewFile.name):  # a name between two syncs would make the second one wait for the disk anew
            for _, outcome in self._outcomes:
                self._take(outcome, step)
        self.close()
        folders = {os.path.dirname(outcome.output) for _, outcome in self._outcomes if outcome.output is not None}
        failed = {folder: why for folder in folders if (why := _unsynced(folder))}
        for _, outcome in self._outcomes:
            if outcome.output is not None:
                _finish(outcome, failed.get(os.path.dirname(outcome.output), ""))
        found, self._outcomes = self._outcomes, []
        self._bytes, self._since = 0, 0.0
        return found

    def _take(self, outcome: Outcome, step: Callable[[NewFile], None]) -> None:
        if outcome.output is None:  # an earlier step failed
            return
        try:
            step(self._files[outcome.output])
        except RewriterError as error:
            _fail(outcome, str(error))

    def close(self) -> None:
        """Removes the results without a name. A signal handler may call it at any point."""
        for target in list(self._files):
            self.close_file(target)

    def close_file(self, target: str | None) -> None:
        """Removes one result, if it has no name."""
        if target is not None and (file := self._files.get(target)) is not None:
            file.close()
            self._files.pop(target, None)

    def __enter__(self) -> GroupCommit:
        _current.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        finally:
            _current.remove(self)


_current: list[GroupCommit | None] = []
"""The group of this process. The last entry is None while results get their names at once."""


@contextmanager
def named_at_once() -> Iterator[None]:
    """Names results at once, because they are read as soon as they are written."""
    _current.append(None)
    try:
        yield
    finally:
        _current.pop()


def write_result(job: Job, work: Work, outcome: Outcome, data: bytes) -> None:
    """Writes the bytes of a model that has no data in other files, and notes them if the work requires it.

    Raises:
        RewriterError: the target may not be replaced, or cannot be written.
    """
    assert job.target is not None
    make_folder(os.path.dirname(job.target) or ".")
    force = work.writing.replaces(job)
    group = _current[-1] if _current else None
    if group is not None:
        group.write(job.target, data, force=force)
    else:
        write_bytes(Path(job.target), data, force)
    outcome.output = job.target
    if work.notes.stamped:
        stat = None if group is not None else stat_of(os.stat(job.target))
        outcome.stamps.append(FileStamp("output", job.target, sha256(data).hexdigest(), stat))


def _finish(outcome: Outcome, error: str) -> None:
    """Notes the state of a result, which changed when it got its name."""
    with suppress(OSError):
        found = stat_of(os.stat(outcome.output or ""))
        outcome.stamps = [replace(one, stat=found) if one.role == "output" else one for one in outcome.stamps]
    if error:
        _fail(outcome, error)


def _fail(outcome: Outcome, error: str) -> None:
    outcome.error, outcome.output = error, None
    outcome.stamps = [one for one in outcome.stamps if one.role != "output"]


def _unsynced(folder: str) -> str:
    """Why a folder cannot be synced; "" if it was synced."""
    try:
        sync_folder(Path(folder))
    except OSError as error:
        return f"{folder}: {reason(error)}"
    return ""
