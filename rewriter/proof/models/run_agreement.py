"""Whether two runs agree, by what the rule promised.

NaN agrees with NaN whatever its bits, and with nothing else; zeros of either sign agree. Element types and shapes must match.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rewriter.proof.instances.instance import Array
from rewriter.record import record

ULPS = 2
_INTEGERS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


@record(frozen=True, slots=True)
class RunBound:
    """How far results may be off: `ulps` units in the last place, or |a - b| <= atol + rtol * |b|.

    `scale` measures rtol against the largest magnitude of the tensor, since a sum that cancels has no relative precision. No
    rtol asks for more than 16 units in the last place of the element type. Integers are equal, unless atol allows whole steps.
    """

    ulps: int = ULPS
    rtol: float = 0.0
    atol: float = 0.0
    scale: bool = False

    def __str__(self) -> str:
        return f"rtol={self.rtol:g}, atol={self.atol:g}" if self.rtol or self.atol else f"{self.ulps} ulp"


@record(frozen=True, slots=True)
class RunDifference:
    """How the results of one output differ; `error` is the largest, in the units of the bound."""

    output: str
    text: str


def compare(before: Mapping[str, Array], after: Mapping[str, Array], bound: RunBound) -> tuple[RunDifference | None, float]:
    """The first output that differs beyond the bound, or None; and the largest error within it (ulps, or relative)."""
    worst = 0.0
    for name, wanted in before.items():
        if name not in after:
            return RunDifference(name, "is not computed any more"), worst
        text, error = difference(np.asarray(wanted), np.asarray(after[name]), bound)
        if text:
            return RunDifference(name, text), worst
        worst = max(worst, error)
    return None, worst


def difference(wanted: Array, found: Array, bound: RunBound) -> tuple[str, float]:
    """What is wrong with `found`, "" for nothing; and the largest error."""
    if wanted.dtype != found.dtype:
        return f"has the element type {found.dtype} instead of {wanted.dtype}", 0.0
    if wanted.shape != found.shape:
        return f"has the shape {list(found.shape)} instead of {list(wanted.shape)}", 0.0
    if wanted.dtype.kind not in "fV" and wanted.dtype.name != "bfloat16":
        wrong = wanted != found
        if wanted.dtype.kind in "iu" and bound.atol >= 1 and np.any(wrong):  # a promise in whole steps
            wrong = np.abs(wanted.astype(np.float64) - found.astype(np.float64)) > bound.atol
        return (_where(wanted, found, wrong) if np.any(wrong) else ""), 0.0
    if bound.rtol or bound.atol:
        finest = 16 * {2: 2.0**-10, 4: 2.0**-23}.get(wanted.dtype.itemsize, 2.0**-52)
        finest *= 8 if wanted.dtype.name == "bfloat16" else 1
        return _near(wanted.astype(np.float64), found.astype(np.float64), bound, max(bound.rtol, finest))
    return _ulps(wanted, found, bound.ulps)


def _near(wanted: Array, found: Array, bound: RunBound, rtol: float) -> tuple[str, float]:
    """What was NaN must not become a number; of what has overflowed nothing is asked."""
    finite = np.isfinite(wanted) & (np.abs(wanted) < 1e30)
    with np.errstate(all="ignore"):
        size = np.max(np.abs(wanted[finite]), initial=0.0) if bound.scale else np.abs(wanted)
        allowed = bound.atol + rtol * size
        off = np.abs(found - wanted)
        wrong = (finite & ~(off <= allowed)) | (np.isnan(wanted) & np.isfinite(found))
        if np.any(wrong):
            return _where(wanted, found, wrong), 0.0
        relative = np.where(finite & (np.abs(wanted) > 0), off / np.maximum(size, 1e-30), 0.0)
    return "", float(np.max(relative, initial=0.0))


def _ulps(wanted: Array, found: Array, most: int) -> tuple[str, float]:
    nans = np.isnan(wanted.astype(np.float64)), np.isnan(found.astype(np.float64))
    off = np.where(nans[0] & nans[1], 0, _distance(wanted, found))
    wrong = (nans[0] != nans[1]) | (off > most)
    if np.any(wrong):
        return _where(wanted, found, wrong), 0.0
    return "", float(np.max(off, initial=0))


def _distance(one: Array, other: Array) -> Array:
    """Representable numbers between two, element by element; as floating point, which is exact where it matters."""
    first, second = _rank(one), _rank(other)
    apart = (np.maximum(first, second) - np.minimum(first, second)).astype(np.float64)
    exact = np.asarray(one == other)
    return np.where(exact, 0.0, np.maximum(apart, 1.0))


def _rank(values: Array) -> Array:
    """The place of each number among all numbers of its type, from the least: bit patterns in the order of what they mean."""
    bits = np.ascontiguousarray(values).view(_INTEGERS[values.dtype.itemsize]).astype(np.int64)
    least = np.int64(np.iinfo(np.int64).min)
    ordered = np.where(bits < 0, np.int64(np.iinfo(_INTEGERS[values.dtype.itemsize]).min) - bits, bits)
    return np.asarray(ordered ^ least).view(np.uint64)


def _where(wanted: Array, found: Array, wrong: Array) -> str:
    place = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(wrong)))
    pair = np.atleast_1d(wanted)[place], np.atleast_1d(found)[place]
    count = int(np.sum(wrong))
    rest = f" ({count} of {wanted.size} elements differ)" if count > 1 else ""
    return f"at {list(place) if wanted.ndim else '[]'} is {pair[1]} instead of {pair[0]}{rest}"
