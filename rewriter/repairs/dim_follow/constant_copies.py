"""Constants that hold something for each of the old size: the same for each, several that come again, or its number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.facts import constant_folding
from rewriter.core.facts.derive import array_of_value, node_facts
from rewriter.core.graph.objects import new_constant, new_node, new_variable
from rewriter.core.language.operator_traits import of_form, of_rule, traits
from rewriter.repairs.dim_follow.follower import Follower

# Nodes and constants that repairs put into the graph, inferred at both sizes as soon as they are there.


def constant(follower: Follower, node: gs.Node, what: str, array: Any, dtype: int | None = None) -> gs.Tensor:
    """A new initializer, named after the node's output."""
    return new_constant(follower.index.names.fresh(f"{_base(node)}_{what}"), array, dtype)


def integers(follower: Follower, node: gs.Node, what: str, *numbers: int) -> gs.Tensor:
    """A new vector of integers."""
    return constant(follower, node, what, np.array(numbers, np.int64))


def sizes_of(
    follower: Follower, node: gs.Node, source: gs.Tensor, sizes: Sequence[int], axes: Sequence[int | None]
) -> gs.Tensor:
    """An int64 vector of `sizes`; sizes with an axis are the lengths that `source` has when the model runs."""
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
    return parts[0] if len(parts) == 1 else new_operation(follower, node, "Concat", parts, {"axis": 0}, "sizes")


def length_of(follower: Follower, node: gs.Node, source: gs.Tensor, axis: gs.Tensor) -> gs.Tensor:
    """How long `source` is along an axis when the model runs; of the rank of `axis`."""
    shape = new_operation(follower, node, "Shape", [source], {}, "shape")
    return new_operation(follower, node, "Gather", [shape, axis], {"axis": 0}, "size")


def reshaped(follower: Follower, node: gs.Node, source: gs.Tensor, sizes: Sequence[int], what: str) -> gs.Tensor:
    """`source` in another shape."""
    return new_operation(follower, node, "Reshape", [source, integers(follower, node, "shape", *sizes)], {}, what)


