"""A report as a table (CSV): a row for each model with its status, followed by a row for each firing and for each blocked or
rolled back rewrite.

A spreadsheet reads a cell that begins with `=`, `+`, `-` or `@` as a formula, even if it is quoted. Such a text gets an
apostrophe before it.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping

from rewriter.app.report.document import ModelRecord, Report, columns_of, verdict_of
from rewriter.app.style import clean
from rewriter.core.log import Blocked, Change, Firing, Question, RolledBack, Suppressed

COLUMNS = (
    "model",
    "status",
    "entry",
    "number",
    "rule",
    "title",
    "kind",
    "place",
    "node",
    "op",
    "matched",
    "conditions",
    "before",
    "after",
    "weights",
    "parents",
    "verdict",
    "reason",
    "microseconds",
    "exporter",
    "folder",
    "rejected before",
    "rejected after",
    "output",
)
FORMULAS = "=+-@\uff1d\uff0b\uff0d\uff20"


def report_pieces(report: Report) -> Iterator[str]:
    """The table with its heading, fields quoted."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writeheader()
    for model in report.models:
        for row in _rows(model, columns_of(report)):
            cells = {"model": model.path, "status": model.status, **row}
            writer.writerow({name: cell(value) for name, value in cells.items()})
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()


def cell(text: str) -> str:
    """A text on one line that no spreadsheet reads as a formula."""
    shown = clean(text)
    return f"'{shown}" if shown.lstrip()[:1] and shown.lstrip()[0] in FORMULAS else shown


def _rows(model: ModelRecord, columns: Mapping[str, str]) -> Iterator[dict[str, str]]:
    yield {
        "entry": "model",
        "rule": " ".join(model.counts),
        "verdict": verdict_of(model, columns),
        "reason": model.error or model.refused or "; ".join(model.unjudged),
        "exporter": model.exporter or "",
        "folder": os.path.dirname(model.path) or ".",
        "rejected before": model.refusal or "",
        "rejected after": model.remaining or "",
        "output": model.output or "",
    }
    yield from _entries(model)


def _entries(model: ModelRecord) -> Iterator[dict[str, str]]:
    for firing in model.firings:
        yield {
            "entry": "firing",
            "number": str(firing.number),
            **_where(firing),
            "kind": firing.kind,
            "matched": ", ".join(firing.matched),
            "conditions": "; ".join(f"{c.text} [{c.found or c.value}]" for c in firing.conditions),
            **_texts(firing.changes),
            "weights": "; ".join(f"{weight.name} {weight.text} ({weight.used})" for weight in firing.weights),
            "parents": " ".join(map(str, firing.parents)),
            "verdict": firing.verdict,
            "microseconds": f"{firing.microseconds:.0f}",
        }
    for rolled in model.rolled_back:
        texts = _texts(rolled.changes)
        yield {"entry": "rolled back", **_where(rolled), "kind": rolled.kind, **texts, "reason": rolled.reason}
    for blocked in model.blocked:
        reason = blocked.reason + (f"; help: {blocked.remedy}" if blocked.remedy else "")
        yield {"entry": "failed" if blocked.error else "blocked", **_where(blocked), "reason": reason}
    for one in model.suppressed:
        yield {"entry": "suppressed", **_where(one), "reason": f"{one.reason} ({one.origin})"}
    for question in model.questions:
        yield {"entry": "question", **_where(question), "reason": f"{question.text} {question.remedy}"}
    for stop in model.stops:
        nodes = ", ".join(stop.nodes)
        yield {"entry": f"stopped: {stop.kind}", "rule": ", ".join(stop.rules), "node": nodes, "reason": stop.message}


def _where(at: Firing | Blocked | RolledBack | Suppressed | Question) -> dict[str, str]:
    return {"rule": at.rule, "title": at.title, "place": at.place, "node": at.root, "op": at.op}


def _texts(changes: tuple[Change, ...]) -> dict[str, str]:
    before = [change.before for change in changes if change.before is not None]
    after = [change.after for change in changes if change.after is not None]
    return {"before": "; ".join(before), "after": "; ".join(after)}
