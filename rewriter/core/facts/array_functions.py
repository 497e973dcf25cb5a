"""What operators compute: one table of functions on arrays, for constants and for values that are known in part.

The array of a constant has one of NumPy's types. An array of *items* has the items of a `ShapeValue`: numbers, names of
dimensions, and None for unknown items. A function that only moves elements serves both. Operators that calculate have a
function for each.

The result must have the type that was inferred before anything was computed: a file cannot make it larger than its cap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.facts import shape_rules as sv
from rewriter.core.facts.shape_rules import FLOATS, INTEGERS, LONGEST, NodeFacts, ShapeValue, fit, followed, vector
from rewriter.core.graph.values import constant_array
from rewriter.core.language.operator_traits import traits
from rewriter.core.onnxfile.tensors import Dim, TensorType, count, numpy_dtype
from rewriter.core.record import record

Array = np.ndarray[Any, Any]

MOST_MOVED = 1 << 24
"""Elements of the largest result that is made from weights of its size."""

MOST_MADE = 1 << 20
"""Elements of the largest result that is made from small operands (ConstantOfShape, Expand, Range, Tile)."""

MOST_WORK = 1 << 24
"""Products that a matrix product may take."""

_BFLOAT16 = 16
_PLAIN = INTEGERS | FLOATS | {_BFLOAT16}
_MAKERS = frozenset(("constant_of_shape", "expand", "range", "tile"))
_OBJECT = np.dtype(object)


class CannotFold(Exception):
    """The operands lead to no result that all runtimes agree on."""


@record(slots=True)
class Operands:
    """The arguments of a function.

    Attributes:
        facts: of the node.
        arrays: of its operands; None for omitted ones and, of items, for unknown ones.
        output, shape: the type that the result must have, and its shape.
        dtype: the type of its array; for items, that of objects.
    """

    facts: NodeFacts
    arrays: Sequence[Array | None]
    output: TensorType
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __getitem__(self, i: int) -> Array:
        array = self.arrays[i] if i < len(self.arrays) else None
        if array is None:
            raise CannotFold
        return array

    def numbers(self, i: int) -> Array:
        """An operand that holds places or sizes, all of which must be known."""
        array = self.arrays[i] if i < len(self.arrays) else None
        array = self.facts.constant(i) if array is None else array  # a table of places is no `ShapeValue`
        if array is None or (array.dtype == object and not all(isinstance(item, int) for item in array.flat)):
            raise CannotFold
        return array.astype(np.int64) if array.dtype == object else array

    def integers(self, name: str, i: int) -> list[int] | None:
        """A list that is an attribute in older versions and operand i in newer ones; None when absent."""
        if name not in self.facts.attrs:
            return [int(item) for item in self.numbers(i).reshape(-1)] if self.facts.has(i) else None
        if (found := self.facts.integers(name)) is None:
            raise CannotFold
        return found

    def filled(self, i: int) -> Array:
        """An operand; if its items are unknown, as many unknown ones."""
        if self.dtype != object or self.arrays[i] is not None:
            return self[i]
        shape = self.facts.shape(i)
        lengths = [dim for dim in shape or () if isinstance(dim, int) and dim <= LONGEST]
        return np.full(lengths if shape is not None and len(shape) == len(lengths) <= 1 else (), None, object)


Function = Callable[[Operands], Any]
"""Returns the first output, which may have another type of array: it is checked afterwards."""


def foldable(facts: NodeFacts, output: TensorType) -> bool:
    """Whether the first output folds when all operands are constant: a known operator, a result of bearable size."""
    size, name = count(output.shape), traits(facts.op).rule
    if facts.domain or name not in FUNCTIONS or FUNCTIONS[name].exact is None or size is None or output.dtype is None:
        return False
    if numpy_dtype(output.dtype) is None or size > (MOST_MADE if name in _MAKERS else MOST_MOVED):
        return False
    kinds = [known.dtype for known in facts.types if known is not None]
    if name == "cast":
        return output.dtype in _PLAIN and kinds[:1] != [None] and kinds[0] in _PLAIN
    if name == "dequantize":
        return output.dtype == 1 and not facts.integer("block_size", 0)
    if name == "range":
        return output.dtype in INTEGERS
    return output.dtype in _PLAIN if name in _OF_NUMBERS else output.dtype != 8


def fold(facts: NodeFacts, arrays: Sequence[Array | None], output: TensorType) -> Array | None:
    """The first output's array; None if the operands lead to none (an index out of range, a division by 0).

    This decides for every rule which tensors are constant. So it has only operators whose result is the same, bit for bit, in
    every runtime.

    Args:
        facts: of a node and output that are `foldable`.
        arrays: of its operands, None for omitted ones.
    """
    function, dtype = FUNCTIONS[traits(facts.op).rule].exact, numpy_dtype(output.dtype or 0)
    with np.errstate(all="ignore"):
        result = None if function is None else _result(function, facts, arrays, output, dtype)
    return result if result is not None and result.dtype == dtype else None


def computed(facts: NodeFacts, arrays: Sequence[Array | None], output: TensorType) -> Array | None:
    """The first output's array, also of operators whose results differ between runtimes in the last places.

    This serves rules that replace one node by its result, and say so: sums, powers and waves are computed in double precision
    and rounded once. The sizes of the result and of the work are bounded before anything is computed.

    Args:
        facts: of the node.
        arrays: of its operands, None for omitted ones.
        output: the type and shape that the result must have.

    Returns:
        None if the operator is not known, the result is too large, or the operands lead to none.
    """
    if foldable(facts, output):
        return fold(facts, arrays, output)
    size, dtype = count(output.shape), numpy_dtype(output.dtype or 0)
    function = FUNCTIONS.get(traits(facts.op).rule, _NOTHING).rounded
    if facts.domain or function is None or size is None or size > MOST_MOVED:
        return None
    if any(array is not None and (array.size > MOST_MOVED or array.dtype.kind not in "biuf") for array in arrays):
        return None
    with np.errstate(all="ignore"):
        result = _result(function, facts, arrays, output, dtype)
    return None if result is None else result.astype(dtype, copy=False)


def output_values(facts: NodeFacts, types: Sequence[TensorType]) -> list[ShapeValue | None]:
    """The value of each output as far as it is known. It may be less precise than possible, but never wrong.

    Args:
        types: of the outputs.
    """
    nothing: list[ShapeValue | None] = [None] * len(types)
    if facts.domain or not types:
        return nothing
    name = traits(facts.op).rule
    if name == "split":
        return _split(facts, types)
    function, output = FUNCTIONS.get(name, _NOTHING).items, types[0]
    if function is None or not followed(output.dtype, output.shape):
        return nothing
    result = _result(function, facts, list(map(_items, facts.values)), output, _OBJECT)
    if result is None:
        return nothing
    items = tuple([fit(item, output.dtype) for item in map(sv.item, result.reshape(-1).tolist())])
    return [ShapeValue(result.shape, items), *nothing[1:]]


def _items(value: ShapeValue | None) -> Array | None:
    if value is None:
        return None
    array = np.empty(value.shape, object)
    array.reshape(-1)[:] = value.items
    return array


def _result(
    function: Function, facts: NodeFacts, arrays: Sequence[Array | None], output: TensorType, dtype: np.dtype[Any] | None
) -> Array | None:
    """The result of a function, if it has the shape that it must have."""
    if dtype is None or output.shape is None:
        return None
    shape = tuple([dim for dim in output.shape if isinstance(dim, int)])
    try:
        result = np.asarray(function(Operands(facts, arrays, output, shape, dtype)))
    except (CannotFold, RewriterError, ValueError, IndexError, TypeError, OverflowError, MemoryError):
        return None
    return result if result.shape == shape else None


# Functions that move elements, of constants and of items.


def _reshaped(operands: Operands) -> Array:
    return operands[0].reshape(operands.shape)


def _transpose(operands: Operands) -> Array:
    return np.transpose(operands[0], operands.facts.integers("perm") or None)


def _concat(operands: Operands) -> Array:
    axis = operands.facts.integer("axis", 1)
    if axis is None:
        raise CannotFold
    return np.concatenate([operands.filled(i) for i in range(len(operands.arrays))], axis)


def _split(facts: NodeFacts, types: Sequence[TensorType]) -> list[ShapeValue | None]:
    """The items of each output. Constants are not split: only first outputs fold."""
    data, nothing = facts.value(0), [None] * len(types)
    parts = [known.shape[0] if known.shape and len(known.shape) == 1 else None for known in types]
    lengths = [part for part in parts if isinstance(part, int)]
    if data is None or len(data.shape) != 1 or len(lengths) != len(parts) or sum(lengths) != len(data.items):
        return [*nothing]
    ends = np.cumsum(lengths).tolist()
    return [vector(data.items[end - length : end]) for length, end in zip(lengths, ends, strict=True)]


def _slice(operands: Operands) -> Array:
    array, starts, ends = operands[0], operands.integers("starts", 1), operands.integers("ends", 2)
    axes, steps = operands.integers("axes", 3), operands.integers("steps", 4)
    if starts is None or ends is None:
        raise CannotFold
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    cut = [slice(None)] * array.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        cut[axis] = slice(start, end, step)
    return array[tuple(cut)]


def _gather(operands: Operands) -> Array:
    axis = operands.facts.integer("axis", 0)
    if axis is None:
        raise CannotFold
    return np.take(operands[0], operands.numbers(1), axis)


def _gather_elements(operands: Operands) -> Array:
    axis = operands.facts.integer("axis", 0)
    if axis is None or operands[0].ndim != operands[1].ndim:
        raise CannotFold
    return np.take_along_axis(operands[0], operands[1].astype(np.int64), axis)


def _gather_nd(operands: Operands) -> Array:
    if operands.facts.integer("batch_dims", 0):
        raise CannotFold
    return np.asarray(operands[0][tuple(np.moveaxis(operands.numbers(1), -1, 0))])


def _scatter_nd(operands: Operands) -> Array:
    data, indices, updates = np.array(operands[0]), operands.numbers(1), operands[2]
    if operands.facts.text("reduction", "none") != "none":
        raise CannotFold
    places = tuple(np.moveaxis(indices, -1, 0))
    if len({tuple(row) for row in indices.reshape(-1, indices.shape[-1]).tolist()}) < indices[..., 0].size:
        raise CannotFold  # which of several values stays is not defined
    data[places] = updates
    return data


def _constant_of_shape(operands: Operands) -> Array:
    fill = operands.facts.attrs.get("value")
    if fill is not None and not isinstance(fill, gs.Constant):
        raise CannotFold
    item = np.zeros(1, np.float32) if fill is None else constant_array(fill)
    return np.full(operands.shape, item.reshape(()), operands.dtype)


def _expand(operands: Operands) -> Array:
    return np.broadcast_to(operands[0], operands.shape)


def _tile(operands: Operands) -> Array:
    array = operands[0]
    return np.tile(array, [now // max(before, 1) for now, before in zip(operands.shape, array.shape, strict=True)])


def _pad(operands: Operands) -> Array:
    """A list of items with more items of one value, before and behind its own."""
    facts, pads, axes = operands.facts, operands.integers("pads", 1), operands.integers("axes", 3)
    is_plain = facts.text("mode", "constant") == "constant" and "value" not in facts.attrs and axes in (None, [0], [-1])
    if pads is None or not is_plain or not 0 <= min(pads) <= max(pads) <= LONGEST:
        raise CannotFold
    before, behind = pads
    filling = operands.filled(2).reshape(-1)[:1] if facts.has(2) else np.zeros(1, object)
    return np.concatenate([np.repeat(filling, before), operands[0], np.repeat(filling, behind)])


def _range(operands: Operands) -> Array:
    start, limit, step = (int(operands.numbers(i).reshape(())) for i in range(3))
    if not step or len(range(start, limit, step)) != operands.shape[0]:
        raise CannotFold
    return np.array(range(start, limit, step), operands.dtype)


def _triangle(operands: Operands) -> Array:
    offset = int(operands[1].reshape(())) if operands.facts.has(1) else 0
    half: Any = np.triu if operands.facts.integer("upper", 1) else np.tril
    return np.asarray(half(operands[0], offset))


# Functions that calculate.


def _each(function: Callable[..., Any]) -> Function:
    """An operator that combines its operands element by element."""
    return lambda operands: function(*(operands[i] for i in range(len(operands.arrays))))


def _chain(function: Callable[[Array, Array], Array]) -> Function:
    """An operator of any number of operands."""

    def result(operands: Operands) -> Array:
        total = operands.filled(0)
        for i in range(1, len(operands.arrays)):
            total = function(total, operands.filled(i))
        return total

    return result


def _each_item(step: Callable[[Dim], Dim]) -> Function:
    return _each(np.frompyfunc(step, 1, 1))


def _chained_items(step: Callable[[Dim, Dim], Dim]) -> Function:
    return _chain(np.frompyfunc(step, 2, 1))


def _cast(operands: Operands) -> Array:
    array = operands[0]
    if array.dtype.kind not in "biu" and operands.dtype.kind in "iu":
        wide = np.trunc(array.astype(np.float64))
        info = np.iinfo(operands.dtype)
        if not np.isfinite(wide).all() or (wide < float(info.min)).any() or (wide >= float(info.max) + 1).any():
            raise CannotFold
        return wide.astype(operands.dtype)
    return array != 0 if operands.dtype.kind == "b" else array.astype(operands.dtype)


def _cast_items(operands: Operands) -> Any:
    source, is_truth = operands.facts.type(0).dtype, operands.output.dtype == 9

    def step(item: Dim) -> Dim:
        return (int(item != 0) if isinstance(item, int) else None) if is_truth else fit(item, source)

    return np.frompyfunc(step, 1, 1)(operands[0])  # not of the second operand of a CastLike


def _divide(left: Array, right: Array) -> Array:
    if left.dtype.kind not in "iu":
        return np.asarray(np.divide(left, right))
    if not np.all(right):
        raise CannotFold
    quotient, rest = np.divmod(left, right)
    return np.asarray(quotient + ((rest != 0) & ((left < 0) != (right < 0))).astype(quotient.dtype))


def _divide_items(operands: Operands) -> Any:
    return _chained_items(sv.divide_exactly if operands.output.dtype in FLOATS else sv.divide)(operands)


def _remainder(operands: Operands) -> Array:
    left, right = operands[0], operands[1]
    if operands.facts.integer("fmod", 0) or left.dtype.kind not in "iu" or not np.all(right):
        raise CannotFold
    return np.asarray(np.mod(left, right))


def _remainder_items(operands: Operands) -> Any:
    return _chained_items(sv.truncated_modulo if operands.facts.integer("fmod", 0) else sv.modulo)(operands)


def _reciprocal(array: Array) -> Array:
    return np.asarray(np.divide(np.ones((), array.dtype), array))


def _root(item: Dim) -> Dim:
    if not isinstance(item, int) or item < 0:
        return None
    root = math.isqrt(item)
    return root if root * root == item else None


def _choice(condition: Dim, one: Dim, other: Dim) -> Dim:
    return one if condition == 1 or one == other else other if condition == 0 else None


def _shape(operands: Operands) -> Array:
    shape = operands.facts.shape(0)
    start, end = operands.facts.integer("start", 0), operands.facts.integer("end", 2**62)
    if shape is None or start is None or end is None:
        raise CannotFold
    return np.array(shape[slice(start, end)], object)


def _size(operands: Operands) -> Any:
    shape = operands.facts.shape(0)
    if shape is None:
        raise CannotFold
    return sv.reduce_items(sv.multiply, 1, shape)


def _dequantize(operands: Operands) -> Array:
    array, scale = operands[0], operands[1]
    zero = operands[2] if operands.facts.has(2) else None
    if scale.ndim == 1 and scale.size > 1:
        axis = operands.facts.integer("axis", 1)
        if axis is None:
            raise CannotFold
        form = [1] * array.ndim
        form[axis] = scale.size
        scale, zero = scale.reshape(form), None if zero is None else zero.reshape(form)
    elif scale.size == 1:
        scale, zero = scale.reshape(()), None if zero is None else zero.reshape(())
    else:
        raise CannotFold
    number = np.int64 if array.dtype.kind in "iu" or "int" in array.dtype.name else np.float32
    steps = array.astype(number) if zero is None else array.astype(number) - zero.astype(number)
    return np.asarray(steps.astype(np.float32) * scale)


def _wide(array: Array) -> Array:
    """Floats in double precision, all others as they are."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _each_float(function: Callable[..., Any]) -> Function:
    """An operator that combines its operands, which are floats, element by element."""

    def result(operands: Operands) -> Any:
        arrays = [operands[i] for i in range(len(operands.arrays))]
        if any(array.dtype.kind != "f" for array in arrays):
            raise CannotFold
        return function(*map(_wide, arrays))

    return result


