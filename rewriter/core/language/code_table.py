"""The table of a rule: its columns and rows, and their errors.

The grammar reads the cells one by one. The lines decide which cells are a row: a row begins on a line of its own, with its
code, and may go on below. So a missing cell is reported for its row.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from rewriter.core.language.ast import NOWHERE, Cell, Row, Rule, Span, Table
from rewriter.core.language.diagnostics import Diagnostic, suggest
from rewriter.core.record import field, record

# A row of a table becomes the text of a rule.
#
# `@name` is replaced by the row's cell in that column: as it is in the rule, and without its quotes in doc comments, strings
# and test texts. The result is a rule without a table, which is parsed like any other. So every rule of a table can also be
# written without one, and only the parser knows tables. Places are mapped back to where the text was written.

_TEXTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|///[^\n]*|#[^\n]*|~~~[\s\S]*?~~~|@[A-Za-z_][A-Za-z0-9_]*')
_COLUMN_USE = re.compile(r"@([A-Za-z_][A-Za-z0-9_]*)")
_ESCAPE = re.compile(r"\\(.)")
_HEAD = re.compile(r"^[ \t]*rule\s+([A-Z]+[0-9]+)\s+([a-z0-9-]+)", re.MULTILINE)
_TEST_CODE = re.compile(r"^test\s+([A-Z]+[0-9]+\s+)\"", re.MULTILINE)
_EMPTY_KEY = re.compile(r",\s*\w+:\s*_(?=\s*[,>])")
_BLANK_LINES = re.compile(r"\n([ \t]*\n){2,}")
_COMMENT_ABOVE = re.compile(r"(?:(?<=\n)[ \t]*#[^\n]*\n)+\Z")
LONGEST_COMMENT = 2000


@record(frozen=True)
class Mention:
    """`@name` in the text of a rule. It is `quoted` if it is within a text; the cell then replaces it without quotes."""

    name: str
    span: Span
    quoted: str = ""


@record
class FilledText:
    """The text of a row's rule, and where each piece of it was written: (offset here, offset there, whether it is verbatim)."""

    pieces: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    origins: list[tuple[Span, bool]] = field(default_factory=list)
    length: int = 0

    def add(self, text: str, origin: Span, *, verbatim: bool = False) -> None:
        if text:
            self.pieces.append(text)
            self.starts.append(self.length)
            self.origins.append((origin, verbatim))
            self.length += len(text)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def place(self, span: Span) -> Span:
        """The place in the file of a span of this text. Text from a cell has the place of its mention."""
        if not span.end or not self.starts:
            return NOWHERE
        first, last = self._piece(span.start), self._piece(max(span.start, span.end - 1))
        (begins, exact), (ends, exact_end) = self.origins[first], self.origins[last]
        start = begins.start + (span.start - self.starts[first] if exact else 0)
        return Span(start, max(start, ends.start + span.end - self.starts[last] if exact_end else ends.end))

    def _piece(self, offset: int) -> int:
        return max(0, bisect_right(self.starts, offset) - 1)


def mentions(text: str, start: int, end: int) -> list[Mention]:
    """Every `@name` of a text, in its order, except in comments."""
    found = []
    for match in _TEXTS.finditer(text, start, end):
        mark = match[0][0]
        if mark == "@":
            found.append(Mention(match[0][1:], Span(match.start(), match.end())))
        elif mark != "#":
            inner = _COLUMN_USE.finditer(text, match.start(), match.end())
            found += [Mention(one[1], Span(one.start(), one.end()), mark) for one in inner]
    return found


def fill(
    text: str, whole: Span, marks: Sequence[Mention], cells: Mapping[str, str], changes: Sequence[tuple[Span, str]]
) -> FilledText:
    """The text of one row.

    Args:
        text: the text of the file.
        whole: the span of the rule.
        marks: the mentions of columns in it.
        cells: column to cell.
        changes: other replacements: the table, tests of other rows, the code.
    """
    edits = [*changes, *((mark.span, _written(cells[mark.name], mark.quoted)) for mark in marks if mark.name in cells)]
    filled = FilledText()
    at = whole.start
    for span, new in sorted(edits, key=lambda edit: edit[0].start):
        if span.start < at:  # within a part that was left out
            continue
        filled.add(text[at : span.start], Span(at, span.start), verbatim=True)
        filled.add(new, span)
        at = span.end
    filled.add(text[at : whole.end], Span(at, whole.end), verbatim=True)
    return filled


