"""Nodes at which the C++ code of `onnx.shape_inference` reads behind the end of something, which ends the process, never
comes back, or fills the memory.

Found by giving every operator attributes and shapes that make no sense (onnx 1.23). Such a node is broken anyway: it
is kept from the inference and treated like any other node that fails in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rewriter.facts.node_facts import NodeFacts
from rewriter.facts.operator_shapes import SHAPE_OPERANDS
from rewriter.onnxfile.tensor_types import Dim

MOST_SIZES = 1 << 16
"""Length of an operand that holds sizes: of an Expand with 2^31 of them the inference writes a shape of 2^31 dimensions."""

_EINSUM = re.compile(r"[A-Za-z,.\-> ]*")


def survives(facts: NodeFacts) -> bool:
    """Whether a node may be handed to the inference."""
    check = CHECKS.get(facts.op)
    if check is not None and not check(facts):
        return False
    return all(_few(facts.shape(i)) for i in SHAPE_OPERANDS.get(facts.op, ()))


def _few(shape: tuple[Dim, ...] | None) -> bool:
    return shape is None or not any(isinstance(size, int) and size > MOST_SIZES for size in shape)


def _axis_in_rank(facts: NodeFacts) -> bool:
    shape, axis = facts.shape(0), facts.integer("axis", -1)
    return axis is not None and (shape is None or -len(shape) <= axis < len(shape))


def _batch_dims(facts: NodeFacts) -> bool:
    shape, dims = facts.shape(0), facts.integer("batch_dims", 0)
    return dims is not None and dims >= 0 and (shape is None or dims <= len(shape))


def _as_many_parts_as_outputs(facts: NodeFacts) -> bool:
    parts = facts.integer("num_outputs", len(facts.outputs))
    return parts == len(facts.outputs)


def _never(facts: NodeFacts) -> bool:
    return False


def _one_table(facts: NodeFacts) -> bool:
    return all(sum(name.startswith(kind) for name in facts.attrs) == 1 for kind in ("keys_", "values_"))


def _plain_equation(facts: NodeFacts) -> bool:
    """It never comes back from some characters."""
    equation = facts.text("equation", "")
    return bool(equation) and _EINSUM.fullmatch(equation) is not None


CHECKS: dict[str, Callable[[NodeFacts], bool]] = {
    "DictVectorizer": _never,
    "Einsum": _plain_equation,
    "GatherND": _batch_dims,
    "LabelEncoder": _one_table,
    "LayerNormalization": _axis_in_rank,
    "RMSNormalization": _axis_in_rank,
    "Split": _as_many_parts_as_outputs,
}
"""Operator → what has to hold of a node before it is inferred."""
