"""The table of a rule: its columns and rows, and what is wrong with them.

The grammar takes the cells one by one. Which of them are a row is told by the lines: a row begins on a line of its own, with
its code, and may go on below. So a cell that is missing is told of the row that misses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rewriter.language.ast import Cell, Span, Table
from rewriter.language.diagnostics import Diagnostic, suggest

CODE, SLUG, TITLE = "code", "slug", "title"
HEAD = (CODE, SLUG, TITLE)
"""Columns that say what a row is called; the others are for what the rule says."""

_CODE = re.compile(r"[A-Z]+[0-9]+")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def as_table(text: str, cells: Sequence[Cell], span: Span) -> Table:
    """The cells of a table as its columns and rows; `span` is all of the table, and `text` that of the file."""
    lines: list[list[Cell]] = []
    for cell in cells:
        if lines and "\n" not in text[lines[-1][-1].span.end : cell.span.start]:
            lines[-1].append(cell)
        else:
            lines.append([cell])
    columns = lines.pop(0) if lines else []
    while len(lines) > 1 and _names_only(lines[0]) and any(begins_row(line[0]) for line in lines):
        columns += lines.pop(0)
    rows: list[list[Cell]] = []
    for line in lines:
        if rows and len(rows[-1]) < len(columns) and not begins_row(line[0]):
            rows[-1] += line
        else:
            rows.append(line)
    return Table(tuple(columns), tuple(map(tuple, rows)), span)


def _names_only(line: Sequence[Cell]) -> bool:
    return not begins_row(line[0]) and all(_COLUMN.fullmatch(cell.text) for cell in line)


def begins_row(cell: Cell) -> bool:
    """Whether a line that begins with this cell is a new row."""
    return _CODE.fullmatch(cell.text) is not None


def row_docs(table: Table, row: Sequence[Cell]) -> list[Cell]:
    """The `///` lines above a row."""
    before = [line for line in (table.columns, *table.rows) if line and line[0].span.start < row[0].span.start]
    above = max((line[-1].span.end for line in before), default=0)
    return [doc for doc in table.docs if above <= doc.span.start < row[0].span.start]


def table_problems(table: Table, code: Cell, params: Sequence[str]) -> list[Diagnostic]:
    """What is wrong with a table by itself; `code` is that of the rule's head, `params` are the names of its parameters."""
    return [*_columns(table, params), *_rows(table, code), *_docs(table)]


def row_span(row: Sequence[Cell]) -> Span:
    return Span(row[0].span.start, row[-1].span.end)


def _columns(table: Table, params: Sequence[str]) -> Iterator[Diagnostic]:
    names = [column.text for column in table.columns]
    first = table.columns[0] if table.columns else Cell("", Span(table.span.start, table.span.start + len("table")))
    if first.text != CODE:
        helps = ("the first line names the columns: code from to title",)
        yield Diagnostic("E014", "the first column of a table is `code`", first.span, "not `code`", (), helps)
    for at, column in enumerate(table.columns):
        why = "" if _COLUMN.fullmatch(column.text) else "is no name"
        if column.text in params:
            why = "is a parameter of the rule"
        if why:
            yield Diagnostic("E014", f"`{column.text}` {why} and cannot be a column", column.span, "not a column")
        elif column.text in names[:at]:
            yield Diagnostic("E014", f"two columns are called `{column.text}`", column.span, "again")


def _rows(table: Table, code: Cell) -> Iterator[Diagnostic]:
    names = [column.text for column in table.columns]
    if not table.rows:
        helps = ("write a row below the columns, beginning with its code",)
        yield Diagnostic("E014", "this table has no rows", Span(table.span.start, table.span.start + 5), "", (), helps)
    elif begins_row(table.rows[0][0]) and table.rows[0][0].text != code.text:
        helps = (f"write `rule {table.rows[0][0].text}`",)
        message = "a rule with a table has the code of its first row"
        yield Diagnostic("E014", message, code.span, f"the first row is {table.rows[0][0].text}", (), helps)
    for row in table.rows:
        called = row[0].text
        if not _CODE.fullmatch(called):
            helps = ("a code is capital letters and a number: MX001",)
            yield Diagnostic(
                "E014", f"this row does not begin with a code but with `{called}`", row[0].span, "no code", (), helps
            )
        elif len(row) < len(names):
            message = f"row {called} has {len(row)} cells, and the table {len(names)} columns"
            helps = ("write `_` where a row has nothing",)
            yield Diagnostic("E014", message, row_span(row), "too short", (), helps)
        elif len(row) > len(names):
            helps = ("a cell is one word, a text in quotes, a list in brackets or an expression in parentheses",)
            message = f"row {called} has {len(row)} cells, and the table {len(names)} columns"
            where = Span(row[len(names)].span.start, row[-1].span.end)
            yield Diagnostic("E014", message, where, "one too many", (), helps)
        else:
            yield from _names(row, names)


def _docs(table: Table) -> Iterator[Diagnostic]:
    """Doc comments that are of no row."""
    of_rows = {doc.span for row in table.rows for doc in row_docs(table, row)}
    for doc in table.docs:
        if doc.span not in of_rows:
            helps = ("write it above the row, before its code; begin other comments with `#`",)
            yield Diagnostic("E014", "in a table a `///` comment is that of the row below it", doc.span, "no row", (), helps)
            return


def _names(row: Sequence[Cell], names: Sequence[str]) -> Iterator[Diagnostic]:
    """What a row calls itself."""
    for name, cell in zip(names, row, strict=True):
        if name == SLUG and not _SLUG.fullmatch(cell.text):
            helps = ("write small letters with hyphens: drop-dropout",)
            yield Diagnostic("E014", f"the slug `{cell.text}` is no name", cell.span, "not a name", (), helps)
        if name == TITLE and (not cell.text.startswith('"') or not cell.text.strip('" ')):
            yield Diagnostic("E014", "a title is a text in double quotes", cell.span, "not a title")


def unknown_column(name: str, names: Sequence[str], span: Span) -> Diagnostic:
    """What is said of `@name` when the table has no such column, or the rule no table (no names)."""
    near = suggest(name, names)
    if not names:
        helps = ("only an operator that is a parameter is written so: param op: op",)
        message = f"`@{name}` is a column of a table, and the rule has none"
        return Diagnostic("E015", message, span, "no table", (), helps)
    notes = (f"its columns are {', '.join(f'`{name}`' for name in names)}",)
    message = f"the table has no column `{name}`"
    return Diagnostic("E015", message, span, "no such column", notes, (f"did you mean `@{near}`?",) if near else ())
