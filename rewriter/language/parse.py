"""The text of a rule file becomes its syntax tree, with everything that is wrong with the text in one run.

A file is cut at its rules first (`scan`), then each rule is parsed by itself (`lalr`) and converted (`tree`). Whatever the
text, nothing is raised, and the time is bounded by the limits of `limits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rewriter.language import ast
from rewriter.language.ast import Span
from rewriter.language.diagnostics import Diagnostic
from rewriter.language.syntax.scan import Chunk, scan
from rewriter.language.syntax.syntax_limits import MAX_DEPTH, MAX_FILE_BYTES
from rewriter.record import replace

if TYPE_CHECKING:
    from rewriter.language.syntax.lalr import ParseNode


def parse(text: str, path: str = "<text>") -> tuple[ast.RuleFile, list[Diagnostic]]:
    """Parses a rule file.

    Args:
        text: the whole file; line ends are `\\n` or `\\r\\n`.
        path: what messages call the file.

    Returns:
        The rules that could be read, in their order, and the syntax errors (codes E0xx) by their place. A rule with an
        error is left out.
    """
    if len(text) > MAX_FILE_BYTES:
        message = f"a rule file has at most {MAX_FILE_BYTES:,} bytes"
        return ast.RuleFile(path, ""), [Diagnostic("E003", message, ast.NOWHERE, path=path)]
    chunks, problems = scan(text)
    rules = []
    for chunk in chunks:
        rule, found = _rule(text, chunk, path)
        problems.extend(found)
        if rule is not None:
            rules.append(rule)
    problems.sort(key=lambda problem: problem.span.start)
    return ast.RuleFile(path, text, tuple(rules)), [replace(problem, path=path) for problem in problems]


def _rule(text: str, chunk: Chunk, path: str) -> tuple[ast.Rule | None, list[Diagnostic]]:
    """One rule, or None and why."""
    if chunk.problems:
        return None, chunk.problems
    from rewriter.language.syntax.lalr import tables
    from rewriter.language.syntax.tree import RuleBuilder

    tree = tables().parse(text[chunk.start : chunk.end])
    if tree is None:
        return None, [_refused(text, chunk)]
    deep = _too_deep(tree)
    if deep is not None:
        where = Span(chunk.start + deep.start, chunk.start + deep.end)
        helps = ("name a part of it with `let`",)
        return None, [Diagnostic("E003", f"this expression nests deeper than {MAX_DEPTH} levels", where, "", (), helps)]
    builder = RuleBuilder(chunk.start, path)
    rule = builder.rule(tree)
    return (None if builder.problems else rule), builder.problems


def _refused(text: str, chunk: Chunk) -> Diagnostic:
    """What lark says of a rule that the grammar does not take."""
    from lark.exceptions import UnexpectedInput

    from rewriter.language.syntax.syntax_errors import explain
    from rewriter.language.syntax.tables import tables

    try:
        tables().parse(text[chunk.start : chunk.end])
    except UnexpectedInput as error:
        return explain(text, chunk, error)
    raise AssertionError("lark takes what its own tables do not")


def _too_deep(tree: ParseNode) -> ParseNode | None:
    """The first node below the deepest level that the conversion may recurse to; found without recursion."""
    from rewriter.language.syntax.lalr import ParseNode

    level = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in node.children if type(child) is ParseNode]
        if not level:
            return None
    return level[0]
