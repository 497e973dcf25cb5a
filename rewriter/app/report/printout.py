"""The output of a command in two forms: JSON for programs, lines of text for people.

Each other module of this folder makes the printouts of some commands. `cli.output` prints the form that `--format` names. The
Python functions that do the same as a command return both forms.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from rewriter.app.style import Style
from rewriter.core.record import record, replace

if TYPE_CHECKING:
    from rewriter.app.report.document import Report


@record(frozen=True, slots=True)
class Printout:
    """Both forms of the result of a command.

    Attributes:
        content: makes the JSON object, without the head that all commands share. Records in it become objects.
        lines: makes the lines, in a style.
        hang: columns by which the rest of a folded line is indented.
        table: makes further lines, which stay whole however narrow the terminal is.
    """

    content: Callable[[], Mapping[str, Any]]
    lines: Callable[[Style], Iterable[str]]
    hang: int = 4
    table: Callable[[Style], Iterable[str]] = lambda style: ()

    def data(self) -> dict[str, Any]:
        """The JSON object."""
        found: dict[str, Any] = plain(self.content())
        return found


# The JSON text: of the record of a call, field by field, and of the output of other commands.


@record(frozen=True, slots=True)
class Listed:
    """A list whose items are made as they are written."""

    items: Iterable[Any]


def report_pieces(report: Report) -> Iterator[str]:
    """The record of a call; its format is `docs/schema/report.json`."""
    whole = plain(replace(report, models=()))
    return pieces({**whole, "models": Listed(map(plain, report.models))})


def pieces(value: Any, level: int = 0) -> Iterator[str]:
    """The text of `dumps`, piece by piece, for values with lists that are too long to be made at once."""
    margin = "\n" + " " * (level + 1)
    if isinstance(value, Listed):
        between = "[" + margin
        for item in value.items:
            yield between
            yield from pieces(item, level + 1)
            between = "," + margin
        yield "[]" if between[0] == "[" else margin[:-1] + "]"
    elif isinstance(value, Mapping) and any(isinstance(item, Listed | Mapping | list) for item in value.values()):
        between = "{" + margin
        for key, item in value.items():
            yield f"{between}{json.dumps(str(key))}: "
            yield from pieces(item, level + 1)
            between = "," + margin
        yield margin[:-1] + "}"
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        yield from pieces(Listed(value), level)
    else:
        yield dumps(value).replace("\n", margin[:-1])


def plain(value: Any) -> Any:
    """A record as dictionaries, lists, texts and numbers. Infinity and NaN, which JSON lacks, are null."""
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value) if f.metadata.get("shown", True)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def dumps(value: object) -> str:
    """JSON in ASCII, so that no name can break a terminal or an encoding."""
    return json.dumps(value, indent=1, ensure_ascii=True)
