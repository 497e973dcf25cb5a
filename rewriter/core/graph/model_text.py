"""Texts of models and of their parts, without weights: types, attributes, a node as one line, and a whole model in which inner
names do not matter.

Two models have the same canonical text if they compute the same in the same way. Inner tensors are named after their makers,
initializers are shown by value at their uses, and the order of the nodes follows from the graph's outputs alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from google.protobuf.message import Message  # type: ignore[import-untyped]
from onnx import numpy_helper

from rewriter.core.errors import counted, printable
from rewriter.core.graph.edits import NodeState
from rewriter.core.graph.values import elem_type, static_shape
from rewriter.core.language.schema import DTYPE_NAMES
from rewriter.core.onnxfile.part import read_by
from rewriter.core.onnxfile.tensors import Dim, text

SHOWN = 8  # items of a list
MAX_TEXT = 64  # characters of a text


def attribute_text(attribute: onnx.AttributeProto) -> str:
    """A short text of an attribute's value; tensors by element type and shape, graphs by their number of nodes."""
    if attribute.ref_attr_name:
        return f"@{text(attribute.ref_attr_name)}"
    for name in ("t", "g", "sparse_tensor"):
        if attribute.HasField(name):
            value = getattr(attribute, name)
            return (
                f"graph of {counted(len(value.node), 'node')}"
                if name == "g"
                else tensor_text(value if name == "t" else value.values)
            )
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
    return type_words(tensor.data_type, tensor.dims, "unknown")


def _item(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, bytes | str):
        shown = text(value)
        return f'"{shown[:MAX_TEXT]}{"..." if len(shown) > MAX_TEXT else ""}"'
    return str(value)


def type_words(dtype: int | None, shape: Iterable[Dim] | None, unknown: str = "tensor") -> str:
    """`float[1,64,N]`; `?` is an unknown dimension, `[...]` an unknown shape, `unknown` an unknown element type."""
    dims = "..." if shape is None else ",".join("?" if dim is None else printable(str(dim)) for dim in shape)
    return f"{DTYPE_NAMES.get(dtype or 0, unknown)}[{dims}]"


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
    """The main graph, local functions and bodies, with their paths in reports, each before the bodies inside it."""
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


# One line of ONNX text for a node, as `onnx.printer` would show it, for logs: never with weights in it, and safe to print.

MAX_ATTRIBUTE_TEXT = 120  # characters of one attribute value


def node_text(node: gs.Node | NodeState, constant: Callable[[gs.Constant], str] | None = None) -> str:
    """`y = Gemm<transB = 1>(x, w)`; `constant` writes the tensors in attributes (by default, `constant_text` does)."""
    attributes = ", ".join(f"{name} = {value}" for name, value in attribute_texts(node.attrs, constant))
    domain = f"{printable(node.domain)}." if node.domain and node.domain != "ai.onnx" else ""
    operands, outputs = _names(node.inputs), _names(node.outputs)
    return f"{outputs} = {domain}{printable(node.op)}{f'<{attributes}>' if attributes else ''}({operands})"


def _names(tensors: Iterable[gs.Tensor]) -> str:
    return ", ".join([printable(tensor.name) or '""' for tensor in tensors])


def attribute_texts(
    attributes: Mapping[str, Any], constant: Callable[[gs.Constant], str] | None = None
) -> Iterator[tuple[str, str]]:
    """(name, value) of attributes, as `node_text` has them."""
    words = constant or constant_text
    for name, value in attributes.items():
        yield printable(name), words(value) if isinstance(value, gs.Constant) else _value(value)


