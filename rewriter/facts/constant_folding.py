"""Arrays of nodes whose operands are constant, for the few operators that move weights about or compute their shape.

This serves rules that ask "is it constant, and what is in it" (`const w`), so only operators are folded whose result is the
same, bit for bit, in every runtime. The result must have the type that was inferred before anything was computed: a file cannot
make it larger than its cap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.errors import RewriterError
from rewriter.facts.node_facts import NodeFacts
from rewriter.facts.shape_values import FLOATS, INTEGERS
from rewriter.graph.values import constant_array
from rewriter.onnxfile.tensor_types import TensorType, count, numpy_dtype
from rewriter.record import record

Array = np.ndarray[Any, Any]

MOST_MOVED = 1 << 24
"""Elements of the largest result that is made from weights of its size."""

MOST_MADE = 1 << 20
"""Elements of the largest result that is made from next to nothing (ConstantOfShape, Expand, Range, Tile)."""

_BFLOAT16 = 16
_PLAIN = INTEGERS | FLOATS | {_BFLOAT16}
_MAKERS = frozenset(("ConstantOfShape", "Expand", "Range", "Tile"))


class CannotFold(Exception):
    """The operands lead to no result that all runtimes agree on."""


@record(slots=True)
class Operands:
    """What a folding function works on: the node's facts, its operands' arrays, the type and shape the result must have."""

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


def foldable(facts: NodeFacts, output: TensorType) -> bool:
    """Whether the first output folds when all operands are constant: a known operator, a result of bearable size."""
    size = count(output.shape)
    if facts.domain or facts.op not in FUNCTIONS or size is None or output.dtype is None or numpy_dtype(output.dtype) is None:
        return False
    if size > (MOST_MADE if facts.op in _MAKERS else MOST_MOVED):
        return False
    kinds = [known.dtype for known in facts.types if known is not None]
    if facts.op in ("Cast", "CastLike"):
        return output.dtype in _PLAIN and kinds[:1] != [None] and kinds[0] in _PLAIN
    if facts.op == "DequantizeLinear":
        return output.dtype == 1 and not facts.integer("block_size", 0)
    if facts.op == "Range":
        return output.dtype in INTEGERS
    return output.dtype in _PLAIN if facts.op in _ARITHMETIC else output.dtype != 8


def fold(facts: NodeFacts, arrays: Sequence[Array | None], output: TensorType) -> Array | None:
    """The first output's array; None where the operands do not lead to one (an index out of range, a division by 0).

    Args:
        facts: of a node and output that are `foldable`.
        arrays: of its operands, None for omitted ones.
    """
    dtype = numpy_dtype(output.dtype or 0)
    if dtype is None or output.shape is None:
        return None
    shape = tuple(dim for dim in output.shape if isinstance(dim, int))
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(FUNCTIONS[facts.op](Operands(facts, arrays, dtype, shape)))
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


def _by_items(function: Callable[..., Any]) -> Callable[[Operands], Array]:
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


FUNCTIONS: dict[str, Callable[[Operands], Array]] = {
    **dict.fromkeys(("Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"), _reshaped),
    "Transpose": _transpose,
    "Cast": _cast,
    "CastLike": _cast,
    "Concat": _concat,
    "Slice": _slice,
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "Neg": _by_items(np.negative),
    "Abs": _by_items(np.abs),
    "Floor": _by_items(np.floor),
    "Ceil": _by_items(np.ceil),
    "Sqrt": _by_items(np.sqrt),
    "Reciprocal": _by_items(_reciprocal),
    "Add": _by_items(np.add),
    "Sub": _by_items(np.subtract),
    "Mul": _by_items(np.multiply),
    "Div": _by_items(_divide),
    "Equal": _by_items(np.equal),
    "Less": _by_items(np.less),
    "LessOrEqual": _by_items(np.less_equal),
    "Greater": _by_items(np.greater),
    "GreaterOrEqual": _by_items(np.greater_equal),
    "And": _by_items(np.logical_and),
    "Or": _by_items(np.logical_or),
    "Xor": _by_items(np.logical_xor),
    "Not": _by_items(np.logical_not),
    "Where": _by_items(np.where),
    "ConstantOfShape": _constant_of_shape,
    "Expand": _expand,
    "Tile": _tile,
    "Range": _range,
    "DequantizeLinear": _dequantize,
}
"""Operator of the default domain → its first output from its operands' arrays."""

_ARITHMETIC = frozenset(("Neg", "Abs", "Floor", "Ceil", "Sqrt", "Reciprocal", "Add", "Sub", "Mul", "Div"))
