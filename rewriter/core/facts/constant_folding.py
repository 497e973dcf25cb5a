"""Arrays of nodes whose operands are constant, for the few operators that move weights about or compute their shape.

This serves rules that require a constant and read it (`const w`), so only operators are folded whose result is the same, bit
for bit, in every runtime. The result must have the type that was inferred before anything was computed: a file cannot make it
larger than its cap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.facts.shape_values import FLOATS, INTEGERS, NodeFacts
from rewriter.core.graph.values import constant_array
from rewriter.core.language.operator_traits import traits
from rewriter.core.onnxfile.tensors import TensorType, count, numpy_dtype
from rewriter.core.record import record

Array = np.ndarray[Any, Any]

MOST_MOVED = 1 << 24
"""Elements of the largest result that is made from weights of its size."""

MOST_MADE = 1 << 20
"""Elements of the largest result that is made from small operands (ConstantOfShape, Expand, Range, Tile)."""

_BFLOAT16 = 16
_PLAIN = INTEGERS | FLOATS | {_BFLOAT16}
_MAKERS = frozenset(("constant_of_shape", "expand", "range", "tile"))


class CannotFold(Exception):
    """The operands lead to no result that all runtimes agree on."""


@record(slots=True)
class Operands:
    """The arguments of a folding function: the node's facts, its operands' arrays, the type and shape the result must have."""

    facts: NodeFacts
    arrays: Sequence[Array | None]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def __getitem__(self, i: int) -> Array:
        array = self.arrays[i] if i < len(self.arrays) else None
        if array is None:
            raise CannotFold
        return array

    def integers(self, name: str, i: int) -> list[int] | None:
        """A list that is an attribute in older versions and operand i in newer ones; None when absent."""
        if name in self.facts.attrs:
            return self.facts.integers(name)
        return [int(item) for item in self[i].reshape(-1)] if self.facts.has(i) else None


Folding = Callable[[Operands], Array]


def foldable(facts: NodeFacts, output: TensorType) -> bool:
    """Whether the first output folds when all operands are constant: a known operator, a result of bearable size."""
    size, name = count(output.shape), traits(facts.op).rule
    if facts.domain or name not in FUNCTIONS or size is None or output.dtype is None or numpy_dtype(output.dtype) is None:
        return False
    if size > (MOST_MADE if name in _MAKERS else MOST_MOVED):
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

    Args:
        facts: of a node and output that are `foldable`.
        arrays: of its operands, None for omitted ones.
    """
    return _result(FUNCTIONS[traits(facts.op).rule], facts, arrays, output, rounded=False)


def _result(
    function: Folding, facts: NodeFacts, arrays: Sequence[Array | None], output: TensorType, *, rounded: bool
) -> Array | None:
    """The result of a function, if it has the type and shape that it must have; a rounded result gets the type."""
    dtype = numpy_dtype(output.dtype or 0)
    if dtype is None or output.shape is None:
        return None
    shape = tuple(dim for dim in output.shape if isinstance(dim, int))
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(function(Operands(facts, arrays, dtype, shape)))
            result = result.astype(dtype, copy=False) if rounded else result
    except (CannotFold, RewriterError, ValueError, IndexError, TypeError, OverflowError, MemoryError):
        return None
    return result if result.dtype == dtype and result.shape == shape else None


def _reshaped(operands: Operands) -> Array:
    return operands[0].reshape(operands.shape)


def _transpose(operands: Operands) -> Array:
    return np.transpose(operands[0], operands.facts.integers("perm") or None)


def _cast(operands: Operands) -> Array:
    array = operands[0]
    if array.dtype.kind not in "biu" and operands.dtype.kind in "iu":
        wide = np.trunc(array.astype(np.float64))
        info = np.iinfo(operands.dtype)
        if not np.isfinite(wide).all() or (wide < float(info.min)).any() or (wide >= float(info.max) + 1).any():
            raise CannotFold
        return wide.astype(operands.dtype)
    return array != 0 if operands.dtype.kind == "b" else array.astype(operands.dtype)


def _concat(operands: Operands) -> Array:
    axis = operands.facts.integer("axis", 1)
    if axis is None:
        raise CannotFold
    return np.concatenate([operands[i] for i in range(len(operands.arrays))], axis)


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
    return np.take(operands[0], operands[1], axis)


def _gather_elements(operands: Operands) -> Array:
    axis = operands.facts.integer("axis", 0)
    if axis is None or operands[0].ndim != operands[1].ndim:
        raise CannotFold
    return np.take_along_axis(operands[0], operands[1].astype(np.int64), axis)


