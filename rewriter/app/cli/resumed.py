"""`--resume` and `--update`: what of a call an earlier one has done, by the journal beside the folder of results.

`batch` imports it for calls with `--out`, `sandboxed` for the place of the journal.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from rewriter import __version__
from rewriter.app.batch.journal import ENDING, Folder, Journal, Remaining, entry_of, key_of, recipe
from rewriter.app.batch.outcome_records import Command, earlier_record, status
from rewriter.app.batch.work import Job, Outcome, Work
from rewriter.app.cli.output import print_message
from rewriter.app.report.document import ModelRecord
from rewriter.core.onnxfile.write import make_folder
from rewriter.core.record import replace
from rewriter.workbench.style import clean


class Resumed:
    """The journal of a folder, and what of a call is left to do.

    Attributes:
        work: with which this has to be done.
        skipped: how many models an earlier run has done.

    Raises:
        RewriterError: the journal cannot be used, or `--resume` would mix results of different rules.
    """

    def __init__(self, command: Command, jobs: Sequence[Job], work: Work, args: argparse.Namespace) -> None:
        self._command = command
        self._jobs = jobs
        self._limits = {"seconds": work.seconds, "memory": None if args.memory_limit is None else work.memory}
        self.work = work.everywhere(lambda one: replace(one, notes=replace(one.notes, journal=True)))
        recipes = [recipe(command, one, _versions()) for one in work.variants or [work]]
        self._keys = [key_of(one) for one in recipes]
        out = Path(args.out)
        path = journal_of(out) if args.journal is None else Path(args.journal)
        for folder in (out, path.parent):
            make_folder(folder)
        self._journal = Journal(path)
        self._journal.start(dict(zip(self._keys, recipes, strict=True)))
        self._folder = Folder(out, self._journal, self._keys, self._limits)
        self._left = self._remaining(args)
        self.skipped = len(self._left.done)

    def _remaining(self, args: argparse.Namespace) -> Remaining:
        if args.resume:
            found = self._folder.missing(self._jobs)
            print_message(f"resume: {len(found.done):,} of {len(self._jobs):,} are done, {len(found.jobs):,} left")
            return found
        if not args.update:
            return Remaining(list(enumerate(self._jobs)))
        found = self._folder.changed(self._jobs)
        counts = [f"{number:,} {why}" for why, number in sorted(found.why.items())]
        counts += [f"{found.removed:,} removed"] if found.removed else []
        print_message(f"update: {', '.join([*counts, f'{len(found.done):,} as they were'])}")
        if found.kept:
            also = f" and {len(found.kept) - 1:,} more" if len(found.kept) > 1 else ""
            print_message(
                f"update: {clean(found.kept[0])}{also}: the model is gone, but somebody changed the result, so it stays"
            )
        return found

    def __enter__(self) -> Sequence[tuple[int, Job]]:
        return self._left.jobs

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._journal.close()

    def note(self, number: int, outcome: Outcome) -> None:
        """Notes what became of a job."""
        job = self._jobs[number]
        entry = entry_of(outcome, status(self._command, outcome), self._keys[job.variant], self._limits)
        self._journal.note(self._folder.place(job), entry)

    def earlier(self) -> Iterator[tuple[int, ModelRecord]]:
        """What earlier runs did, with the number of each model."""
        for number in self._left.done:
            job = self._jobs[number]
            yield number, earlier_record(job, self._journal.entry(self._folder.place(job)) or {})


def journal_of(out: Path) -> Path:
    """The journal of a folder stands beside it."""
    whole = Path(os.path.abspath(out))
    return whole.with_name(whole.name + ENDING) if whole.name else whole / ENDING


def _versions() -> dict[str, str]:
    """Of whatever decides the bytes of results; nothing is imported for it."""
    found = {"rewriter": __version__}
    for name in ("onnx", "onnxruntime"):
        if (spec := find_spec(name)) is not None and spec.origin is not None:
            installed = os.listdir(Path(spec.origin).parent.parent)
            matches = (re.fullmatch(rf"({name}(?:_\w+)?)-(.+)\.dist-info", one) for one in installed)
            found |= {one[1]: one[2] for one in matches if one}
    return found
