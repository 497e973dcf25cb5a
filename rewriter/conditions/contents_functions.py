"""Functions of expressions that ask what a tensor holds, whoever computes it and whatever its shape.

A pattern's `const w` answers this for the operands that it names; these answer it for any matched tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context, label
from rewriter.conditions.rule_values import UNKNOWN, Symbol
from rewriter.errors import RewriterError
from rewriter.graph.values import constant_array

_SPREADING = frozenset((
    "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand", "Tile", "Slice", "Gather",
))  # fmt: skip
"""Operators whose output holds nothing but elements of their first operand."""

_LONGEST_CHAIN = 64


def _constant(context: Context, tensor: gs.Tensor) -> Any:
    if not context.is_constant(tensor):
        return context.doubt(f"{label(tensor)} is no constant")
    return context.array(tensor)


def _computed(context: Context, tensor: gs.Tensor) -> Any:
    if context.is_constant(tensor):
        return context.array(tensor)
    node = context.producer(tensor)
    if node is None or tensor is not node.outputs[0]:
        return context.doubt(f"{label(tensor)} is not the first output of a node")
    for operand in node.inputs:
        if operand.name and not context.is_constant(operand):
            return context.doubt(f"{label(operand)} is no constant")
    found = context.facts.computed(node)
    return context.doubt(f"{label(node)} is not computed before the model runs") if found is None else found


def _fill(context: Context, tensor: gs.Tensor) -> Any:
    for _ in range(_LONGEST_CHAIN):
        node = context.producer(tensor)
        if node is None or node.op == "Constant":
            break
        if (node.domain or "") not in ("", "ai.onnx"):
            return context.doubt(f"{label(node)} is no operator of ONNX")
        if node.op == "ConstantOfShape":
            return _only_item(context, node)
        if node.op not in _SPREADING or not node.inputs:
            break
        tensor = node.inputs[0]
    if not context.is_constant(tensor):
        return context.doubt(f"{label(tensor)} is no constant")
    return _number(context, context.array(tensor), label(tensor))


def _only_item(context: Context, node: gs.Node) -> Any:
    value = node.attrs.get("value")
    if value is None:
        return 0.0
    if not isinstance(value, gs.Constant):
        return context.doubt(f"{label(node)} holds no tensor")
    try:
        return _number(context, constant_array(value), label(node))
    except RewriterError as error:
        return context.doubt(str(error))


def _number(context: Context, array: np.ndarray[Any, Any], what: str) -> Any:
    flat = array.reshape(-1)
    if not flat.size or flat.dtype.kind not in "biuf" or not (flat == flat[0]).all():
        return context.doubt(f"{what} does not hold one number throughout")
    return flat[0].item()


def _expand_target(context: Context, tensor: gs.Tensor, value: list[Any]) -> Any:
    """A constant for Expand that means what the computed shape means: a length that the input has there already becomes 1."""
    context.see(tensor)
    shape = context.facts.shape(tensor)
    if shape is None:
        return context.doubt(f"rank of {label(tensor)} is unknown")
    before = len(value) - len(shape)
    target: list[Any] = []
    for at, item in enumerate(value):
        dim = shape[at - before] if at >= before else 1
        if isinstance(item, int):
            target.append(item)
        elif isinstance(item, Symbol) and isinstance(dim, str) and dim == str(item):
            target.append(1)
        else:
            return context.doubt(f"item {at} of the shape is unknown") if item is UNKNOWN else UNKNOWN
    return target


BODIES: dict[str, Callable[..., Any]] = {
    "computed": _computed,
    "constant": _constant,
    "expand_target": _expand_target,
    "fill": _fill,
}
