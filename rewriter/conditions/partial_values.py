"""Values of expressions of which little is known, without numpy: what a forecast reckons with.

Numbers, texts and lists are themselves, tuples are arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rewriter.facts.type_sets import ANY
from rewriter.record import record

UNKNOWN = object()
"""What the census does not tell. The engine may know it, so that `maybe(UNKNOWN)` is unknown here, too."""

ABSENT = object()
"""An attribute that is not written and has no default."""


@record(frozen=True, slots=True)
class TypeSet:
    """One of these element types, as bits."""

    bits: int


_ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}
_STEPS: dict[str, Callable[[int, int], int]] = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "//": int.__floordiv__, "%": int.__mod__,
}  # fmt: skip
_INT64, _LARGEST = 7, 2**63


def truth(value: Any) -> Any:
    """True, False or UNKNOWN."""
    return bool(value) if isinstance(value, bool) or (isinstance(value, int) and value in (0, 1)) else UNKNOWN


def of_types(bits: int, wanted: int, *, positive: bool) -> Any:
    """Whether one of these types is among the wanted ones, or, not `positive`, is none of them."""
    if bits == ANY:
        return UNKNOWN
    if not bits & wanted:
        return not positive
    return positive if bits.bit_count() == 1 else UNKNOWN


def compared(op: str, left: Any, right: Any) -> Any:
    if any(isinstance(side, TypeSet | str) or side is ABSENT for side in (left, right)) or (type(left) is type(right) is list):
        equal = same(left, right) if op in ("==", "!=") else UNKNOWN
        return equal if equal is UNKNOWN or op == "==" else not equal
    try:
        return each(left, right, _ORDERS[op])
    except (ArithmeticError, TypeError, ValueError):
        return UNKNOWN


def contained(item: Any, items: Any, *, positive: bool) -> Any:
    """Whether an item is in a list, or, not `positive`, is not."""
    if item is UNKNOWN or not isinstance(items, list):
        return UNKNOWN
    answers = [same(item, element) for element in items]
    return positive if True in answers else UNKNOWN if UNKNOWN in answers else not positive


def arithmetic(op: str, left: Any, right: Any) -> Any:
    """Whole numbers, and arrays of them; nothing else is asked for often enough."""
    step = _STEPS.get(op)
    if step is None or list in (type(left), type(right)):
        return UNKNOWN
    try:
        return _bounded(each(left, right, step))
    except (ArithmeticError, TypeError, ValueError):
        return UNKNOWN


def _bounded(value: Any) -> Any:
    """UNKNOWN where the engine objects: its integers have 64 bits."""
    if isinstance(value, tuple):
        return UNKNOWN if any(_bounded(item) is UNKNOWN for item in value) else value
    return UNKNOWN if isinstance(value, int) and not -_LARGEST <= value < _LARGEST else value


def element(base: Any, at: Any, stop: Any = None) -> Any:
    """`base[at]`, or `base[at..stop]`, where there is such an element."""
    if not isinstance(base, list | tuple | str) or not isinstance(at, int):
        return UNKNOWN
    try:
        if stop is None:
            return base[at]
        return base[at : None if stop == -1 else stop + 1] if isinstance(stop, int) else UNKNOWN
    except LookupError:
        return UNKNOWN


def decided(found: Any, *, decisive: bool) -> Any:
    """`any` of them, or `all` of them."""
    if isinstance(found, bool):
        return found
    if not isinstance(found, list | tuple) or not all(isinstance(item, bool | int) for item in found):
        return UNKNOWN
    return any(found) if decisive else all(found)


def cast(found: Any, wanted: Any) -> Any:
    """Whole numbers stay what they are as int64."""
    if wanted != TypeSet(1 << _INT64):
        return UNKNOWN
    whole = isinstance(found, list | tuple) and all(isinstance(item, int) for item in found)
    return tuple(found) if whole else found if isinstance(found, int) else UNKNOWN


def each(left: Any, right: Any, step: Callable[[Any, Any], Any]) -> Any:
    """A step between numbers, or item by item where a list or array meets a number or an array another of its length."""
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    sides = [side for side in (left, right) if isinstance(side, list | tuple)]
    if len(sides) == 2:
        if len(left) != len(right) or list in (type(left), type(right)):
            return UNKNOWN
        pairs = zip(left, right, strict=True)
        return tuple([each(one, other, step) for one, other in pairs])
    if sides:
        return type(sides[0])([each(item, right, step) if left is sides[0] else each(left, item, step) for item in sides[0]])
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    return step(left, right) if numbers else UNKNOWN


def same(one: Any, other: Any) -> Any:
    """Whether two values are equal; lists and tuples are both lists in attributes."""
    if one is UNKNOWN or other is UNKNOWN:
        return UNKNOWN
    if one is ABSENT or other is ABSENT:
        return one is other
    if isinstance(one, TypeSet) is not isinstance(other, TypeSet):
        one, other = _as_types(one), _as_types(other)  # an attribute may hold an element type, as `to` of Cast
    if isinstance(one, TypeSet) and isinstance(other, TypeSet):
        if not one.bits & other.bits:
            return False
        return True if one.bits == other.bits and one.bits.bit_count() == 1 and one.bits > 0 else UNKNOWN
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return False
        answers = [same(a, b) for a, b in zip(one, other, strict=True)]
        return False if False in answers else UNKNOWN if UNKNOWN in answers else True
    plain = (bool, int, float, str)
    return one == other if isinstance(one, plain) and isinstance(other, plain) else UNKNOWN


def _as_types(value: Any) -> Any:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    return TypeSet(1 << value if 0 <= value < 64 else 0)
