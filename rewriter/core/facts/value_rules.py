"""How each operator carries partially known values from its operands to its outputs.

A rule takes the node's facts and the types of its outputs and returns a value for each output. The value may be less precise
than possible, but never wrong. Operators without a rule have outputs of unknown value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.facts import shape_values as sv
from rewriter.core.facts.shape_values import FLOATS, LONGEST, NodeFacts, ShapeValue, fit, followed, scalar, vector
from rewriter.core.graph.values import constant_array, static_shape
from rewriter.core.language.operator_traits import traits
from rewriter.core.onnxfile.tensors import Dim, TensorType, count

Values = list[ShapeValue | None]
Rule = Callable[[NodeFacts, TensorType], ShapeValue | None]
Step = Callable[[Dim, Dim], Dim]


def output_values(facts: NodeFacts, types: Sequence[TensorType]) -> Values:
    """The partially known value of each output."""
    nothing: Values = [None] * len(types)
    if facts.domain or not types:
        return nothing
    name = traits(facts.op).rule
    if name == "split":
        return _split(facts, types)
    rule = RULES.get(name)
    if rule is None or not followed(types[0].dtype, types[0].shape):
        return nothing
    found = rule(facts, types[0])
    if found is not None:
        found = _fitted(found, types[0])
    return [found, *nothing[1:]]


def _fitted(value: ShapeValue, known: TensorType) -> ShapeValue | None:
    """The value, with items unknown that its element type cannot hold; None if it has not the shape that it must have."""
    if value.shape != known.shape or len(value.items) != count(known.shape):
        return None
    return ShapeValue(value.shape, tuple(fit(item, known.dtype) for item in value.items))


def _same_items(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    """The output has the items of the first operand, also if their ranks differ."""
    value = facts.value(0)
    if value is None or output.shape is None:
        return None
    return ShapeValue((len(value.items),) if output.shape else (), value.items)


def _cast(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    value, source = facts.value(0), facts.type(0).dtype
    if value is None:
        return None
    if output.dtype == 9:
        return ShapeValue(value.shape, tuple(int(item != 0) if isinstance(item, int) else None for item in value.items))
    return ShapeValue(value.shape, tuple(fit(item, source) for item in value.items))


def _shape(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    shape = facts.shape(0)
    start, end = facts.integer("start", 0), facts.integer("end", 2**62)
    if shape is None or start is None or end is None:
        return None
    return vector(shape[slice(start, end)])


def _size(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    shape = facts.shape(0)
    return None if shape is None else scalar(sv.reduce_items(sv.multiply, 1, shape))


def _gather(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    data, indices = facts.value(0), facts.value(1)
    places = indices.known() if indices is not None else None
    if data is None or indices is None or places is None or len(data.shape) != 1 or facts.integer("axis", 0) not in (0, -1):
        return None
    size = len(data.items)
    if not all(-size <= place < size for place in places):
        return None
    return ShapeValue(indices.shape, tuple(data.items[place] for place in places))


def _slice(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    data = facts.value(0)
    starts, _ = facts.list_or_operand("starts", 1)
    ends, _ = facts.list_or_operand("ends", 2)
    axes, has_axes = facts.list_or_operand("axes", 3)
    steps, has_steps = facts.list_or_operand("steps", 4)
    if data is None or len(data.shape) != 1 or starts is None or ends is None or len(starts) != 1 or len(ends) != 1:
        return None
    if (has_axes and axes not in ([0], [-1])) or (has_steps and (steps is None or len(steps) != 1 or not steps[0])):
        return None
    return vector(data.items[slice(starts[0], ends[0], steps[0] if steps else 1)])


def _concat(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    items: list[Dim] = []
    for i in range(len(facts.types)):
        value, shape = facts.value(i), facts.shape(i)
        if value is not None and len(value.shape) == 1:
            items.extend(value.items)
        elif shape is not None and len(shape) == 1 and isinstance(shape[0], int) and shape[0] <= LONGEST:
            items.extend([None] * shape[0])
        else:
            return None
        if len(items) > LONGEST:
            return None
    return vector(items)


def _split(facts: NodeFacts, types: Sequence[TensorType]) -> Values:
    data, nothing = facts.value(0), [None] * len(types)
    parts = [known.shape[0] if known.shape and len(known.shape) == 1 else None for known in types]
    lengths = [part for part in parts if isinstance(part, int)]
    if data is None or len(data.shape) != 1 or len(lengths) != len(parts) or sum(lengths) != len(data.items):
        return [*nothing]
    found: Values = []
    at = 0
    for length in lengths:
        found.append(vector(data.items[at : at + length]))
        at += length
    return found


def _constant_of_shape(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    size, fill = count(output.shape), facts.attrs.get("value")
    if size is None or output.shape is None:
        return None
    item: Dim = 0
    if fill is not None:
        item = _only_item(fill)
    return ShapeValue((size,) if output.shape else (), (item,) * size)


def _only_item(fill: object) -> Dim:
    """The integer in a tensor attribute of one element."""
    if not isinstance(fill, gs.Constant) or count(static_shape(fill)) != 1:
        return None
    try:
        value = sv.of_array(constant_array(fill).reshape(1))
    except RewriterError:
        return None
    return value.items[0] if value is not None else None


def _spread(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    """Expand and Tile of a vector to a known length."""
    value, size = facts.value(0), count(output.shape)
    if value is None or size is None or output.shape is None:
        return None
    if not value.items:
        return ShapeValue(output.shape, ()) if size == 0 else None  # type: ignore[arg-type]
    if size % len(value.items):
        return None
    return ShapeValue((size,) if output.shape else (), value.items * (size // len(value.items)))


def _pad(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    """A list with more items of one value, before and behind its own items."""
    data = facts.value(0)
    pads, _ = facts.list_or_operand("pads", 1)
    axes, has_axes = facts.list_or_operand("axes", 3)
    if data is None or len(data.shape) != 1 or pads is None or len(pads) != 2 or (has_axes and axes not in ([0], [-1])):
        return None
    if facts.text("mode", "constant") != "constant" or "value" in facts.attrs or not 0 <= min(pads) <= max(pads) <= LONGEST:
        return None
    known = facts.value(2)
    filled = known.items[0] if known is not None and known.items else None if facts.has(2) else 0
    return vector([filled] * pads[0] + [*data.items] + [filled] * pads[1])


def _range(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    ends = [
        value.items[0] if value is not None and len(value.items) == 1 else None for value in (facts.value(i) for i in range(3))
    ]
    start, limit, step = ends
    if not (isinstance(start, int) and isinstance(limit, int) and isinstance(step, int) and step):
        return None
    items = range(start, limit, step)
    return vector(items) if len(items) <= LONGEST else None


def _where(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    size = count(output.shape)
    condition, yes, no = (facts.value(i) for i in range(3))
    if condition is None or yes is None or no is None or size is None or output.shape is None:
        return None
    columns = (value.broadcast(size) for value in (condition, yes, no))
    items = [a if c == 1 or a == b else b if c == 0 else None for c, a, b in zip(*columns, strict=False)]
    return ShapeValue((size,) if output.shape else (), tuple(items)) if len(items) == size else None


def _scatter(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    data, places, updates = facts.value(0), facts.constant(1), facts.value(2)
    if data is None or places is None or updates is None or places.shape != (len(updates.items), 1):
        return None
    items = list(data.items)
    for place, item in zip(places[:, 0].tolist(), updates.items, strict=True):
        if not -len(items) <= place < len(items) or facts.text("reduction", "none") != "none":
            return None
        items[place] = item
    return ShapeValue(data.shape, tuple(items))


def _reduction(step: Step, start: int | None) -> Rule:
    def rule(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
        value = facts.value(0)
        axes, has_axes = facts.list_or_operand("axes", 1)
        if (
            value is None
            or output.shape is None
            or (has_axes and axes not in ([0], [-1]))
            or facts.integer("noop_with_empty_axes", 0)
        ):
            return None
        if not value.items and start is None:
            return None
        first = value.items[0] if start is None else start
        items = value.items[1:] if start is None else value.items
        total = first
        if isinstance(first, int):
            total = sv.reduce_items(step, first, items)
        else:
            for item in items:
                total = step(total, item)
        return ShapeValue((1,) if output.shape else (), (total,))

    return rule


def _by_items(step: Step) -> Rule:
    """An operator of two or more operands that combines them item by item."""

    def rule(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
        size = count(output.shape)
        if size is None or output.shape is None:
            return None
        total: tuple[Dim, ...] | None = None
        for i in range(len(facts.types)):
            value = facts.value(i)
            items = value.broadcast(size) if value is not None else (None,) * size
            if len(items) != size:
                return None
            total = items if total is None else tuple(map(step, total, items))
        return None if total is None else ShapeValue((size,) if output.shape else (), total)

    return rule


def _division(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    return _by_items(sv.divide_exactly if output.dtype in FLOATS else sv.divide)(facts, output)


def _modulo(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
    return _by_items(sv.truncated_modulo if facts.integer("fmod", 0) else sv.modulo)(facts, output)


def _each(step: Callable[[Dim], Dim]) -> Rule:
    """An operator of one operand that works item by item."""

    def rule(facts: NodeFacts, output: TensorType) -> ShapeValue | None:
        value = facts.value(0)
        return None if value is None else ShapeValue(value.shape, tuple(map(step, value.items)))

    return rule


def _negative(item: Dim) -> Dim:
    return -item if isinstance(item, int) else None


def _magnitude(item: Dim) -> Dim:
    return abs(item) if isinstance(item, int) else item


def _root(item: Dim) -> Dim:
    if not isinstance(item, int) or item < 0:
        return None
    root = math.isqrt(item)
    return root if root * root == item else None


def _not_less(a: Dim, b: Dim) -> Dim:
    return sv.negation(sv.less(a, b))


def _greater(a: Dim, b: Dim) -> Dim:
    return sv.less(b, a)


def _not_greater(a: Dim, b: Dim) -> Dim:
    return sv.negation(sv.less(b, a))


RULES: dict[str, Rule] = {
    **dict.fromkeys(("identity", "reshape", "squeeze", "unsqueeze", "flatten", "floor", "ceil", "round"), _same_items),
    **dict.fromkeys(("expand", "tile"), _spread),
    "cast": _cast,
    "shape": _shape,
    "size": _size,
    "gather": _gather,
    "slice": _slice,
    "concat": _concat,
    "constant_of_shape": _constant_of_shape,
    "pad": _pad,
    "range": _range,
    "where": _where,
    "scatter_nd": _scatter,
    "add": _by_items(sv.add),
    "sum": _by_items(sv.add),
    "subtract": _by_items(sv.subtract),
    "multiply": _by_items(sv.multiply),
    "divide": _division,
    "mod": _modulo,
    "maximum": _by_items(sv.largest),
    "minimum": _by_items(sv.smallest),
    "equal": _by_items(sv.equal),
    "less": _by_items(sv.less),
    "greater": _by_items(_greater),
    "less_equal": _by_items(_not_greater),
    "greater_equal": _by_items(_not_less),
    "logical_and": _by_items(sv.both),
    "logical_or": _by_items(sv.either),
    "logical_not": _each(sv.negation),
    "negative": _each(_negative),
    "abs": _each(_magnitude),
    "sqrt": _each(_root),
    "reduce_prod": _reduction(sv.multiply, 1),
    "reduce_sum": _reduction(sv.add, 0),
    "reduce_max": _reduction(sv.largest, None),
    "reduce_min": _reduction(sv.smallest, None),
}
"""The rules for output values, by the name in `operator_traits`. (A split, with its several outputs, is separate.)"""
