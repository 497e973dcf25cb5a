"""A hash of what a node is, so that a graph's state can be told from an earlier one by adding and subtracting what changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.graph.node_state import NodeState

SMALL = 1024  # bytes of a constant that are looked at; larger ones are told apart by identity


def signature(node: gs.Node | NodeState) -> int:
    """Equal for nodes of the same operator, attributes and operands; valid within one process."""
    attributes = tuple(sorted((name, attribute_key(value)) for name, value in node.attrs.items()))
    return hash(
        (node.domain or "", node.op, attributes, tuple(map(_operand, node.inputs)), tuple(t.name for t in node.outputs))
    )


def _operand(tensor: gs.Tensor) -> Any:
    """A tensor's name; for a small constant that a rule made, its contents, since its name may have been used before."""
    if isinstance(tensor, gs.Constant):
        values = tensor._values
        if isinstance(values, np.ndarray) and values.nbytes <= SMALL:
            return str(values.dtype), values.shape, values.tobytes()
    return tensor.name


def attribute_key(value: Any) -> Any:
    """Equal for attribute values that are written alike."""
    if isinstance(value, list | tuple):
        return tuple(map(attribute_key, value))
    if isinstance(value, float):  # 2.0 is another attribute than 2
        return "float", value
    return value if isinstance(value, int | str | bytes) else id(value)
