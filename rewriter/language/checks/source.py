"""Whether a rule says in its header that it needs the framework's own file."""

from __future__ import annotations

from collections.abc import Mapping

from rewriter.language import ast
from rewriter.language.checks.context import CheckContext
from rewriter.language.functions import SOURCE_FUNCTIONS
from rewriter.language.walk import children, walk

_ANSWERED = frozenset({"maybe", "known", "source_has"})
"""Functions that have an answer where there is no such file."""


def check_source(context: CheckContext) -> None:
    """Reports a condition that nothing but the framework's file can make true, and a header that asks for it in vain."""
    rule = context.rule
    lets = {let.name: let.value for let in rule.lets}
    known: dict[str, ast.Call | None] = {}
    needing = [call for where in rule.wheres if (call := _needed(where.condition, lets, known)) is not None]
    if needing and not context.header.needs_source:
        context.report(
            "W203",
            f"without the framework's file `{needing[0].function}` is always unknown",
            needing[0].span,
            "asks the framework's file",
            helps=("declare it in the header: `needs: source`", "or let the rule fire where it is unknown: maybe(...)"),
        )
    item = next((item for item in rule.meta if item.key == "needs"), None)
    if context.header.needs_source and item is not None and not _mentions(rule):
        message = "the rule needs the framework's file and never asks it"
        context.report("W203", message, item.span, "without effect", helps=("leave it out",))


def _needed(expr: object, lets: Mapping[str, ast.Expr], known: dict[str, ast.Call | None]) -> ast.Call | None:
    """The question without whose answer an expression is unknown, or None. One side of an `or` is enough to answer it.

    `known` holds what was found for `let` names: each may be read by many others.
    """
    if isinstance(expr, ast.Call) and expr.function in _ANSWERED:
        return None
    if isinstance(expr, ast.Call) and expr.function in SOURCE_FUNCTIONS:
        return expr
    if isinstance(expr, ast.Name):
        if expr.id in lets and expr.id not in known:
            known[expr.id] = None
            known[expr.id] = _needed(lets[expr.id], lets, known)
        return known.get(expr.id)
    if isinstance(expr, ast.Logic) and expr.op == "or":
        found = [_needed(operand, lets, known) for operand in expr.operands]
        return found[0] if all(found) else None
    if isinstance(expr, ast.Choice):
        then, other = _needed(expr.then, lets, known), _needed(expr.other, lets, known)
        return _needed(expr.test, lets, known) or (then if other else None)
    return next((call for child in children(expr) if (call := _needed(child, lets, known)) is not None), None)


def _mentions(rule: ast.Rule) -> bool:
    return any(
        isinstance(record, ast.Call) and record.function in SOURCE_FUNCTIONS
        for part in (*rule.wheres, *rule.lets, *rule.rewrites)
        for record in walk(part)
    )
