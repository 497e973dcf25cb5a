"""Tensors made up for the inputs of a model: ordinary numbers, and the edges at which wrong rewrites show.

The same model always gets the same: a draw depends on the position, name, type and shape of the input and on the number of the
draw. Small tensors are not left to chance. A small float tensor has both signs, several draws together go through all edge
values, and a tensor of integers or booleans with two elements holds two different ones.
"""

from __future__ import annotations

import zlib
from functools import cache
from math import prod
from typing import Any

import numpy as np
import onnx

from rewriter.errors import RewriterError
from rewriter.record import record

ORDINARY, POSITIVE, EDGES, LARGE, LIMITS, INFINITE = "ordinary", "positive", "edges", "large", "limits", "infinite"

FLOAT_EDGES = (0.0, -1.0, 1.0, -0.0, 0.5, -2.0, 2.0, -0.5, 3.0, -3.0, 1.5, -1.5, 10.0, -10.0, 0.1, -0.1)
INTEGER_EDGES = (-1, 2, 0, 5, 1, -2, 7, 3, -3, 4)
NOT_FINITE = (np.inf, -np.inf, np.nan)

MOST_STRATA = 4096
"""Larger tensors are drawn independently; they hold values of every sort all the same."""

MOST_LARGE = 1e5


@record(frozen=True, slots=True)
class Slot:
    """An input for which a tensor is made up.

    Attributes:
        name, position: of the input.
        code: element type, a TensorProto number.
        shape: of the tensor.
        sizing: whether its values decide sizes; then they stay small.
        limit: the largest finite number of the narrowest floating point type in which the model computes.
    """

    name: str
    position: int
    code: int
    shape: tuple[int, ...]
    sizing: bool = False
    limit: float = np.inf


def draw(slot: Slot, style: str, turn: int) -> Any:
    """A tensor of a style; `turn` numbers the draws of that style.

    Raises:
        RewriterError: the element type is unknown.
    """
    dtype = _dtype(slot)
    seed = [_STYLES.index(style), turn, slot.position, zlib.crc32(slot.name.encode()), *slot.shape]
    small = max(seed) < 1 << 32
    random = np.random.default_rng(np.array(seed, np.uint32) if small else seed)  # the same numbers in half the time
    if slot.code == onnx.TensorProto.STRING:
        return _cycled(random, slot, turn, np.array(["a", "b", "c", ""] if style == EDGES else ["a", "b", "c"], dtype=object))
    if slot.code == onnx.TensorProto.BOOL:
        return _cycled(random, slot, turn + _STYLES.index(style), np.array([False, True]))
    with np.errstate(all="ignore"):
        if not _is_float(dtype):
            return _integers(random, slot, style, turn, dtype)
        plain = slot.sizing and style not in (ORDINARY, POSITIVE)
        values = _FLOATS[ORDINARY if plain else style](random, slot, turn, dtype)
        return np.asarray(values, dtype=dtype)


def narrowest_limit(dtypes: list[Any]) -> float:
    """The largest finite number that all of these floating point types hold; infinite without any."""
    return min((float(_finfo(dtype).max) for dtype in dtypes), default=np.inf)


def _dtype(slot: Slot) -> Any:
    try:
        return onnx.helper.tensor_dtype_to_np_dtype(slot.code)
    except KeyError:
        raise RewriterError(f"no value can be made up for input {slot.name!r}: element type {slot.code} is unknown") from None


def _finfo(dtype: Any) -> Any:
    import ml_dtypes

    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


@cache
def _is_float(dtype: Any) -> bool:
    try:
        _finfo(dtype)
    except ValueError:
        return False
    return True


# --- integers, booleans, strings ----------------------------------------------------------------------------------------


