"""Random tensors, and inputs of a random model drawn for the operators that read them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from rewriter.core.language.operator_traits import SPREADING, of_rule, pick, traits
from rewriter.core.language.schema import FLOATS
from rewriter.core.onnxfile.external_data import tensors_of
from rewriter.core.onnxfile.part import free_inputs
from rewriter.trust.proof.instances.instance import MOST_ELEMENTS, Array, Instance, shape_of

# The element types that a model names: of its weights, of its inputs and outputs, and those that it casts to.


def float_types(model: onnx.ModelProto) -> list[Any]:
    """NumPy's types for the floating point types of more than one byte that a model names."""
    codes = {tensor.data_type for tensor in tensors_of(model)}
    for info in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        codes.add(info.type.tensor_type.elem_type)
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    codes |= {a.i for node in nodes if traits(node.op_type).dtype == "to" for a in node.attribute if a.name == "to"}
    known = onnx.TensorProto.DataType.values()
    dtypes = (onnx.helper.tensor_dtype_to_np_dtype(code) for code in sorted(codes) if code in known and code)
    return [dtype for dtype in dtypes if dtype.kind in "fV" and dtype.itemsize > 1]


Role = tuple[str, int]
ANY: Role = ("any", 0)
POSITIVE: Role = ("positive", 0)
SMALL: Role = ("small", 0)
DIVISOR: Role = ("divisor", 0)

TAME, ROUGH, EDGES, LARGE = "tame", "rough", "edges", "large"
STYLES = (TAME, ROUGH, EDGES)
_HALF_EXPONENTS = np.array([-13, -10, -6, -3, 0, 4, 7, 10, 14, 14, 15])
_TEXTS = np.array(["", "a", "b", "ab"], dtype=object)


def random_array(rng: np.random.Generator, dtype: int, shape: tuple[int, ...], role: Role = ANY, style: str = TAME) -> Array:
    """A tensor.

    Args:
        rng: the only source of chance.
        dtype: a TensorProto number.
        shape: its dimensions.
        role: ("index", n) for positions on an axis of length n, `POSITIVE`, `SMALL` (exponents, counts),
            `DIVISOR` (an integer is not 0, and not -1 if the least number occurs, which stops the process) or `ANY`.
        style: one of `STYLES`; or `LARGE`, finite numbers of every magnitude that half precision has.
    """
    if dtype == TensorProto.STRING:
        return np.asarray(rng.choice(_TEXTS, shape), dtype=object)
    kind = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    if dtype == TensorProto.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if role[0] == "index":
        length = max(role[1], 1)
        return rng.integers(-length if style == ROUGH and _signed(dtype) else 0, length, shape).astype(kind)
    if dtype in FLOATS:
        return _floats(rng, kind, shape, role, style)
    return _integers(rng, kind, shape, role, style)


def _signed(dtype: int) -> bool:
    return dtype in (TensorProto.INT64, TensorProto.INT32, TensorProto.INT16, TensorProto.INT8) or dtype in FLOATS


def _floats(rng: np.random.Generator, kind: Any, shape: tuple[int, ...], role: Role, style: str) -> Array:
    if role == POSITIVE:
        return np.asarray(rng.integers(1, 12, shape) / 4.0).astype(kind)
    if role == SMALL:
        return rng.integers(0, 4, shape).astype(kind)
    values = rng.integers(-12, 13, shape) / 4.0 if style == TAME else rng.normal(0.0, 2.0, shape)
    found = np.asarray(values).astype(kind)
    if style == LARGE and kind == np.float16:
        return np.asarray(found * 2.0 ** rng.choice(_HALF_EXPONENTS, shape)).clip(-60000, 60000).astype(kind)
    if style == EDGES and found.size:
        hit = rng.random(shape) < 0.35
        found = np.where(hit, rng.choice(_float_edges(kind), shape), found)
    return np.asarray(found, dtype=kind)


def _float_edges(kind: Any) -> Array:
    if kind == np.float16:
        numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, 65504.0, -65504.0]
    else:
        numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38]
    with np.errstate(all="ignore"):
        return np.array(numbers).astype(kind)