def filled_words(text: str, row: Row) -> str:
    """A piece of a rule with the cells of a row."""
    return fill(text, Span(0, len(text)), mentions(text, 0, len(text)), dict(row.cells), ()).text


def row_text(text: str, rule: Rule, row: Row) -> str:
    """The rule of a row as it would be written without a table. `text` is the text of its file."""
    whole = rule.span
    head = _HEAD.search(text, whole.start, whole.end)
    assert head is not None
    changes = [(_with_comment(text, span), "") for span in row.others_span]
    changes += [(Span(*head.span(1)), rule.code), (Span(*head.span(2)), rule.slug)]
    changes += [(Span(*code.span(1)), "") for code in _TEST_CODE.finditer(text, whole.start, whole.end)]
    changes.append((Span(whole.start, whole.start), row.doc))
    filled = fill(text, whole, mentions(text, whole.start, whole.end), dict(row.cells), changes).text
    return _BLANK_LINES.sub("\n\n", _EMPTY_KEY.sub("", filled))


def _with_comment(text: str, span: Span) -> Span:
    """A test of another row with the comment above it."""
    comment = _COMMENT_ABOVE.search(text, max(0, span.start - LONGEST_COMMENT), span.start)
    return span if comment is None else Span(comment.start(), span.end)


def unquoted(cell: str) -> str:
    """The text of a cell, without quotes."""
    return _ESCAPE.sub(r"\1", cell[1:-1]) if cell.startswith('"') else cell


def _written(cell: str, quoted: str) -> str:
    """A cell as it is written in the rule, in a string, or in a comment or test."""
    if quoted == '"':
        return cell[1:-1] if cell.startswith('"') else cell
    return unquoted(cell) if quoted else cell


CODE, SLUG, TITLE = "code", "slug", "title"
HEAD = (CODE, SLUG, TITLE)
"""Columns for the names of a row. The other columns fill in parts of the rule."""

_CODE = re.compile(r"[A-Z]+[0-9]+")
_COLUMN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SLUG = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


def as_table(text: str, cells: Sequence[Cell], span: Span) -> Table:
    """The cells of a table as its columns and rows. `span` covers the whole table, `text` is the text of the file."""
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
    """The errors of a table by itself. `code` is the code in the rule's head, `params` are the names of its parameters."""
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
            yield Diagnostic("E014", "in a table, a `///` comment documents the row below it", doc.span, "no row", (), helps)
            return


def _names(row: Sequence[Cell], names: Sequence[str]) -> Iterator[Diagnostic]:
    """The errors in the slug and the title of a row."""
    for name, cell in zip(names, row, strict=True):
        if name == SLUG and not _SLUG.fullmatch(cell.text):
            helps = ("write small letters with hyphens: drop-dropout",)
            yield Diagnostic("E014", f"the slug `{cell.text}` is no name", cell.span, "not a name", (), helps)
        if name == TITLE and (not cell.text.startswith('"') or not cell.text.strip('" ')):
            yield Diagnostic("E014", "a title is a text in double quotes", cell.span, "not a title")


def unknown_column(name: str, names: Sequence[str], span: Span) -> Diagnostic:
    """The error for `@name` if the table has no such column, or if the rule has no table (no names)."""
    near = suggest(name, names)
    if not names:
        helps = ("only an operator that is a parameter is written so: param op: op",)
        message = f"`@{name}` is a column of a table, and the rule has none"
        return Diagnostic("E015", message, span, "no table", (), helps)
    notes = (f"its columns are {', '.join(f'`{name}`' for name in names)}",)
    message = f"the table has no column `{name}`"
    return Diagnostic("E015", message, span, "no such column", notes, (f"did you mean `@{near}`?",) if near else ())
