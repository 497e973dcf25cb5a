"""Functions of expressions that ask the graph or the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context, label
from rewriter.conditions.other_opsets import obstacle
from rewriter.conditions.rule_values import ABSENT, UNKNOWN, DType, Failure, Symbol
from rewriter.graph.metadata import node_texts


def _shape(context: Context, part: Any) -> Any:
    return context.shape(part) if isinstance(part, gs.Tensor) else list(np.shape(part))


def _rank(context: Context, part: Any) -> Any:
    found = _shape(context, part)
    return found if found is UNKNOWN else len(found)


def _dim(context: Context, part: Any, at: int) -> Any:
    found = _shape(context, part)
    if found is UNKNOWN:
        return found
    if not -len(found) <= at < len(found):
        raise Failure(f"a tensor of rank {len(found)} has no dimension {at}")
    dim = found[at]
    return context.doubt(f"dimension {at} of {label(part)} is unknown") if dim is UNKNOWN else dim


def _size(context: Context, part: Any, at: Any = None) -> Any:
    """Product of dimensions; 1 for none. One that is 0 makes the product 0 whatever the others are."""
    found = _shape(context, part)
    if found is UNKNOWN:
        return found
    dims = found if at is None else found[at] if isinstance(at, slice) else [found[at]]
    numbers = [dim for dim in dims if isinstance(dim, int)]
    if len(numbers) == len(dims) or 0 in numbers:
        return int(np.prod(numbers, dtype=object))
    symbols = [dim for dim in dims if dim is UNKNOWN or isinstance(dim, Symbol)]
    if len(symbols) == 1 and isinstance(symbols[0], Symbol) and all(dim == 1 for dim in numbers):
        return symbols[0]
    return context.doubt(f"a dimension of {label(part)} is unknown")


def _dtype(context: Context, part: Any) -> Any:
    if isinstance(part, gs.Tensor):
        return context.dtype(part)
    return DType(onnx.helper.np_dtype_to_tensor_dtype(np.asarray(part).dtype))


def _declared_rank(context: Context, tensor: gs.Tensor) -> Any:
    shape = context.declared(tensor)[1]
    return shape if shape is UNKNOWN else len(shape)


def _present(context: Context, value: Any) -> Any:
    return value if value is UNKNOWN else not (value is ABSENT or (isinstance(value, gs.Tensor) and not value.name))


def _producer(context: Context, tensor: gs.Tensor) -> str:
    found = context.producer(tensor)
    return found.op if found is not None else ""


def _in_node_order(context: Context, names: list[str]) -> list[str]:
    made = {
        tensor.name: number
        for number, node in enumerate(context.index.members(context.index.scopes[0]))
        for tensor in node.outputs
    }
    return sorted(names, key=lambda name: made.get(name, -1))


def _metadata(context: Context, node: gs.Node, key: str) -> str:
    return node_texts(node).metadata.get(key, "")


def _model_metadata(context: Context, key: str) -> str:
    found: dict[str, str] = getattr(context.index.graph, "model_metadata", None) or {}
    return found.get(key, "")


def _maybe(context: Context, condition: Any) -> Any:
    return True if condition is UNKNOWN else condition


def _known(context: Context, value: Any) -> bool:
    return value is not UNKNOWN and not (
        isinstance(value, list) and any(item is UNKNOWN or isinstance(item, Symbol) for item in value)
    )


def _known_but_one(context: Context, value: Any) -> Any:
    if value is UNKNOWN:
        return UNKNOWN
    return sum(not isinstance(item, int) for item in value) <= 1


def _axis(context: Context, axis: int, part: Any) -> Any:
    rank = _rank(context, part)
    if rank is UNKNOWN:
        return rank
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise Failure(f"axis {axis} does not exist at rank {rank}")
    return axis % rank if rank else 0


def _reshape_target(context: Context, tensor: gs.Tensor, value: list[Any]) -> Any:
    """A constant for Reshape (allowzero=0) that means what the computed shape means.

    A dimension known by name that the input has at the same place becomes 0, which copies it; one other unknown item becomes
    -1. A target dimension that is 0 can only be kept where the input has 0 at the same place, and beside one nothing may be
    inferred by -1.
    """
    context.see(tensor)
    dims = context.facts.shape(tensor) or ()
    target = [_kept(item, dims[at] if at < len(dims) else None) for at, item in enumerate(value)]
    unknown = target.count(-1)
    if unknown > 1:
        return context.doubt("more than one item of the shape is unknown")
    empty = [at for at, item in enumerate(value) if item == 0 and isinstance(item, int)]
    if empty and (unknown or any(at >= len(dims) or dims[at] != 0 for at in empty)):
        return context.doubt("a shape with a dimension of length 0 has no constant form here")
    return target


def _kept(item: Any, dim: Any) -> int:
    """An item of a shape as Reshape takes it: 0 to copy the input's dimension, -1 to infer it."""
    if isinstance(item, Symbol):
        return 0 if isinstance(dim, str) and dim == str(item) else -1
    return item if isinstance(item, int) else -1


