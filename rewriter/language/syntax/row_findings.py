"""What is said of the rules of a table, told once: the rows share their text, and mostly what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rewriter.language import ast
from rewriter.language.diagnostics import Diagnostic
from rewriter.language.syntax.fill_row import Mention
from rewriter.record import replace

_UNUSED = "W201"


def merged(found: Iterable[tuple[ast.Row, Diagnostic]], rows: int, marks: Sequence[Mention]) -> list[Diagnostic]:
    """The findings of all rows of a table: the same one once, and one that not all rows have with a note of which.

    A name that some rows use is not said to be unused: a column may hold the condition that asks for it.

    Args:
        found: with the row of each.
        rows: how many the table has.
        marks: the mentions of columns in the rule.
    """
    groups: dict[tuple[str, str, ast.Span], list[tuple[ast.Row, Diagnostic]]] = {}
    for row, one in found:
        groups.setdefault((one.code, one.message, one.span), []).append((row, one))
    return [_told(group, rows, marks) for group in groups.values() if group[0][1].code != _UNUSED or len(group) >= rows]


def _told(group: list[tuple[ast.Row, Diagnostic]], rows: int, marks: Sequence[Mention]) -> Diagnostic:
    row, one = group[0]
    codes = list(dict.fromkeys(row.cells[0][1] for row, _ in group))
    if len(codes) == rows > 1:
        return one
    filled = dict(row.cells)
    here = [mark.name for mark in marks if mark.span.start < one.span.end and one.span.start < mark.span.end]
    values = [f"`@{name}` is {filled[name]}" for name in dict.fromkeys(here) if name in filled]
    which = f"in row {codes[0]}" if len(codes) == 1 else f"in rows {', '.join(codes)}"
    note = f"{which}, where {' and '.join(values)}" if values and len(codes) == 1 else which
    return replace(one, notes=(*one.notes, note))
