"""What is left to do in a folder of results, by its journal: what is missing, or also what changed since."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rewriter.batch.file_records import FileStamp, data_stamp, file_stamp, stat_of
from rewriter.batch.journal import Entry, Journal, stamps_in
from rewriter.batch.work import Job
from rewriter.errors import RewriterError
from rewriter.record import field, record, replace
from rewriter.source.find import find


@record(slots=True)
class Remaining:
    """What is left to do.

    Attributes:
        jobs: these, with the number of each among all.
        why: how many there are, by reason.
        done: numbers of the jobs that are done.
        removed: how many results were removed whose model is gone.
        kept: results whose model is gone, and which somebody else changed.
    """

    jobs: list[tuple[int, Job]] = field(default_factory=list)
    why: Counter[str] = field(default_factory=Counter)
    done: list[int] = field(default_factory=list)
    removed: int = 0
    kept: list[str] = field(default_factory=list)


class Folder:
    """A folder of results and what decides about them.

    Args:
        out: the folder.
        journal: that of the folder.
        keys: of the recipes of each variant of the work.
        limits: what a model may take now.
    """

    def __init__(self, out: Path, journal: Journal, keys: Sequence[str], limits: Mapping[str, float | None]) -> None:
        self.out = out
        self.journal = journal
        self.keys = keys
        self.limits = dict(limits)

    def place(self, job: Job) -> str:
        """What the journal knows a job by."""
        return os.path.relpath(job.target or "", self.out)

    def missing(self, jobs: Sequence[Job]) -> Remaining:
        """What an earlier run did not come to.

        Raises:
            RewriterError: it had other rules or options.
        """
        found = Remaining()
        for number, job in enumerate(jobs):
            entry = self.journal.entry(self.place(job))
            if entry is not None and self._stands(job, entry):
                if entry.get("key") != self.keys[job.variant]:
                    what = _differing(self.journal.recipes.get(str(entry.get("key"))), self.journal, self.keys[job.variant])
                    raise RewriterError(f"{self.out}: what is done was done with {what}; --update does it again")
                found.done.append(number)
            else:
                found.jobs.append((number, replace(job, replaces=entry is not None, adopts=entry is None)))
        found.why["missing"] = len(found.jobs)
        return found

    def changed(self, jobs: Sequence[Job]) -> Remaining:
        """What is missing, or would not become now what it was; results whose model is gone are removed."""
        found = Remaining()
        mine = set()
        for number, job in enumerate(jobs):
            place = self.place(job)
            mine.add(place)
            entry = self.journal.entry(place)
            if (reason := self._reason(job, entry)) is None:
                found.done.append(number)
                continue
            found.why[reason] += 1
            found.jobs.append((number, replace(job, replaces=entry is not None, adopts=entry is None)))
        self._remove(mine, found)
        return found

    def _reason(self, job: Job, entry: Entry | None) -> str | None:
        if entry is None:
            return "new"
        if entry.get("key") != self.keys[job.variant]:
            what = _differing(self.journal.recipes.get(str(entry.get("key"))), self.journal, self.keys[job.variant])
            return f"for {what}"
        if entry.get("error"):
            return "failed before"
        if not self._stands(job, entry) or not all(map(self._same_output(job), stamps_in(entry, "output", "output data"))):
            return "missing"
        if entry.get("limits", self.limits) != self.limits:
            return "for other limits"
        return None if self._same_input(job, entry) else "changed"

    def _stands(self, job: Job, entry: Entry) -> bool:
        """Whether the result that is noted is there, and not a mere copy since the model failed."""
        return not entry.get("error") and bool(entry.get("output")) and job.target is not None and os.path.isfile(job.target)

    def _same_output(self, job: Job) -> Callable[[FileStamp], bool]:
        target = job.target or ""
        return lambda stamp: _same(stamp, Path(target).parent, target)

    def _same_input(self, job: Job, entry: Entry) -> bool:
        folder = Path(job.path).parent
        inputs = list(stamps_in(entry, "input", "input data"))
        if not inputs or not all(_same(stamp, folder, job.path) for stamp in inputs):
            return False
        sources = list(stamps_in(entry, "source", "beside"))
        options = self.journal.recipes[str(entry["key"])].get("options", {})
        if options.get("source") == "auto":
            beside = find(job.path)
            if [stamp.path for stamp in sources] != ([] if beside is None else [str(beside)]):
                return False
            return all(_same(stamp, folder, stamp.path) for stamp in sources)
        return True

    def _remove(self, mine: set[str], found: Remaining) -> None:
        """Removes the results of models that are gone, as far as they are what was written."""
        gone = [place for place in self.journal.places() if place not in mine and self._lost(place)]
        still = self._data_of(set(self.journal.places()) - set(gone)) if gone else set()
        for place in gone:
            entry, target = self.journal.entry(place) or {}, self.out / place
            if os.path.lexists(target):
                stamps = list(stamps_in(entry, "output"))
                if not stamps or not _same(stamps[0], target.parent, str(target)):
                    found.kept.append(str(target))
                    continue
                _unlink(target, self.out)
            for stamp in stamps_in(entry, "output data"):
                from rewriter.onnxfile import external_data

                with contextlib.suppress(RewriterError):
                    path = external_data.resolve(target.parent, stamp.path)
                    if os.path.realpath(path) not in still and _same(stamp, target.parent, str(target)):
                        _unlink(path, self.out)
            self.journal.forget(place)
            found.removed += 1

    def _lost(self, place: str) -> bool:
        entry = self.journal.entry(place)
        path = None if entry is None else entry.get("input")
        return isinstance(path, str) and not os.path.lexists(path)

    def _data_of(self, places: set[str]) -> set[str]:
        """Files with weights that the results of these models read."""
        found = set()
        for place in places:
            for stamp in stamps_in(self.journal.entry(place) or {}, "output data"):
                found.add(os.path.realpath((self.out / place).parent / stamp.path))
        return found


def _differing(before: Mapping[str, object] | None, journal: Journal, key: str) -> str:
    """What differs between two recipes, in words."""
    now = journal.recipes.get(key) or {}
    words = {"versions": "another version", "rules": "other rules", "options": "other options", "command": "another command"}
    for name in words:
        if before is not None and before.get(name) != now.get(name):
            return words[name]
    return "other options"


def _same(stamp: FileStamp, folder: Path, path: str) -> bool:
    """Whether a file is what it was; where its times leave that open, its contents decide."""
    data = stamp.role.endswith("data")
    try:
        if data:
            from rewriter.onnxfile import external_data

            path = str(external_data.resolve(folder, stamp.path))
        found = os.stat(path)
    except (OSError, ValueError, RewriterError):
        return stamp.stat is None
    if stamp.stat is None or found.st_size != stamp.stat[0]:
        return False
    if stat_of(found) == stamp.stat:
        return True
    now = data_stamp(stamp.role, folder, stamp.path) if data else file_stamp(stamp.role, path)
    return now.sha256 is not None and now.sha256 == stamp.sha256


def _unlink(path: Path, out: Path) -> None:
    """Removes a file, and the folders that are empty without it."""
    with contextlib.suppress(OSError):
        os.unlink(path)
        for folder in _between(path, out):
            os.rmdir(folder)


def _between(path: Path, out: Path) -> Iterator[Path]:
    for folder in path.parents:
        if folder == out or out not in folder.parents:
            return
        yield folder
