"""Shapes that follow from partially known operands; `onnx.shape_inference` uses a value completely or not at all.

`Reshape(x, [N, -1])` has a known shape although N has no number. Each rule returns the shape of the first output, which is used
only where the inference of ONNX leaves a gap. The last rules are for operators that ONNX forgot or that files use wrongly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from rewriter.core.facts.shape_values import NodeFacts, add, divide_exactly, multiply, subtract
from rewriter.core.language.operator_traits import traits
from rewriter.core.onnxfile.tensors import Dim

Shape = tuple[Dim, ...]
Rule = Callable[[NodeFacts], "Shape | None"]

_FAR = 2**31 - 1  # exporters write this, or more, for "to the end"


def output_shape(facts: NodeFacts) -> Shape | None:
    """The shape of the first output as far as it follows from the rules below; None if none applies."""
    rule = None if facts.domain else RULES.get(traits(facts.op).shape)
    found = rule(facts) if rule is not None else None
    if found is None or any(isinstance(dim, int) and not 0 <= dim < 2**63 for dim in found):
        return None
    return found


def _first(facts: NodeFacts) -> Shape | None:
    return facts.shape(0)


def _sloped(facts: NodeFacts) -> Shape | None:
    """PRelu: a length of 1 becomes the slopes' length, since runtimes broadcast both ways and ONNX allows only one."""
    source, slopes = facts.shape(0), facts.shape(1)
    if source is None:
        return None
    if slopes is None:
        return tuple(None if dim == 1 else dim for dim in source)
    aligned = ((1,) * len(source) + slopes)[len(slopes) :]
    return tuple(slope if dim == 1 else dim for dim, slope in zip(source, aligned, strict=True))


def _reshape(facts: NodeFacts) -> Shape | None:
    value, source = facts.value(1), facts.shape(0)
    if value is None:
        items = facts.integers("shape")
        target: list[Dim] = list(items) if items is not None and not facts.has(1) else []
        if items is None or facts.has(1):
            return None
    else:
        target = list(value.items)
    open_at = [i for i, item in enumerate(target) if item is None or item == -1]
    if not facts.integer("allowzero", 0):
        for i, item in enumerate(target):
            if item == 0:
                target[i] = source[i] if source is not None and i < len(source) else None
    if len(open_at) == 1 and source is not None:
        rest = [dim for i, dim in enumerate(target) if i != open_at[0]]
        target[open_at[0]] = quotient(source, rest)
    return tuple(_plain(dim) for dim in target)


def _plain(dim: Dim) -> Dim:
    return None if dim == -1 else dim


def quotient(whole: Sequence[Dim], part: Sequence[Dim]) -> Dim:
    """The dimension that is left if `part` is divided out of `whole`; None if it is unknown."""
    if None in whole or None in part:
        return None
    names = Counter(dim for dim in whole if isinstance(dim, str))
    taken = Counter(dim for dim in part if isinstance(dim, str))
    above, below = _product(whole), _product(part)
    left = names - taken
    if taken - names or not below or above % below or left.total() > 1:
        return None
    if not left:
        return above // below
    return next(iter(left)) if above == below else None


def _product(dims: Sequence[Dim]) -> int:
    return math.prod(dim for dim in dims if isinstance(dim, int))


def _constant_of_shape(facts: NodeFacts) -> Shape | None:
    value = facts.value(0)
    return None if value is None or len(value.shape) != 1 else value.items


def _expand(facts: NodeFacts) -> Shape | None:
    value, source = facts.value(1), facts.shape(0)
    return None if value is None or source is None or len(value.shape) != 1 else broadcast(source, value.items)


def broadcast(first: Sequence[Dim], second: Sequence[Dim]) -> Shape:
    """The shape that both broadcast to. If lengths contradict each other (a broken model), the first one counts."""
    rank = max(len(first), len(second))
    left = (1,) * (rank - len(first)) + tuple(first)
    right = (1,) * (rank - len(second)) + tuple(second)
    return tuple(map(_broadcast_dim, left, right))


def _broadcast_dim(a: Dim, b: Dim) -> Dim:
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, int):
        return a
    return b if isinstance(b, int) else None


