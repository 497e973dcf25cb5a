"""A folder of results and its journal: what earlier runs did, and what is left to do (`--resume`, `--update`).

`cli.batch` makes one for calls with `--out`, and notes in it the result of each model. `cli.sandbox` uses the path of the
journal. Next to it, the files of `--report`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from rewriter import __version__
from rewriter.app.batch.journal import (
    ENDING,
    Entry,
    Journal,
    data_stamp,
    entry_of,
    file_stamp,
    key_of,
    recipe,
    stamps_in,
    stat_of,
)
from rewriter.app.batch.outcome_records import Command, earlier_record, status
from rewriter.app.batch.work import FileStamp, Job, Outcome, Work, is_url
from rewriter.app.report.document import ModelRecord, Report
from rewriter.app.report.formats import ENDINGS, form_of, pieces_of
from rewriter.app.style import clean
from rewriter.core.errors import RewriterError, listed
from rewriter.core.onnxfile.files import NewFile, make_folder, write_file
from rewriter.core.record import replace
from rewriter.trust.source.find import find

Limits = Mapping[str, float | None]

_OTHER = {"versions": "another version", "rules": "other rules", "options": "other options", "command": "another command"}
"""How recipes differ, by their parts; the first difference is printed."""


class ResultFolder:
    """The results of a call, and the jobs that are left.

    Args:
        command: of the call.
        jobs: all of them.
        work: the work that they share.
        out: the folder.
        journal: its journal; None: next to the folder.
        mode: "all" jobs are left; "resume": jobs that no earlier run has done; "update": jobs whose result would change.
        limits: seconds and bytes for a model.

    Attributes:
        work: the same, with files noted for the journal.
        left: the jobs that are left, with the number of each among all.
        skipped: how many jobs earlier runs have done.
        messages: what to print of them.

    Raises:
        RewriterError: the journal cannot be used, or `--resume` would mix results of different rules.
    """

    def __init__(
        self,
        command: Command,
        jobs: Sequence[Job],
        work: Work,
        out: Path,
        journal: Path | None,
        mode: Literal["all", "resume", "update"],
        limits: Limits,
    ) -> None:
        self._command, self._jobs, self._out, self._limits = command, jobs, out, dict(limits)
        self.work = work.everywhere(lambda one: replace(one, notes=replace(one.notes, journal=True)))
        recipes = [recipe(command, one, _versions()) for one in self.work.variants or [self.work]]
        self._keys = [key_of(one) for one in recipes]
        path = journal or journal_of(out)
        for folder in (out, path.parent):
            make_folder(folder)
        self._journal = Journal(path)
        self._journal.start(dict(zip(self._keys, recipes, strict=True)))
        self.left: list[tuple[int, Job]] = []
        self.messages: list[str] = []
        self._done: list[int] = []
        if mode == "resume":
            self._find_missing()
        elif mode == "update":
            self._find_changed()
        else:
            self.left += enumerate(jobs)
        self.skipped = len(self._done)

    def close(self) -> None:
        """Closes the journal."""
        self._journal.close()

    def note(self, number: int, outcome: Outcome) -> None:
        """Notes the outcome of a job."""
        job = self._jobs[number]
        place = self._place(job)
        entry = entry_of(outcome, status(self._command, outcome), self._keys[job.variant], self._limits)
        earlier = self._journal.entry(place)
        if not entry["output"] and earlier is not None and earlier.get("output"):  # the older result is still there
            entry["output"] = True
            entry["files"] |= {role: files for role, files in earlier.get("files", {}).items() if role.startswith("output")}
        self._journal.note(place, entry)

    def earlier(self) -> Iterator[tuple[int, ModelRecord]]:
        """The records of models from earlier runs, with the number of each model."""
        for number in self._done:
            job = self._jobs[number]
            yield number, earlier_record(job, self._journal.entry(self._place(job)) or {})

    def _place(self, job: Job) -> str:
        """The name of a job in the journal."""
        return os.path.relpath(job.target or "", self._out)

    def _leave(self, number: int, job: Job, entry: Entry | None) -> None:
        is_ours = entry is not None and bool(entry.get("output"))
        self.left.append((number, replace(job, replaces=is_ours, adopts=not is_ours)))

    def _find_missing(self) -> None:
        """Finds the jobs that an earlier run did not reach. Raises RewriterError if it had other rules or options."""
        for number, job in enumerate(self._jobs):
            entry = self._journal.entry(self._place(job))
            if entry is None or not self._stands(job, entry):
                self._leave(number, job, entry)
                continue
            if what := self._other_recipe(job, entry):
                raise RewriterError(f"{self._out}: the finished results were made with {what}; --update makes them again")
            self._done.append(number)
        self.messages.append(f"resume: {len(self._done):,} of {len(self._jobs):,} are done, {len(self.left):,} left")

    def _find_changed(self) -> None:
        """Finds the jobs whose result is missing or would change. Removes the results of models that are gone."""
        reasons: Counter[str] = Counter()
        places = set()
        for number, job in enumerate(self._jobs):
            places.add(place := self._place(job))
            entry = self._journal.entry(place)
            if (reason := self._reason(job, entry)) is None:
                self._done.append(number)
            else:
                reasons[reason] += 1
                self._leave(number, job, entry)
        removed, kept = self._remove_results(places)
        counts = [f"{number:,} {why}" for why, number in sorted(reasons.items())]
        counts += [f"{removed:,} removed"] if removed else []
        self.messages.append(f"update: {', '.join([*counts, f'{len(self._done):,} as they were'])}")
        if kept:
            why = "the model is gone, but somebody changed the result, so it stays"
            self.messages.append(f"update: {clean(listed(kept, 1))}: {why}")

    def _reason(self, job: Job, entry: Entry | None) -> str | None:
        if entry is None:
            return "new"
        if what := self._other_recipe(job, entry):
            return f"for {what}"
        if entry.get("error"):
            return "failed before"
        if not self._stands(job, entry) or not all(map(self._same_output(job), stamps_in(entry, "output", "output data"))):
            return "missing"
        if entry.get("limits", self._limits) != self._limits:
            return "for other limits"
        return None if self._same_input(job, entry) else "changed"

    def _other_recipe(self, job: Job, entry: Entry) -> str:
        """How the recipe of an earlier result differs from today's, in words; "" if it is the same."""
        if (key := entry.get("key")) == self._keys[job.variant]:
            return ""
        before, now = self._journal.recipes.get(str(key)), self._journal.recipes.get(self._keys[job.variant], {})
        differing = (part for part in _OTHER if before is not None and before.get(part) != now.get(part))
        return _OTHER[next(differing, "options")]

    def _stands(self, job: Job, entry: Entry) -> bool:
        """Whether the noted result exists and is not a mere copy of a model that failed."""
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
        options = self._journal.recipes[str(entry["key"])].get("options", {})
        if options.get("source") == "auto":
            beside = find(job.path)
            if [stamp.path for stamp in sources] != ([] if beside is None else [str(beside)]):
                return False
            return all(_same(stamp, folder, stamp.path) for stamp in sources)
        return True

    def _remove_results(self, places: set[str]) -> tuple[int, list[str]]:
        """Removes the results of models that are gone, except edited ones. Returns how many, and the results that stay."""
        removed, kept = 0, []
        gone = [place for place in self._journal.places() if place not in places and self._lost(place)]
        still = self._data_of(set(self._journal.places()) - set(gone)) if gone else set()
        for place in gone:
            entry, target = self._journal.entry(place) or {}, self._out / place
            if os.path.lexists(target):
                stamps = list(stamps_in(entry, "output"))
                if not stamps or not _same(stamps[0], target.parent, str(target)):
                    kept.append(str(target))
                    continue
                _unlink(target, self._out)
            for stamp in stamps_in(entry, "output data"):
                from rewriter.core.onnxfile import external_data

                with contextlib.suppress(RewriterError):
                    path = external_data.resolve(target.parent, stamp.path)
                    if os.path.realpath(path) not in still and _same(stamp, target.parent, str(target)):
                        _unlink(path, self._out)
            self._journal.forget(place)
            removed += 1
        return removed, kept

    def _lost(self, place: str) -> bool:
        entry = self._journal.entry(place)
        path = None if entry is None else entry.get("input")
        return isinstance(path, str) and not os.path.lexists(path)

    def _data_of(self, places: set[str]) -> set[str]:
        """Files with weights that the results of these models read."""
        found = set()
        for place in places:
            for stamp in stamps_in(self._journal.entry(place) or {}, "output data"):
                found.add(os.path.realpath((self._out / place).parent / stamp.path))
        return found


