"""Arrays of nodes whose operands are constant, for operators of which runtimes agree up to the last places only.

`constant_folding` answers "is it constant" for every rule, so it holds only what is the same bit for bit everywhere. This
serves rules that replace one node by what it computes, and say so: sums, powers and waves are computed in double precision and
rounded once. Nothing is computed whose result, or whose work, was not bounded before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rewriter.errors import RewriterError
from rewriter.facts import constant_folding
from rewriter.facts.constant_folding import MOST_MOVED, CannotFold, Operands
from rewriter.facts.node_facts import NodeFacts
from rewriter.onnxfile.tensor_types import TensorType, count, numpy_dtype

Array = np.ndarray[Any, Any]

MOST_WORK = 1 << 24
"""Products that a matrix product may take."""


def computed(facts: NodeFacts, arrays: Sequence[Array | None], output: TensorType) -> Array | None:
    """The first output's array; None where the operator is not known, the result is too large, or the operands lead to none.

    Args:
        facts: of the node.
        arrays: of its operands, None for omitted ones.
        output: the type and shape that the result must have.
    """
    if constant_folding.foldable(facts, output):
        return constant_folding.fold(facts, arrays, output)
    size, dtype = count(output.shape), numpy_dtype(output.dtype or 0)
    function = FUNCTIONS.get(facts.op)
    if facts.domain or function is None or size is None or size > MOST_MOVED or dtype is None or output.shape is None:
        return None
    if any(array is not None and (array.size > MOST_MOVED or array.dtype.kind not in "biuf") for array in arrays):
        return None
    shape = tuple(dim for dim in output.shape if isinstance(dim, int))
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(function(Operands(facts, arrays, dtype, shape)))
            result = result if result.dtype == dtype else result.astype(dtype)
    except (CannotFold, RewriterError, ValueError, IndexError, TypeError, OverflowError, MemoryError):
        return None
    return result if result.shape == shape else None


def _wide(array: Array) -> Array:
    """Floats in double precision, integers as they are."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _by_items(function: Callable[..., Any]) -> Callable[[Operands], Array]:
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


def _choice(function: Callable[[Array, Array], Array]) -> Callable[[Operands], Array]:
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


def _reduction(function: Callable[..., Any]) -> Callable[[Operands], Array]:
    def result(operands: Operands) -> Array:
        array, axes = operands[0], operands.integers("axes", 1)
        if not axes and operands.facts.integer("noop_with_empty_axes", 0):
            return array
        kept = bool(operands.facts.integer("keepdims", 1))
        if not array.size:
            raise CannotFold
        return np.asarray(function(_wide(array), axis=tuple(axes) if axes else None, keepdims=kept))

    return result


def _sum(array: Array, **given: Any) -> Array:
    return np.asarray(np.sum(array, dtype=array.dtype, **given))


def _mean(array: Array, **given: Any) -> Array:
    if array.dtype.kind != "f":
        raise CannotFold
    return np.asarray(np.mean(array, **given))


def _product(array: Array, **given: Any) -> Array:
    return np.asarray(np.prod(array, dtype=array.dtype, **given))


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


FUNCTIONS: dict[str, Callable[[Operands], Array]] = {
    "Cos": _by_items(np.cos),
    "Sin": _by_items(np.sin),
    "Exp": _by_items(np.exp),
    "Log": _by_items(np.log),
    "Tanh": _by_items(np.tanh),
    "Sigmoid": _by_items(_sigmoid),
    "Pow": _power,
    "Min": _choice(np.minimum),
    "Max": _choice(np.maximum),
    "Clip": _clip,
    "Sign": lambda operands: np.sign(operands[0]),
    "Mod": _remainder,
    "ReduceSum": _reduction(_sum),
    "ReduceMean": _reduction(_mean),
    "ReduceProd": _reduction(_product),
    "ReduceMax": _reduction(np.max),
    "ReduceMin": _reduction(np.min),
    "MatMul": _matmul,
    "ScatterND": _scatter_nd,
    "GatherND": _gather_nd,
    "Trilu": _triangle,
    "CumSum": _running_sum,
}
"""Operator of the default domain → its first output from its operands' arrays."""
