"""A node as one line of ONNX text, as the printer of onnx shows it, short and safe to print.

    y = Gemm<transB = 1>(x, w)

Names and strings come from a stranger's file: control characters, bidirectional marks and the like are escaped, weights are
shown as their type and shape only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from rewriter.errors import RewriterError
from rewriter.graph.values import constant_array, elem_type, static_shape
from rewriter.language.dtypes import DTYPE_NAMES

_MOST_ITEMS = 8
_MOST_LETTERS = 80


def node_text(node: gs.Node) -> str:
    """One line of ONNX text; at most a few items of each attribute."""
    operator = shown(f"{node.domain}.{node.op}" if node.domain else node.op)
    pairs = ", ".join(f"{shown(name)} = {value_text(value)}" for name, value in node.attrs.items())
    attributes = f"<{pairs}>" if pairs else ""
    outputs, inputs = (", ".join(shown(tensor.name) for tensor in tensors) for tensors in (node.outputs, node.inputs))
    return f"{outputs} = {operator}{attributes}({inputs})"


def tensor_text(tensor: gs.Tensor) -> str:
    """Type, shape and name of a tensor: `float[N,3,?] x`; what is unknown is left out."""
    return f"{type_text(elem_type(tensor), static_shape(tensor))} {shown(tensor.name)}"


def type_text(dtype: int | None, shape: tuple[int | str | None, ...] | None) -> str:
    """A tensor type as ONNX text: `float[N,3,?]`, `float` for unknown rank, `tensor` for an unknown element type."""
    name = "tensor" if dtype is None else DTYPE_NAMES.get(dtype, f"type{dtype}")
    if shape is None:
        return name
    return f"{name}[{','.join('?' if dim is None else shown(str(dim)) for dim in shape)}]"


def value_text(value: Any) -> str:
    """An attribute's value, abbreviated when it is long."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, bytes):
        return _quoted(value.decode(errors="backslashreplace"))
    if isinstance(value, gs.Constant):
        return _constant_text(value)
    if isinstance(value, gs.Graph):
        return f"{{{len(value.nodes)} nodes}}"
    if isinstance(value, gs.Node.AttributeRef):
        return f"@{shown(value.name)}"
    if isinstance(value, onnx.AttributeProto):
        known = onnx.AttributeProto.AttributeType.values()
        return f"{{{onnx.AttributeProto.AttributeType.Name(value.type).lower() if value.type in known else 'unknown kind'}}}"
    if isinstance(value, (list, tuple)):
        items = [value_text(item) for item in value[:_MOST_ITEMS]]
        return f"[{', '.join(items)}{', ...' if len(value) > _MOST_ITEMS else ''}]"
    if isinstance(value, float):
        return str(np.float32(value))  # attributes are 32 bits wide: 0.1, not 0.10000000149011612
    return shown(str(value)[:_MOST_LETTERS])


def shown(name: str) -> str:
    """A name with everything escaped that is not plain printable text."""
    return name if name.isascii() and name.isprintable() else "".join(map(_escaped, name))


def _escaped(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode()


def _quoted(text: str) -> str:
    short = text if len(text) <= _MOST_LETTERS else text[:_MOST_LETTERS] + "..."
    return '"' + shown(short.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _constant_text(tensor: gs.Constant) -> str:
    shape = static_shape(tensor)
    kind = type_text(elem_type(tensor), shape)
    count = 1
    for dim in shape or (None,):
        count = count * dim if isinstance(dim, int) else _MOST_ITEMS + 1
    if shape is not None and count <= _MOST_ITEMS:
        try:
            items = constant_array(tensor).reshape(-1).tolist()
        except RewriterError:
            return f"{kind} {{?}}"
        return f"{kind} {{{', '.join(value_text(item) for item in items)}}}"
    return f"{kind} {{...}}"
