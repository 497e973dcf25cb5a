"""Bounds on a rule: a rule file may come from a stranger, and neither checking nor applying it may run away."""

from __future__ import annotations

from rewriter.language import ast
from rewriter.language.check_context import Context
from rewriter.language.walk import depth, pattern_nodes, walk

MAX_NODES = 100
MAX_DEPTH = 100
MAX_EXPRESSION = 2000
_SMALLEST, _LARGEST = -(1 << 63), (1 << 64) - 1


def check_sizes(context: Context) -> bool:
    """Reports what is too big; False when the rule must not be looked at any further."""
    rule = context.rule
    small = True
    if depth(rule) > MAX_DEPTH:
        context.report("E216", "this rule nests too deep", rule.code_span, notes=(f"at most {MAX_DEPTH} levels",))
        return False
    nodes = list(pattern_nodes(rule.match))
    if len(nodes) > MAX_NODES:
        message = f"the pattern has {len(nodes)} nodes"
        context.report("E216", message, rule.match.span, notes=(f"at most {MAX_NODES} are matched",))
        small = False
    parts: list[ast.Where | ast.Let | ast.Rewrite] = [*rule.wheres, *rule.lets, *rule.rewrites]
    for part in parts:
        size = sum(1 for _ in walk(part))
        if size > MAX_EXPRESSION:
            message = f"this part of the rule has {size} terms"
            context.report("E216", message, part.span, notes=(f"at most {MAX_EXPRESSION} are computed",))
            small = False
    for record in walk(rule):
        if isinstance(record, ast.Literal) and type(record.value) is int and not _SMALLEST <= record.value <= _LARGEST:
            context.report("E216", "this integer does not fit into 64 bits", record.span, "too big")
    return small
