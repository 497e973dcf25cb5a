"""The values of a rule's expressions that are not plain Python values.

bool, int, float, str and lists of them, and NumPy arrays are used as they are. A captured tensor or a label is the graph's own
object. There are two markers: `UNKNOWN`, the third truth value, and `ABSENT`, an optional operand or attribute that is
missing. Before a graph is built, a value may also be known in part: `OneOf` some element types, or a `Stranger` with
known traits.

Most models are checked before NumPy, ONNX or graphsurgeon are imported. They are imported here only if there is an array.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import product
from typing import Any, Final

from rewriter.core.language.schema import DTYPE_NAMES

INT64 = range(-(1 << 63), 1 << 63)
LIST_LIMIT: Final = 1 << 16  # items of a list
ARRAY_LIMIT: Final = 1 << 28  # elements of an array that an expression makes
BYTES_LIMIT: Final = 1 << 31  # of such an array, and of all that the `let` lines of one match make: as much as a model may have
MATRIX_LIMIT: Final = 1 << 12  # rows of a matrix that is inverted, which takes some seconds
TEXT_LIMIT: Final = 1 << 20  # characters
MAX_NESTING: Final = 16  # lists in lists


class Marker:
    """A value of its own kind that equals only itself."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


UNKNOWN: Final = Marker("unknown")
ABSENT: Final = Marker("absent")


class DType(int):
    """An element type: its TensorProto number, shown by its ONNX name."""

    def __repr__(self) -> str:
        return DTYPE_NAMES.get(int(self), f"dtype {int(self)}")

    __str__ = __repr__


class Symbol(str):
    """A dimension known by name only: equal to itself, unknown against everything else."""

    __slots__ = ()


class Partial:
    """A value known in part."""

    __slots__ = ()

    def compared(self, op: str, other: Any) -> Any:
        """`self op other`, or UNKNOWN."""
        return UNKNOWN


class Stranger(Partial):
    """A tensor or node of a model that has no graph yet: two of them may be the same one."""

    __slots__ = ()


class OneOf(Partial):
    """One of several element types, as TensorProto numbers."""

    __slots__ = ("dtypes",)

    def __init__(self, dtypes: frozenset[int]) -> None:
        self.dtypes = dtypes

    def compared(self, op: str, other: Any) -> Any:
        dtypes = other.dtypes if isinstance(other, OneOf) else {other} if isinstance(other, int) else None
        apart = dtypes is not None and op in ("==", "!=") and self.dtypes.isdisjoint(dtypes)
        return op == "!=" if apart else UNKNOWN


class Failure(Exception):
    """An expression raised: an error in the rule, or a model that its author did not expect. The rule does not fire."""


