"""One model on which a rule is tried, with the data needed to run it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx

from rewriter.core.graph.save import oldest_ir
from rewriter.core.record import field, record

Array = np.ndarray[Any, Any]
MOST_ELEMENTS = 1 << 16
"""Elements of one tensor of an instance; faults of rules show in small tensors."""


@record(frozen=True)
class Instance:
    """A small model and how to feed it.

    Attributes:
        model: the model, not to be changed.
        origin: "pattern", or the title of the inline test that it was made from.
        source: JSON text of source information, None for none.
        settings: values of the rule's parameters, by (code, name).
        fixed: values of inputs that decide shapes and so cannot be drawn freely.
        sizes: lengths of dimensions that the model only names.
        plain: its operators, attributes and element types are those that the rule's author or the schemas chose.
    """

    model: onnx.ModelProto
    origin: str
    source: str | None = None
    settings: Mapping[tuple[str, str], Any] = field(default_factory=dict)
    fixed: Mapping[str, Array] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    plain: bool = True

    @property
    def opset(self) -> int:
        """Version of the default domain; 0 if the model imports none."""
        return next((o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx")), 0)


def ir_version(opset: int) -> int:
    """An ir_version that models of an opset have and that runtimes of its day read."""
    return min(max(oldest_ir(opset), 4), 11)


def shape_of(info: onnx.ValueInfoProto, sizes: Mapping[str, int] = MappingProxyType({})) -> list[int | None] | None:
    """Declared dimensions, None for a dimension that is neither a number nor in `sizes`; None if no shape is declared."""
    tensor = info.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else sizes.get(dim.dim_param) for dim in tensor.shape.dim]
