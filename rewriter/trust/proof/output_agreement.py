"""Whether two models agree: their outputs compared.

A difference counts relative to the largest finite number of the same output, not to the value at its own place: behind the
first layers a value near zero is the rest of two large numbers, and its relative error means nothing. In a random model of a
few nodes, which verifies a rule, each element counts by itself. NaN agrees with NaN at the same place and with nothing else;
infinity agrees with infinity of the same sign; 0 agrees with -0.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from rewriter.core.language.rules import Rule
from rewriter.core.record import record
from rewriter.trust.proof.instances.instance import Array
from rewriter.trust.proof.instances.random_arrays import float_types
from rewriter.trust.proof.judges import SESSION
from rewriter.trust.proof.model_inputs import read_inputs, recorded_feed
from rewriter.trust.proof.validity import Candidate, CannotRun, GaveUp, ModelRun, runtimes

PROMISING = frozenset({"exact", "approx"})
"""Kinds of rules that promise the same outputs, up to a bound."""

ULPS = 2
"""The allowed change by one firing of kind exact."""

MOST_FIRINGS = 10
"""The bounds of firings add up, but to no more than so many times the largest one."""


OTHER_TENSOR = "has another type or shape:"
"""How a difference begins that is not one of values."""

OVERFLOWING = 1e30
"""A bound on finite numbers does not limit larger numbers: the sums behind them may have overflowed."""


@record(frozen=True, slots=True)
class Bound:
    """How far outputs may differ: units in the last place, relative and absolute, which add up.

    `eps` belongs to the coarsest floating point type in which the model computes: an output of type float may come out of
    float16, and ONNX Runtime rounds to float16 between some nodes and not between others. `approximate` is a bound of rules of
    kind approx, and `finite` compares only the places where the outputs before are finite and below 1e30. With
    `loose` types and shapes may differ: some consumers have but one type, or no scalars.

    With `each`, `ulps` are the numbers of the type that may lie between two elements. With `rtol` or `atol` the largest number
    counts here too, no `rtol` requires more than 16 units in its last place, and a NaN must not become a number.
    """

    ulps: float = 0.0
    rtol: float = 0.0
    atol: float = 0.0
    eps: float = 0.0
    approximate: bool = False
    finite: bool = False
    loose: bool = False
    each: bool = False


@record(frozen=True, slots=True)
class OutputDifference:
    """How an output of one model differs from the same output of another.

    Attributes:
        output: its name; "" if a model does not run.
        largest: the largest absolute difference; infinite if it is not a number. With `Bound.each`, in the units of the bound.
        message: the difference that exceeds the bound, "" if none does.
    """

    output: str
    largest: float
    message: str = ""

    def __str__(self) -> str:
        """The message with the name of the output."""
        return f"output {self.output!r} {self.message}" if self.output and self.message else self.message


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


def compare(before: Mapping[str, Any], after: Mapping[str, Any], bound: Bound) -> tuple[OutputDifference | None, float]:
    """The first output that differs beyond the bound, or None; and the largest difference of the outputs before it."""
    largest = 0.0
    for found in differences(before, after, bound):
        if found.message:
            return found, largest
        largest = max(largest, found.largest)
    return None, largest


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
    if bound.loose and old.size == new.size and new.dtype.kind in "biuf":
        new = new.reshape(old.shape).astype(old.dtype)
    if old.dtype != new.dtype or old.shape != new.shape:
        kinds = (f"{array.dtype}{list(array.shape)}" for array in (new, old))
        return OutputDifference(name, np.inf, f"{OTHER_TENSOR} {' instead of '.join(kinds)}")
    if old.dtype.kind in "OUSbiu" or (bound.each and old.dtype.kind not in "fV"):
        steps = bound.atol if old.dtype.kind in "iu" and bound.atol >= 1 else 0.0
        apart = np.abs(old.astype(np.float64) - new.astype(np.float64)) > steps if steps else np.asarray(old != new)
        wrong = int(np.count_nonzero(apart))
        if not wrong:
            return OutputDifference(name, 0.0)
        text = _where(old, new, apart) if bound.each else f"differs in {wrong} of {old.size} places"
        return OutputDifference(name, np.inf, text)
    if bound.each:
        text, error = (_near if bound.rtol or bound.atol else _ulps)(old, new, bound)
        return OutputDifference(name, np.inf if text else error, text)
    wide = np.complex128 if old.dtype.kind == "c" else np.float64
    eps = _eps(old.dtype)
    old, new = old.astype(wide), new.astype(wide)
    if bound.finite:
        comparable = np.abs(old) < OVERFLOWING
        old, new = old[comparable], new[comparable]
    if not np.array_equal(np.isnan(old), np.isnan(new)):
        return OutputDifference(name, np.inf, f"is NaN in {np.isnan(new).sum()} places instead of {np.isnan(old).sum()}")
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
    return OutputDifference(name, largest, f"is off by {largest:.3g} (tolerance {allowed:.3g}, largest value {scale:.3g})")


def _eps(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next number; 0 for all other types than floating point."""
    import ml_dtypes

    try:
        return float(ml_dtypes.finfo(dtype).eps)  # type: ignore[no-untyped-call]
    except ValueError:
        return 0.0


