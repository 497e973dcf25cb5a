"""Makes one rule for each row of a table, and reports contradictions between the table and the rule."""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from rewriter.core.language import ast
from rewriter.core.language.ast import Cell, Span
from rewriter.core.language.code_table import (
    CODE,
    HEAD,
    SLUG,
    TITLE,
    FilledText,
    Mention,
    fill,
    mentions,
    row_docs,
    row_span,
    table_problems,
    unknown_column,
    unquoted,
)
from rewriter.core.language.diagnostics import Diagnostic, suggest
from rewriter.core.language.syntax.tree import RuleBuilder
from rewriter.core.language.syntax.words import MAX_ROWS, MAX_ROWS_LENGTH
from rewriter.core.record import replace

# Findings about the rules of a table, reported once: the rows share their text, and therefore most of its errors.

_UNUSED = "W201"


def merged(found: Iterable[tuple[ast.Row, Diagnostic]], rows: int, marks: Sequence[Mention]) -> list[Diagnostic]:
    """The findings of all rows of a table, each once. If only some rows have a finding, a note lists them.

    A name that some rows use is not reported as unused: a column may contain the condition that needs it.

    Args:
        found: the findings, each with its row.
        rows: the number of rows of the table.
        marks: the mentions of columns in the rule.
    """
    groups: dict[tuple[str, str, ast.Span], list[tuple[ast.Row, Diagnostic]]] = {}
    for row, one in found:
        groups.setdefault((one.code, one.message, one.span), []).append((row, one))
    return [
        _with_rows_named(group, rows, marks) for group in groups.values() if group[0][1].code != _UNUSED or len(group) >= rows
    ]


def _with_rows_named(group: list[tuple[ast.Row, Diagnostic]], rows: int, marks: Sequence[Mention]) -> Diagnostic:
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


ParseRow = Callable[[FilledText], tuple[ast.Rule | None, list[Diagnostic]]]


def not_a_table(text: str, whole: Span, builder: RuleBuilder, rule: ast.Rule) -> list[Diagnostic]:
    """The errors of a rule without a table that mentions columns, or has a test for a row."""
    found = [
        unknown_column(mark.name, (), mark.span)
        for mark in mentions(text, whole.start, whole.end)
        if not mark.quoted and mark.span.start not in builder.operators
    ]
    return found + [_no_such_row(code, [rule.code]) for code, _ in builder.test_codes if code.text != rule.code]


