"""Whether a rule says in its header that it needs the framework's own file."""

from __future__ import annotations

from collections.abc import Mapping

from rewriter.language import ast
from rewriter.language.check_context import Context
from rewriter.language.functions import SOURCE_FUNCTIONS
from rewriter.language.walk import children, walk

_ANSWERED = frozenset({"maybe", "known", "source_has"})
"""Functions that have an answer where there is no such file."""


def check_source(context: Context) -> None:
    """Reports a condition that nothing but the framework's file can make true, and a header that asks for it in vain."""
    rule = context.rule
    lets = {let.name: let.value for let in rule.lets}
    needing = [call for where in rule.wheres if (call := _needed(where.condition, lets, set())) is not None]
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


def _needed(expr: object, lets: Mapping[str, ast.Expr], seen: set[str]) -> ast.Call | None:
    """The question without whose answer an expression is unknown, or None. One side of an `or` is enough to answer it."""
    if isinstance(expr, ast.Call) and expr.function in _ANSWERED:
        return None
    if isinstance(expr, ast.Call) and expr.function in SOURCE_FUNCTIONS:
        return expr
    if isinstance(expr, ast.Name):
        if expr.id not in lets or expr.id in seen:
            return None
        return _needed(lets[expr.id], lets, {*seen, expr.id})
    if isinstance(expr, ast.Logic) and expr.op == "or":
        found = [_needed(operand, lets, seen) for operand in expr.operands]
        return found[0] if all(found) else None
    if isinstance(expr, ast.Choice):
        then, other = _needed(expr.then, lets, seen), _needed(expr.other, lets, seen)
        return _needed(expr.test, lets, seen) or (then if other else None)
    return next((call for child in children(expr) if (call := _needed(child, lets, seen)) is not None), None)


def _mentions(rule: ast.Rule) -> bool:
    return any(
        isinstance(record, ast.Call) and record.function in SOURCE_FUNCTIONS
        for part in (*rule.wheres, *rule.lets, *rule.rewrites)
        for record in walk(part)
    )
