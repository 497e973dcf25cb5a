"""`each x in n.inputs if ... { x = Op(x) }`: new tensors in the places of some operands, however many there are.

A statement of its own, since a rule does not know how many operands a node has. A tensor that stands in several places is
rewritten once.
"""

from __future__ import annotations

from typing import Any

import onnx_graphsurgeon as gs

from rewriter.conditions.operators import truth
from rewriter.language import ast
from rewriter.record import record
from rewriter.rewriting.build import build
from rewriter.rewriting.prepare import NewNode, prepare_node
from rewriter.rewriting.transaction import Rewriting


@record(frozen=True, slots=True)
class _Chosen:
    """A tensor that passes the test, and the node that takes its place."""

    tensor: gs.Tensor
    new: NewNode


def prepare_each(rewriting: Rewriting, each: ast.Each) -> tuple[Any, Any]:
    """What is computed for every operand that passes. Raises Undecided where a test is unknown."""
    outer, chosen = rewriting.names, dict[int, _Chosen]()
    for tensor in _operands(rewriting, each):
        if not tensor.name or id(tensor) in chosen:
            continue
        rewriting.names = outer.within(each.name, tensor)
        try:
            if each.test is None or truth(rewriting.value(each.test)):
                chosen[id(tensor)] = _Chosen(tensor, prepare_node(rewriting, each.value))
        finally:
            rewriting.names = outer
    return chosen, None


def apply_each(rewriting: Rewriting, each: ast.Each, value: Any, at: Any) -> None:
    """Builds the new nodes and hands them to the node, or to those who read the run from here on."""
    outer, made = rewriting.names, dict[int, gs.Tensor]()
    for number, one in value.items():
        rewriting.names = outer.within(each.name, one.tensor)
        try:
            made[number] = build(rewriting, each.value, one.new)
        finally:
            rewriting.names = outer
    operands = _operands(rewriting, each)
    if not each.inputs:
        rewriting.made[each.base] = [made.get(id(tensor), tensor) for tensor in operands]
        return
    node = rewriting.node(each.base)
    for position, tensor in enumerate(operands):
        if id(tensor) in made:
            rewriting.edits.set_input(node, position, made[id(tensor)])


def _operands(rewriting: Rewriting, each: ast.Each) -> list[gs.Tensor]:
    if each.inputs:
        return list(rewriting.node(each.base).inputs)
    return list(rewriting.made.get(each.base) or rewriting.run(each.base))