def _by_items(function: Callable[..., Any]) -> Folding:
    return lambda operands: np.asarray(function(*(operands[i] for i in range(len(operands.arrays)))))


def _divide(left: Array, right: Array) -> Array:
    if left.dtype.kind not in "iu":
        return np.asarray(np.divide(left, right))
    if not np.all(right):
        raise CannotFold
    quotient, rest = np.divmod(left, right)
    return np.asarray(quotient + ((rest != 0) & ((left < 0) != (right < 0))).astype(quotient.dtype))


def _reciprocal(array: Array) -> Array:
    return np.asarray(np.divide(np.ones((), array.dtype), array))


def _constant_of_shape(operands: Operands) -> Array:
    fill = operands.facts.attrs.get("value")
    item = constant_array(fill) if isinstance(fill, gs.Constant) else np.zeros(1, np.float32)
    return np.full(operands.shape, item.reshape(()), operands.dtype)


def _expand(operands: Operands) -> Array:
    return np.broadcast_to(operands[0], operands.shape)


def _tile(operands: Operands) -> Array:
    repeats = operands[1].tolist()
    if len(repeats) != operands[0].ndim:
        raise CannotFold
    return np.tile(operands[0], repeats)


def _range(operands: Operands) -> Array:
    start, limit, step = (int(operands[i].reshape(())) for i in range(3))
    if not step or len(range(start, limit, step)) != operands.shape[0]:
        raise CannotFold
    return np.array(range(start, limit, step), operands.dtype)


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


_ARITHMETIC = ("negative", "abs", "floor", "ceil", "sqrt", "add", "subtract", "multiply")
_COMPARISONS = ("equal", "less", "less_equal", "greater", "greater_equal")
_LOGIC = ("logical_and", "logical_or", "logical_xor", "logical_not", "where")
FUNCTIONS: dict[str, Folding] = {
    **dict.fromkeys(("identity", "reshape", "squeeze", "unsqueeze", "flatten"), _reshaped),
    **{name: _by_items(getattr(np, name)) for name in (*_ARITHMETIC, *_COMPARISONS, *_LOGIC)},
    "transpose": _transpose,
    "cast": _cast,
    "concat": _concat,
    "slice": _slice,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "reciprocal": _by_items(_reciprocal),
    "divide": _by_items(_divide),
    "constant_of_shape": _constant_of_shape,
    "expand": _expand,
    "tile": _tile,
    "range": _range,
    "dequantize": _dequantize,
}
"""Functions that compute the first output from the operands' arrays, by the name in `operator_traits`."""

_OF_NUMBERS = frozenset((*_ARITHMETIC, "reciprocal", "divide"))


# Arrays of nodes whose operands are constant, for operators whose results differ between runtimes in the last places.
#
# `constant_folding` decides for every rule which tensors are constant, so it has only operators that are the same bit for bit
# everywhere. This serves rules that replace one node by its result, and say so: sums, powers and waves are computed in double
# precision and rounded once. The sizes of the result and of the work are bounded before anything is computed.

MOST_WORK = 1 << 24
"""Products that a matrix product may take."""


def computed(facts: NodeFacts, arrays: Sequence[Array | None], output: TensorType) -> Array | None:
    """The first output's array; None if the operator is not known, the result is too large, or the operands lead to none.

    Args:
        facts: of the node.
        arrays: of its operands, None for omitted ones.
        output: the type and shape that the result must have.
    """
    if foldable(facts, output):
        return fold(facts, arrays, output)
    size, function = count(output.shape), ROUNDED_FUNCTIONS.get(traits(facts.op).rule)
    if facts.domain or function is None or size is None or size > MOST_MOVED:
        return None
    if any(array is not None and (array.size > MOST_MOVED or array.dtype.kind not in "biuf") for array in arrays):
        return None
    return _result(function, facts, arrays, output, rounded=True)


