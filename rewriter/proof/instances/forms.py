"""The opsets in which a rule is tried: one or two of every stretch in which none of its operators changes."""

from __future__ import annotations

from rewriter.language import ast, schema
from rewriter.language.rule import Rule
from rewriter.language.walk import walk
from rewriter.proof.oracles import newest_opset

OLDEST_RUN = 7
"""ONNX Runtime gives no promise for older opsets."""


def opsets(rule: Rule) -> list[int]:
    """Ascending; empty where the rule's range lies outside of what the oracles run.

    Opsets before an operator of the pattern are left out, since no oracle runs it there, unless the rule is for those alone.
    """
    newest = newest_opset()
    last = min(rule.opset.last or newest, newest)
    first = max(rule.opset.first or 1, OLDEST_RUN)
    first = max([first, *(version for version in map(_introduced, rule.wanted) if version <= last)])
    names = {(op.domain, op.name) for op in walk(rule.ast) if isinstance(op, ast.Op) and not op.param}
    changes = {version for domain, name in names if domain == "" for version in schema.versions(name)}
    changes |= {block.opset.first for block in rule.ast.rewrites if block.opset is not None and block.opset.first is not None}
    starts = sorted({first, *(version for version in changes if first < version <= last)})
    ends = [start - 1 for start in starts[1:]] + [last]
    return sorted({v for start, end in zip(starts, ends, strict=True) for v in (start, end) if start <= v <= end})


def _introduced(operators: frozenset[tuple[str, str]]) -> int:
    """The first opset that has one of these operators."""
    known = (schema.versions(name) if domain == "" else () for domain, name in operators)
    return min((versions[0] if versions else 1 for versions in known), default=1)


def all_opsets(rule: Rule) -> list[int]:
    """Every opset of the rule's range that the oracles have heard of."""
    newest = newest_opset()
    return list(range(max(rule.opset.first or 1, 1), min(rule.opset.last or newest, newest) + 1))
