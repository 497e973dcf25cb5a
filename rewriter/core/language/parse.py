"""The text of a rule file becomes its syntax tree. One run reports all errors of the text.

A file is cut at its rules first (`scan`), then each rule is parsed by itself (`grammar`) and converted (`tree`). No text makes
the parser raise, and the limits of `limits` bound its time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rewriter.core.language import ast
from rewriter.core.language.ast import Span
from rewriter.core.language.diagnostics import MAX_FILE_BYTES, Diagnostic
from rewriter.core.language.syntax.scan import Chunk, scan
from rewriter.core.language.syntax.words import MAX_DEPTH
from rewriter.core.record import replace

if TYPE_CHECKING:
    from rewriter.core.language.code_table import FilledText
    from rewriter.core.language.syntax.grammar import Node
    from rewriter.core.language.syntax.tree import RuleBuilder


def parse(
    text: str, path: str = "<text>", shared: Mapping[str, ast.Define] = MappingProxyType({}), *, as_written: bool = False
) -> tuple[ast.RuleFile, list[Diagnostic]]:
    """Parses a rule file.

    Args:
        text: the whole file; line ends are `\\n` or `\\r\\n`.
        path: the name of the file in messages.
        shared: defines of its folder and its pack. Defines of the file itself come before them.
        as_written: leaves rules as they are written, with their choices. This is enough to show them and needs no operator
            schemas.

    Returns:
        The rules that could be read, in their order, and the syntax errors (codes E0xx) by their place. A rule with an
        error is left out.
    """
    if len(text) > MAX_FILE_BYTES:
        message = f"a rule file has at most {MAX_FILE_BYTES:,} bytes"
        return ast.RuleFile(path, ""), [Diagnostic("E003", message, ast.NOWHERE, path=path)]
    chunks, problems = scan(text)
    read: list[tuple[RuleBuilder, ast.Rule, Sequence[ast.Rule]]] = []
    defines: list[ast.Define] = []
    for chunk in chunks:
        builder, part, found = _rule(text, chunk, path)
        if isinstance(part, ast.Define):
            defines.append(part)
        elif builder is not None and part is not None and not found:
            rows, found = _rows(text, chunk, path, builder, part)
            read += [(builder, part, rows)] if rows else []
        problems.extend(found)
    known, found = _known(defines, shared)
    rules: list[ast.Rule] = []
    written: list[ast.Rule] = []
    for builder, whole, rows in read:
        file_rules, more = (rows, []) if as_written else _plain(builder, rows, known)
        rules += file_rules
        written += [whole] if file_rules else []
        found += more
    problems = sorted([*problems, *found], key=lambda problem: problem.span.start)
    file = ast.RuleFile(path, text, tuple(rules), tuple(written), tuple(defines), tuple(shared.values()))
    return file, [replace(problem, path=path) for problem in problems]


def _known(
    defines: Sequence[ast.Define], shared: Mapping[str, ast.Define]
) -> tuple[Mapping[str, ast.Define], list[Diagnostic]]:
    """The defines that the rules of a file may call."""
    if not defines:
        return shared, []
    from rewriter.core.language.expand.rule_forms import settled

    return settled(defines, shared)


def _plain(
    builder: RuleBuilder, rows: Sequence[ast.Rule], defines: Mapping[str, ast.Define]
) -> tuple[Sequence[ast.Rule], list[Diagnostic]]:
    """Rules without the forms that stand for several."""
    if not builder.choices and builder.calls.isdisjoint(defines):
        return rows, []
    from rewriter.core.language.expand.rule_forms import plain

    plain_rules, found = [], list[Diagnostic]()
    for row in rows:
        one, problems = plain(row, defines, choices=builder.choices)
        plain_rules += [one] if one is not None else []
        found += [problem for problem in problems if problem not in found]
    return ([] if found else plain_rules), found


def _rows(
    text: str, chunk: Chunk, path: str, builder: RuleBuilder, rule: ast.Rule
) -> tuple[Sequence[ast.Rule], list[Diagnostic]]:
    """The rules of a written rule: one for each row of its table, or itself."""
    if rule.table is None and not builder.test_codes and text.find("@", chunk.start, chunk.end) < 0:
        return (rule,), []
    from rewriter.core.language.syntax.expand_table import TableRule, not_a_table

    if rule.table is None:
        found = not_a_table(text, Span(chunk.start, chunk.end), builder, rule)
        return (() if found else (rule,)), found

    def parse_row(filled: FilledText) -> tuple[ast.Rule | None, list[Diagnostic]]:
        row = filled.text
        own, one, problems = _rule(row, Chunk(0, len(row)), path, filled.place)
        if own is not None:  # the forms and calls that only a cell has
            builder.choices = builder.choices or own.choices
            builder.calls |= own.calls
        return (one if isinstance(one, ast.Rule) else None), problems

    return TableRule(text, Span(chunk.start, chunk.end), builder, rule, rule.table).rules(parse_row)


def _rule(
    text: str, chunk: Chunk, path: str, place: Callable[[Span], Span] | None = None
) -> tuple[RuleBuilder | None, ast.Rule | ast.Define | None, list[Diagnostic]]:
    """One rule as it is written, or None and the errors. `place` maps places of the text of a row back to the file."""
    builder, rule, problems = _read(text, chunk, path, place)
    if place is not None and builder is None:
        problems = [replace(problem, span=place(problem.span)) for problem in problems]
    return builder, rule, problems


def _read(
    text: str, chunk: Chunk, path: str, place: Callable[[Span], Span] | None
) -> tuple[RuleBuilder | None, ast.Rule | ast.Define | None, list[Diagnostic]]:
    if chunk.problems:
        return None, None, chunk.problems
    from lark.exceptions import UnexpectedInput

    from rewriter.core.language.syntax.grammar import grammar
    from rewriter.core.language.syntax.tree import RuleBuilder

    try:
        tree: Any = grammar().parse(text[chunk.start : chunk.end])
    except UnexpectedInput as error:
        from rewriter.core.language.syntax.syntax_errors import explain

        return None, None, [explain(text, chunk, error)]
    deep = _too_deep(tree)
    if deep is not None:
        where = Span(chunk.start + deep.start_pos, chunk.start + deep.end_pos)
        helps = ("name a part of it with `let`",)
        return None, None, [Diagnostic("E003", f"this expression nests deeper than {MAX_DEPTH} levels", where, "", (), helps)]
    builder = RuleBuilder(text, chunk.start, path, place)
    rule = builder.define(tree) if tree.data == "definition" else builder.rule(tree)
    return builder, (None if builder.problems else rule), builder.problems


def _too_deep(tree: Node) -> Node | None:
    """The first node below the deepest level that the conversion may recurse to; found without recursion."""
    from rewriter.core.language.syntax.grammar import Node

    level = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in node.children if type(child) is Node]
        if not level:
            return None
    return level[0]