def _value(value: Any) -> str:
    if isinstance(value, gs.Graph):
        return f"graph of {counted(len(value.nodes), 'node')}"
    if isinstance(value, gs.Node.AttributeRef):
        return f"@{printable(value.name)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, str):
        shown = f'"{printable(value)}"'
    elif isinstance(value, float):
        shown = f"{np.float32(value):g}"
    elif isinstance(value, list | tuple):
        shown = (
            "["
            + ", ".join(map(_value, value[: MAX_ATTRIBUTE_TEXT // 2]))
            + ("" if len(value) <= MAX_ATTRIBUTE_TEXT // 2 else ", ...")
            + "]"
        )
    else:
        shown = printable(" ".join(repr(value).split()))
    return shown if len(shown) <= MAX_ATTRIBUTE_TEXT else shown[: MAX_ATTRIBUTE_TEXT - 3] + "..."


def constant_text(tensor: gs.Constant) -> str:
    """`float[64,3,7,7]`: element type and shape, never values."""
    return type_words(elem_type(tensor), static_shape(tensor) or (), "unknown")


def node_name(node: gs.Node) -> str:
    """A node's name, or the name of its first output if the node has none."""
    return str(node.name or next((tensor.name for tensor in node.outputs if tensor.name), node.op))


def message_name(node: onnx.NodeProto) -> str:
    """The same for the message of a node; "" if it has no outputs either."""
    return text(node.name) or next(filter(None, map(text, node.output)), "")


SHOWN_ELEMENTS = 16  # elements of a constant that are shown; larger ones by hash


def canonical_text(model: onnx.ModelProto) -> str:
    """Interface, imports and nodes of a model, one a line."""
    imports = ", ".join(f'"{entry.domain}": {entry.version}' for entry in sorted(model.opset_import, key=lambda e: e.domain))
    lines = [f"ir_version: {model.ir_version}, opset_import: [{imports}]"]
    lines += _graph(model.graph, {})
    for function in sorted(model.functions, key=lambda f: (f.domain, f.name, f.overload)):
        lines.append(
            f"function {function.domain}::{function.name}({', '.join(function.input)}) => ({', '.join(function.output)})"
        )
        lines += _nodes(function.node, {name: name for name in function.input}, list(function.output))
    return "\n".join(lines)


def _graph(graph: onnx.GraphProto, outer: dict[str, str]) -> list[str]:
    constants = {c.name: initializer_text(c) for c in graph.initializer}
    listed = [info.name for info in graph.input if info.name in constants]
    names = {**outer, **constants, **{info.name: info.name for info in graph.input if info.name not in constants}}
    lines = [f"input {info.name}: {type_text(info.type)}" for info in graph.input if info.name not in constants]
    lines += [f"listed {constants[name]}" for name in listed]
    lines += [f"output {info.name}: {type_text(info.type)}" for info in graph.output]
    return lines + _nodes(graph.node, names, [info.name for info in graph.output])


def _nodes(nodes: list[onnx.NodeProto], names: dict[str, str], outputs: list[str]) -> list[str]:
    """Lines of nodes: first the nodes behind the outputs, in the order in which the outputs need them, then the others."""
    makers = {name: node for node in nodes for name in node.output if name}
    known = {**names, **{name: name for name in outputs if name in makers}}
    lines: list[str] = []
    done: set[int] = set()
    roots = [makers[name] for name in outputs if name in makers]
    left = [node for node in nodes if not any(name in _used(nodes) for name in node.output)]
    waiting = [*reversed([*roots, *sorted(left, key=lambda n: n.op_type)])]
    while waiting:
        node = waiting[-1]
        needed = [
            makers[name]
            for name in read_by(node)
            if name in makers and id(makers[name]) not in done and makers[name] is not node
        ]
        if needed and len(waiting) <= 4 * len(nodes) + 4:
            waiting.extend(reversed(needed))
            continue
        waiting.pop()
        if id(node) in done:
            continue
        done.add(id(node))
        for position, name in enumerate(node.output):
            if name:
                known.setdefault(name, f"%{len(done)}" + (f".{position}" if position else ""))
        lines += _line(node, known)
    return lines


def _used(nodes: list[onnx.NodeProto]) -> set[str]:
    return {name for node in nodes for name in read_by(node)}


def _line(node: onnx.NodeProto, known: dict[str, str]) -> list[str]:
    domain = f"{node.domain}." if node.domain not in ("", "ai.onnx") else ""
    shown, bodies = [], []
    for attribute in sorted(node.attribute, key=lambda a: a.name):
        if attribute.type == onnx.AttributeProto.GRAPH:
            bodies += [f"  {attribute.name}:", *(f"    {line}" for line in _graph(attribute.g, known))]
        else:
            shown.append(_attribute(attribute))
    outputs = ", ".join(known.get(name, name) or '""' for name in node.output)
    inputs = ", ".join(known.get(name, name) or '""' for name in node.input)
    return [f"{outputs} = {domain}{node.op_type}{f'<{chr(44).join(shown)}>' if shown else ''}({inputs})", *bodies]


def _attribute(attribute: onnx.AttributeProto) -> str:
    if attribute.ref_attr_name:
        return f"{attribute.name} = @{attribute.ref_attr_name}"
    if attribute.type == onnx.AttributeProto.TENSOR:
        return f"{attribute.name} = {initializer_text(attribute.t)}"
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, Message):
        value = " ".join(str(value).split())
    return f"{attribute.name} = {list(value) if not isinstance(value, int | float | str) else value}"


def initializer_text(tensor: onnx.TensorProto) -> str:
    """`float[2]{1.0, 2.0}`; large ones as `float[64,64]#hash`."""
    head = type_words(tensor.data_type, tensor.dims, str(tensor.data_type))
    try:
        array = numpy_helper.to_array(tensor)
    except (TypeError, ValueError):  # less data than its dimensions say, or of no type
        return f"{head}#malformed {hashlib.sha256(tensor.SerializeToString(deterministic=True)).hexdigest()[:16]}"
    if array.size <= SHOWN_ELEMENTS:
        return head + "{" + ", ".join(map(str, array.ravel().tolist())) + "}"
    return f"{head}#{hashlib.sha256(array.tobytes()).hexdigest()[:16]}"
