"""Arithmetic and comparison of rule values: exact 64-bit integers, lists, arrays, and what is only partly known."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.conditions.rule_values import (
    ABSENT,
    LIST_LIMIT,
    UNKNOWN,
    DType,
    Failure,
    Room,
    Symbol,
    as_array,
    check_shape,
    checked,
    plain,
    show,
)

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


_NUMBERS = (int, float, bool, DType)
_COMPARED_AT_ONCE = frozenset({(str, str), *product(_NUMBERS, _NUMBERS)})
"""Kinds of values that are compared as Python does it."""


def truth(value: Any) -> Any:
    """A condition's value: True, False or UNKNOWN; 0 and 1 count, since ONNX's flags are integers.

    Raises Failure for anything that is not a truth value.
    """
    if value is UNKNOWN or isinstance(value, bool):
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if isinstance(value, np.bool_) or (isinstance(value, np.ndarray) and value.dtype == bool and value.size == 1):
        return bool(value)
    raise Failure(f"a condition must be true, false or unknown, not {show(value)} (use `all` or `any` for several)")


def arithmetic(op: str, left: Any, right: Any) -> Any:
    """`left op right` for numbers, lists (`+` joins, `*` with a number repeats, all else goes item by item) and arrays."""
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if isinstance(left, list) or isinstance(right, list):
        return _lists(op, left, right)
    if isinstance(left, Symbol) or isinstance(right, Symbol):
        return _symbols(op, left, right)
    if isinstance(left, str) and isinstance(right, str) and op == "+":
        return left + right
    for value in (left, right):
        if not isinstance(value, int | float | np.ndarray):
            raise Failure(f"{show(value)} is not a number")
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return _arrays(op, left, right)
    if op == "**" and (abs(left) > 1 and abs(right) > 64):
        raise Failure("power out of range")
    try:
        result = _ARITHMETIC[op](left, right)
    except (ZeroDivisionError, OverflowError) as error:
        raise Failure(str(error)) from error
    return checked(result) if isinstance(result, int) else result


def _symbols(op: str, left: Any, right: Any) -> Any:
    """A dimension known by name stays itself under `* 1`, `+ 0`, `- 0`, `/ 1`; everything else about it is unknown."""
    if op in ("+", "-") and right == 0:
        return left
    if op == "+" and left == 0:
        return right
    if op in ("*", "/", "//") and right == 1:
        return left
    return right if op == "*" and left == 1 else UNKNOWN


def _lists(op: str, left: Any, right: Any) -> Any:
    if isinstance(left, list) and isinstance(right, list):
        if op == "+":
            return _bounded(left, len(right)) + right
        if len(left) != len(right):
            raise Failure(f"`{op}` between lists of {len(left)} and {len(right)} items")
        return _each(op, zip(left, right, strict=True))
    items, other = (left, right) if isinstance(left, list) else (right, left)
    if isinstance(other, np.ndarray):
        return arithmetic(op, *(as_array(value) if value is items else value for value in (left, right)))
    if op == "*" and isinstance(other, int):
        return _bounded(items, len(items) * (max(other, 1) - 1)) * other
    if op == "+" and isinstance(other, str):
        raise Failure("a list and a text cannot be added")
    return _each(op, ((item, other) if items is left else (other, item) for item in items))


def _each(op: str, pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Arithmetic item by item; where the items are constants, their sum is bounded while it grows."""
    found, room = [], Room()
    for one, other in pairs:
        value = arithmetic(op, one, other)
        room.add(value)
        found.append(value)
    return found


def _bounded(items: list[Any], more: int) -> list[Any]:
    if len(items) + more > LIST_LIMIT:
        raise Failure(f"a list of more than {LIST_LIMIT} items")
    return items


def _arrays(op: str, left: Any, right: Any) -> Any:
    """Elementwise with broadcasting; a Python number takes the array's element type, so that float32 stays float32."""
    try:
        check_shape(np.broadcast_shapes(np.shape(left), np.shape(right)), np.result_type(left, right).itemsize)
        with np.errstate(all="ignore"):
            result = _ARITHMETIC[op](left, right)
    except (ValueError, TypeError, OverflowError) as error:
        raise Failure(str(error)) from error
    return np.asarray(result)


def compare(op: str, left: Any, right: Any) -> Any:
    """True, False or UNKNOWN; a list of them, or a bool array, when one side has several elements and the other is a number."""
    kinds = type(left), type(right)
    if kinds in _COMPARED_AT_ONCE:  # mostly; all that is below finds out that it is so
        return bool(_COMPARE[op](left, right))
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if left is ABSENT or right is ABSENT:
        return _absent(op, left, right)
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return _compare_arrays(op, left, right)
    if isinstance(left, list) and isinstance(right, list):
        return _compare_lists(op, left, right)
    if isinstance(left, list):
        return [compare(op, item, right) for item in left]
    if isinstance(right, list):
        return [compare(op, left, item) for item in right]
    if isinstance(left, Symbol) or isinstance(right, Symbol):
        if isinstance(left, Symbol) and isinstance(right, Symbol) and str(left) == str(right):
            return op in ("==", "<=", ">=")
        return UNKNOWN
    if isinstance(left, str) != isinstance(right, str):
        if op in ("==", "!="):
            return op == "!="
        raise Failure(f"{show(left)} and {show(right)} have no order")
    try:
        return bool(_COMPARE[op](left, right))
    except TypeError as error:
        raise Failure(f"{show(left)} and {show(right)} cannot be compared") from error


_LISTED = frozenset({int, str, bool, DType})
"""Kinds of values that a list holds where Python says so."""


def _absent(op: str, left: Any, right: Any) -> Any:
    if op not in ("==", "!="):
        raise Failure("an absent operand or attribute has no order")
    return (left is right) == (op == "==")


def _compare_arrays(op: str, left: Any, right: Any) -> Any:
    for value in (left, right):
        if isinstance(value, gs.Graph | gs.Node):
            raise Failure(f"{show(left)} and {show(right)} cannot be compared")
    try:
        check_shape(np.broadcast_shapes(np.shape(left), np.shape(right)))
    except ValueError:
        if op in ("==", "!="):
            return op == "!="
        raise Failure("constants of these shapes cannot be compared") from None
    return np.asarray(_COMPARE[op](left, right))


def _compare_lists(op: str, left: list[Any], right: list[Any]) -> Any:
    if op not in ("==", "!="):
        raise Failure("lists have no order")
    if len(left) != len(right):
        return op == "!="
    unknown = False
    for one, other in zip(left, right, strict=True):
        same = compare("==", one, other)
        if same is UNKNOWN:
            unknown = True
        elif not _settled(same):
            return op == "!="
    return UNKNOWN if unknown else op == "=="


def _settled(same: Any) -> bool:
    if isinstance(same, np.ndarray):
        return bool(same.all())
    return all(same) if isinstance(same, list) else bool(same)


def contains(item: Any, items: Any) -> Any:
    """Whether a list (of partly known items), a text or an array holds `item`."""
    if item is UNKNOWN or items is UNKNOWN:
        return UNKNOWN
    if isinstance(items, str):
        return isinstance(item, str) and item in items
    if isinstance(items, np.ndarray):
        items = [plain(element) for element in items.ravel()[:LIST_LIMIT]]
    if not isinstance(items, list):
        raise Failure(f"{show(items)} has no elements")
    if type(item) in _LISTED and _LISTED.issuperset(map(type, items)):
        return item in items
    answers = [compare("==", item, element) for element in items]
    if any(answer is True for answer in answers):
        return True
    return UNKNOWN if any(answer is UNKNOWN for answer in answers) else False
