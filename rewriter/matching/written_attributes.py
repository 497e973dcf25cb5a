"""Which attributes are written in a model, by operator: what few nodes of old exports have, and some rules ask for.

`has(n, "axis")` on Add is true of no model of the last years. Where no Add has it, the rule needs not be tried at any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_graphsurgeon as gs

from rewriter.graph.by_operator import NodesByOperator
from rewriter.graph.objects import has_written, with_attributes
from rewriter.language import ast
from rewriter.language.pattern import Pattern
from rewriter.language.walk import walk

OpKey = tuple[str, str]
Wanted = tuple[frozenset[OpKey], str]  # one of these operators must have this attribute


class WrittenAttributes:
    """Attributes of a model. What is asked is looked up once, and only at the operators in question."""

    def __init__(self, by_operator: NodesByOperator) -> None:
        self._by_operator = by_operator
        self._with_any: dict[OpKey, list[gs.Node]] = {}
        self._known: dict[tuple[OpKey, str], bool] = {}

    def has(self, wanted: Wanted) -> bool:
        """Whether any node of one of these operators has the attribute."""
        ops, name = wanted
        return any(self._at(op, name) for op in ops.intersection(self._by_operator.keys))

    def _at(self, op: OpKey, name: str) -> bool:
        found = self._known.get((op, name))
        if found is None:
            nodes = self._with_any.get(op)
            if nodes is None:
                nodes = self._with_any[op] = with_attributes(self._by_operator.of(op))
            found = self._known[op, name] = any(has_written(node, name) for node in nodes)
        return found


def wanted_attributes(rule: ast.Rule, pattern: Pattern | None) -> tuple[Wanted, ...]:
    """What must be written somewhere for a rule to fire: attributes that its pattern or its conditions ask to be there."""
    if pattern is None:
        return ()
    asked = {name for where in rule.wheres for name in _conjuncts(where.condition)}
    found: list[Wanted] = []
    for node in pattern.nodes:
        found += [(node.ops, attr.name) for attr in node.source.attrs if attr.mode == "present"]
        found += [(node.ops, name) for label, name in sorted(asked) if label == node.source.label]
    return tuple(found)


def _conjuncts(condition: ast.Expr) -> Iterator[tuple[str, str]]:
    """(label, attribute) of each `has(label, "attribute")` that has to hold."""
    if isinstance(condition, ast.Logic) and condition.op == "and":
        for operand in condition.operands:
            yield from _conjuncts(operand)
    elif isinstance(condition, ast.Call) and condition.function == "has" and len(condition.args) == 2:
        node, name = condition.args
        if isinstance(node, ast.Name) and isinstance(name, ast.Literal):
            yield node.id, str(name.value)


def made_attributes(rewrites: Iterable[ast.Rewrite]) -> frozenset[str] | None:
    """Attributes that a rule may write to nodes that had not got them; None where it may be any."""
    found: set[str] = set()
    for record in walk(rewrites):
        if isinstance(record, ast.AttrCopy):
            return None
        if isinstance(record, ast.AttrSet):
            found.add(record.name)
        elif isinstance(record, ast.Edit) and record.place.field is not None:
            if record.place.field == "op":
                return None
            found.add(record.place.field)
    return frozenset(found)