def _slice(facts: NodeFacts) -> Shape | None:
    source = facts.shape(0)
    axes, has_axes = facts.list_or_operand("axes", 3)
    steps, has_steps = facts.list_or_operand("steps", 4)
    starts, ends = _bounds(facts, "starts", 1), _bounds(facts, "ends", 2)
    if source is None:
        return None
    shape = list(source)
    length = len(axes) if axes is not None else max(len(starts), len(ends))
    if axes is None and (has_axes or not length):
        return (None,) * len(source)
    if has_steps and steps is None:
        steps = [0] * length
    for i, axis in enumerate(axes if axes is not None else range(length)):
        if not -len(shape) <= axis < len(shape):
            return None
        start, end = (bounds[i] if i < len(bounds) else None for bounds in (starts, ends))
        shape[axis] = _sliced(shape[axis], start, end, steps[i] if steps is not None and i < len(steps) else 1)
    return tuple(shape)


def _bounds(facts: NodeFacts, name: str, i: int) -> tuple[Dim, ...]:
    items = facts.integers(name)
    if items is not None:
        return tuple(items)
    value = facts.value(i)
    return () if value is None else value.items


def _sliced(dim: Dim, start: Dim, end: Dim, step: int) -> Dim:
    if isinstance(dim, int) and isinstance(start, int) and isinstance(end, int) and step:
        return len(range(*slice(start, end, step).indices(dim)))
    if step == -1 and start == -1 and isinstance(end, int) and end <= -_FAR:
        return dim
    if step != 1 or not isinstance(start, int):
        return None
    to_the_end = end == dim or (isinstance(end, int) and end >= _FAR)
    if to_the_end:
        return dim if start == 0 else None
    return None


def _tile(facts: NodeFacts) -> Shape | None:
    value, source = facts.value(1), facts.shape(0)
    if value is None or source is None or len(value.items) != len(source):
        return None
    return tuple(map(multiply, source, value.items))


def _pad(facts: NodeFacts) -> Shape | None:
    source = facts.shape(0)
    pads = _bounds(facts, "pads", 1)
    axes, has_axes = facts.list_or_operand("axes", 3)
    if source is None or (has_axes and axes is None):
        return None
    places = axes if axes is not None else list(range(len(source)))
    if len(pads) != 2 * len(places):
        return None
    shape = list(source)
    for i, axis in enumerate(places):
        if not -len(shape) <= axis < len(shape):
            return None
        shape[axis] = add(add(shape[axis], pads[i]), pads[i + len(places)])
    return tuple(shape)


def _resize(facts: NodeFacts) -> Shape | None:
    """Resize with sizes, or with scales, some of them 1; Upsample likewise."""
    source = facts.shape(0)
    if source is None:
        return None
    sizes = facts.value(3) if facts.op == "Resize" else None
    scales = facts.value(2 if facts.op == "Resize" and len(facts.types) > 2 else 1)
    axes = facts.integers("axes")
    places = axes if axes is not None else list(range(len(source)))
    items: Sequence[Dim]
    if sizes is not None:
        if facts.text("keep_aspect_ratio_policy", "stretch") != "stretch":
            return None
        items = sizes.items
    elif scales is not None and len(scales.items) == len(places):
        items = [
            multiply(source[axis], scale) if -len(source) <= axis < len(source) else None
            for axis, scale in zip(places, scales.items, strict=True)
        ]
    else:
        return None
    if len(items) != len(places):
        return None
    shape = list(source)
    for axis, item in zip(places, items, strict=True):
        if not -len(shape) <= axis < len(shape):
            return None
        shape[axis] = item
    return tuple(shape)


def _range(facts: NodeFacts) -> Shape | None:
    start, limit, step = (value.items[0] if value is not None and value.items else None for value in map(facts.value, range(3)))
    if step == 1 and (isinstance(limit, str) or start == 0):
        span = subtract(limit, start)
        return (max(span, 0),) if isinstance(span, int) else (span,)
    return (None,)


def _top_k(facts: NodeFacts) -> Shape | None:
    """The second operand is the length; below opset 10, the attribute k."""
    source, axis = facts.shape(0), facts.integer("axis", -1)
    items: tuple[Dim, ...] = (facts.integer("k", -1),) if "k" in facts.attrs else ()
    if (value := facts.value(1)) is not None:
        items = value.items
    if source is None or len(items) != 1 or axis is None or not -len(source) <= axis < len(source):
        return None
    shape = list(source)
    shape[axis] = items[0]
    return tuple(shape)


