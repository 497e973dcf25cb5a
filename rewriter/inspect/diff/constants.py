"""Constants by their contents: initializers and `Constant` nodes alike."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from rewriter.errors import RewriterError
from rewriter.graph.message_text import tensor_text
from rewriter.onnxfile.tensors import read_sparse, read_tensor, text
from rewriter.record import record

Array = np.ndarray[Any, Any]
Tensor = onnx.TensorProto | onnx.SparseTensorProto

_PLAIN = {"value_float": 1, "value_floats": 1, "value_int": 7, "value_ints": 7, "value_string": 8, "value_strings": 8}


@record(frozen=True, slots=True)
class ConstantContents:
    """A constant: `type` reads "float[5,3]", `digest` is one of type and values; values that cannot be read have a digest of
    where they are, and `problem` says why.
    """

    name: str
    type: str
    digest: bytes
    tensor: Tensor
    folder: Path | None
    problem: str = ""

    def values(self) -> Array | None:
        """The values as an array, None where they cannot be read."""
        try:
            return _read(self.tensor, self.folder)
        except RewriterError:
            return None


def constant(name: str, tensor: Tensor, folder: Path | None) -> ConstantContents:
    """Reads a tensor once, for its digest; the values are not kept."""
    dense = tensor if isinstance(tensor, onnx.TensorProto) else tensor.values
    dims = tensor.dims
    shown = tensor_text(onnx.TensorProto(data_type=dense.data_type, dims=dims))
    found = hashlib.sha256(shown.encode())
    try:
        array = _read(tensor, folder)
    except RewriterError as error:
        for entry in dense.external_data:
            found.update(f"{entry.key}={entry.value};".encode())
        return ConstantContents(name, shown, found.digest(), tensor, folder, str(error))
    if array.dtype == object:
        found.update(repr(array.tolist()).encode())
    else:
        found.update(np.ascontiguousarray(array).tobytes())
    return ConstantContents(name, shown, found.digest(), tensor, folder)


def _read(tensor: Tensor, folder: Path | None) -> Array:
    return read_tensor(tensor, folder) if isinstance(tensor, onnx.TensorProto) else read_sparse(tensor, folder)


def of_node(node: onnx.NodeProto) -> Tensor | None:
    """The value of a `Constant` node; None for any other node, and for one that says nothing readable."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.ref_attr_name:
        return None
    found: Tensor
    if attribute.name == "value" and attribute.HasField("t"):
        found = attribute.t
        return found
    if attribute.name == "sparse_value" and attribute.HasField("sparse_tensor"):
        found = attribute.sparse_tensor
        return found
    if attribute.name in _PLAIN:
        kind = attribute.name.removeprefix("value_").upper()
        if attribute.type != onnx.AttributeProto.AttributeType.Value(kind):
            return None  # of a damaged model
        value = helper.get_attribute_value(attribute)
        items = list(value) if kind.endswith("S") else [value]
        dims = [len(items)] if kind.endswith("S") else []
        return helper.make_tensor(text(node.name), _PLAIN[attribute.name], dims, items)
    return None


@record(frozen=True, slots=True)
class Statistics:
    """Two constants of one shape: their ranges and means, how many elements differ, and by how much at most."""

    before: tuple[float, float, float]
    after: tuple[float, float, float]
    differing: int
    elements: int
    largest: float


def statistics(one: ConstantContents, other: ConstantContents) -> Statistics | None:
    """None where they have no numbers, no common shape, or cannot be read. NaN equals NaN."""
    first, second = one.values(), other.values()
    if first is None or second is None or first.shape != second.shape or not first.size:
        return None
    if first.dtype == object or second.dtype == object:
        return None
    if np.iscomplexobj(first) or np.iscomplexobj(second):
        return None
    left, right = first.astype(np.float64), second.astype(np.float64)
    with np.errstate(all="ignore"):
        differs = ~((left == right) | (np.isnan(left) & np.isnan(right)))
        gap = np.abs(left - right)[differs]
        largest = float(np.nanmax(gap)) if gap.size and not np.isnan(gap).all() else float("nan") if gap.size else 0.0
        return Statistics(_range(left), _range(right), int(differs.sum()), int(left.size), largest)


def _range(values: Array) -> tuple[float, float, float]:
    return float(values.min()), float(values.max()), float(values.mean())
