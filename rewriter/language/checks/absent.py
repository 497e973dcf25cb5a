"""What a rule asks or makes of something that may not be there: an optional operand, a node of another form of its pattern.

Such a rule would just not fire where it is absent, and nobody would be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rewriter.language import ast
from rewriter.language.diagnostics import Diagnostic
from rewriter.language.expand.simplify import is_false, left_of
from rewriter.language.functions import OF_ABSENT
from rewriter.language.walk import walk
from rewriter.record import replace


def without_optional(rule: ast.Rule) -> Iterator[tuple[str, ast.Rule]]:
    """Each operand `b?` that the conditions do not demand, and what is left of the rule where it is absent."""
    for name in dict.fromkeys(one.name for one in walk(rule.match) if isinstance(one, ast.Capture) and one.optional):
        wheres, lets, rewrites = (left_of(part, {name}, {}) for part in (rule.wheres, rule.lets, rule.rewrites))
        if any(is_false(where.condition) for where in wheres) or any(_absent_arguments(wheres)):
            continue
        read = {one.id for one in walk((*wheres, *rewrites)) if isinstance(one, ast.Name)}
        lets = tuple(let for let in lets if let.name in read)
        yield name, replace(rule, wheres=wheres, lets=lets, rewrites=rewrites)


def asks_nothing(rule: ast.Rule, rule_file: ast.RuleFile, question: str = "matched(n)") -> Iterator[Diagnostic]:
    """Functions and arithmetic on what is not there; `question` asks whether it is."""
    for span, what in _absent_arguments((*rule.wheres, *rule.lets, *rule.rewrites)):
        name = rule_file.text[span.start : span.end]
        message = f"where `{name}` is absent, {what}"
        label = "" if "present" in question else "label the node, and "
        helps = (f"{label}ask first: not {question} or ... in a condition, {{... if {question} else none}} for an operand",)
        yield Diagnostic("E206", message, span, "not always there", (), helps, rule_file.path)


def _absent_arguments(part: Any) -> Iterator[tuple[ast.Span, str]]:
    for one in walk(part):
        if isinstance(one, ast.Call) and one.function not in OF_ABSENT:
            yield from ((arg.span, f"`{one.function}` knows nothing") for arg in one.args if _is_none(arg))
        elif isinstance(one, ast.Binary):
            yield from ((arg.span, f"`{one.op}` has nothing to compute") for arg in (one.left, one.right) if _is_none(arg))


def _is_none(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Literal) and expr.value is None
