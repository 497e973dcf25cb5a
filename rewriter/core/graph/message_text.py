"""Short texts of parts of a message: types and attribute values, never with weights in them. Names are as the file has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

from rewriter.core.language.dtypes import DTYPE_NAMES
from rewriter.core.onnxfile.tensors import text

SHOWN = 8  # items of a list
MAX_TEXT = 64  # characters of a text


def attribute_text(attribute: onnx.AttributeProto) -> str:
    """A short text of an attribute's value; tensors by element type and shape, graphs by their number of nodes."""
    if attribute.ref_attr_name:
        return f"@{text(attribute.ref_attr_name)}"
    for name in ("t", "g", "sparse_tensor"):
        if attribute.HasField(name):
            value = getattr(attribute, name)
            return f"graph of {len(value.node)} nodes" if name == "g" else tensor_text(value if name == "t" else value.values)
    for name in ("floats", "ints", "strings"):
        items = list(getattr(attribute, name))
        if items:
            shown = [_item(item) for item in items[:SHOWN]]
            return "[" + ", ".join([*shown, *(["..."] if len(items) > SHOWN else [])]) + "]"
    kind = attribute.type
    single = {onnx.AttributeProto.INT: "i", onnx.AttributeProto.FLOAT: "f", onnx.AttributeProto.STRING: "s"}.get(kind)
    return _item(getattr(attribute, single)) if single else "[]"


def tensor_text(tensor: onnx.TensorProto) -> str:
    """`float[64,3,7,7]`."""
    return f"{DTYPE_NAMES.get(tensor.data_type, 'unknown')}[{','.join(map(str, tensor.dims))}]"


def _item(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bytes | str):
        shown = text(value)
        return f'"{shown[:MAX_TEXT]}{"..." if len(shown) > MAX_TEXT else ""}"'
    return str(value)


def type_text(declared: onnx.TypeProto) -> str:
    """`float[N,3]`, `sequence(float[?])`; "" for a type that is not declared."""
    around: list[str] = []
    while True:
        kind = declared.WhichOneof("value")
        if kind in ("sequence_type", "optional_type"):
            around.append(kind.removesuffix("_type"))
            declared = getattr(declared, kind).elem_type
        elif kind == "map_type":
            around.append(f"map {DTYPE_NAMES.get(declared.map_type.key_type, '?')} to")
            declared = declared.map_type.value_type
        else:
            break
    shown = ""
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(declared, kind)
        shown = DTYPE_NAMES.get(tensor.elem_type, "tensor")
        if tensor.HasField("shape"):
            shown += "[" + ",".join(_dim(dim) for dim in tensor.shape.dim) + "]"
        else:
            shown += "[...]"
        shown = f"sparse {shown}" if kind == "sparse_tensor_type" else shown
    for outer in reversed(around):
        shown = f"{outer}({shown})"
    return shown


def _dim(dim: onnx.TensorShapeProto.Dimension) -> str:
    return str(dim.dim_value) if dim.HasField("dim_value") else text(dim.dim_param) or "?"


def graphs_by_path(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.GraphProto | onnx.FunctionProto]]:
    """The main graph, local functions and bodies with the paths that reports give them, each before the bodies inside it."""
    waiting: list[tuple[str, onnx.GraphProto | onnx.FunctionProto]] = [
        (f"function {text(function.domain)}::{text(function.name)}", function) for function in reversed(model.functions)
    ]
    waiting.append(("main", model.graph))
    while waiting:
        path, graph = waiting.pop()
        yield path, graph
        prefix = "" if path == "main" else f"{path}/"
        inner = [
            (f"{prefix}{text(node.name) or text(node.op_type)}.{text(attribute.name)}", body)
            for node in graph.node
            for attribute in node.attribute
            for body in ((attribute.g,) if attribute.HasField("g") else attribute.graphs)
        ]
        waiting.extend(reversed(inner))
