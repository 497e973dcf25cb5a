"""How much a rule asks for: where two rules of a phase fit the same place, the more specific one goes first.

The measure is a number, so it orders all rules; nodes weigh most, then what is asked of constants, types and attributes.
Where two numbers are equal and both rules may fit, the rules must say themselves which goes `before` the other.
"""

from __future__ import annotations

from rewriter.core.language import ast
from rewriter.core.language.walk import pattern_nodes


def specificity(rule: ast.Rule) -> int:
    """The number of the rule's demands, weighted. Rules on the interface count their conditions only."""
    nodes = list(pattern_nodes(rule.match))
    made = {output.name for node in nodes for output in node.outputs}
    total = len(rule.wheres) + len(rule.privates)
    for node in nodes:
        total += (50 if any(op.is_any for op in node.ops) else 100) + 3 * len(node.attrs) + (0 if node.more_inputs else 1)
        total += sum(_weight(operand, made) for operand in node.inputs)
    return total


def _weight(operand: ast.Operand, made: set[str | None]) -> int:
    if isinstance(operand, ast.Capture) and operand.name not in made:
        return 1 + 2 * operand.const + 2 * (operand.type is not None) - operand.optional
    return 4 if isinstance(operand, ast.ConstPattern) else 0
