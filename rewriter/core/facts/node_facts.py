"""One node as the inference rules see it: its attributes and what is known of its operands.

The rules for shapes, for shape values and for folding are plain functions of this record; none of them knows how facts are
stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.facts.shape_values import ShapeValue
from rewriter.core.onnxfile.tensors import Dim, TensorType
from rewriter.core.record import record


@record(slots=True)
class NodeFacts:
    """A node with the facts of its operands.

    Attributes:
        op, domain, version: operator, its domain ("" for ai.onnx) and the version its scope imports, None when it imports none.
        node: for its attributes (`attrs`), which are converted when first read.
        types, values: for each operand, None where it is omitted (or, for values, unknown).
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
        """An integer attribute; None when it is there but no plain integer (a function's own attribute, say)."""
        value = self.attrs.get(name, default)
        return int(value) if isinstance(value, (int, np.integer)) else None

    def text(self, name: str, default: str) -> str:
        """A string attribute; "" when it is there but no text."""
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
