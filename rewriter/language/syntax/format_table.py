"""The layout of a table: cells below each other, a row on a line, or on more where all rows would be too long for one."""

from __future__ import annotations

from collections.abc import Container, Sequence

from rewriter.language.ast import Cell, Span, Table
from rewriter.language.syntax.code_table import begins_row
from rewriter.language.syntax.format_lines import WIDTH, Lines

INDENT, FURTHER = 2, 6
"""Columns before a row, and before what of it stands on further lines."""


def write_table(table: Table, lines: Lines) -> None:
    rows = [table.columns, *table.rows]
    widths = [max(len(row[at].text) for row in rows) for at in range(len(table.columns))]
    kept = {at for row in rows for at, cell in enumerate(row) if begins_row(cell)}
    breaks = _breaks(widths, kept)
    opened = table.columns[0].span.start
    lines.add("table {", table.span.start, table.span.start + len("table"), blank=None)
    lines.open()
    for row in rows:
        for number, (first, last) in enumerate(breaks):
            text = "  ".join(_padded(row, widths, first, last))
            span = Span(row[first].span.start, row[last - 1].span.end)
            lines.add(text, span.start, span.end, FURTHER if number else INDENT, blank=False if number else _gap(row, opened))
    lines.add("}", table.span.end - 1, table.span.end, blank=False, inner=INDENT)


def _gap(row: Sequence[Cell], opened: int) -> bool | None:
    """No blank line above the columns; above a row what the original has."""
    return False if row[0].span.start == opened else None


def _padded(row: Sequence[Cell], widths: Sequence[int], first: int, last: int) -> list[str]:
    """The cells of a line; the last one needs no blanks behind it."""
    return [row[at].text.ljust(widths[at] if at < last - 1 else 0) for at in range(first, last)]


def _breaks(widths: Sequence[int], kept: Container[int]) -> list[tuple[int, int]]:
    """Which columns stand on a line together; of those that are `kept` a cell would begin a row."""
    found, first, used = [], 0, INDENT
    for at, width in enumerate(widths):
        if at > first and used + width > WIDTH and at not in kept:
            found.append((first, at))
            first, used = at, FURTHER
        used += width + 2
    return [*found, (first, len(widths))]
