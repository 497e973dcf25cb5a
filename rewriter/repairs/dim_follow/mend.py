"""Repairs of nodes that hold the old size of a dimension, one function an operator.

Each function checks whether the node needs a repair, edits it through the follower's transaction and returns whether it did. If
there is no repair, it leaves the node as it is, and the follower rejects it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions.recorded_graph import label
from rewriter.core.facts import array_functions
from rewriter.core.facts.derive import array_of_value, node_facts
from rewriter.core.facts.shape_rules import ShapeValue
from rewriter.core.graph.objects import new_constant, new_node, new_variable
from rewriter.core.language.operator_traits import of_form, of_rule, traits
from rewriter.core.onnxfile.tensors import Dim
from rewriter.core.whole_model import DoesNotFlow
from rewriter.repairs.dim_follow.follower import Follower

# Constants that hold something for each of the old size: the same for each, several that come again, or its number.

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
    found = _known_array(follower, tensor)
    node = follower.index.producer(tensor)
    if found is not None or node is None or depth > _DEEPEST or len(node.outputs) != 1 or not _from_constants(follower, tensor):
        return found
    arrays = [values(follower, one, depth + 1) if one.name else None for one in node.inputs]
    if any(array is None and one.name for array, one in zip(arrays, node.inputs, strict=True)):
        return None
    operands = [follower.old.fact(one) if one.name else None for one in node.inputs]
    facts = node_facts(node, follower.index.scope(node).opsets, operands, lambda i: arrays[i])
    return array_functions.computed(facts, arrays, follower.old.fact(tensor).type)


def _known_array(follower: Follower, tensor: gs.Tensor) -> Array | None:
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
        if (
            id(one) in seen
            or not one.name
            or follower.context.facts.is_constant(one)
            or _known_array(follower, one) is not None
        ):
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


# The place of a dimension in a Reshape.
#
# A Reshape keeps the order of elements. So a dimension is found again at the place where the product of the dimensions before
# it is the same: [8, 12, 64] with a batch of 8 in front becomes [8, 768], or [96, 64] with the batch in the first dimension,
# and not [12, 512].

Product = tuple[int, tuple[str, ...]]


def aligned(
    before: Sequence[Dim], ratios: Sequence[Fraction], units: Sequence[int], after: Sequence[Dim], *, behind: bool = False
) -> list[Fraction] | None:
    """The factor by which each dimension of the result grows.

    Args:
        before: the operand's shape at the old sizes.
        ratios: the factor by which each of its dimensions grows (1: not at all).
        units: the old size of the dimension that makes it grow; a dimension of 24 may hold a batch of 8 and 3 more.
        after: the result's shape at the old sizes.
        behind: whether a dimension may also hold the growing one behind others, as [5, 8, 64] with a batch of 8 becomes
            [40, 64]. Only its size is followed then, since the first of the batch no longer come first in it.

    Returns:
        A factor for each dimension of `after`; None if there is no place for a factor, or unknown dimensions hide it.
    """
    found = [Fraction(1)] * len(after)
    for position, (ratio, unit) in enumerate(zip(ratios, units, strict=True)):
        if ratio == 1:
            continue
        place = _place(before, position, unit, after, behind=behind)
        if place is None:
            return None
        found[place] *= ratio
    return found


def _place(before: Sequence[Dim], position: int, unit: int, after: Sequence[Dim], *, behind: bool) -> int | None:
    """The dimension of `after` that holds the growing part of dimension `position` of `before`.

    There may be several: before a size of 1 and behind it the product is the same, and inside of a dimension the growing part
    may come first or last. The same position is the likeliest, then a dimension of exactly this size, then the outermost.
    """
    size, start = before[position], _product(before[:position])
    if start is None or not isinstance(size, int) or size % unit:
        return None
    places = []
    for place, dim in enumerate(after):
        outer = _product(after[:place])
        if outer is None or not isinstance(dim, int) or dim % unit or not dim or outer[1] != start[1]:
            continue
        if behind and outer[0] < start[0] and start[0] % outer[0] == 0 and (outer[0] * dim) % (start[0] * unit) == 0:
            places.append(place)
            continue
        inside, rest = divmod(outer[0], start[0])
        if not rest and inside and (size // unit) % inside == 0:
            places.append(place)
    if position in places and before[: position + 1] == after[: position + 1]:
        return position
    exact = [place for place in places if after[place] == unit]
    return next(iter(exact or places), None)


def _product(dims: Sequence[Dim]) -> Product | None:
    number, names = 1, []
    for dim in dims:
        if dim is None:
            return None
        if isinstance(dim, int):
            number *= dim
        else:
            names.append(dim)
    return number, tuple(sorted(names))


# Repairs of nodes that take elements by their places, which a model counted for the old size.


def gather(follower: Follower, node: gs.Node) -> bool:
    """Indices in a dimension that holds the growing one and others: the same others are read for each entry of the growing one.

    The node has the indices for the first entry, and the same plus the length of the others for each further entry.
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
    wanted = [*others[:axis], -1, length, *others[axis:]]
    follower.edits.set_input(node, 0, reshaped(follower, node, data, wanted, "each"))
    follower.edits.set_input(node, 1, constant(follower, node, "places", indices[0]))
    follower.edits.set_attribute(node, "axis", axis + 1)
    return True


