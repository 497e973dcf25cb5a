"""Patterns with a choice become several plain patterns: `maybe Cast(x)`, `h = P | Q`, `Mul*(a, b, c)`.

The matcher knows none of these: a rule with such a form is one rule with several patterns, of which the largest is tried first.
What a pattern does not bind is `none` in its conditions and absent in its rewrites.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

from rewriter.language import ast
from rewriter.language.dtypes import DTYPES
from rewriter.language.expand.rebuild import rebuild
from rewriter.language.walk import canonical, walk
from rewriter.record import record, replace

MAX_VARIANTS = 64
ASSOCIATIVE = frozenset({"Add", "And", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mul", "Or", "Xor"})
"""Operators of two operands whose chains may be grouped as one likes."""

_MANY = 1 << 20


@record(frozen=True, slots=True)
class Variant:
    """One pattern. `same` are outputs of nodes that are not there, with the operands that stand for them."""

    nodes: tuple[ast.NodePattern, ...]
    same: tuple[tuple[str, ast.Capture], ...] = ()


@record(frozen=True, slots=True)
class _Same:
    """A line whose node is not there: its output is the operand."""

    name: str
    operand: ast.Capture


def count(match: ast.Match) -> int:
    """How many patterns a pattern stands for; a large number for more than can be counted."""
    return min(prod(_count(node) for node in match.nodes), _MANY)


def variants(match: ast.Match) -> list[Variant]:
    """The patterns in the order in which the forms stand in the text, those those with optional nodes first."""
    found: list[Variant] = []
    seen: set[str] = set()
    for lines in product(*(list(_lines(node)) for node in match.nodes)):
        variant = _joined(lines)
        text = canonical((variant.nodes, variant.same))
        if text not in seen:
            seen.add(text)
            found.append(variant)
    return found


def bound(part: Any) -> set[str]:
    """Every name that a pattern, or what it is made of, may bind."""
    names: set[str] = set()
    for one in walk(part):
        if isinstance(one, ast.Capture | ast.Variadic | ast.GraphItem | ast.Output):
            names.add(one.name or "")
        elif isinstance(one, ast.NodePattern) and one.label is not None:
            names.add(one.label)
        elif isinstance(one, ast.AttrPattern) and isinstance(one.value, ast.Name) and one.value.id not in DTYPES:
            names.add(one.value.id)
        elif isinstance(one, ast.TypePattern):
            names |= {dim for dim in one.dims or () if isinstance(dim, str)}
    return names - {""}


# --- Counting --------------------------------------------------------------------------------------------------------------


def _count(node: ast.NodePattern) -> int:
    return min(sum(_count_one(one) for one in (node, *node.others)), _MANY)


def _count_one(node: ast.NodePattern) -> int:
    inner = [_count(operand) if isinstance(operand, ast.NodePattern) else 1 for operand in node.inputs]
    there = prod(inner) * (groupings(len(node.inputs)) if node.chain else 1)
    return min(there + (inner[0] if node.maybe and inner else 0), _MANY)


def groupings(operands: int) -> int:
    """In how many ways operands can be grouped in pairs, when neither side of a pair matters: 1, 3, 15, 105."""
    return min(prod(range(1, 2 * min(operands, 40) - 2, 2)), _MANY)


# --- Forms -----------------------------------------------------------------------------------------------------------------


def _lines(node: ast.NodePattern) -> Iterator[ast.NodePattern | _Same]:
    """The forms of one line."""
    for form in _forms(node):
        if isinstance(form, ast.Capture):
            yield _Same(node.outputs[0].name or "", form)
        elif isinstance(form, ast.NodePattern):
            yield form if form.outputs else replace(form, outputs=node.outputs, more_outputs=node.more_outputs)


def _forms(operand: ast.Operand) -> Iterator[ast.Operand]:
    """The plain operands that one may stand for."""
    if not isinstance(operand, ast.NodePattern):
        yield operand
        return
    for one in (operand, *operand.others):
        for inputs in product(*(list(_forms(inner)) for inner in one.inputs)):
            plain = replace(one, inputs=inputs, others=(), maybe=False, chain=False)
            yield from _grouped(plain) if one.chain else (plain,)
        if one.maybe:
            yield from _forms(one.inputs[0])


def _grouped(node: ast.NodePattern) -> Iterator[ast.NodePattern]:
    """The node with its operands in every grouping; the matcher tries both orders of each pair."""
    for tree in _trees(node.inputs, node):
        assert isinstance(tree, ast.NodePattern)
        yield replace(node, inputs=tree.inputs)


def _trees(operands: Sequence[ast.Operand], node: ast.NodePattern) -> Iterator[ast.Operand]:
    if len(operands) == 1:
        yield operands[0]
        return
    first, *rest = operands
    for chosen in range(2 ** len(rest) - 2, -1, -1):  # those that stand with the first one; the last ones alone come first
        left = [first, *(one for at, one in enumerate(rest) if chosen >> at & 1)]
        right = [one for at, one in enumerate(rest) if not chosen >> at & 1]
        for pair in product(_trees(left, node), _trees(right, node)):
            yield ast.NodePattern(node.ops, pair, span=node.span, ops_span=node.ops_span)


# --- Nodes that are not there ----------------------------------------------------------------------------------------------


def _joined(lines: Sequence[ast.NodePattern | _Same]) -> Variant:
    """The lines of one pattern; what reads a line whose node is not there reads its operand."""
    same = {line.name: line.operand for line in lines if isinstance(line, _Same)}
    for name in list(same):
        seen = {name}
        while same[name].name in same and same[name].name not in seen:
            seen.add(same[name].name)
            same[name] = same[same[name].name]

    def change(part: Any) -> Any:
        if not isinstance(part, ast.Capture) or part.name not in same:
            return part
        other = same[part.name]
        return replace(part, name=other.name, const=part.const or other.const, type=part.type or other.type)

    nodes = tuple(rebuild(line, change) for line in lines if isinstance(line, ast.NodePattern))
    return Variant(nodes, tuple(sorted(same.items())))