def _flatten(facts: NodeFacts) -> Shape | None:
    source, axis = facts.shape(0), facts.integer("axis", 1)
    if axis is None:
        return (None, None)
    if source is None or not -len(source) <= axis <= len(source):
        return (None, None)
    axis = axis % len(source) if axis < 0 else axis
    return quotient(source[:axis], ()), quotient(source[axis:], ())


def _matrix_product(facts: NodeFacts) -> Shape | None:
    """MatMul of matrices and stacks of them, also if the lengths that are summed over contradict each other."""
    left, right = facts.shape(0), facts.shape(1)
    if left is None or right is None or min(len(left), len(right)) < 2:
        return None
    return (*broadcast(left[:-2], right[:-2]), left[-2], right[-1])


def _window(facts: NodeFacts) -> Shape | None:
    """Conv and pooling: a named dimension stays as it is if the window neither shrinks it nor strides."""
    source, weight = facts.shape(0), facts.shape(1)
    if source is None or len(source) < 3:
        return None
    convolution = traits(facts.op).shape == "convolution"
    axes = len(source) - 2
    kernel: Sequence[Dim] | None = facts.integers("kernel_shape")
    if kernel is None and convolution and weight is not None:
        kernel = weight[2:]
    strides = facts.integers("strides") or [1] * axes
    dilations = facts.integers("dilations") or [1] * axes
    pads = facts.integers("pads") or [0] * (2 * axes)
    if kernel is None or len(kernel) != axes or len(strides) != axes or len(dilations) != axes or len(pads) != 2 * axes:
        return None
    auto = facts.text("auto_pad", "NOTSET")
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        return None
    shape: list[Dim] = [source[0], (weight[0] if weight else None) if convolution else source[1]]
    for i, dim in enumerate(source[2:]):
        size = kernel[i]
        if not isinstance(size, int) or strides[i] != 1:
            shape.append(None)
        elif auto in ("SAME_UPPER", "SAME_LOWER"):
            shape.append(dim)
        else:
            grow = (pads[i] + pads[i + axes] if auto == "NOTSET" else 0) - dilations[i] * (size - 1)
            shape.append(add(dim, grow))
    return tuple(shape)


def _crop(facts: NodeFacts) -> Shape | None:
    """The experimental operator of old exports: `border` left, top, right, bottom; `scale` height and width."""
    source, border, scale = facts.shape(0), facts.integers("border"), facts.integers("scale")
    if source is None or len(source) != 4:
        return None
    if scale is not None and len(scale) == 2:
        return source[0], source[1], scale[0], scale[1]
    if border is None or len(border) != 4:
        return None
    left, top, right, bottom = border
    return source[0], source[1], subtract(source[2], top + bottom), subtract(source[3], left + right)


def _depth_to_space(facts: NodeFacts) -> Shape | None:
    source, block = facts.shape(0), facts.integer("blocksize", 0)
    if source is None or len(source) != 4 or not block or block < 0:
        return None
    batch, channels, height, width = source
    if facts.op == "DepthToSpace":
        return batch, divide_exactly(channels, block * block), multiply(height, block), multiply(width, block)
    return batch, multiply(channels, block * block), divide_exactly(height, block), divide_exactly(width, block)


def _by_items(facts: NodeFacts) -> Shape | None:
    """Operators that broadcast all their operands against each other."""
    shapes = [facts.shape(i) for i in range(len(facts.types))]
    result: Shape = ()
    for shape in shapes:
        if shape is None or "axis" in facts.attrs:
            return None
        result = broadcast(result, shape)
    return result if shapes else None


def _global_pool(facts: NodeFacts) -> Shape | None:
    source = facts.shape(0)
    return None if source is None or len(source) < 2 else (*source[:2], *(1 for _ in source[2:]))


RULES: dict[str, Rule] = {
    "same": _first,
    "broadcast": _by_items,
    "sloped": _sloped,
    "reshape": _reshape,
    "constant_of_shape": _constant_of_shape,
    "expand": _expand,
    "slice": _slice,
    "tile": _tile,
    "pad": _pad,
    "resize": _resize,
    "range": _range,
    "top_k": _top_k,
    "flatten": _flatten,
    "matrix_product": _matrix_product,
    "crop": _crop,
    "convolution": _window,
    "pool": _window,
    "global_pool": _global_pool,
    "depth": _depth_to_space,
}
"""The shape rules by form; `operator_traits` has the form of each operator."""