def gather_nd(follower: Follower, node: gs.Node) -> bool:
    """Indices that count the dimension, as attention masks have them: each entry of the dimension is read by its own number.

    If the same is read of each entry, a Gather replaces the node and leaves the dimension alone.
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
    follower.edits.set_input(node, 1, new_operation(follower, node, "Expand", [one, sizes], {}, "places"))
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


Mender = Callable[[Follower, gs.Node], bool]
INT64 = 7
LARGEST = {6: 2**31 - 1, 7: 2**63 - 1}
"""The ends that Slice reads as "to the end", by element type."""


def reshape(follower: Follower, node: gs.Node) -> bool:
    """A fixed size becomes 0 (the operand's size) or -1 (the rest)."""
    data, target = node.inputs[0], node.outputs[0]
    ratios, before, after = follower.ratios(data), follower.old.shape(data), follower.old.shape(target)
    if len(node.inputs) < 2 or ratios is None or before is None or after is None or None in after:
        return False
    factors = aligned(before, ratios, [follower.unit(ratio) for ratio in ratios], after, behind=True)
    wanted = follower.old.value(node.inputs[1])
    if factors is None or wanted is None:
        return False
    grown = follower.new.shape(target)
    expected = [_grown(size, factor) for size, factor in zip(after, factors, strict=True)]
    if grown is not None and list(grown) == expected:
        return False
    if follower.old.value(node.inputs[1]) != follower.new.value(node.inputs[1]):
        return False  # computed from the dimension, and wrongly
    items = _target(before, after, ratios, factors, wanted.items, copies=not node.attrs.get("allowzero", 0))
    if items is None:
        return False
    if follower.any_size:  # an open or copied size may belong to another dimension
        items = [0 if said == 0 else item for said, item in zip(wanted.items, items, strict=True)]
        if any(said == -1 != item for said, item in zip(wanted.items, items, strict=True)):
            return False
    follower.edits.set_input(node, 1, constant(follower, node, "shape", np.array(items, np.int64)))
    return True


def _grown(size: Dim, factor: Fraction) -> Dim:
    return int(size * factor) if isinstance(size, int) else size


def _target(
    before: Sequence[Dim],
    after: Sequence[Dim],
    ratios: Sequence[Fraction],
    factors: Sequence[Fraction],
    wanted: Sequence[Dim],
    *,
    copies: bool,
) -> list[int] | None:
    """The new shape operand of the Reshape; None if two dimensions would have to be left open."""
    items: list[int] = []
    for i, (size, factor) in enumerate(zip(after, factors, strict=True)):
        same = i < len(before) and before[i] == size and ratios[i] == factor
        if factor == 1 and isinstance(size, int) and size > 0:
            items.append(size)
        elif copies and same:
            items.append(0)
        else:
            items.append(-1)
    if items.count(-1) > 1:
        return None
    open_before = next((i for i, item in enumerate(wanted) if item == -1), None)
    if -1 not in items and open_before is not None and factors[open_before] == 1:
        items[open_before] = -1  # as before
    return items


def expand(follower: Follower, node: gs.Node) -> bool:
    """A fixed size becomes 1, which keeps the operand's size; or the operand becomes one of the copies that it holds."""
    if len(node.inputs) < 2:
        return False
    data, wanted = node.inputs[0], follower.old.value(node.inputs[1])
    ratios, shape = follower.ratios(data), follower.old.shape(data)
    items = None if wanted is None else wanted.known()
    if wanted is None or items is None or ratios is None or shape is None:
        return False
    if wanted != follower.new.value(node.inputs[1]):
        return _one_copy(follower, node, items, follower.new.value(node.inputs[1]))
    changed = list(items)
    for i, (ratio, size) in enumerate(zip(reversed(ratios), reversed(shape), strict=True), start=1):
        if ratio != 1 and i <= len(items) and changed[-i] == size:
            changed[-i] = 1
    if changed == items:
        return False
    follower.edits.set_input(node, 1, constant(follower, node, "shape", np.array(changed, np.int64)))
    return True


def _one_copy(follower: Follower, node: gs.Node, items: list[int], grown: ShapeValue | None) -> bool:
    """An Expand whose shape follows already, of a constant that does not."""
    data, shape = node.inputs[0], follower.old.shape(node.inputs[0])
    if grown is None or shape is None or follower.grows(data):
        return False
    for i, (old, new) in enumerate(zip(reversed(items), reversed(grown.items), strict=False), start=1):
        if old != new and i <= len(shape) and shape[-i] == old != 1:
            first = one_of(follower, node, data, len(shape) - i)
            if first is None:
                return False
            follower.edits.set_input(node, 0, first)
            return True
    return False


def slice_(follower: Follower, node: gs.Node) -> bool:
    """A slice to the old size, which takes the whole dimension, becomes a slice to the end."""
    data = node.inputs[0]
    shape, ratios = follower.old.shape(data), follower.ratios(data)
    if shape is None or ratios is None:
        return False
    if "ends" in node.attrs:
        starts, ends = list(node.attrs["starts"]), list(node.attrs["ends"])
        axes, steps = list(node.attrs.get("axes", range(len(ends)))), [1] * len(ends)
        largest = LARGEST[6]
    else:
        values = [_known(follower, node, i) for i in (1, 2, 3, 4)]
        if values[0] is None or values[1] is None:
            return False
        starts, ends = values[0], values[1]
        axes, steps = values[2] or list(range(len(ends))), values[3] or [1] * len(ends)
        largest = LARGEST.get(follower.context.facts.dtype(node.inputs[2]) or 0, LARGEST[7])
    changed = [
        largest if ratios[axis] != 1 and start == 0 and step == 1 and end == shape[axis] else end
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=False)
    ]
    if changed == ends:
        return False
    if "ends" in node.attrs:
        follower.edits.set_attribute(node, "ends", changed)
    else:
        dtype = np.int32 if largest == LARGEST[6] else np.int64
        follower.edits.set_input(node, 2, constant(follower, node, "ends", np.array(changed, dtype)))
    return True


