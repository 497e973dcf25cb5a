"""Values of small tensors that carry shapes, as far as they are known: each item a number, the name of a dimension, or unknown.

`Shape`, `Gather`, `Concat` and similar operators compute shapes at run time that are mostly in the file; these values show them
to a rule. A name stays a name only while the value is exactly that dimension again: N * 1 is N, N * 2 is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.onnxfile.tensors import Dim, TensorType
from rewriter.core.record import record

LONGEST = 128
"""Longer tensors carry no shapes; their values are not followed."""

LONGEST_FLOAT = 8
"""Only floating-point tensors as short as a scale or a scalar are followed."""

_RANGES: dict[int, tuple[int, int]] = {
    2: (0, 2**8 - 1), 3: (-(2**7), 2**7 - 1), 4: (0, 2**16 - 1), 5: (-(2**15), 2**15 - 1), 6: (-(2**31), 2**31 - 1),
    7: (-(2**63), 2**63 - 1), 9: (0, 1), 12: (0, 2**32 - 1), 13: (0, 2**64 - 1),
    1: (-(2**24), 2**24), 10: (-(2**11), 2**11), 11: (-(2**53), 2**53),
}  # fmt: skip
"""Element type → the integers that it holds exactly."""

INTEGERS = frozenset((2, 3, 4, 5, 6, 7, 9, 12, 13))
FLOATS = frozenset((1, 10, 11))
_WIDE = frozenset((1, 6, 7, 11, 12, 13))  # types in which a dimension is not expected to overflow


@record(frozen=True, slots=True)
class ShapeValue:
    """The known values of a tensor of rank 0 or 1.

    Attributes:
        shape: () or (n,).
        items: one for rank 0, else n: int, str (the dimension of that name), or None (unknown).
    """

    shape: tuple[int, ...]
    items: tuple[Dim, ...]

    def known(self) -> list[int] | None:
        """All items, when all are numbers."""
        numbers = [item for item in self.items if isinstance(item, int)]
        return numbers if len(numbers) == len(self.items) else None

    def broadcast(self, length: int) -> tuple[Dim, ...]:
        """The items, a single one repeated `length` times."""
        return self.items * length if len(self.items) == 1 else self.items


def scalar(item: Dim) -> ShapeValue:
    return ShapeValue((), (item,))


def vector(items: Any) -> ShapeValue | None:
    """The value of a rank 1 tensor; None if it is too long to be followed."""
    items = tuple(items)
    return ShapeValue((len(items),), items) if len(items) <= LONGEST else None


def followed(dtype: int | None, shape: tuple[Dim, ...] | None) -> bool:
    """Whether the values of a tensor of this type are worth following."""
    if shape is None or len(shape) > 1 or dtype is None:
        return False
    length = shape[0] if shape else 1
    limit = LONGEST if dtype in INTEGERS else LONGEST_FLOAT if dtype in FLOATS else -1
    return isinstance(length, int) and length <= limit


def of_array(array: np.ndarray[Any, Any]) -> ShapeValue | None:
    """The value of a constant; items that are no integers are unknown, and so is a value without any integer."""
    if array.ndim > 1 or array.size > LONGEST or array.dtype.kind not in "biuf":
        return None
    items = tuple(map(item, array.reshape(-1).tolist()))
    if items and all(one is None for one in items):
        return None
    return ShapeValue(tuple(array.shape), items)


def item(element: Any) -> Dim:
    """An element of an array as an item: a number if it is an integer."""
    if element is None or isinstance(element, str):
        return element
    if isinstance(element, float):
        return int(element) if math.isfinite(element) and element.is_integer() and abs(element) < 2**53 else None
    return int(element)


def fit(item: Dim, dtype: int | None) -> Dim:
    """The item if the element type holds it exactly, else None."""
    if dtype is None or item is None:
        return None
    if isinstance(item, str):
        return item if dtype in _WIDE else None
    low, high = _RANGES.get(dtype, (1, 0))
    return item if low <= item <= high else None


def join_values(first: ShapeValue | None, second: ShapeValue | None) -> ShapeValue | None:
    """The facts of a tensor that has sometimes the first and sometimes the second value."""
    if first is None or second is None or first.shape != second.shape:
        return None
    return ShapeValue(first.shape, tuple(a if a == b else None for a, b in zip(first.items, second.items, strict=True)))


# --- arithmetic of items -----------------------------------------------------------------------------------------------------
# A name is an unknown number that is at least 0.


def add(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    return a if b == 0 else b if a == 0 else None


def subtract(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    return a if b == 0 else 0 if a is not None and a == b else None


def multiply(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return a if b == 1 else b if a == 1 else None


def divide(a: Dim, b: Dim) -> Dim:
    """Division of integers as ONNX has it, towards zero."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a if b == 1 else None


