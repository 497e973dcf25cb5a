"""Patterns with a choice become several plain patterns: `maybe Cast(x)`, `h = P | Q`, `Mul*(a, b, c)`.

The matcher knows none of these forms: a rule with such a form is one rule with several patterns. The largest is tried first.
A name that a pattern does not bind is `none` in its conditions and absent in its rewrites.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from rewriter.core.language import ast
from rewriter.core.language.ast import canonical, rebuild, walk
from rewriter.core.language.operator_traits import having
from rewriter.core.record import record, replace

MAX_VARIANTS = 64
ASSOCIATIVE = having("associative")
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
    """The number of plain patterns of a pattern; a large number if there are too many to count."""
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
    """The lines of one pattern. If the node of a line is missing, its readers read its operand."""
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


# The rest of a rule if a part of its pattern is missing: unbound names are `none`, and conditions that this decides are
# replaced by their values.


def left_of(part: Any, missing: Collection[str], same: Mapping[str, str]) -> Any:
    """A part of a rule behind its pattern, in a variant that does not bind the `missing` names.

    Args:
        same: names that mean another one there.
    """

    targets = {one.target.span for one in walk(part) if isinstance(one, ast.Redirect)}  # for which nothing is no tensor

    def change(node: Any) -> Any:
        if isinstance(node, ast.Ref) and node.name in missing and node.span in targets:
            return node  # the checks reject it
        rule = _RULES.get(node.__class__)
        return node if rule is None else rule(node, missing, same)

    return rebuild(part, change)


def is_false(expr: ast.Expr) -> bool:
    return isinstance(expr, ast.Literal) and expr.value is False


def _name(node: ast.Name, missing: Collection[str], same: Mapping[str, str]) -> Any:
    if node.id in missing:
        return ast.Literal(None, node.span)
    return replace(node, id=same[node.id]) if node.id in same else node


def _ref(node: ast.Ref, missing: Collection[str], same: Mapping[str, str]) -> Any:
    if node.name in missing:
        return None if node.spread else ast.Absent(node.span)
    return replace(node, name=same[node.name]) if node.name in same else node


def _about(field: str) -> Callable[[Any, Collection[str], Mapping[str, str]], Any]:
    """Removes a statement whose `field` names a missing part of the pattern. `_at_place` removes it if its place is gone."""

    def left(node: Any, missing: Collection[str], same: Mapping[str, str]) -> Any:
        name = getattr(node, field)
        if name in missing:
            return None
        return replace(node, **{field: same[name]}) if name in same else node

    return left


def _at_place(node: ast.Edit | ast.Delete, missing: Collection[str], same: Mapping[str, str]) -> Any:
    return None if node.place is None else node


def _output(node: ast.Output, missing: Collection[str], same: Mapping[str, str]) -> Any:
    return replace(node, name=same[node.name]) if node.name is not None and node.name in same else node


def _redirect(node: ast.Redirect, missing: Collection[str], same: Mapping[str, str]) -> Any:
    """If no node is between two tensors, the redirect from one to the other is not needed."""
    output = same.get(node.output, node.output)
    if node.output in missing or (isinstance(node.target, ast.Ref) and node.target.name == output):
        return None
    return replace(node, output=output) if output != node.output else node


def _private(node: ast.Private, missing: Collection[str], same: Mapping[str, str]) -> Any:
    names = tuple(dict.fromkeys(same.get(name, name) for name in node.names if name not in missing))
    return None if not names else replace(node, names=names) if names != node.names else node


# --- Expressions that decide themselves ------------------------------------------------------------------------------------


def _call(node: ast.Call, missing: Collection[str], same: Mapping[str, str]) -> Any:
    first = node.args[0] if node.args else None
    absent = isinstance(first, ast.Literal) and first.value is None
    if node.function == "matched" and len(node.args) == 1 and isinstance(first, ast.Name | ast.Literal):
        return ast.Literal(not absent, node.span)
    if node.function == "present" and absent:
        return ast.Literal(False, node.span)
    return node.args[1] if node.function == "default" and absent and len(node.args) == 2 else node


def _unary(node: ast.Unary, missing: Collection[str], same: Mapping[str, str]) -> Any:
    decided = node.op == "not" and isinstance(node.operand, ast.Literal) and isinstance(node.operand.value, bool)
    return ast.Literal(is_false(node.operand), node.span) if decided else node


def _logic(node: ast.Logic, missing: Collection[str], same: Mapping[str, str]) -> Any:
    decisive = node.op == "or"
    if any(isinstance(one, ast.Literal) and one.value is decisive for one in node.operands):
        return ast.Literal(decisive, node.span)
    open_ = tuple(one for one in node.operands if not (isinstance(one, ast.Literal) and one.value is (not decisive)))
    if len(open_) == len(node.operands):
        return node
    return ast.Literal(not decisive, node.span) if not open_ else open_[0] if len(open_) == 1 else replace(node, operands=open_)


def _choice(node: ast.Choice, missing: Collection[str], same: Mapping[str, str]) -> Any:
    if isinstance(node.test, ast.Literal) and isinstance(node.test.value, bool):
        return node.then if node.test.value else node.other
    return node


_RULES: Mapping[type, Any] = {
    ast.Name: _name,
    ast.Ref: _ref,
    ast.AttrCopy: _about("label"),
    ast.Place: _about("base"),
    ast.Edit: _at_place,
    ast.Delete: _at_place,
    ast.Inline: _about("label"),
    ast.Each: _about("base"),
    ast.AddOutput: _about("name"),
    ast.Output: _output,
    ast.Redirect: _redirect,
    ast.Private: _private,
    ast.Call: _call,
    ast.Unary: _unary,
    ast.Logic: _logic,
    ast.Choice: _choice,
}