def _known(follower: Follower, node: gs.Node, position: int) -> list[int] | None:
    if position >= len(node.inputs) or not node.inputs[position].name:
        return None
    value = follower.old.value(node.inputs[position])
    same = value is not None and value == follower.new.value(node.inputs[position])
    return value.known() if value is not None and same else None


def resize(follower: Follower, node: gs.Node) -> bool:
    """Sizes that name the old size get it from the operand when the model runs."""
    sizes = _known(follower, node, 3)
    data = node.inputs[0]
    ratios, shape = follower.ratios(data), follower.old.shape(data)
    if sizes is None or ratios is None or shape is None or len(sizes) != len(shape):
        return False
    sources: list[int | None] = []
    for size, ratio, before in zip(sizes, ratios, shape, strict=True):
        if ratio != 1 and size != before:
            return False
        sources.append(len(sources) if ratio != 1 else None)
    follower.edits.set_input(node, 3, sizes_of(follower, node, data, sizes, sources))
    return True


def widen(follower: Follower, node: gs.Node) -> bool:
    """Operands that hold one copy for each entry of the old size: if broadcasting can replace it, they get a dimension of 1."""
    shapes = [follower.old.shape(tensor) for tensor in node.inputs]
    rank = max((len(shape) for shape in shapes if shape is not None), default=0)
    leads: dict[int, tuple[gs.Tensor, int]] = {}
    for tensor, shape in zip(node.inputs, shapes, strict=True):
        for i, ratio in enumerate(follower.ratios(tensor) or ()):
            if ratio != 1 and shape is not None:
                leads[rank - len(shape) + i] = tensor, i
    product = traits(node.op).shape in ("matrix_product", "gemm")
    matrix = 2 if product else 0  # the last two are no dimensions to broadcast along
    changed = False
    for position, (tensor, shape) in enumerate(zip(node.inputs, shapes, strict=True)):
        if shape is None or follower.grows(tensor):
            continue
        for i, size in enumerate(shape[: len(shape) - matrix] if position < 2 else shape):
            lead, axis = leads.get(rank - len(shape) + i, (tensor, i))
            if lead is tensor or not isinstance(size, int) or size == 1 or (follower.old.shape(lead) or ())[axis] != size:
                continue
            first = one_of(follower, node, tensor, i)
            first = first or tiled(follower, node, tensor, i, lead, axis) or counted(follower, node, tensor, i, lead, axis)
            if first is None:
                raise DoesNotFlow.through(node, f": {label(tensor)} holds something for each of the old size, {size}")
            follower.edits.set_input(node, position, first)
            changed = True
    return changed