def new_operation(
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


Array = np.ndarray[Any, Any]
_GATHERS = of_form("gather", "gather_nd")
_MOVES = of_rule("add", "cast", "concat", "flatten", "identity", "reshape", "squeeze", "sum", "transpose", "unsqueeze")
_DEEPEST = 60
"""Nodes between a constant and the constants that it is computed from."""


def values(follower: Follower, tensor: gs.Tensor, depth: int = 0) -> Array | None:
    """The contents of a tensor that is computed from constants alone; None if it is not, or if that would take too much.

    Floats may be rounded differently from a runtime, but equal computations are rounded equally.
    """
    found = _known(follower, tensor)
    node = follower.index.producer(tensor)
    if found is not None or node is None or depth > _DEEPEST or len(node.outputs) != 1 or not _from_constants(follower, tensor):
        return found
    arrays = [values(follower, one, depth + 1) if one.name else None for one in node.inputs]
    if any(array is None and one.name for array, one in zip(arrays, node.inputs, strict=True)):
        return None
    operands = [follower.old.fact(one) if one.name else None for one in node.inputs]
    facts = node_facts(node, follower.index.scope(node).opsets, operands, lambda i: arrays[i])
    return constant_folding.computed(facts, arrays, follower.old.fact(tensor).type)


def _known(follower: Follower, tensor: gs.Tensor) -> Array | None:
    """The value that the engine knows, or that follows from shapes and is the same for every size."""
    found = follower.context.facts.constant(tensor)
    if found is None and follower.old.fact(tensor).value == follower.new.fact(tensor).value:
        found = array_of_value(follower.old.fact(tensor))
    return found


def _from_constants(follower: Follower, tensor: gs.Tensor) -> bool:
    """Whether no input of the graph leads to a tensor, but by sizes that stay the same."""
    waiting, seen = [tensor], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or not one.name or follower.context.facts.is_constant(one) or _known(follower, one) is not None:
            continue
        seen.add(id(one))
        node = follower.index.producer(one)
        if node is None:
            return False
        waiting.extend(node.inputs)
    return True


def copies(follower: Follower, tensor: gs.Tensor, axis: int, times: int) -> bool:
    """Whether a tensor holds so many equal copies, one after the other along an axis: by its makers, or by its values."""
    node, made_of = follower.index.producer(tensor), None
    if node is not None and node.inputs and (node.domain or "") in ("", "ai.onnx"):
        source = node.inputs[0]
        shape, rank = follower.old.shape(source), len(follower.old.shape(tensor) or ())
        known = traits(node.op)
        if known.shape == "tile" and (repeats := values(follower, node.inputs[1])) is not None and len(repeats) == rank:
            made_of = repeats[axis] % times == 0
        elif known.shape == "expand" and shape is not None:
            place = axis - rank + len(shape)
            made_of = place < 0 or shape[place] == 1
        elif known.shape == "transpose":
            order = node.attrs.get("perm") or range(rank)[::-1]
            made_of = copies(follower, source, order[axis], times)
        elif known.rule in ("cast", "identity"):
            made_of = copies(follower, source, axis, times)
        elif known.shape == "reshape" and not axis and shape and isinstance(shape[0], int) and shape[0] % times == 0:
            made_of = copies(follower, source, 0, times)
    if made_of:
        return True
    array = values(follower, tensor)
    if array is None or axis >= array.ndim or array.shape[axis] % times:
        return False
    blocks = np.moveaxis(array, axis, 0).reshape(times, -1)
    return bool(np.all((blocks == blocks[:1]) | ((blocks != blocks) & (blocks[:1] != blocks[:1]))))


def one_of(follower: Follower, node: gs.Node, tensor: gs.Tensor, axis: int) -> gs.Tensor | None:
    """One entry along an axis of a constant, when all its entries there are equal."""
    size = (follower.old.shape(tensor) or ())[axis:][:1]
    if not size or not isinstance(size[0], int) or size[0] < 1 or not copies(follower, tensor, axis, size[0]):
        return None
    return _beginning(follower, node, tensor, axis, 1)


def tiled(follower: Follower, node: gs.Node, tensor: gs.Tensor, axis: int, lead: gs.Tensor, place: int) -> gs.Tensor | None:
    """A constant whose several entries come again for each of the old size, as often as `lead` is long at run time."""
    shape, ratios = follower.old.shape(tensor), follower.ratios(lead)
    if ratios is None or shape is None or not isinstance(size := shape[axis], int):
        return None
    unit = follower.unit(ratios[place])
    several, base = size // unit, tensor
    if unit != 1:
        if not copies(follower, tensor, axis, unit):
            return None
        base = _beginning(follower, node, tensor, axis, several)
    elif not _from_constants(follower, tensor):
        return None
    times = sizes_of(follower, node, lead, [0], [place])
    if several != 1:
        times = new_operation(follower, node, "Div", [times, integers(follower, node, "several", several)], {}, "times")
    before, after = [1] * axis, [1] * (len(shape) - axis - 1)
    parts = [integers(follower, node, "ones", *before)] if before else []
    parts += [times, *([integers(follower, node, "ones", *after)] if after else [])]
    repeats = parts[0] if len(parts) == 1 else new_operation(follower, node, "Concat", parts, {"axis": 0}, "repeats")
    return new_operation(follower, node, "Tile", [base, repeats], {}, "repeated")


def counted(follower: Follower, node: gs.Node, tensor: gs.Tensor, axis: int, lead: gs.Tensor, place: int) -> gs.Tensor | None:
    """Indices that grow by equal steps along an axis, for as many as `lead` has at run time."""
    array, dtype = values(follower, tensor), follower.context.facts.dtype(tensor)
    if array is None or dtype != 7 or array.shape[axis] < 2 or not _are_places(follower, node):
        return None
    steps = np.diff(array, axis=axis)
    step = np.take(steps, [0], axis)
    if not bool((steps == step).all()):
        return None
    zero, one = (constant(follower, node, what, np.array(number, np.int64)) for what, number in (("zero", 0), ("one", 1)))
    length = length_of(follower, node, lead, constant(follower, node, "axis", np.array(place, np.int64)))
    numbers = new_operation(follower, node, "Range", [zero, length, one], {}, "numbers")
    ranked = [-1 if i == axis else 1 for i in range(array.ndim)]
    if len(ranked) > 1:
        numbers = reshaped(follower, node, numbers, ranked, "numbers")
    more = new_operation(follower, node, "Mul", [numbers, constant(follower, node, "step", step)], {}, "steps")
    return new_operation(
        follower, node, "Add", [more, constant(follower, node, "first", np.take(array, [0], axis))], {}, "counted"
    )


def _are_places(follower: Follower, node: gs.Node) -> bool:
    """Whether the results of a node are only used as indices of elements."""
    waiting, seen = [node], set[int]()
    while waiting:
        one = waiting.pop()
        for user in follower.index.uses(one.outputs[0]):
            if user.op in _MOVES and id(user) not in seen:
                seen.add(id(user))
                waiting.append(user)
            elif user.op not in _MOVES and not (user.op in _GATHERS and user.inputs[0] is not one.outputs[0]):
                return False
        if follower.index.output_of(one.outputs[0]):
            return False
    return True


def repeat(follower: Follower, node: gs.Node, position: int, lead: gs.Tensor, axes: dict[int, int]) -> bool:
    """Expands an operand along axes to the lengths that `lead` has along its own, if the operand does not grow by itself."""
    if position >= len(node.inputs) or not node.inputs[position].name:
        return False
    tensor = node.inputs[position]
    shape, like = follower.old.shape(tensor), follower.old.shape(lead)
    if tensor is lead or follower.grows(tensor) or shape is None or like is None or None in shape:
        return False
    if any(axis >= len(shape) or shape[axis] != like[source] for axis, source in axes.items()):
        return False
    base = tensor
    for axis in axes:
        if shape[axis] != 1:
            first = one_of(follower, node, base, axis)
            if first is None:
                return False
            base = first
    sizes = [1 if i in axes else dim for i, dim in enumerate(shape)]
    if not all(isinstance(size, int) for size in sizes):
        return False
    numbers = [size for size in sizes if isinstance(size, int)]
    wanted = sizes_of(follower, node, lead, numbers, [axes.get(i) for i in range(len(shape))])
    follower.edits.set_input(node, position, new_operation(follower, node, "Expand", [base, wanted], {}, "repeated"))
    return True


def _beginning(follower: Follower, node: gs.Node, tensor: gs.Tensor, axis: int, several: int) -> gs.Tensor:
    """The first entries along an axis: a new constant, or a Slice of values that are computed from weights."""
    array = follower.context.facts.constant(tensor)
    if array is not None:
        return constant(follower, node, "one", np.take(array, range(several), axis), follower.context.facts.dtype(tensor))
    if follower.index.scope(node).opsets.get("", 1) < 10:
        return new_operation(follower, node, "Slice", [tensor], {"starts": [0], "ends": [several], "axes": [axis]}, "one")
    bounds = [integers(follower, node, what, number) for what, number in (("start", 0), ("end", several), ("axis", axis))]
    return new_operation(follower, node, "Slice", [tensor, *bounds], {}, "one")