def _sigmoid(array: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-array)))


def _power(operands: Operands) -> Array:
    base, exponent = operands[0], operands[1]
    if base.dtype.kind != "f":
        raise CannotFold
    return np.asarray(np.power(_wide(base), exponent.astype(np.float64)))


def _clip(operands: Operands) -> Array:
    array = operands[0]
    low, high = (operands.facts.attrs.get(name) for name in ("min", "max"))
    low = operands[1] if operands.facts.has(1) else low
    high = operands[2] if operands.facts.has(2) else high
    array = array if low is None else np.maximum(array, np.asarray(low, array.dtype))
    return array if high is None else np.minimum(array, np.asarray(high, array.dtype))


def _matmul(operands: Operands) -> Array:
    left, right = operands[0], operands[1]
    inner = left.shape[-1] if left.ndim else 0
    if left.dtype.kind != "f" or int(np.prod(operands.shape, dtype=object)) * inner > MOST_WORK:
        raise CannotFold
    return np.asarray(np.matmul(_wide(left), _wide(right)))


def _running_sum(operands: Operands) -> Array:
    array, axis = operands[0], int(operands[1].reshape(()))
    if operands.facts.integer("exclusive", 0) or operands.facts.integer("reverse", 0):
        raise CannotFold
    return np.asarray(np.cumsum(_wide(array), axis, dtype=_wide(array).dtype))