# Outputs that the framework computed, in the .npz file that also holds the inputs: repairs are measured by them.

BOUND = Bound(rtol=2e-3, atol=1e-4)
"""A framework has other kernels."""


SHOWN_NAMES = 8
"""Names of arrays that a message lists."""


class FrameworkOutputs:
    """The outputs in a file: by the names of the model's outputs, or as `out_0`, `out_1`...

    Attributes:
        count: how many are called `out_...`.

    Raises:
        RewriterError: the file cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._arrays = read_inputs(path)
        self.count = sum(name.startswith("out_") for name in self._arrays)

    def recorded(self, candidate: Candidate) -> dict[str, Any]:
        """The recorded outputs of a model by its own names."""
        found = {}
        for number, output in enumerate(candidate.proto.graph.output):
            name = f"out_{number}" if f"out_{number}" in self._arrays else output.name
            if name in self._arrays:
                found[output.name] = np.asarray(self._arrays[name])
        return found

    def missing(self, candidate: Candidate) -> str:
        """The outputs that a file without any output of the model should hold, and the ones that it holds."""
        names = [output.name for output in candidate.proto.graph.output]
        expected = " or ".join(dict.fromkeys(("out_0", *map(repr, names[:SHOWN_NAMES]))))
        found = ", ".join(map(repr, sorted(self._arrays)[:SHOWN_NAMES])) or "none"
        return f"expected an array named {expected}, found {found}"

    def off(self, candidate: Candidate) -> str:
        """How the outputs of a model differ from those in the file, or why it does not run; "" when they are the same.

        Raises:
            RewriterError: an input of the model is missing in the file.
        """
        feed, wanted = recorded_feed(self.path, candidate.proto), self.recorded(candidate)
        try:
            outputs = ModelRun(candidate, runtimes()[0], SESSION)(feed)
        except GaveUp:
            raise
        except CannotRun as error:
            return str(error)
        found = {name: _as(outputs[name], array) for name, array in wanted.items()}
        return str(compare(wanted, found, BOUND)[0] or "")


def _as(value: Any, wanted: Any) -> Any:
    """A recorded array may have another element type than the model gives: npz files know no bfloat16."""
    return value.astype(wanted.dtype) if isinstance(value, np.ndarray) and value.dtype != wanted.dtype else value


# Elements of the outputs of random models: each counts by itself.

_INTEGERS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def _near(wanted: Array, found: Array, bound: Bound) -> tuple[str, float]:
    """The fault of `found`, "" if it has none, and the largest relative error; values that have overflowed are not compared."""
    rtol = max(bound.rtol, 16 * _eps(wanted.dtype))
    wanted, found = wanted.astype(np.float64), found.astype(np.float64)
    finite = np.abs(wanted) < OVERFLOWING
    with np.errstate(all="ignore"):
        size = np.max(np.abs(wanted[finite]), initial=0.0)
        off = np.abs(found - wanted)
        wrong = (finite & ~(off <= bound.atol + rtol * size)) | (np.isnan(wanted) & np.isfinite(found))
        if np.any(wrong):
            return _where(wanted, found, wrong), 0.0
        relative = np.where(finite & (np.abs(wanted) > 0), off / max(size, 1e-30), 0.0)
    return "", float(np.max(relative, initial=0.0))


def _ulps(wanted: Array, found: Array, bound: Bound) -> tuple[str, float]:
    nans = np.isnan(wanted.astype(np.float64)), np.isnan(found.astype(np.float64))
    off = np.where(nans[0] & nans[1], 0, _distance(wanted, found))
    wrong = (nans[0] != nans[1]) | (off > bound.ulps)
    if np.any(wrong):
        return _where(wanted, found, wrong), 0.0
    return "", float(np.max(off, initial=0))


def _distance(one: Array, other: Array) -> Array:
    """Representable numbers between two, element by element; as floating point, which is exact for small distances."""
    first, second = _rank(one), _rank(other)
    apart = (np.maximum(first, second) - np.minimum(first, second)).astype(np.float64)
    exact = np.asarray(one == other)
    return np.where(exact, 0.0, np.maximum(apart, 1.0))


def _rank(values: Array) -> Array:
    """The place of each number among all numbers of its type, from the least: bit patterns in the order of their values."""
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
