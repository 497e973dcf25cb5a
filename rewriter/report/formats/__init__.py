"""The formats of reports, and which ending means which. Each is a function from the record of a call to a text."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from rewriter.report.document import Report

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
    "json": "rewriter.report.jsonreport",
    "sarif": "rewriter.report.formats.sarif",
    "csv": "rewriter.report.formats.csv_table",
    "markdown": "rewriter.report.formats.markdown",
    "junit": "rewriter.report.formats.junit",
    "html": "rewriter.report.html.report_page",
    "github": "rewriter.report.formats.github",
}


def form_of(path: str) -> str | None:
    """The format that the ending of a file name means; None for none."""
    lower = path.lower()
    return next((form for ending, form in ENDINGS.items() if lower.endswith(ending)), None)


def text_of(report: Report, form: str) -> str:
    """The record of a call in one of the formats, ending with a line feed."""
    text: str = import_module(_HOMES[form]).report_text(report)
    return text if text.endswith("\n") or not text else text + "\n"
