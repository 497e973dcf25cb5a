"""Values of expressions of which little is known, without numpy: what a forecast reckons with.

Numbers, texts and lists are themselves, tuples are arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rewriter.record import record

ANY = -1
UNKNOWN = object()
"""What the census does not tell. The engine may know it, so that `maybe(UNKNOWN)` is unknown here, too."""

ABSENT = object()
"""An attribute that is not written and has no default."""


@record(frozen=True, slots=True)
class TypeSet:
    """One of these element types, as bits."""

    bits: int


ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


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
    if isinstance(one, TypeSet) and isinstance(other, int) and not isinstance(other, bool):
        other = TypeSet(1 << other)
    if isinstance(other, TypeSet) and isinstance(one, int) and not isinstance(one, bool):
        one = TypeSet(1 << one)  # an attribute that holds an element type, as `to` of Cast
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
