"""Repairs of nodes that take elements by their places, which a model counted for the old size."""

from __future__ import annotations

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.rewriting.dim_follow.constant_copies import repeat, values
from rewriter.rewriting.dim_follow.follower import Follower
from rewriter.rewriting.dim_follow.new_nodes import constant, integers, made, sizes_of
from rewriter.rewriting.dim_follow.refusal import DoesNotFlow


def gather(follower: Follower, node: gs.Node) -> bool:
    """Places in a dimension that holds the growing one and others: the same others are taken of each.

    The indices of the first, with the length of the others added for each further one, are what the node has.
    """
    data, axis = node.inputs[0], node.attrs.get("axis", 0)
    ratios, shape = follower.ratios(data), follower.old.shape(data)
    if ratios is None or shape is None or not isinstance(axis, int) or not -len(shape) <= axis < len(shape):
        return False
    axis %= len(shape)
    size, indices = shape[axis], values(follower, node.inputs[1])
    others = [dim for i, dim in enumerate(shape) if i != axis and isinstance(dim, int) and ratios[i] == 1]
    if ratios[axis] == 1 or not isinstance(size, int) or len(others) != len(shape) - 1 or indices is None or not indices.ndim:
        return False
    unit = follower.unit(ratios[axis])
    length = size // unit
    numbers = (np.arange(unit) * length).reshape(-1, *[1] * (indices.ndim - 1))
    if len(indices) != unit or indices.dtype.kind != "i" or not (indices[0] >= 0).all() or not (indices[0] < length).all():
        return False
    if not (indices == indices[:1] + numbers).all():
        return False
    wanted = [*shape[:axis], -1, length, *shape[axis + 1 :]]
    target = integers(follower, node, "shape", *(dim for dim in wanted if isinstance(dim, int)))
    follower.edits.set_input(node, 0, made(follower, node, "Reshape", [data, target], {}, "each"))
    follower.edits.set_input(node, 1, constant(follower, node, "places", indices[0]))
    follower.edits.set_attribute(node, "axis", axis + 1)
    return True


def gather_nd(follower: Follower, node: gs.Node) -> bool:
    """Indices that count the dimension, as those of attention masks do: each of it is asked for by its own number.

    What is taken of each is the same; then it is taken with a Gather, which leaves the dimension alone.
    """
    data, indices = node.inputs[0], values(follower, node.inputs[1])
    ratios, shape = follower.ratios(data), follower.old.shape(data)
    if indices is None or not ratios or not shape or ratios[0] == 1 or node.attrs.get("batch_dims", 0) or indices.ndim < 2:
        return False
    depth = indices.shape[-1]
    counts = np.arange(len(indices)).reshape(-1, *[1] * (indices.ndim - 2))
    same = bool((indices == indices[:1])[..., 1:].all())
    if depth < 2 or len(indices) != shape[0] or not (indices[..., 0] == counts).all() or not same:
        return False
    if depth == 2:
        follower.edits.set_op(node, "Gather", node.domain)
        follower.edits.set_attribute(node, "batch_dims", None)
        follower.edits.set_attribute(node, "axis", 1)
        follower.edits.set_input(node, 1, constant(follower, node, "places", indices[0, ..., 1]))
        return True
    one = constant(follower, node, "places", indices[:1, ..., 1:])
    sizes = sizes_of(follower, node, data, [*one.shape], [0, *[None] * (indices.ndim - 1)])
    follower.edits.set_attribute(node, "batch_dims", 1)
    follower.edits.set_input(node, 1, made(follower, node, "Expand", [one, sizes], {}, "places"))
    return True


def gather_elements(follower: Follower, node: gs.Node) -> bool:
    """Indices, or data, that are the same for each of the dimension are repeated for it."""
    position = 1 if follower.grows(node.inputs[0]) else 0
    lead = node.inputs[1 - position]
    ratios, axis = follower.ratios(lead), node.attrs.get("axis", 0)
    if ratios is None or not isinstance(axis, int) or not -len(ratios) <= axis < len(ratios):
        return False
    places = [i for i, ratio in enumerate(ratios) if ratio != 1]
    if axis % len(ratios) in places and position:
        raise DoesNotFlow.through(node, ", which takes places along it")
    places = [place for place in places if place != axis % len(ratios)]
    if not places or follower.grows(node.inputs[position]):
        return False
    if not repeat(follower, node, position, lead, dict(zip(places, places, strict=True))):
        raise DoesNotFlow.through(node, f", whose {'indices' if position else 'data'} are for the old size")
    return True