def _same(stamp: FileStamp, folder: Path, path: str) -> bool:
    """Whether a file is unchanged. If its times do not decide, its contents do."""
    data = stamp.role.endswith("data")
    try:
        if data:
            from rewriter.core.onnxfile import external_data

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
    """Removes a file, and the folders that become empty."""
    with contextlib.suppress(OSError):
        os.unlink(path)
        for folder in _between(path, out):
            os.rmdir(folder)


def _between(path: Path, out: Path) -> Iterator[Path]:
    for folder in path.parents:
        if folder == out or out not in folder.parents:
            return
        yield folder


def journal_of(out: Path) -> Path:
    """The journal of a folder, which is next to it."""
    whole = Path(os.path.abspath(out))
    return whole.with_name(whole.name + ENDING) if whole.name else whole / ENDING


def _versions() -> dict[str, str]:
    """The versions of the programs that decide the bytes of results; none of them is imported."""
    found = {"rewriter": __version__}
    for name in ("onnx", "onnxruntime"):
        if (spec := find_spec(name)) is not None and spec.origin is not None:
            installed = os.listdir(Path(spec.origin).parent.parent)
            matches = (re.fullmatch(rf"({name}(?:_\w+)?)-(.+)\.dist-info", one) for one in installed)
            found |= {one[1]: one[2] for one in matches if one}
    return found


