"""How explanations call what they found: a tensor with who makes it, a value with what matters of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context, label
from rewriter.conditions.rule_values import ABSENT, UNKNOWN, Symbol
from rewriter.graph.node_text import printable

LONGEST = 120
SHOWN = 8  # elements of an array, items of a list


def node_words(node: gs.Node) -> str:
    """`Relu 'act1'`, or, where the node has no name, `the Relu that makes 'h'`."""
    if node.name:
        return f"{_op(node)} {node.name!r}"
    made = next((tensor.name for tensor in node.outputs if tensor.name), "")
    return f"the {_op(node)} that makes {made!r}" if made else _op(node)


def _op(node: gs.Node) -> str:
    return f"{node.domain}.{node.op}" if node.domain and node.domain != "ai.onnx" else str(node.op)


def tensor_words(context: Context, tensor: gs.Tensor | None) -> str:
    """`'h', made by Relu 'act1'`, `'x', an input of the graph`, ..., or that the operand is left out."""
    if tensor is None or not tensor.name:
        return "left out"
    maker = context.index.producer(tensor)
    if maker is not None:
        at = next((i for i, output in enumerate(maker.outputs) if output is tensor), 0)
        which = f"output {at} of" if len(maker.outputs) > 1 else "made by"
        return f"{tensor.name!r}, {which} {_op(maker)}" + (f" {maker.name!r}" if maker.name else "")
    if isinstance(tensor, gs.Constant):
        if not context.facts.is_constant(tensor):
            return f"{tensor.name!r}, an initializer that is also an input, so that a caller may override it"
        return f"{tensor.name!r}, an initializer"
    if context.index.input_of(tensor):
        return f"{tensor.name!r}, an input of the graph"
    return f"{tensor.name!r}, made by nothing"


def value_words(value: Any) -> str:
    """Short text of a value of an expression."""
    if value is UNKNOWN or value is ABSENT:
        return "unknown" if value is UNKNOWN else "absent"
    if isinstance(value, gs.Tensor):
        return f"tensor {value.name!r}" if value.name else "absent"
    if isinstance(value, gs.Node):
        return label(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, np.ndarray):
        return _array_words(value)
    if isinstance(value, list):
        shown = [value_words(item) for item in value[:SHOWN]]
        return "[" + ", ".join(shown + ([f"... {len(value)} items"] if len(value) > SHOWN else [])) + "]"
    if isinstance(value, Symbol):
        return printable(value)
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _array_words(array: np.ndarray[Any, Any]) -> str:
    if array.size <= SHOWN:
        return str(array.tolist())
    head = f"{array.dtype}[{','.join(map(str, array.shape))}]"
    if array.dtype.kind not in "fiub":
        return head
    low, high = array.min(), array.max()
    return f"{head}, all {low}" if low == high else f"{head} from {low:g} to {high:g}"