def _broadcast(context: Context, left: list[Any], right: list[Any]) -> Any:
    result: list[Any] = []
    width = max(len(left), len(right))
    for one, other in zip([1] * (width - len(left)) + left, [1] * (width - len(right)) + right, strict=True):
        if one == 1 or (isinstance(one, Symbol) and isinstance(other, Symbol) and str(one) == str(other)):
            result.append(other)
        elif other == 1:
            result.append(one)
        elif isinstance(one, int) and isinstance(other, int):
            if one != other:
                raise Failure(f"{one} and {other} do not broadcast")
            result.append(one)
        else:
            result.append(one if isinstance(one, int) else other if isinstance(other, int) else UNKNOWN)
    return result


def _can_broadcast(context: Context, left: list[Any], right: list[Any]) -> Any:
    unknown = False
    for one, other in zip(reversed(left), reversed(right), strict=False):
        if isinstance(one, int) and isinstance(other, int):
            if one != other and 1 not in (one, other):
                return False
        elif 1 not in (one, other) and not (isinstance(one, Symbol) and isinstance(other, Symbol) and str(one) == str(other)):
            unknown = True
    return UNKNOWN if unknown else True


def _default(context: Context, value: Any, other: Any) -> Any:
    absent = value is ABSENT or (isinstance(value, gs.Tensor) and not value.name)
    return other if absent else value


BODIES: dict[str, Callable[..., Any]] = {
    "rank": _rank,
    "shape": _shape,
    "dim": _dim,
    "size": _size,
    "dtype": _dtype,
    "declared_dtype": lambda context, tensor: context.declared(tensor)[0],
    "declared_rank": _declared_rank,
    "declared_shape": lambda context, tensor: context.declared(tensor)[1],
    "value": lambda context, tensor: context.value(tensor),
    "is_const": lambda context, tensor: context.is_constant(tensor),
    "present": _present,
    "matched": lambda context, node: node is not ABSENT,
    "uses": Context.use_count,
    "users": lambda context, tensor: [node.op for node in context.uses(tensor)],
    "producer": _producer,
    "is_output": lambda context, tensor: context.index.output_of(tensor),
    "is_input": lambda context, tensor: context.index.input_of(tensor),
    "name": lambda context, part: part.name,
    "op": lambda context, node: node.op,
    "domain": lambda context, node: node.domain or "",
    "has": lambda context, node, attribute: attribute in node.attrs,
    "n_inputs": lambda context, node: len(node.inputs),
    "n_outputs": lambda context, node: len(node.outputs),
    "metadata": _metadata,
    "model_metadata": _model_metadata,
    "in_node_order": _in_node_order,
    "opset": lambda context, domain="": context.opset(None, domain),
    "keeps_meaning": lambda context, version, domain="": not obstacle(context, domain, version),
    "exporter": lambda context: context.exporter.name,
    "exporter_version": lambda context: context.exporter.version,
    "ir_version": lambda context: context.ir_version,
    "known": _known,
    "known_but_one": _known_but_one,
    "maybe": _maybe,
    "axis": _axis,
    "reshape_target": _reshape_target,
    "broadcast": _broadcast,
    "can_broadcast": _can_broadcast,
    "default": _default,
}
