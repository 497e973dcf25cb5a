"""The formats of reports, by the ending of a file. Each is a function from the record of a call to pieces of a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from rewriter.app.report.document import Report

ENDINGS: Mapping[str, str] = {
    ".html": "html",
    ".md": "markdown",
    ".json": "json",
    ".sarif": "sarif",
    ".csv": "csv",
    ".junit.xml": "junit",
    ".xml": "junit",
}
_HOMES: Mapping[str, str] = {
    "json": "rewriter.app.report.printout",
    "sarif": "rewriter.app.report.formats.sarif",
    "csv": "rewriter.app.report.formats.csv_table",
    "markdown": "rewriter.app.report.formats.markdown",
    "junit": "rewriter.app.report.formats.junit",
    "html": "rewriter.app.report.report_page",
    "github": "rewriter.app.report.formats.github",
}


def form_of(path: str) -> str | None:
    """The format of the ending of a file name; None if no format has this ending."""
    lower = path.lower()
    return next((form for ending, form in ENDINGS.items() if lower.endswith(ending)), None)


def pieces_of(report: Report, form: str) -> Iterator[str]:
    """The record of a call in one of the formats, piece by piece, ending with a line feed."""
    last = "\n"
    for piece in import_module(_HOMES[form]).report_pieces(report):
        yield piece
        last = piece or last
    if not last.endswith("\n"):
        yield "\n"


def text_of(report: Report, form: str) -> str:
    """The same in one piece."""
    return "".join(pieces_of(report, form))
