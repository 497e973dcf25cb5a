"""Shapes that follow from partially known operands, and the values of small tensors that carry shapes.

`onnx.shape_inference` uses a value completely or not at all. `Reshape(x, [N, -1])` has a known shape although N has no number.
Each rule returns the shape of the first output, which is used only where the inference of ONNX leaves a gap. The last rules are
for operators that ONNX forgot or that files use wrongly.

`Shape`, `Gather`, `Concat` and similar operators compute shapes at run time that are mostly in the file. Each item of such a
value is a number, the name of a dimension, or unknown. A name stays a name only while the value is exactly that dimension
again: N * 1 is N, N * 2 is unknown.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.language.operator_traits import traits
from rewriter.core.onnxfile.tensors import Dim, TensorType
from rewriter.core.record import record

LONGEST = 128
"""Longer tensors carry no shapes; their values are not followed."""

LONGEST_FLOAT = 8
"""Only floating-point tensors as short as a scale or a scalar are followed."""

_RANGES: dict[int, tuple[int, int]] = {
    2: (0, 2**8 - 1), 3: (-(2**7), 2**7 - 1), 4: (0, 2**16 - 1), 5: (-(2**15), 2**15 - 1), 6: (-(2**31), 2**31 - 1),
    7: (-(2**63), 2**63 - 1), 9: (0, 1), 12: (0, 2**32 - 1), 13: (0, 2**64 - 1),
    1: (-(2**24), 2**24), 10: (-(2**11), 2**11), 11: (-(2**53), 2**53),
}  # fmt: skip
"""Element type → the integers that it holds exactly."""

INTEGERS = frozenset((2, 3, 4, 5, 6, 7, 9, 12, 13))
FLOATS = frozenset((1, 10, 11))
_WIDE = frozenset((1, 6, 7, 11, 12, 13))  # types in which a dimension is not expected to overflow


@record(frozen=True, slots=True)
class ShapeValue:
    """The known values of a tensor of rank 0 or 1.

    Attributes:
        shape: () or (n,).
        items: one for rank 0, else n: int, str (the dimension of that name), or None (unknown).
    """

    shape: tuple[int, ...]
    items: tuple[Dim, ...]

    def known(self) -> list[int] | None:
        """All items, when all are numbers."""
        numbers = [item for item in self.items if isinstance(item, int)]
        return numbers if len(numbers) == len(self.items) else None

    def broadcast(self, length: int) -> tuple[Dim, ...]:
        """The items, a single one repeated `length` times."""
        return self.items * length if len(self.items) == 1 else self.items


def scalar(item: Dim) -> ShapeValue:
    return ShapeValue((), (item,))


def vector(items: Any) -> ShapeValue | None:
    """The value of a rank 1 tensor; None if it is too long to be followed."""
    items = tuple(items)
    return ShapeValue((len(items),), items) if len(items) <= LONGEST else None


def followed(dtype: int | None, shape: tuple[Dim, ...] | None) -> bool:
    """Whether the values of a tensor of this type are worth following."""
    if shape is None or len(shape) > 1 or dtype is None:
        return False
    length = shape[0] if shape else 1
    limit = LONGEST if dtype in INTEGERS else LONGEST_FLOAT if dtype in FLOATS else -1
    return isinstance(length, int) and length <= limit


def of_array(array: np.ndarray[Any, Any]) -> ShapeValue | None:
    """The value of a constant; items that are no integers are unknown, and so is a value without any integer."""
    if array.ndim > 1 or array.size > LONGEST or array.dtype.kind not in "biuf":
        return None
    items = tuple(map(item, array.reshape(-1).tolist()))
    if items and all(one is None for one in items):
        return None
    return ShapeValue(tuple(array.shape), items)


def item(element: Any) -> Dim:
    """An element of an array as an item: a number if it is an integer."""
    if element is None or isinstance(element, str):
        return element
    if isinstance(element, float):
        return int(element) if math.isfinite(element) and element.is_integer() and abs(element) < 2**53 else None
    return int(element)


def fit(item: Dim, dtype: int | None) -> Dim:
    """The item if the element type holds it exactly, else None."""
    if dtype is None or item is None:
        return None
    if isinstance(item, str):
        return item if dtype in _WIDE else None
    low, high = _RANGES.get(dtype, (1, 0))
    return item if low <= item <= high else None


def join_values(first: ShapeValue | None, second: ShapeValue | None) -> ShapeValue | None:
    """The facts of a tensor that has sometimes the first and sometimes the second value."""
    if first is None or second is None or first.shape != second.shape:
        return None
    return ShapeValue(first.shape, tuple(a if a == b else None for a, b in zip(first.items, second.items, strict=True)))


# --- arithmetic of items -----------------------------------------------------------------------------------------------------
# A name is an unknown number that is at least 0.


def add(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return a if b == 0 else b if a == 0 else None


def subtract(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else 0 if a is not None and a == b else None


def multiply(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return a if b == 1 else b if a == 1 else None


def divide(a: Dim, b: Dim) -> Dim:
    """Division of integers as ONNX has it, towards zero."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a if b == 1 else None