def concat(follower: Follower, node: gs.Node) -> bool:
    """Operands that do not grow are repeated as often as the others are long."""
    lead = next((tensor for tensor in node.inputs if follower.grows(tensor)), None)
    ratios = None if lead is None else follower.ratios(lead)
    axis = node.attrs.get("axis")
    if lead is None or ratios is None or not isinstance(axis, int) or not -len(ratios) <= axis < len(ratios):
        return False
    places = [i for i, ratio in enumerate(ratios) if ratio != 1 and i != axis % len(ratios)]
    axes = dict(zip(places, places, strict=True))
    if not axes:
        raise DoesNotFlow.through(node, ", which joins it with another tensor")
    return sum(repeat(follower, node, position, lead, axes) for position in range(len(node.inputs))) > 0


def recurrent(follower: Follower, node: gs.Node) -> bool:
    """First states and lengths of sequences, which have an entry for each of the batch."""
    data, layout = node.inputs[0], int(node.attrs.get("layout", 0))
    batch = 0 if layout else 1
    ratios = follower.ratios(data)
    if ratios is None or len(ratios) != 3 or ratios[batch] == 1:
        return False
    places = {4: {0: batch}, 5: {0 if layout else 1: batch}, 6: {0 if layout else 1: batch}}
    return sum(repeat(follower, node, position, data, axes) for position, axes in places.items()) > 0


MENDERS: dict[str, Mender] = {
    "reshape": reshape,
    "expand": expand,
    "slice": slice_,
    "resize": resize,
    "concat": concat,
    "gather": gather,
    "gather_nd": gather_nd,
    "gather_elements": gather_elements,
    "recurrent": recurrent,
    **dict.fromkeys(("broadcast", "sloped", "matrix_product", "gemm"), widen),
}
"""Repairs by the form of an operator."""
