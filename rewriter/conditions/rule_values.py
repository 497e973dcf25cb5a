"""What an expression of a rule can evaluate to, beside plain Python values.

bool, int, float, str and lists of them, and NumPy arrays stand for themselves. A captured tensor or a label is the graph's own
object. Two markers complete them: `UNKNOWN`, the third truth value, and `ABSENT`, an optional operand or attribute that is
not there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, Union

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.language.dtypes import DTYPE_NAMES

INT64 = range(-(1 << 63), 1 << 63)
LIST_LIMIT: Final = 1 << 16  # items of a list
ARRAY_LIMIT: Final = 1 << 28  # elements of an array that an expression makes
BYTES_LIMIT: Final = 1 << 31  # of such an array, and of all that the `let` lines of one match make: as much as a model may have
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


Value = Union[bool, int, float, str, list[Any], "np.ndarray[Any, Any]", gs.Tensor, gs.Node, Marker, None]


class Failure(Exception):
    """An expression raised: an error in the rule, or a model that the rule did not think of. The rule does not fire."""


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
                elif isinstance(one, np.ndarray):
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
    if isinstance(value, list | str | np.ndarray):
        Room().add(value)
    return value


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """Known numbers or texts in lists, which may nest, as an array; of other objects NumPy would ask what they are.

    Raises Failure for what is neither, such as a graph in an attribute of a damaged model, and for lists that differ in length.
    """
    items = flat(value)
    if not all(isinstance(item, bool | int | float | str | np.ndarray | np.generic) for item in items):
        raise Failure("neither numbers nor texts")
    longest = max((len(item) for item in items if isinstance(item, str)), default=0)
    check_shape((len(items),), 4 * longest)  # NumPy takes four bytes for each character, and as many for each text
    try:
        return np.asarray(value)
    except ValueError as error:  # lists of several lengths
        raise Failure(str(error)) from error


def flat(value: Any) -> list[Any]:
    """The items of a list and of the lists in it."""
    return [inner for item in value for inner in flat(item)] if isinstance(value, list) else [value]


def plain(value: Any) -> Any:
    """NumPy scalars and tuples as Python's own, so that values compare and print the same wherever they came from."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, tuple):
        return list(value)
    return value


def show(value: Any, limit: int = 80) -> str:
    """Short text of a value for messages: arrays by type and shape, long lists cut."""
    if isinstance(value, np.ndarray):
        text = f"{value.dtype}{list(value.shape)}"
        return f"{value.tolist()}" if value.size <= 4 else text
    if isinstance(value, gs.Tensor):
        return f"tensor {value.name!r}"
    if isinstance(value, gs.Graph):
        return f"graph {value.name!r}"
    if isinstance(value, gs.Node):
        return f"node {value.name or value.op!r}"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