def divide_exactly(a: Dim, b: Dim) -> Dim:
    """Division of floating-point numbers, if the quotient is an integer."""
    if isinstance(a, int) and isinstance(b, int) and b and a and a % b == 0:
        return a // b
    return a if b == 1 else None


def modulo(a: Dim, b: Dim) -> Dim:
    """Remainder with the sign of the divisor."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return a % b
    return None


def truncated_modulo(a: Dim, b: Dim) -> Dim:
    """Remainder with the sign of the dividend."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return abs(a) % abs(b) * (1 if a >= 0 else -1)
    return None


def largest(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    if a == b or (isinstance(b, int) and b <= 0):
        return a
    return b if isinstance(a, int) and a <= 0 and b is not None else None


def smallest(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if a == b:
        return a
    number, name = (a, b) if isinstance(a, int) else (b, a)
    return number if isinstance(number, int) and isinstance(name, str) and number <= 0 else None


def equal(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    if a is None or b is None:
        return None
    if a == b:
        return 1
    number = a if isinstance(a, int) else b
    return 0 if isinstance(number, int) and number < 0 else None


def less(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return int(a < b)
    if a is None or b is None:
        return None
    if a == b or (isinstance(b, int) and b <= 0):
        return 0
    return 1 if isinstance(a, int) and a < 0 else None


def negation(truth: Dim) -> Dim:
    return 1 - truth if isinstance(truth, int) else None


def both(a: Dim, b: Dim) -> Dim:
    return 0 if 0 in (a, b) else 1 if a == b == 1 else None


def either(a: Dim, b: Dim) -> Dim:
    return 1 if 1 in (a, b) else 0 if a == b == 0 else None


def reduce_items(step: Callable[[Dim, Dim], Dim], start: int, items: tuple[Dim, ...]) -> Dim:
    """All items combined by `step`. A product with a 0 is 0, even if other items are unknown."""
    if step is multiply and 0 in items:
        return 0
    total: Dim = start
    for item in items:
        total = step(total, item)
    return total


@record(slots=True)
class NodeFacts:
    """A node with the facts of its operands.

    Attributes:
        op, domain, version: operator, its domain ("" for ai.onnx) and the version its scope imports, None when it imports none.
        node: for its attributes (`attrs`), which are converted when first read.
        types, values: for each operand, None if it is omitted (or, for values, unknown).
        outputs: for each output whether it is there.
        constant: the array of operand i when it is constant and has at most 4096 elements, else None.
    """

    op: str
    domain: str
    version: int | None
    node: gs.Node
    types: list[TensorType | None]
    values: list[ShapeValue | None]
    outputs: tuple[bool, ...]
    constant: Callable[[int], np.ndarray[Any, Any] | None]

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attribute values as graphsurgeon holds them."""
        return self.node.attrs  # type: ignore[no-any-return]

    def has(self, i: int) -> bool:
        """Whether operand i is there."""
        return i < len(self.types) and self.types[i] is not None

    def type(self, i: int) -> TensorType:
        """Type of operand i; everything unknown when it is omitted."""
        return (self.types[i] if i < len(self.types) else None) or TensorType()

    def shape(self, i: int) -> tuple[Dim, ...] | None:
        return self.type(i).shape

    def value(self, i: int) -> ShapeValue | None:
        return self.values[i] if i < len(self.values) else None

    def integer(self, name: str, default: int) -> int | None:
        """An integer attribute; None if it is no plain integer (a function's own attribute, for example)."""
        value = self.attrs.get(name, default)
        return int(value) if isinstance(value, (int, np.integer)) else None

    def text(self, name: str, default: str) -> str:
        """A string attribute; "" if its value is no text."""
        value = self.attrs.get(name, default)
        return value if isinstance(value, str) else ""

    def integers(self, name: str) -> list[int] | None:
        """An attribute that is a list of integers; None when absent or something else."""
        value = self.attrs.get(name)
        if isinstance(value, (list, tuple)) and all(isinstance(item, (int, np.integer)) for item in value):
            return [int(item) for item in value]
        return None

    def list_or_operand(self, name: str, i: int) -> tuple[list[int] | None, bool]:
        """A list that is an attribute in older versions: (its items if all are known, whether it is there at all)."""
        if name in self.attrs:
            return self.integers(name), True
        if not self.has(i):
            return None, False
        value = self.value(i)
        return (value.known() if value is not None else None), True


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