# The files of `--report`: checked before any work is done, and written at once at the end of a call.

SCENES = 3
"""Firings of each rule in each model that an HTML report shows as pictures."""

MANY = 40
"""With this many models, there is one picture for each rule and model. With ten times as many, there is none."""


def check_reports(paths: Sequence[str], used: Iterable[str], staging: str | None = None) -> None:
    """Checks, before any work, that each report can be written and overwrites no file that the call uses.

    Raises:
        RewriterError: an ending names no format, a file is named twice, is read or written by this call, or cannot be written.
    """
    taken: dict[str, str] = {os.path.realpath(path): path for path in used}
    for path in paths:
        if form_of(path) is None:
            names = list(ENDINGS)
            raise RewriterError(f"--report {path}: unsupported format; use {', '.join(names[:-1])} or {names[-1]}")
        if (real := os.path.realpath(path)) in taken:
            raise RewriterError(f"--report {path} would overwrite {taken[real]}, which this command also reads or writes")
        taken[real] = path
        if staging is None and Path(path).parent.exists():  # `--out` makes its folder when the first model is written
            with NewFile(Path(path), force=True) as trial:
                trial.fill(b"")


def snapshots(paths: Sequence[str], models: int) -> int:
    """How many firings of each rule in each model are pictured. Only HTML reports have pictures."""
    if not any(form_of(path) == "html" for path in paths) or models >= 10 * MANY:
        return 0
    return SCENES if models < MANY else 1


def write_reports(report: Report, paths: Sequence[str], staging: str | None = None) -> None:
    """Writes each report in one step. In a staging folder, a report is named by its number, and moved to its place later.

    Raises:
        RewriterError: a report cannot be written; the reports before it are written.
    """
    sources = {os.path.realpath(model.source) for model in report.models if model.source is not None}
    for number, path in enumerate(paths):
        if os.path.realpath(path) in sources:  # found next to a model, and therefore not known before
            raise RewriterError(f"--report {path} would overwrite the framework's own file; choose another name")
        if is_url(path):
            from rewriter.app.batch.remote import put_bytes

            put_bytes(path, "".join(pieces_of(report, form_of(path) or "")).encode("utf-8", "backslashreplace"))
            continue
        place = Path(path) if staging is None else report_in(staging, number)
        make_folder(place.parent)
        write_file(place, partial(_fill, report, form_of(path) or ""), force=True)


def _fill(report: Report, form: str, descriptor: int) -> None:
    with open(descriptor, "wb", buffering=1 << 16, closefd=False) as file:
        for piece in pieces_of(report, form):
            file.write(piece.encode("utf-8", "backslashreplace"))


def result_in(staging: str | Path) -> Path:
    """The path at which a command in the sandbox leaves the result of `-o`, in a folder from which it is moved afterwards."""
    return Path(staging, "model.onnx")


def report_in(staging: str | Path, number: int) -> Path:
    """The path at which a command in the sandbox leaves a report."""
    return Path(staging, f"report-{number}")