def divide_exactly(a: Dim, b: Dim) -> Dim:
    """Division of floating-point numbers, if the quotient is an integer."""
    if isinstance(a, int) and isinstance(b, int) and b and a and a % b == 0:
        return a // b
    return a if b == 1 else None


def modulo(a: Dim, b: Dim) -> Dim:
    """Remainder with the sign of the divisor."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return a % b
    return None


def truncated_modulo(a: Dim, b: Dim) -> Dim:
    """Remainder with the sign of the dividend."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return abs(a) % abs(b) * (1 if a >= 0 else -1)
    return None


def largest(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    if a == b or (isinstance(b, int) and b <= 0):
        return a
    return b if isinstance(a, int) and a <= 0 and b is not None else None


def smallest(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    if a == b:
        return a
    number, name = (a, b) if isinstance(a, int) else (b, a)
    return number if isinstance(number, int) and isinstance(name, str) and number <= 0 else None


def equal(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return int(a == b)
    if a is None or b is None:
        return None
    if a == b:
        return 1
    number = a if isinstance(a, int) else b
    return 0 if isinstance(number, int) and number < 0 else None


def less(a: Dim, b: Dim) -> Dim:
    if isinstance(a, int) and isinstance(b, int):
        return int(a < b)
    if a is None or b is None:
        return None
    if a == b or (isinstance(b, int) and b <= 0):
        return 0
    return 1 if isinstance(a, int) and a < 0 else None


def negation(truth: Dim) -> Dim:
    return 1 - truth if isinstance(truth, int) else None


def both(a: Dim, b: Dim) -> Dim:
    return 0 if 0 in (a, b) else 1 if a == b == 1 else None


def either(a: Dim, b: Dim) -> Dim:
    return 1 if 1 in (a, b) else 0 if a == b == 0 else None


def reduce_items(step: Callable[[Dim, Dim], Dim], start: int, items: tuple[Dim, ...]) -> Dim:
    """All items combined by `step`. A product with a 0 is 0, even if other items are unknown."""
    if step is multiply and 0 in items:
        return 0
    total: Dim = start
    for item in items:
        total = step(total, item)
    return total


@record(slots=True)
class NodeFacts:
    """A node with the facts of its operands.

    Attributes:
        op, domain, version: operator, its domain ("" for ai.onnx) and the version its scope imports, None when it imports none.
        node: for its attributes (`attrs`), which are converted when first read.
        types, values: for each operand, None if it is omitted (or, for values, unknown).
        outputs: for each output whether it is there.
        constant: the array of operand i when it is constant and has at most 4096 elements, else None.
    """

    op: str
    domain: str
    version: int | None
    node: gs.Node
    types: list[TensorType | None]
    values: list[ShapeValue | None]
    outputs: tuple[bool, ...]
    constant: Callable[[int], np.ndarray[Any, Any] | None]

    @property
    def attrs(self) -> Mapping[str, Any]:
        """Attribute values as graphsurgeon holds them."""
        return self.node.attrs  # type: ignore[no-any-return]

    def has(self, i: int) -> bool:
        """Whether operand i is there."""
        return i < len(self.types) and self.types[i] is not None

    def type(self, i: int) -> TensorType:
        """Type of operand i; everything unknown when it is omitted."""
        return (self.types[i] if i < len(self.types) else None) or TensorType()

    def shape(self, i: int) -> tuple[Dim, ...] | None:
        return self.type(i).shape

    def value(self, i: int) -> ShapeValue | None:
        return self.values[i] if i < len(self.values) else None

    def integer(self, name: str, default: int) -> int | None:
        """An integer attribute; None if it is no plain integer (a function's own attribute, for example)."""
        value = self.attrs.get(name, default)
        return int(value) if isinstance(value, (int, np.integer)) else None

    def text(self, name: str, default: str) -> str:
        """A string attribute; "" if its value is no text."""
        value = self.attrs.get(name, default)
        return value if isinstance(value, str) else ""

    def integers(self, name: str) -> list[int] | None:
        """An attribute that is a list of integers; None when absent or something else."""
        value = self.attrs.get(name)
        if isinstance(value, (list, tuple)) and all(isinstance(item, (int, np.integer)) for item in value):
            return [int(item) for item in value]
        return None

    def list_or_operand(self, name: str, i: int) -> tuple[list[int] | None, bool]:
        """A list that is an attribute in older versions: (its items if all are known, whether it is there at all)."""
        if name in self.attrs:
            return self.integers(name), True
        if not self.has(i):
            return None, False
        value = self.value(i)
        return (value.known() if value is not None else None), True