class TableRule:
    """One rule with a table.

    Args:
        text: the text of the file.
        whole: the span of the rule, with its doc comment.
        builder: the builder that read the rule.
        rule: the rule as it is written.
        table: the table of the rule.

    Attributes:
        same: the places of the conditions, values and tests that mention no column. They are read once for all rows.
    """

    def __init__(self, text: str, whole: Span, builder: RuleBuilder, rule: ast.Rule, table: ast.Table) -> None:
        self.text = text
        self.whole = whole
        self.builder = builder
        self.rule = rule
        self.table = table
        self.names = [column.text for column in table.columns]
        self.marks = mentions(text, whole.start, whole.end)
        self.mentioned = {mark.name for mark in self.marks}
        starts = [mark.span.start for mark in self.marks]
        parts: list[ast.Where | ast.Let | ast.Test] = [*rule.wheres, *rule.lets, *rule.tests]
        self.same = {part.span for part in parts if bisect(starts, part.span.start) == bisect(starts, part.span.end)}

    def rules(self, parse_row: ParseRow) -> tuple[list[ast.Rule], list[Diagnostic]]:
        """The rules of all rows, or the errors."""
        params = [param.name for param in self.rule.params]
        problems = table_problems(self.table, Cell(self.rule.code, self.rule.code_span), params)
        problems = problems or [*self._size(), *self._columns(params), *self._titles(), *self._tests()]
        if problems:
            return [], problems
        rules: list[ast.Rule] = []
        of_rows: list[tuple[ast.Row, Diagnostic]] = []
        for cells in self.table.rows:
            row = self._row(cells)
            rule, found = parse_row(self.filled(row, self.same))
            if found:
                rule, found = parse_row(self.filled(row))
            of_rows += [(row, problem) for problem in found]
            if rule is not None:
                rules.append(self._with_row(rule, row, cells))
        return ([] if of_rows else rules), merged(of_rows, len(self.table.rows), self.marks)

    def filled(self, row: ast.Row, without: Iterable[Span] = ()) -> FilledText:
        """The text of a row, without some parts of the rule."""
        cells = dict(row.cells)
        changes = [(span, "") for span in (*row.others_span, *without)]
        changes.append((self.rule.code_span, cells[CODE]))
        if SLUG in cells:
            changes.append((self.builder.slug_span, cells[SLUG]))
        changes.append((Span(self.whole.start, self.whole.start), row.doc))
        return fill(self.text, self.whole, self.marks, cells, changes)

    @property
    def _adds_title(self) -> bool:
        """Whether the titles stand in the table alone, and begin the doc comments of the rows."""
        return TITLE in self.names and TITLE not in self.mentioned

    def _row(self, cells: Sequence[Cell]) -> ast.Row:
        others = [span for code, span in self.builder.test_codes if code.text != cells[0].text]
        named = tuple(zip(self.names, (cell.text for cell in cells), strict=True))
        return ast.Row(named, row_span(cells), (self.table.span, *others), self._doc(cells, dict(named)))

    def _doc(self, cells: Sequence[Cell], filled: Mapping[str, str]) -> str:
        """The row's text that comes before the doc comment of the rule: its title, or a doc comment of its own."""
        if self._adds_title:
            return f"/// {unquoted(filled[TITLE])}\n"
        text = "".join(f"{doc.text}\n" for doc in row_docs(self.table, cells))
        between = "///\n" if text and self.rule.doc and self.rule.doc[0] else ""
        return fill(text, Span(0, len(text)), mentions(text, 0, len(text)), filled, ()).text + between

    def _with_row(self, rule: ast.Rule, row: ast.Row, cells: Sequence[Cell]) -> ast.Rule:
        """The rule of a row, with the parts that mention no column and are the same for all rows. Header keys from an empty
        cell are left out.
        """
        meta = tuple(item for item in rule.meta if getattr(item.value, "name", item.value) != "_")
        same = self.same.difference(row.others_span)

        def whole(own: tuple[Any, ...], shared: tuple[Any, ...]) -> tuple[Any, ...]:
            parts = {part.span: part for part in (*own, *(part for part in shared if part.span in same))}
            return tuple(sorted(parts.values(), key=lambda part: part.span.start))

        return replace(
            rule,
            meta=meta,
            wheres=whole(rule.wheres, self.rule.wheres),
            lets=whole(rule.lets, self.rule.lets),
            tests=whole(rule.tests, self.rule.tests),
            row=row,
            span=self.rule.span,
            code_span=cells[0].span,
        )

    def _size(self) -> Iterator[Diagnostic]:
        """A table may not make more text than can be read."""
        used = Counter(mark.name for mark in self.marks)
        length = len(self.table.rows) * (self.whole.end - self.whole.start)
        for row in self.table.rows:
            length += sum(used[name] * len(cell.text) for name, cell in zip(self.names, row, strict=True))
        span = Span(self.table.span.start, self.table.span.start + len("table"))
        if len(self.table.rows) > MAX_ROWS:
            yield Diagnostic("E003", f"a table has at most {MAX_ROWS} rows", span, f"these are {len(self.table.rows):,}")
        elif length > MAX_ROWS_LENGTH:
            message = f"the rules of this table are longer than {MAX_ROWS_LENGTH:,} characters, test texts counted"
            yield Diagnostic("E003", message, span, "too long", (), ("make two tables of it",))

    def _columns(self, params: Sequence[str]) -> Iterator[Diagnostic]:
        """Errors for missing columns and for unused columns."""
        for mark in self.marks:
            param = mark.name in params and mark.span.start in self.builder.operators
            if not mark.quoted and mark.name not in self.names and not param:
                yield unknown_column(mark.name, self.names, mark.span)
        for column in self.table.columns:
            if column.text not in HEAD and column.text not in self.mentioned:
                helps = (f"write `@{column.text}` where it belongs, or leave the column out",)
                yield Diagnostic("E016", f"the column `{column.text}` is never used", column.span, "never used", (), helps)

    def _titles(self) -> Iterator[Diagnostic]:
        """Errors in the titles of rows: they are in a column, above each row, or in the first line of the rule by a column."""
        documented_rows = [row for row in self.table.rows if row_docs(self.table, row)]
        if documented_rows and TITLE in self.names:
            helps = ("leave the column out, and begin the doc comment of each row with its title",)
            message = f"row {documented_rows[0][0].text} has both a doc comment and a cell `title`"
            yield Diagnostic("E014", message, row_docs(self.table, documented_rows[0])[0].span, "also a title", (), helps)
        elif documented_rows and len(documented_rows) < len(self.table.rows):
            missing = next(row[0] for row in self.table.rows if row not in documented_rows)
            helps = (f"write `/// title` above row {missing.text}, as above the others",)
            message = f"row {missing.text} has no doc comment, and others have"
            yield Diagnostic("E014", message, missing.span, "no title", (), helps)
        if documented_rows or TITLE in self.names:
            return
        start = self.rule.span.start
        end = self.text.find("\n", start)
        if not self.rule.doc or not any(mark.quoted == "/" and start <= mark.span.start < end for mark in self.marks):
            helps = (
                "write `/// title` above each row, add a column `title`, or name a column in the first line of the doc comment",
            )
            span = self.table.columns[0].span
            yield Diagnostic("E014", "the rows of this table have no titles", span, "no `title` here", (), helps)

    def _tests(self) -> Iterator[Diagnostic]:
        """Tests of rows that are not there, and rows without a test of their own."""
        codes = [row[0].text for row in self.table.rows]
        for code, _ in self.builder.test_codes:
            if code.text not in codes:
                yield _no_such_row(code, codes)
        spans = [span for _, span in self.builder.test_codes]
        shared = [test.span for test in self.rule.tests if test.span not in spans]
        if any(mark.quoted == "~" and _within(mark, span) for mark in self.marks for span in shared):
            return
        tested = {code.text for code, _ in self.builder.test_codes}
        for row in self.table.rows:
            if row[0].text not in tested:
                helps = (
                    f'write one for it: test {row[0].text} "..." ~~~ model ~~~ becomes ~~~ model ~~~',
                    "or one for all rows, with `@name` in its models",
                )
                yield Diagnostic("E017", f"row {row[0].text} has no test of its own", row[0].span, "not tested", (), helps)


def _within(mark: Mention, span: Span) -> bool:
    return span.start <= mark.span.start < span.end


def _no_such_row(code: Cell, codes: Sequence[str]) -> Diagnostic:
    near = suggest(code.text, codes) or (codes[0] if len(codes) == 1 else "")
    helps = (f"did you mean {near}?",) if near else ()
    return Diagnostic(
        "E017", f"this test is for {code.text}, which is none of this rule's codes", code.span, "no such row", (), helps
    )
