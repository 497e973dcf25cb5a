"""Bounds on a rule: a rule file may come from a stranger, and neither checking nor applying it may run away.

What is too long or nests too deep is refused before it is parsed; here remain the sizes that only the syntax tree tells.
"""

from __future__ import annotations

from rewriter.language import ast
from rewriter.language.checks.context import CheckContext
from rewriter.language.walk import pattern_nodes, size

MAX_NODES = 100
MAX_TERMS = 5000


def check_sizes(context: CheckContext) -> bool:
    """Reports what is too big; False when the rule must not be looked at any further."""
    rule = context.rule
    small = True
    count = sum(1 for _ in pattern_nodes(rule.match))
    if count > MAX_NODES:
        notes = (f"at most {MAX_NODES} are matched",)
        context.report("E216", f"the pattern has {count} nodes", rule.match.span, "too many", notes)
        small = False
    parts: list[ast.Where | ast.Let | ast.Rewrite] = [*rule.wheres, *rule.lets, *rule.rewrites]
    for part in parts:
        terms = size(part)
        if terms > MAX_TERMS:
            notes = (f"at most {MAX_TERMS} are computed",)
            context.report("E216", f"this part of the rule has {terms} terms", part.span, "too many", notes)
            small = False
    return small
