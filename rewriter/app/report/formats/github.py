"""Annotations of a GitHub workflow: one line for each rule and model, since a run shows only a few of each sort.

A workflow reads a line that begins with `::` as a command. The text in a command cannot begin another one, because line ends,
percent signs and, in properties, colons and commas are escaped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rewriter.app.report.document import (
    ModelRecord,
    Report,
    by_rule,
    place_text,
    place_texts,
    repair_text,
    rolled_place,
    severity,
)
from rewriter.app.style import clean
from rewriter.core.errors import counted, listed
from rewriter.core.log import Blocked, Firing, RolledBack

PLACES = 8  # named in one annotation
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def report_pieces(report: Report) -> Iterator[str]:
    """All annotations, one a line."""
    return (f"{line}\n" for model in report.models for line in _lines(report, model))


def _lines(report: Report, model: ModelRecord) -> Iterator[str]:
    if model.error:
        yield annotation("error", model.path, "cannot be worked on", model.error)
        return
    for code, firings in by_rule(model.firings).items():
        title = f"{code} {firings[0].title}"
        if report.command != "check":
            repaired = f"{counted(len(firings), 'rewrite')}: {_places(firings)}"
            yield annotation("notice", model.path, title, f"{repaired}; written to {clean(model.output or 'nowhere')}")
        else:
            yield annotation(_COMMANDS[severity(report, code)], model.path, title, _places(firings))
    for rolled in model.rolled_back:
        title = f"{rolled.rule} rolled back"
        yield annotation("error", model.path, title, f"{rolled_place(rolled)}: {rolled.reason}")
    for blocked in model.blocked:
        word, title = ("error", "failed") if blocked.error else ("notice", "blocked by an unknown fact")
        help_text = f"; help: {blocked.remedy}" if blocked.remedy else ""
        text = f"{place_text(blocked)}: {blocked.reason}{help_text}"
        yield annotation(word, model.path, f"{blocked.rule} {title}", text)
    for stop in model.stops:
        yield annotation("error", model.path, "stopped", stop.message)
    if model.refused:
        yield annotation("error", model.path, "rejected by ONNX Runtime", f"{model.refused}; {repair_text(model)}")


def _places(entries: Sequence[Firing | Blocked | RolledBack]) -> str:
    return listed(place_texts(entries), PLACES)


def annotation(command: str, path: str, title: str, message: str) -> str:
    """One workflow command."""
    return f"::{command} file={_property(path)},title={_property(title)}::{_message(message)}"


def _message(text: str) -> str:
    return clean(text).replace("%", "%25")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
