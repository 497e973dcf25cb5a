"""Inputs for an instance, drawn with a view to who reads them."""

from __future__ import annotations

import math

import numpy as np
import onnx

from rewriter.proof.instances.instance import MOST_ELEMENTS, Array, Instance, free_inputs, shape_of
from rewriter.proof.instances.random_arrays import ANY, DIVISOR, POSITIVE, SMALL, TAME, Role, random_array

_POSITIONS = {"Gather": 1, "GatherElements": 1, "ScatterElements": 1, "Scatter": 1, "OneHot": 0, "ScatterND": 1, "GatherND": 1}
_SHAPE_READERS = {"Reshape": 1, "Expand": 1, "Tile": 1, "ConstantOfShape": 0, "Range": 0, "Resize": 2, "Upsample": 1, "TopK": 1}
_AXES_READERS = {"CumSum": 1, "Squeeze": 1, "Unsqueeze": 1}
_STRANGE = {"Pow": SMALL, "BitShift": SMALL, "Div": DIVISOR, "Mod": DIVISOR}


class NoInputs(Exception):
    """The inputs cannot be drawn: a shape is not known, or too large."""


def feed(instance: Instance, rng: np.random.Generator, style: str) -> dict[str, Array]:
    """Inputs in a style of `arrays`.

    Raises:
        NoInputs.
    """
    graph = instance.model.graph
    roles = _roles(instance)
    found: dict[str, Array] = {}
    for info in free_inputs(graph):
        shape = shape_of(info, instance.sizes)
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
    return found


def _roles(instance: Instance) -> dict[str, Role]:
    graph = instance.model.graph
    shapes = {info.name: shape_of(info, instance.sizes) for info in graph.input}
    shapes.update({tensor.name: list(tensor.dims) for tensor in graph.initializer})
    roles: dict[str, Role] = {}
    for node in graph.node:
        for position, name in enumerate(node.input):
            if position == _POSITIONS.get(node.op_type):
                roles[name] = ("index", _length(node, shapes.get(node.input[0]) if position else None))
            elif position >= _SHAPE_READERS.get(node.op_type, 1 << 30):
                roles[name] = POSITIVE
            elif position == _AXES_READERS.get(node.op_type):
                roles[name] = ("index", 1)
            elif position and node.op_type in _STRANGE:
                roles[name] = _STRANGE[node.op_type]
            elif (node.op_type, position) == ("BatchNormalization", 4):
                roles[name] = POSITIVE
            elif node.op_type == "Dropout" and position == 1:
                roles[name] = ("index", 1)
    return roles


def _length(node: onnx.NodeProto, shape: list[int | None] | None) -> int:
    axis = next((int(a.i) for a in node.attribute if a.name == "axis"), 0)
    if not shape or not -len(shape) <= axis < len(shape):
        return 1
    return shape[axis] or 1
