"""Random tensors: tame values whose sums are exact, rough ones, and the edges of each element type.

A role says what an operand means to its reader: an index outside of its axis or a negative variance says nothing about a rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from rewriter.proof.instances.instance import Array

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16})
Role = tuple[str, int]
ANY: Role = ("any", 0)
POSITIVE: Role = ("positive", 0)
SMALL: Role = ("small", 0)
DIVISOR: Role = ("divisor", 0)

TAME, ROUGH, EDGES, LARGE = "tame", "rough", "edges", "large"
STYLES = (TAME, ROUGH, EDGES)
_HALF_EXPONENTS = np.array([-13, -10, -6, -3, 0, 4, 7, 10, 14, 14, 15])
_TEXTS = np.array(["", "a", "b", "ab"], dtype=object)


def random_array(rng: np.random.Generator, dtype: int, shape: tuple[int, ...], role: Role = ANY, style: str = TAME) -> Array:
    """A tensor.

    Args:
        rng: the only source of chance.
        dtype: a TensorProto number.
        shape: its dimensions.
        role: ("index", n) for positions on an axis of length n, `POSITIVE`, `SMALL` (exponents, counts),
            `DIVISOR` (a whole one is not 0, nor -1 beside the least number, which stops the process) or `ANY`.
        style: one of `STYLES`; or `LARGE`, finite numbers of every magnitude that half precision has.
    """
    if dtype == TensorProto.STRING:
        return np.asarray(rng.choice(_TEXTS, shape), dtype=object)
    kind = onnx.helper.tensor_dtype_to_np_dtype(dtype)
    if dtype == TensorProto.BOOL:
        return rng.integers(0, 2, shape).astype(bool)
    if role[0] == "index":
        length = max(role[1], 1)
        return rng.integers(-length if style == ROUGH and _signed(dtype) else 0, length, shape).astype(kind)
    if dtype in FLOATS:
        return _floats(rng, kind, shape, role, style)
    return _integers(rng, kind, shape, role, style)


def _signed(dtype: int) -> bool:
    return dtype in (TensorProto.INT64, TensorProto.INT32, TensorProto.INT16, TensorProto.INT8) or dtype in FLOATS


def _floats(rng: np.random.Generator, kind: Any, shape: tuple[int, ...], role: Role, style: str) -> Array:
    if role == POSITIVE:
        return np.asarray(rng.integers(1, 12, shape) / 4.0).astype(kind)
    if role == SMALL:
        return rng.integers(0, 4, shape).astype(kind)
    values = rng.integers(-12, 13, shape) / 4.0 if style == TAME else rng.normal(0.0, 2.0, shape)
    found = np.asarray(values).astype(kind)
    if style == LARGE and kind == np.float16:
        return np.asarray(found * 2.0 ** rng.choice(_HALF_EXPONENTS, shape)).clip(-60000, 60000).astype(kind)
    if style == EDGES and found.size:
        hit = rng.random(shape) < 0.35
        found = np.where(hit, rng.choice(_float_edges(kind), shape), found)
    return np.asarray(found, dtype=kind)


def _float_edges(kind: Any) -> Array:
    if kind == np.float16:
        numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, 6e-8, 65504.0, -65504.0]
    else:
        numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, -3e38]
    with np.errstate(all="ignore"):
        return np.array(numbers).astype(kind)


def _integers(rng: np.random.Generator, kind: Any, shape: tuple[int, ...], role: Role, style: str) -> Array:
    bounds = np.iinfo(kind) if np.issubdtype(kind, np.integer) else None
    if bounds is None or role in (SMALL, POSITIVE):
        return rng.integers(int(role == POSITIVE), 4, shape).astype(kind)
    least = max(-6, int(bounds.min))
    found = rng.integers(least, 7, shape).astype(kind)
    if style == EDGES and found.size:
        edges = np.array([0, 1, bounds.min, bounds.max, bounds.max // 2 + 1], dtype=kind)
        found = np.where(rng.random(shape) < 0.35, rng.choice(edges, shape), found).astype(kind)
    if role == DIVISOR:
        stops = (found == 0) | (found.astype(np.float64) == -1.0 if style == EDGES else False)
        found = np.where(stops, 3, found)
    return np.asarray(found, dtype=kind)
