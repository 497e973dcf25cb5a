"""Rules that are correct, but hard to read: tables of conditions, and rewrites that are written twice.

A rule file is read more often than it is written. `rewriter lint` shows these as warnings, next to the errors of the set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

from rewriter.core.language import ast
from rewriter.core.language.diagnostics import Diagnostic
from rewriter.core.language.expand.rule_forms import Unfit, with_operands
from rewriter.core.language.rule import Rule
from rewriter.core.language.walk import rebuild
from rewriter.core.record import replace
from rewriter.rule_tools.format import INDENT, same

LEGIBILITY = ("W205", "W304")
_TEXT = r'"(?:[^"\\]|\\.)*"'
_ITEM = rf"(?:{_TEXT}|[\w.+-]+)"
_PLAIN = re.compile(
    rf"[\w.:/+-]+|{_TEXT}|[a-z]+\([a-z0-9=.,\s-]*\)|\((?:[\w.]+\s*\|\s*)+[\w.]+\)|\[(?:\s*{_ITEM}\s*(?:,\s*{_ITEM}\s*)*)?\]"
)
"""A name, type, number or range, a text, `refused(onnxruntime)`, several operators, or a list."""
_CALLS = ("refused(", "approx(")
MAX_WIDTH = 128
_TEXTS = re.compile(rf"_|{_TEXT}|\[.*\]")
"""Texts, and lists such as lists of issues, may be on lines of their own below the other cells."""


def hard_to_read(rules: Sequence[Rule]) -> Iterator[Diagnostic]:
    """Warnings about rules that can be written more legibly, in the order of the rules."""
    tables: dict[tuple[str, ast.Span], list[Rule]] = {}
    for rule in rules:
        if rule.ast.row is not None:
            tables.setdefault((rule.path, rule.ast.span), []).append(rule)
        yield from _twice(rule)
    for rows in tables.values():
        yield from _table(rows)


def _table(rows: Sequence[Rule]) -> Iterator[Diagnostic]:
    cells = [(rule, *cell) for rule in rows if rule.ast.row is not None for cell in rule.ast.row.cells]
    helps = ("write several rules, in one file where they share an explanation",)
    said = [(rule, column, cell) for rule, column, cell in cells if not is_plain(cell)]
    if said:
        rule, _, cell = said[0]
        named = ", ".join(f"`{name}`" for name in dict.fromkeys(column for _, column, _ in said))
        message = f"the table of {rows[0].code} holds conditions, rewrites or expressions: {named}"
        notes = ("a table holds names, operators, types, numbers and texts",)
        yield Diagnostic("W205", message, _place(rule, cell), "not a name or a number", notes, helps, rule.path)
    columns = [
        [column, *(cell for _, name, cell in cells if name == column)] for column in dict.fromkeys(c for _, c, _ in cells)
    ]
    wide = INDENT - 2 + sum(2 + max(map(len, one)) for one in columns if not all(map(_TEXTS.fullmatch, one[1:])))
    if wide > MAX_WIDTH:
        message = f"the rows of the table of {rows[0].code} are {wide} characters wide"
        notes = (f"more than {MAX_WIDTH}, texts and lists not counted",)
        yield Diagnostic("W205", message, rows[0].ast.code_span, "a row does not fit on a line", notes, helps, rows[0].path)


def is_plain(cell: str) -> bool:
    """Whether a cell of a table is no condition, rewrite or expression."""
    return _PLAIN.fullmatch(cell) is not None and ("(" not in cell or cell.startswith((*_CALLS, "(", '"', "[")))


def _place(rule: Rule, cell: str) -> ast.Span:
    assert rule.ast.row is not None
    at = rule.source.text.find(cell, rule.ast.row.span.start, rule.ast.row.span.end)
    return ast.Span(at, at + len(cell)) if at >= 0 else rule.ast.row.span


def _twice(rule: Rule) -> Iterator[Diagnostic]:
    """Two rewrites for two ranges of opsets that are one with `axes~`."""
    for older, newer in permutations(rule.ast.rewrites, 2):
        if newer.opset is None or newer.opset.first is None:
            continue
        try:
            same_as, names = with_operands(older.statements, newer.opset.first)
        except Unfit:
            continue
        if names and same(_bare(same_as), _bare(newer.statements)):
            helps = (
                f"write one block, with {' and '.join(f'`{name}~`' for name in sorted(names))} for `=` and for the operand",
            )
            message = f"{rule.code} has two rewrites that differ in what became an operand"
            yield Diagnostic("W304", message, newer.span, "the same again", (), helps, rule.path)


def _bare(part: Any) -> Any:
    """Removes parts that do not matter if an operand has the value of an attribute: dimensions, and the type of integers."""

    def change(one: Any) -> Any:
        if not isinstance(one, ast.Constant):
            return one
        return replace(one, dims=None, dtype=None if one.dtype == "int64" else one.dtype)

    return rebuild(part, change)
