"""Branches of If that declare inputs, which the operator does not give them: a branch reads what is around it by its name."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.graph.index import GraphIndex, operator_key
from rewriter.graph.node_text import node_name
from rewriter.graph.scopes import Scope
from rewriter.rewriting.transaction import Refused, Rewriting


def branch_inputs(context: Context) -> list[str]:
    return [tensor.name for scope in _branches(context.index) for tensor in scope.graph.inputs]


def read_around(rewriting: Rewriting) -> None:
    """Raises Refused where nobody can tell which tensor an input stands for."""
    index, edits = rewriting.index, rewriting.edits
    owners: dict[int, gs.Node] = {}
    for scope in list(_branches(index)):
        assert scope.owner is not None
        owners[id(scope.owner)] = scope.owner
        for position, tensor in enumerate(list(scope.graph.inputs)):
            if index.is_used(tensor):
                edits.replace_uses(tensor, _meant(index, scope, position, tensor))
            edits.retyped[id(tensor)] = tensor  # a node that reads another tensor of the same name looks as it did
        edits.later(setattr, scope.graph, "inputs", scope.graph.inputs)
        scope.graph.inputs = []
    for owner in owners.values():
        edits.set_inputs(owner, owner.inputs[:1])


def _branches(index: GraphIndex) -> Iterator[Scope]:
    for scope in index.scopes:
        if scope.owner is not None and operator_key(scope.owner) == ("", "If") and scope.graph.inputs:
            yield scope


def _meant(index: GraphIndex, scope: Scope, position: int, tensor: gs.Tensor) -> gs.Tensor:
    """What a branch reads by one of its inputs: the tensor of that name around it, else the operand of If in that place."""
    owner = scope.owner
    assert owner is not None
    if index.output_of(tensor):
        raise Refused(f"input {tensor.name!r} of a branch of {node_name(owner)!r} is its output, too")
    around = scope.parent
    while around is not None:
        known = {one.name: one for one in around.graph.inputs} | index.made_in(around)
        known |= {one.name: one for one in vars(around.graph).get("initializers", ())}
        if tensor.name in known:
            return known[tensor.name]
        around = around.parent
    if len(owner.inputs) == 1 + len(scope.graph.inputs):
        return owner.inputs[1 + position]
    raise Refused(f"there is no tensor {tensor.name!r} around the branches of {node_name(owner)!r}")
