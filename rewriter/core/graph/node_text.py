"""One line of ONNX text for a node, as `onnx.printer` would show it, for logs: never with weights in it, and safe to print."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.graph.edits import NodeState
from rewriter.core.graph.values import elem_type, static_shape
from rewriter.core.language.dtypes import DTYPE_NAMES

MAX_ATTRIBUTE_TEXT = 120  # characters of one attribute value


def node_text(node: gs.Node | NodeState, constant: Callable[[gs.Constant], str] | None = None) -> str:
    """`y = Gemm<transB = 1>(x, w)`; `constant` says how tensors in attributes are written, `constant_text` unless given."""
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


def printable(text: str) -> str:
    """Text from a model with everything escaped that a terminal or a log could take for more than text."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text)


def _value(value: Any) -> str:
    if isinstance(value, gs.Graph):
        return f"graph of {len(value.nodes)} nodes"
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
    dtype, shape = elem_type(tensor), static_shape(tensor)
    return f"{DTYPE_NAMES.get(dtype or 0, 'unknown')}[{','.join(map(str, shape or ()))}]"


def node_name(node: gs.Node) -> str:
    """A node's name, or that of its first output where it has none."""
    return str(node.name or next((tensor.name for tensor in node.outputs if tensor.name), node.op))
