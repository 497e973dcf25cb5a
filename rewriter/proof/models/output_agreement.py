"""Whether two models say the same: outputs of whole models compared.

A difference counts against the largest finite number of the same output, not against its own place: behind the first layers a
place near zero holds what two large numbers leave of each other, and its relative error says nothing. NaN agrees with NaN at
the same place and with nothing else; infinity agrees with infinity of the same sign; 0 agrees with -0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from rewriter.language.rule import Rule
from rewriter.proof.instances.named_types import float_types
from rewriter.record import record

PROMISING = frozenset({"exact", "approx"})
"""Kinds of rules that promise the same outputs, up to a bound."""

ULPS = 2
"""What one firing of kind exact may change."""

MOST_FIRINGS = 10
"""The bounds of firings add up, but to no more than so many times the largest one."""


OVERFLOWING = 1e30
"""A bound on finite numbers asks nothing of larger ones: the sums behind them may have overflowed."""


@record(frozen=True, slots=True)
class Bound:
    """How far outputs may differ: units in the last place, relative and absolute, which add up.

    `eps` is that of the coarsest floating point type in which the model computes: an output of type float may come out of
    float16, and ONNX Runtime rounds to float16 between some nodes and not between others. `approximate` is a bound of rules of
    kind approx, and `finite` compares only the places where the outputs before are finite and below 1e30.
    """

    ulps: float = 0.0
    rtol: float = 0.0
    atol: float = 0.0
    eps: float = 0.0
    approximate: bool = False
    finite: bool = False


@record(frozen=True, slots=True)
class OutputDifference:
    """How an output of one model differs from that of another.

    Attributes:
        output: its name.
        largest: the largest absolute difference; infinite where there is no number for it.
        message: what exceeds the bound, "" when nothing does.
    """

    output: str
    largest: float
    message: str = ""


def bound_of(rules: Iterable[Rule]) -> Bound:
    """The bound for firings of these rules, one entry a firing; rules of other kinds than exact and approx add nothing."""
    ulps, rtols, atols = [0.0], [0.0], [0.0]
    approximate = False
    for rule in rules:
        if rule.kind.name in PROMISING:
            ulps.append(ULPS)
        if rule.kind.name == "approx":
            approximate = True
            rtols.append(rule.kind.rtol or 0.0)
            atols.append(rule.kind.atol or 0.0)
    ulp, rtol, atol = (min(sum(values), MOST_FIRINGS * max(values)) for values in (ulps, rtols, atols))
    return Bound(ulp, rtol, atol, approximate=approximate)


def coarsest_eps(model: onnx.ModelProto) -> float:
    """The largest `eps` among the floating point types that a model names."""
    return max(map(_eps, float_types(model)), default=0.0)


def differences(before: Mapping[str, Any], after: Mapping[str, Any], bound: Bound) -> Iterator[OutputDifference]:
    """One entry for each output of `before`, in its order. Outputs are arrays, or sequences and maps of them."""
    for name, old in before.items():
        if name not in after:
            yield OutputDifference(name, np.inf, "is no output any more")
            continue
        yield _whole(name, old, after[name], bound)


def _whole(name: str, old: Any, new: Any, bound: Bound) -> OutputDifference:
    first, second = list(_leaves(old)), list(_leaves(new))
    if len(first) != len(second):
        return OutputDifference(name, np.inf, f"has {len(second)} elements instead of {len(first)}")
    found = [_arrays(name, np.asarray(a), np.asarray(b), bound) for a, b in zip(first, second, strict=True)]
    wrong = [difference for difference in found if difference.message]
    return max(wrong or found, key=lambda difference: difference.largest, default=OutputDifference(name, 0.0))


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key in value:
            yield np.asarray(key)
            yield from _leaves(value[key])
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield value


def _arrays(name: str, old: np.ndarray[Any, Any], new: np.ndarray[Any, Any], bound: Bound) -> OutputDifference:
    if old.dtype != new.dtype:
        return OutputDifference(name, np.inf, f"is {new.dtype} instead of {old.dtype}")
    if old.shape != new.shape:
        return OutputDifference(name, np.inf, f"has shape {list(new.shape)} instead of {list(old.shape)}")
    if old.dtype.kind in "OUSbiu":
        steps = bound.atol if old.dtype.kind in "iu" and bound.atol >= 1 else 0.0
        apart = np.abs(old.astype(np.float64) - new.astype(np.float64)) > steps if steps else old != new
        wrong = int(np.count_nonzero(apart))
        return (
            OutputDifference(name, np.inf, f"differs in {wrong} of {old.size} places") if wrong else OutputDifference(name, 0.0)
        )
    wide = np.complex128 if old.dtype.kind == "c" else np.float64
    eps = _eps(old.dtype)
    old, new = old.astype(wide), new.astype(wide)
    if bound.finite:
        asked = np.abs(old) < OVERFLOWING
        old, new = old[asked], new[asked]
    if not np.array_equal(np.isnan(old), np.isnan(new)):
        return OutputDifference(
            name, np.inf, f"is not a number in {np.isnan(new).sum()} places instead of {np.isnan(old).sum()}"
        )
    infinite = np.isinf(old) | np.isinf(new)
    if not np.array_equal(old[infinite], new[infinite]):
        return OutputDifference(name, np.inf, "is infinite in other places")
    finite = ~(infinite | np.isnan(old))
    if not finite.any():
        return OutputDifference(name, 0.0)
    largest = float(np.max(np.abs(old[finite] - new[finite])))
    scale = float(np.max(np.abs(old[finite])))
    allowed = bound.atol + scale * (bound.rtol + bound.ulps * max(eps, bound.eps))
    if largest <= allowed:
        return OutputDifference(name, largest)
    return OutputDifference(
        name, largest, f"differs by {largest:.3g} where {allowed:.3g} is allowed, beside numbers up to {scale:.3g}"
    )


def _eps(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next number; 0 for what is no floating point type."""
    import ml_dtypes

    try:
        return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    except ValueError:
        return 0.0