def _reduction(function: Callable[..., Any]) -> Function:
    def result(operands: Operands) -> Any:
        array, axes = operands[0], operands.integers("axes", 1)
        if not axes and operands.facts.integer("noop_with_empty_axes", 0):
            return array
        kept = bool(operands.facts.integer("keepdims", 1))
        if not array.size and array.dtype != object:
            raise CannotFold
        return function(_wide(array), axis=tuple(axes) if axes else None, keepdims=kept)

    return result


def _sum(array: Array, **options: Any) -> Array:
    return np.asarray(np.sum(array, dtype=array.dtype, **options))


def _mean(array: Array, **options: Any) -> Array:
    if array.dtype.kind != "f":
        raise CannotFold
    return np.asarray(np.mean(array, **options))


def _product(array: Array, **options: Any) -> Array:
    return np.asarray(np.prod(array, dtype=array.dtype, **options))


def _reduced_items(step: Callable[[Dim, Dim], Dim], start: int | None = None) -> Function:
    """The items of a list combined; without `start` there must be some."""

    def function(array: Array, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
        first, *items = array.reshape(-1).tolist() if start is None else (start, *array.reshape(-1).tolist())
        return np.full([1] * array.ndim if keepdims else [], sv.reduce_items(step, first, tuple(items)), object)

    return _reduction(function)


# The table.


@record(frozen=True, slots=True)
class Functions:
    """What one operator computes.

    Attributes:
        exact: of constants, if the result is the same bit for bit in every runtime.
        rounded: of constants, if not.
        items: of values that are known in part.
    """

    exact: Function | None = None
    rounded: Function | None = None
    items: Function | None = None


_NOTHING = Functions()
_ARITHMETIC = ("negative", "abs", "floor", "ceil", "sqrt", "add", "subtract", "multiply")
_OF_NUMBERS = frozenset((*_ARITHMETIC, "reciprocal", "divide"))


def _moves(function: Function) -> Functions:
    return Functions(function, items=function)


FUNCTIONS: dict[str, Functions] = {
    **dict.fromkeys(("identity", "reshape", "squeeze", "unsqueeze", "flatten"), _moves(_reshaped)),
    "concat": _moves(_concat),
    "slice": _moves(_slice),
    "gather": _moves(_gather),
    "constant_of_shape": _moves(_constant_of_shape),
    "expand": _moves(_expand),
    "tile": _moves(_tile),
    "range": _moves(_range),
    "transpose": Functions(_transpose),
    "gather_elements": Functions(_gather_elements),
    "gather_nd": Functions(rounded=_gather_nd, items=_gather_nd),
    "scatter_nd": Functions(rounded=_scatter_nd, items=_scatter_nd),
    "triangle": Functions(rounded=_triangle),
    "pad": Functions(items=_pad),
    "shape": Functions(items=_shape),
    "size": Functions(items=_size),
    "cast": Functions(_cast, items=_cast_items),
    "dequantize": Functions(_dequantize),
    # one operand
    "floor": Functions(_each(np.floor), items=_reshaped),
    "ceil": Functions(_each(np.ceil), items=_reshaped),
    "round": Functions(items=_reshaped),
    "negative": Functions(_each(np.negative), items=_each_item(lambda item: -item if isinstance(item, int) else None)),
    "abs": Functions(_each(np.abs), items=_each_item(lambda item: abs(item) if isinstance(item, int) else item)),
    "sqrt": Functions(_each(np.sqrt), items=_each_item(_root)),
    "reciprocal": Functions(_each(_reciprocal)),
    "logical_not": Functions(_each(np.logical_not), items=_each_item(sv.negation)),
    "sign": Functions(rounded=_each(np.sign)),
    "sigmoid": Functions(rounded=_each_float(_sigmoid)),
    **{name: Functions(rounded=_each_float(getattr(np, name))) for name in ("cos", "sin", "exp", "log", "tanh")},
    # several operands
    "add": Functions(_each(np.add), items=_chained_items(sv.add)),
    "sum": Functions(items=_chained_items(sv.add)),
    "subtract": Functions(_each(np.subtract), items=_chained_items(sv.subtract)),
    "multiply": Functions(_each(np.multiply), items=_chained_items(sv.multiply)),
    "divide": Functions(_each(_divide), items=_divide_items),
    "mod": Functions(rounded=_remainder, items=_remainder_items),
    "power": Functions(rounded=_power),
    "maximum": Functions(rounded=_chain(np.maximum), items=_chained_items(sv.largest)),
    "minimum": Functions(rounded=_chain(np.minimum), items=_chained_items(sv.smallest)),
    "clip": Functions(rounded=_clip),
    "equal": Functions(_each(np.equal), items=_chained_items(sv.equal)),
    "less": Functions(_each(np.less), items=_chained_items(sv.less)),
    "greater": Functions(_each(np.greater), items=_chained_items(lambda a, b: sv.less(b, a))),
    "less_equal": Functions(_each(np.less_equal), items=_chained_items(lambda a, b: sv.negation(sv.less(b, a)))),
    "greater_equal": Functions(_each(np.greater_equal), items=_chained_items(lambda a, b: sv.negation(sv.less(a, b)))),
    "logical_and": Functions(_each(np.logical_and), items=_chained_items(sv.both)),
    "logical_or": Functions(_each(np.logical_or), items=_chained_items(sv.either)),
    "logical_xor": Functions(_each(np.logical_xor)),
    "where": Functions(_each(np.where), items=_each(np.frompyfunc(_choice, 3, 1))),
    "matrix_product": Functions(rounded=_matmul),
    # elements of one operand together
    "reduce_sum": Functions(rounded=_reduction(_sum), items=_reduced_items(sv.add, 0)),
    "reduce_prod": Functions(rounded=_reduction(_product), items=_reduced_items(sv.multiply, 1)),
    "reduce_max": Functions(rounded=_reduction(np.max), items=_reduced_items(sv.largest)),
    "reduce_min": Functions(rounded=_reduction(np.min), items=_reduced_items(sv.smallest)),
    "reduce_mean": Functions(rounded=_reduction(_mean)),
    "running_sum": Functions(rounded=_running_sum),
}
"""The functions of operators, by the name in `operator_traits`. (A split, with its several outputs, is separate.)"""
