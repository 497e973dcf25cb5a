"""The files of `--report`: checked before any work is done, and written at once at the end of a call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from rewriter.app.batch.urls import is_url
from rewriter.app.report.document import Report
from rewriter.app.report.formats import ENDINGS, form_of, pieces_of
from rewriter.core.errors import RewriterError
from rewriter.core.onnxfile.write import check_target, make_folder, write_file

SCENES = 3
"""Firings of each rule in each model that an HTML report shows as pictures."""

MANY = 40
"""With this many models, there is one picture for each rule and model. With ten times as many, there is none."""


def check_reports(paths: Sequence[str], used: Iterable[str]) -> None:
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
            raise RewriterError(f"--report {path} would overwrite {taken[real]}, which this call uses itself")
        taken[real] = path
        if Path(path).parent.exists():  # `--out` makes its folder when the first model is written
            check_target(Path(path), force=True)


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
            raise RewriterError(f"--report {path} would overwrite the framework's own file; nothing was written to it")
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
