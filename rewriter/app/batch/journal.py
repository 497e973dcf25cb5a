"""Results that survive a killed process: group commit puts them on the disk, and then the journal of a folder names them, so
that a later run can skip finished models. It names the files that a job read and wrote with their hashes, as reports do.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, get_args

from rewriter.app.batch.work import FileStamp, Job, Outcome, StampRole, Stat, Work
from rewriter.app.report.document import FileRecord, FileRole, Status
from rewriter.core.errors import RewriterError, reason
from rewriter.core.onnxfile.files import NewFile, make_folder, sync_folder, write_all, write_file
from rewriter.core.record import as_dict, names, replace

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
    from rewriter.trust.proof.validity import Candidate

    try:
        return sorted({reference.location for reference in Candidate(model).references})
    except RewriterError:
        return []


# Group commit: the results of several models are written under temporary names, synced together, and only then named.
#
# A sync waits for the disk, for thirty small files about as long as for one. A model is reported only after its result has its
# name and the folder is synced. So every result in a journal is on the disk, and the files of a killed process have no name.

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
        write_file(Path(job.target), data, force)
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


ENDING = ".journal.jsonl"
FORMAT = 1

_NO_MATTER = frozenset({"rules", "force", "before"})
"""Fields of the stages of `Work` that do not decide the bytes of results. Limits are noted with the models that reached them.
"""

MAX_LINE = 1 << 24
"""Bytes of a line. A longer line is read in pieces and skipped: no piece is a line of JSON."""

SPARE = 1000
"""Outdated lines up to which a journal is not written anew."""

Entry = dict[str, Any]


def recipe(command: str, work: Work, versions: Mapping[str, str]) -> dict[str, Any]:
    """Everything that decides the result of a model, except its files."""
    stages = (work.reading, work.rewriting, work.checking, work.writing)
    matter = ((one, name) for one in stages for name in names(type(one)) or () if name not in _NO_MATTER)
    options = {name: as_dict(getattr(one, name)) for one, name in matter}
    for name in ("source", "inputs"):
        if (path := options[name]) and os.path.isfile(path):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                options[f"{name} sha256"] = sha256(file.read()).hexdigest()
    parts = {"command": command, "versions": dict(versions), "rules": work.rewriting.rules.digest, "options": options}
    return dict(json.loads(_line(parts)))  # as it is read again


def key_of(parts: Mapping[str, Any]) -> str:
    """A short name for a recipe."""
    return sha256(_line(parts).encode()).hexdigest()[:16]


class Journal:
    """The journal of a folder.

    Of each model only the place of its line is kept in memory.

    Attributes:
        recipes: by their keys.

    Raises:
        RewriterError: the file of this name is no journal, or it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipes: dict[str, dict[str, Any]] = {}
        self._places: dict[str, int] = {}
        self._lines = 0
        self._descriptor = -1
        if os.path.lexists(self.path):
            self._read()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, place: object) -> bool:
        return place in self._places

    def places(self) -> list[str]:
        """The models in the journal, by the places of their results in the folder."""
        return list(self._places)

    def entry(self, place: str) -> Entry | None:
        """The entry of a model."""
        offset = self._places.get(place)
        if offset is None:
            return None
        with _named_errors(self.path):
            if self._descriptor < 0:
                self._open(os.O_RDONLY)
            data = b""
            while b"\n" not in data:
                part = os.pread(self._descriptor, 1 << 12, offset + len(data))
                if not part:
                    break
                data += part
        found: Entry = json.loads(data.partition(b"\n")[0])
        return found

    def start(self, recipes: Mapping[str, dict[str, Any]]) -> None:
        """Opens it for a run that uses these recipes. Raises RewriterError."""
        if self._lines > 2 * len(self) + SPARE and os.access(self.path.parent, os.W_OK):  # read-only in the sandbox
            self._compact()
        with _named_errors(self.path):
            self._open(os.O_RDWR | os.O_CREAT | os.O_APPEND)
            size = os.fstat(self._descriptor).st_size
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                os.write(self._descriptor, b"\n")  # a process ended in the midst of a line
        for key, one in recipes.items():
            if self.recipes.get(key) != one:
                self.recipes[key] = one
                self._append({"journal": FORMAT, "key": key, **one, "time": _now()})

    def note(self, place: str, entry: Entry) -> None:
        """Adds the result of a model. Raises RewriterError."""
        self._places[place] = self._append({"model": place, **entry, "time": _now()})

    def forget(self, place: str) -> None:
        """Removes a model whose files are gone. Raises RewriterError."""
        self._append({"model": place, "gone": True, "time": _now()})
        self._places.pop(place, None)

    def close(self) -> None:
        """Syncs the journal to the disk."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.fsync(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, line: Entry) -> int:
        """Writes a line and returns its offset. Lines of two processes that write at the same time do not mix."""
        data = _line(line).encode() + b"\n"
        with _named_errors(self.path):
            done = os.write(self._descriptor, data)
            end = os.lseek(self._descriptor, 0, os.SEEK_CUR)
            if done < len(data):  # the disk is full, or nearly so; the incomplete line is skipped
                os.write(self._descriptor, b"\n")
                raise RewriterError(f"{self.path}: no space left on device")
        self._lines += 1
        return end - len(data)

    def _read(self) -> None:
        with _named_errors(self.path):
            self._open(os.O_RDONLY)
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            raise RewriterError(f"{self.path}: not a regular file")
        offset = 0
        with open(self._descriptor, "rb", closefd=False) as file:
            while data := file.readline(MAX_LINE):
                self._take(data, offset)
                offset += len(data)
        if offset and not self.recipes:
            raise RewriterError(f"{self.path}: this is no journal of rewriter")

    def _take(self, data: bytes, offset: int) -> None:
        try:
            line = json.loads(data)
        except (ValueError, RecursionError):
            return
        if not isinstance(line, dict):
            return
        self._lines += 1
        if "journal" in line:
            if line["journal"] != FORMAT:
                raise RewriterError(f"{self.path}: written by another version of rewriter; remove it, or use --force")
            if isinstance(line.get("options", {}), dict):
                self.recipes[str(line.pop("key", ""))] = {k: v for k, v in line.items() if k not in ("journal", "time")}
        elif isinstance(place := line.get("model"), str) and not _leads_out(place):
            if line.get("gone") or not _is_entry(line):
                self._places.pop(place, None)
            else:
                self._places[place] = offset

    def _compact(self) -> None:
        def fill(descriptor: int) -> None:
            heads = ({"journal": FORMAT, "key": key, **one, "time": _now()} for key, one in self.recipes.items())
            for line in (*heads, *filter(None, map(self.entry, self._places))):
                write_all(descriptor, _line(line).encode() + b"\n")

        write_file(self.path, fill, force=True)
        self.close()
        self._places.clear()
        self._lines = 0
        self._read()

    def _open(self, flags: int) -> None:
        self.close()
        for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
            flags |= getattr(os, name, 0)
        self._descriptor = os.open(self.path, flags, 0o666)


def entry_of(outcome: Outcome, status: str, key: str, limits: Mapping[str, float | None]) -> Entry:
    """The entry of a model in a journal."""
    stamps: dict[str, list[Any]] = {}
    for one in outcome.stamps:
        stamps.setdefault(one.role, []).append([one.path, one.sha256, one.stat])
    found: Entry = {"key": key, "input": os.path.abspath(outcome.path), "verdict": status, "files": stamps}
    found["output"] = outcome.output is not None
    if outcome.unjudged:
        found["limits"] = dict(limits)
    log = outcome.log
    rest = {
        "error": outcome.error,
        "exporter": outcome.exporter,
        "refusal": outcome.refusal,
        "remaining": outcome.remaining,
        "unjudged": outcome.unjudged,
        "unfinished": outcome.unfinished,
        "counts": {} if log is None else dict(sorted(log.counts.items())),
        "rolled back": [] if log is None else [[one.rule, one.reason] for one in log.rolled_back],
        "numbers": "" if log is None or log.verification is None else log.verification.verdict,
    }
    found |= {name: value for name, value in rest.items() if value or name in ("refusal", "remaining")}
    found["seconds"] = round(outcome.seconds, 6)
    return found


def _is_entry(line: Entry) -> bool:
    """Whether each value of a line has its type. A damaged line is ignored, and its model is done again."""
    return all(name not in line or is_kind(line[name]) for name, is_kind in _KINDS.items()) and line.get("verdict") in _STATUSES


def _is_text(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_path(value: object) -> bool:
    try:
        return isinstance(value, str) and b"\0" not in os.fsencode(value)
    except ValueError:  # half a character
        return False


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _is_stamps(value: object) -> bool:
    """Files by role: path, digest and state."""
    return isinstance(value, dict) and all(
        isinstance(one, list) and len(one) == 3 and _is_path(one[0]) and _is_text(one[1]) and _is_stat(one[2])
        for stamps in value.values()
        for one in (stamps if isinstance(stamps, list) else [None])
    )


def _is_stat(value: object) -> bool:
    return value is None or (isinstance(value, list) and len(value) == 4 and all(type(one) is int for one in value))


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


_STATUSES = get_args(Status)
_KINDS: dict[str, Callable[[Any], bool]] = {
    "model": _is_path,
    "input": _is_path,
    **dict.fromkeys(("key", "error", "exporter", "refusal", "remaining", "numbers"), _is_text),
    "files": _is_stamps,
    "output": lambda value: isinstance(value, bool),
    "unfinished": lambda value: isinstance(value, bool),
    "unjudged": _is_texts,
    "limits": lambda value: isinstance(value, dict),
    "counts": lambda value: isinstance(value, dict) and all(type(one) is int for one in value.values()),
    "rolled back": lambda value: isinstance(value, list) and all(_is_texts(one) and len(one) == 2 for one in value),
    "seconds": _is_number,
}
"""The keys of a line about a model, each with a check of its value."""


def stamps_in(entry: Entry, *roles: str) -> Iterator[FileStamp]:
    """The files that an entry names in some roles."""
    files = entry.get("files")
    for role in roles:
        for path, digest, state in files.get(role, ()) if isinstance(files, dict) else ():
            yield FileStamp(role, path, digest, None if state is None else tuple(state))  # type: ignore[arg-type]


def _leads_out(place: str) -> bool:
    return os.path.isabs(place) or ".." in Path(place).parts


def _line(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True, default=str)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@contextlib.contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Adds the name of the file to errors of the system."""
    try:
        yield
    except OSError as error:
        raise RewriterError(f"{path}: {reason(error)}") from error