def _wide(array: Array) -> Array:
    """Floats in double precision, integers as they are."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _by_float_items(function: Callable[..., Any]) -> Folding:
    """An operator that combines its operands, which are floats, item by item."""

    def result(operands: Operands) -> Array:
        arrays = [operands[i] for i in range(len(operands.arrays))]
        if any(array.dtype.kind != "f" for array in arrays):
            raise CannotFold
        return np.asarray(function(*map(_wide, arrays)))

    return result


def _sigmoid(array: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-array)))


def _power(operands: Operands) -> Array:
    base, exponent = operands[0], operands[1]
    if base.dtype.kind != "f":
        raise CannotFold
    return np.asarray(np.power(_wide(base), exponent.astype(np.float64)))


def _choice(function: Callable[[Array, Array], Array]) -> Folding:
    """Min and Max of any number of operands."""

    def result(operands: Operands) -> Array:
        chosen = operands[0]
        for i in range(1, len(operands.arrays)):
            chosen = function(chosen, operands[i])
        return chosen

    return result


def _clip(operands: Operands) -> Array:
    array = operands[0]
    low, high = (operands.facts.attrs.get(name) for name in ("min", "max"))
    low = operands[1] if operands.facts.has(1) else low
    high = operands[2] if operands.facts.has(2) else high
    array = array if low is None else np.maximum(array, np.asarray(low, array.dtype))
    return array if high is None else np.minimum(array, np.asarray(high, array.dtype))


def _remainder(operands: Operands) -> Array:
    left, right = operands[0], operands[1]
    if operands.facts.integer("fmod", 0) or left.dtype.kind not in "iu" or not np.all(right):
        raise CannotFold
    return np.asarray(np.mod(left, right))


def _reduction(function: Callable[..., Any]) -> Folding:
    def result(operands: Operands) -> Array:
        array, axes = operands[0], operands.integers("axes", 1)
        if not axes and operands.facts.integer("noop_with_empty_axes", 0):
            return array
        kept = bool(operands.facts.integer("keepdims", 1))
        if not array.size:
            raise CannotFold
        return np.asarray(function(_wide(array), axis=tuple(axes) if axes else None, keepdims=kept))

    return result


def _sum(array: Array, **options: Any) -> Array:
    return np.asarray(np.sum(array, dtype=array.dtype, **options))


def _mean(array: Array, **options: Any) -> Array:
    if array.dtype.kind != "f":
        raise CannotFold
    return np.asarray(np.mean(array, **options))


def _product(array: Array, **options: Any) -> Array:
    return np.asarray(np.prod(array, dtype=array.dtype, **options))


def _matmul(operands: Operands) -> Array:
    left, right = operands[0], operands[1]
    inner = left.shape[-1] if left.ndim else 0
    if left.dtype.kind != "f" or int(np.prod(operands.shape, dtype=object)) * inner > MOST_WORK:
        raise CannotFold
    return np.asarray(np.matmul(_wide(left), _wide(right)))


def _scatter_nd(operands: Operands) -> Array:
    data, indices, updates = np.array(operands[0]), operands[1], operands[2]
    if operands.facts.text("reduction", "none") != "none":
        raise CannotFold
    places = tuple(np.moveaxis(indices, -1, 0))
    if len({tuple(row) for row in indices.reshape(-1, indices.shape[-1]).tolist()}) < indices[..., 0].size:
        raise CannotFold  # which of several values stays is not defined
    data[places] = updates
    return data


def _gather_nd(operands: Operands) -> Array:
    if operands.facts.integer("batch_dims", 0):
        raise CannotFold
    return np.asarray(operands[0][tuple(np.moveaxis(operands[1], -1, 0))])


def _triangle(operands: Operands) -> Array:
    offset = int(operands[1].reshape(())) if operands.facts.has(1) else 0
    half: Any = np.triu if operands.facts.integer("upper", 1) else np.tril
    return np.asarray(half(operands[0], offset))


def _running_sum(operands: Operands) -> Array:
    array, axis = operands[0], int(operands[1].reshape(()))
    if operands.facts.integer("exclusive", 0) or operands.facts.integer("reverse", 0):
        raise CannotFold
    return np.asarray(np.cumsum(_wide(array), axis, dtype=_wide(array).dtype))


ROUNDED_FUNCTIONS: dict[str, Folding] = {
    **{name: _by_float_items(getattr(np, name)) for name in ("cos", "sin", "exp", "log", "tanh")},
    "sigmoid": _by_float_items(_sigmoid),
    "power": _power,
    "minimum": _choice(np.minimum),
    "maximum": _choice(np.maximum),
    "clip": _clip,
    "sign": lambda operands: np.sign(operands[0]),
    "mod": _remainder,
    "reduce_sum": _reduction(_sum),
    "reduce_mean": _reduction(_mean),
    "reduce_prod": _reduction(_product),
    "reduce_max": _reduction(np.max),
    "reduce_min": _reduction(np.min),
    "matrix_product": _matmul,
    "scatter_nd": _scatter_nd,
    "gather_nd": _gather_nd,
    "triangle": _triangle,
    "running_sum": _running_sum,
}
"""Functions whose result is rounded, by the same name."""
