"""Nodes and constants that repairs put into the graph, inferred at both sizes as soon as they are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.graph.objects import new_constant, new_node, new_variable
from rewriter.rewriting.dim_follow.follower import Follower


def constant(follower: Follower, node: gs.Node, what: str, array: Any, dtype: int | None = None) -> gs.Tensor:
    """A new initializer, named after the node's output."""
    return new_constant(follower.index.names.fresh(f"{_base(node)}_{what}"), array, dtype)


def integers(follower: Follower, node: gs.Node, what: str, *numbers: int) -> gs.Tensor:
    """A new vector of integers."""
    return constant(follower, node, what, np.array(numbers, np.int64))


def sizes_of(
    follower: Follower, node: gs.Node, source: gs.Tensor, sizes: Sequence[int], axes: Sequence[int | None]
) -> gs.Tensor:
    """An int64 vector of `sizes`, where those with an axis are the lengths that `source` has when the model runs."""
    parts: list[gs.Tensor] = []
    run: list[int] = []
    for size, axis in zip(sizes, axes, strict=True):
        if axis is None:
            run.append(size)
            continue
        if run:
            parts.append(integers(follower, node, "sizes", *run))
            run = []
        parts.append(length_of(follower, node, source, integers(follower, node, "axis", axis)))
    if run:
        parts.append(integers(follower, node, "sizes", *run))
    return parts[0] if len(parts) == 1 else made(follower, node, "Concat", parts, {"axis": 0}, "sizes")


def length_of(follower: Follower, node: gs.Node, source: gs.Tensor, axis: gs.Tensor) -> gs.Tensor:
    """How long `source` is along an axis when the model runs; of the rank of `axis`."""
    shape = made(follower, node, "Shape", [source], {}, "shape")
    return made(follower, node, "Gather", [shape, axis], {"axis": 0}, "size")


def made(
    follower: Follower, root: gs.Node, op: str, operands: list[gs.Tensor], attributes: dict[str, Any], what: str
) -> gs.Tensor:
    """The output of a new node right before `root`."""
    index = follower.index
    output = new_variable(index.names.fresh(f"{_base(root)}_{what}"))
    node = new_node(op, "", index.node_names.fresh(f"{_base(root)}_{what}"), attributes, [], [])
    list.extend(node.inputs, operands)  # the index keeps the tensors' own lists
    list.append(node.outputs, output)
    follower.edits.add(node, index.scope(root), index.keys_before(root, operands, 1)[0])
    follower.tell(node)
    return output


def _base(node: gs.Node) -> str:
    return next((str(tensor.name) for tensor in node.outputs if tensor.name), str(node.op))