def _integers(rng: np.random.Generator, kind: Any, shape: tuple[int, ...], role: Role, style: str) -> Array:
    bounds = np.iinfo(kind) if np.issubdtype(kind, np.integer) else None
    if bounds is None or role in (SMALL, POSITIVE):
        return rng.integers(int(role == POSITIVE), 4, shape).astype(kind)
    least = max(-6, int(bounds.min))
    found = rng.integers(least, 7, shape).astype(kind)
    if style == EDGES and found.size:
        edges = np.array([0, 1, bounds.min, bounds.max, bounds.max // 2 + 1], dtype=kind)
        found = np.where(rng.random(shape) < 0.35, rng.choice(edges, shape), found).astype(kind)
    if role == DIVISOR:
        stops = (found == 0) | (found.astype(np.float64) == -1.0 if style == EDGES else False)
        found = np.where(stops, 3, found)
    return np.asarray(found, dtype=kind)


# Inputs for an instance, drawn with a view to who reads them.

_LENGTHS = {"reshape": 1, "expand": 1, "tile": 1, "constant_of_shape": 0, "range": 0, "top_k": 1, "Resize": 2, "Upsample": 1}
"""The first operand that holds lengths, by form or operator."""
_STRANGE: Mapping[tuple[str, int], Role] = {
    ("BatchNormalization", 4): POSITIVE, ("BitShift", 1): SMALL, ("Div", 1): DIVISOR, ("Dropout", 1): ("index", 1),
    ("Mod", 1): DIVISOR, ("Pow", 1): SMALL,
}  # fmt: skip


class NoInputs(Exception):
    """The inputs cannot be drawn: a shape is not known, or too large."""


def feed(instance: Instance, rng: np.random.Generator, style: str, repaired: onnx.ModelProto | None = None) -> dict[str, Array]:
    """Inputs in a style of `arrays`.

    Args:
        instance: the model.
        rng: the only source of chance.
        style: how numbers are drawn.
        repaired: the model after a repair. It shows the meaning of an input that an unknown operator reads before.

    Raises:
        NoInputs.
    """
    graph = instance.model.graph
    roles = ({} if repaired is None else _roles(repaired.graph, instance.sizes)) | _roles(graph, instance.sizes)
    found: dict[str, Array] = {}
    shapes = {info.name: shape_of(info, instance.sizes) for info in free_inputs(graph)}
    for info in free_inputs(graph):
        shape = shapes[info.name]
        kind = info.type.tensor_type.elem_type
        if info.name in instance.fixed:
            found[info.name] = instance.fixed[info.name]
            continue
        if shape is None or not kind:
            raise NoInputs(info.name)
        dims = tuple(2 if dim is None else dim for dim in shape)
        if math.prod(dims) > MOST_ELEMENTS or any(dim < 0 for dim in dims):
            raise NoInputs(info.name)
        role = roles.get(info.name, ANY)
        found[info.name] = random_array(rng, kind, dims, role, TAME if role in (SMALL, POSITIVE) else style)
        alike = [lengths for lengths in shapes.values() if lengths and (len(lengths),) == dims and None not in lengths]
        if role == POSITIVE and kind not in FLOATS and alike and rng.random() < 0.5:  # the lengths of another input
            found[info.name] = np.array(alike[rng.integers(len(alike))], dtype=found[info.name].dtype)
    return found


_KEEPING = SPREADING | of_rule("cast")


def _roles(graph: onnx.GraphProto, sizes: Mapping[str, int]) -> dict[str, Role]:
    """The meanings of tensors for the nodes that read them, also by way of nodes that only move data."""
    shapes = {info.name: shape_of(info, sizes) for info in graph.input}
    shapes.update({tensor.name: list(tensor.dims) for tensor in graph.initializer})
    roles: dict[str, Role] = {}
    for node in reversed(graph.node):
        axis = next((int(a.i) for a in node.attribute if a.name == "axis"), 0)
        for position, name in enumerate(node.input):
            role = operand_role(node.op_type, position, axis, shapes.get(node.input[0]))
            if role == ANY and node.op_type in _KEEPING and traits(node.op_type).is_data(position):
                role = roles.get(node.output[0], ANY)
            if role != ANY:
                roles[name] = role
    return roles


def operand_role(op: str, position: int, axis: int, shape: Sequence[int | None] | None) -> Role:
    """The meaning of an operand for an operator; places are along an axis of the first operand, which has this shape."""
    lengths, known = pick(_LENGTHS, op), traits(op)
    if position == known.indices:
        length = shape[axis] if position and shape and -len(shape) <= axis < len(shape) else 1
        return "index", length or 1
    if lengths is not None and position >= lengths:
        return POSITIVE
    if position == known.axes:
        return "index", 1
    return _STRANGE.get((op, position), ANY)