def _integers(random: np.random.Generator, slot: Slot, style: str, turn: int, dtype: Any) -> Any:
    import ml_dtypes

    bounds = np.iinfo(dtype) if dtype.kind in "iu" else ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]
    low, high = int(bounds.min), int(bounds.max)
    if style in (ORDINARY, POSITIVE):
        values = [0, 1] if style == ORDINARY else [0, 1, 2, 3]
    elif style == EDGES or slot.sizing:
        values = list(INTEGER_EDGES)
    elif style == LARGE:
        values = random.integers(4, 100, 16).tolist()
    elif style == LIMITS:  # the least number is left out: divided by -1 it ends the process
        values = [high, -high, high // 2 + 1, 1, 0, -1]
    else:
        values = [0, 1, 2, 3]
    fitting = [value for value in values if low <= value <= high] or [high]
    return _cycled(random, slot, turn, np.array(fitting, dtype=dtype))


def _cycled(random: np.random.Generator, slot: Slot, turn: int, pool: Any) -> Any:
    """Elements of a pool, each as often as the others. The first ones of a small tensor depend on turn and position alone."""
    size = prod(slot.shape)
    if size > MOST_STRATA:
        return pool[random.integers(0, len(pool), slot.shape)]
    places = (np.arange(size) + turn * max(size, 1) + slot.position) % len(pool)
    return np.reshape(pool[random.permutation(places)], slot.shape)


# --- floats -------------------------------------------------------------------------------------------------------------


def _uniform(random: np.random.Generator, slot: Slot, low: float, high: float) -> Any:
    size = prod(slot.shape)
    if size > MOST_STRATA:
        return random.uniform(low, high, slot.shape)
    strata = random.permutation(size) + random.uniform(0.05, 0.95, size)
    return np.reshape(low + strata / max(size, 1) * (high - low), slot.shape)


def _signs(random: np.random.Generator, slot: Slot, first: int) -> Any:
    """Both signs, as often; those of single numbers alternate with the position of the input."""
    size = prod(slot.shape)
    return np.reshape(random.permutation(1 - 2 * ((np.arange(size) + slot.position + first) % 2)), slot.shape)


def _ordinary(random: np.random.Generator, slot: Slot, turn: int, dtype: Any) -> Any:
    if prod(slot.shape) == 1:
        return _uniform(random, slot, 0.0, 1.0) * _signs(random, slot, 1)
    return _uniform(random, slot, -1.0, 1.0)


def _positive(random: np.random.Generator, slot: Slot, turn: int, dtype: Any) -> Any:
    return _uniform(random, slot, 0.0, 1.0)


def _edges(random: np.random.Generator, slot: Slot, turn: int, dtype: Any) -> Any:
    return _cycled(random, slot, turn, np.array(FLOAT_EDGES))


def _large(random: np.random.Generator, slot: Slot, turn: int, dtype: Any) -> Any:
    highest = np.log10(min(MOST_LARGE, slot.limit, float(_finfo(dtype).max)))
    return 10 ** _uniform(random, slot, highest - 3, highest) * _signs(random, slot, 0)


def _limits(random: np.random.Generator, slot: Slot, turn: int, dtype: Any) -> Any:
    info = _finfo(dtype)
    most, least = min(float(info.max), slot.limit), float(info.tiny)
    pool = [most, -most, most / 2, -most / 2, np.sqrt(most) * 1.5, -least, least, least / 4, 1.0, -1.0]
    if most < float(info.max):
        pool = [most * 1.01, *pool, -most * 1.01]
    return _mixed(random, slot, turn, pool, _ordinary(random, slot, turn, dtype), most=2)


def _infinite(random: np.random.Generator, slot: Slot, turn: int, dtype: Any) -> Any:
    return _mixed(random, slot, turn, list(NOT_FINITE), _ordinary(random, slot, turn, dtype), most=8)


def _mixed(random: np.random.Generator, slot: Slot, turn: int, pool: list[float], ordinary: Any, most: int) -> Any:
    """Ordinary numbers, and in one place of `most`, but in two of a small tensor, numbers of a pool."""
    size = prod(slot.shape)
    count = min(size, max(2, size // most))
    places = random.permutation(size)[:count]
    flat = np.ravel(ordinary)
    flat[places] = np.array(pool)[(np.arange(count) + turn * max(count, 1) + slot.position) % len(pool)]
    return np.reshape(flat, slot.shape)


_FLOATS = {
    ORDINARY: _ordinary,
    POSITIVE: _positive,
    EDGES: _edges,
    LARGE: _large,
    LIMITS: _limits,
    INFINITE: _infinite,
}
_STYLES = tuple(_FLOATS)