MISTAKES = (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""What Python raises if a rule meets a model of an unexpected form. The rule then fails at that place only."""


def checked(number: int) -> int:
    """The number, if it fits 64 bits. Raises Failure otherwise."""
    if number in INT64:
        return number
    raise Failure("integer overflow: the result does not fit 64 bits")


def check_shape(shape: Iterable[int], item_bytes: int = 1) -> None:
    """Raises Failure if an array of this shape is larger than an expression may make; called before the array is made."""
    dims = list(shape)
    if (size := math.prod(dims)) > ARRAY_LIMIT or size * item_bytes > BYTES_LIMIT:
        raise Failure(f"a constant of shape {show(dims)} is too large")


_OWN = frozenset({bool, int, float, str, list, DType, Symbol, Marker})


def of_library(value: Any, library: str, *names: str) -> bool:
    """Whether a value is an instance of one of the classes of a library, which need not be imported for it."""
    module = sys.modules.get(library)
    if module is None or type(value) in _OWN:
        return False
    return isinstance(value, tuple([getattr(module, name, ()) for name in names]))


def is_array(value: Any) -> bool:
    """Whether a value is an array of NumPy."""
    return of_library(value, "numpy", "ndarray")


class Room:
    """How much one value may still hold, with all that is in it: items of lists, characters and bytes of constants."""

    __slots__ = ("array_bytes", "characters", "items")

    def __init__(self) -> None:
        self.items, self.characters, self.array_bytes = LIST_LIMIT, TEXT_LIMIT, BYTES_LIMIT

    def add(self, value: Any) -> None:
        """Takes the room of a value. Raises Failure if there is not enough."""
        level = [value]
        for _ in range(MAX_NESTING):
            inner: list[Any] = []
            for one in level:
                if isinstance(one, list):
                    self.items -= len(one)
                    if self.items < 0:
                        raise Failure(f"a list of more than {LIST_LIMIT} items")
                    inner += one
                elif isinstance(one, str):
                    self.characters -= len(one)
                elif is_array(one):
                    check_shape(one.shape, one.itemsize)
                    self.array_bytes -= one.nbytes
            if self.characters < 0 or self.array_bytes < 0:
                raise Failure(f"texts of more than {TEXT_LIMIT} characters or constants of more than {BYTES_LIMIT} bytes")
            if not inner:
                return
            level = inner
        raise Failure(f"lists in lists deeper than {MAX_NESTING} levels")


def bounded(value: Any) -> Any:
    """The value itself. Raises Failure if it is larger than an expression may make, with all that it holds."""
    if type(value) in _NUMBERS or (type(value) is list and len(value) < LIST_LIMIT and _NUMBERS.issuperset(map(type, value))):
        return value  # mostly, such as the shape of a tensor
    if isinstance(value, list | str) or is_array(value):
        Room().add(value)
    return value


def as_array(value: Any) -> Any:
    """Known numbers or texts in lists, which may nest, as an array. NumPy would inspect other objects.

    Raises Failure for other values, such as a graph in an attribute of a damaged model, and for lists that differ in length.
    """
    import numpy as np

    items = flat(value)
    if not all(isinstance(item, bool | int | float | str | np.ndarray | np.generic) for item in items):
        raise Failure("neither numbers nor texts")
    longest = max((len(item) for item in items if isinstance(item, str)), default=0)
    check_shape((len(items),), 4 * longest)  # NumPy takes four bytes for each character, and as many for each text
    try:
        return np.asarray(value)
    except ValueError as error:  # lists of several lengths
        raise Failure(str(error)) from error


def dtype_of(value: Any) -> DType:
    """The element type of an array, as ONNX numbers it."""
    import numpy as np
    from onnx import helper

    return DType(helper.np_dtype_to_tensor_dtype(np.asarray(value).dtype))


def has_unknown(items: list[Any]) -> bool:
    """Whether an item of a list is unknown, or a dimension that is known by name only."""
    return any(item is UNKNOWN or isinstance(item, Symbol) for item in items)


def flat(value: Any) -> list[Any]:
    """The items of a list and of the lists in it."""
    return [inner for item in value for inner in flat(item)] if isinstance(value, list) else [value]


def plain(value: Any) -> Any:
    """NumPy scalars and tuples as Python's own, so that values compare and print the same wherever they came from."""
    if type(value) in _OWN:
        return value
    if isinstance(value, tuple):
        return list(value)
    return value.item() if of_library(value, "numpy", "generic") else value


def show(value: Any, limit: int = 80) -> str:
    """Short text of a value for messages: arrays by type and shape, long lists cut."""
    if is_array(value):
        text = f"{value.dtype}{list(value.shape)}"
        return f"{value.tolist()}" if value.size <= 4 else text
    if of_library(value, "onnx_graphsurgeon", "Tensor"):
        return f"tensor {value.name!r}"
    if of_library(value, "onnx_graphsurgeon", "Graph"):
        return f"graph {value.name!r}"
    if of_library(value, "onnx_graphsurgeon", "Node"):
        return f"node {value.name or value.op!r}"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


# Arithmetic and comparison of rule values: exact 64-bit integers, lists, arrays, and partly known values.

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


_NUMBERS = frozenset({int, float, bool, DType})
_COMPARED_AT_ONCE = frozenset({(str, str), *product(_NUMBERS, _NUMBERS)})
"""Kinds of values that are compared as Python does it."""


def truth(value: Any) -> Any:
    """A condition's value: True, False or UNKNOWN; 0 and 1 count, since ONNX's flags are integers.

    Raises Failure for anything that is not a truth value.
    """
    if value is True or value is False or value is UNKNOWN:
        return value
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    if of_library(value, "numpy", "ndarray", "bool_") and value.dtype == bool and value.size == 1:
        return bool(value)
    raise Failure(f"a condition must be true, false or unknown, not {show(value)} (use `all` or `any` for several)")


def arithmetic(op: str, left: Any, right: Any) -> Any:
    """`left op right` for numbers, lists (`+` joins, `*` with a number repeats, all else goes item by item) and arrays."""
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if type(left) in _NUMBERS and type(right) in _NUMBERS:
        return _numbers(op, left, right)
    if isinstance(left, list) or isinstance(right, list):
        return _lists(op, left, right)
    if isinstance(left, Symbol) or isinstance(right, Symbol):
        return _symbols(op, left, right)
    if isinstance(left, str) and isinstance(right, str) and op == "+":
        return left + right
    for value in (left, right):
        if not isinstance(value, int | float) and not is_array(value):
            raise Failure(f"{show(value)} is not a number")
    return _arrays(op, left, right)


def negative(value: Any) -> Any:
    """`-value` for a number, a list (item by item) or an array."""
    import numpy as np

    if value is UNKNOWN or isinstance(value, Symbol):
        return UNKNOWN
    if isinstance(value, list):
        return [negative(item) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return checked(-value) if isinstance(value, int) else -value
    if is_array(value):
        with suppress(TypeError):  # NumPy has no negative of truth values and texts
            return np.asarray(-value)
    raise Failure(f"{show(value)} is not a number")


def _numbers(op: str, left: float, right: float) -> int | float:
    if op == "**" and (abs(left) > 1 and abs(right) > 64):
        raise Failure("power out of range")
    try:
        result: int | float = _ARITHMETIC[op](left, right)
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
    if is_array(other):
        return arithmetic(op, *(as_array(value) if value is items else value for value in (left, right)))
    if op == "*" and isinstance(other, int):
        return _bounded(items, len(items) * (max(other, 1) - 1)) * other
    if op == "+" and isinstance(other, str):
        raise Failure("a list and a text cannot be added")
    return _each(op, ((item, other) if items is left else (other, item) for item in items))


def _each(op: str, pairs: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Arithmetic item by item. If the items are constants, their sum is bounded while it grows."""
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
    import numpy as np

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
    if isinstance(left, Partial):
        return left.compared(op, right)
    if isinstance(right, Partial):
        return right.compared(op, left) if op in ("==", "!=") else UNKNOWN
    if is_array(left) or is_array(right):
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
"""Kinds of values for which Python decides whether a list contains them."""


def _absent(op: str, left: Any, right: Any) -> Any:
    if op not in ("==", "!="):
        raise Failure("an absent operand or attribute has no order")
    return (left is right) == (op == "==")


def _compare_arrays(op: str, left: Any, right: Any) -> Any:
    import numpy as np

    for value in (left, right):
        if of_library(value, "onnx_graphsurgeon", "Graph", "Node"):
            raise Failure(f"{show(left)} and {show(right)} cannot be compared")
    try:
        check_shape(np.broadcast_shapes(np.shape(left), np.shape(right)))
    except ValueError:
        if op in ("==", "!="):
            return op == "!="
        raise Failure("constants of these shapes cannot be compared") from None
    if any(isinstance(item, Marker | Symbol | Partial) for item in flat(right if is_array(left) else left)):
        return _compare_items(op, left, right)
    return np.asarray(_COMPARE[op](left, right))


def _compare_items(op: str, left: Any, right: Any) -> Any:
    """Compares an array with a list that has unknown items. NumPy would find these different from each number, or fail."""
    one, other = (value.tolist() if is_array(value) else value for value in (left, right))
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [compare(op, *pair) for pair in zip(one, other, strict=True)]
    return UNKNOWN


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
    if is_array(same):
        return bool(same.all())
    return all(same) if isinstance(same, list) else bool(same)


def contains(item: Any, items: Any) -> Any:
    """Whether a list (of partly known items), a text or an array holds `item`."""
    if item is UNKNOWN or items is UNKNOWN:
        return UNKNOWN
    if isinstance(items, str):
        return isinstance(item, str) and item in items
    if is_array(items):
        items = [plain(element) for element in items.ravel()[:LIST_LIMIT]]
    if not isinstance(items, list):
        raise Failure(f"{show(items)} has no elements")
    if type(item) in _LISTED and _LISTED.issuperset(map(type, items)):
        return item in items
    answers = [compare("==", item, element) for element in items]
    if any(answer is True for answer in answers):
        return True
    return UNKNOWN if any(answer is UNKNOWN for answer in answers) else False
