"""The effective value of an attribute: what the node says, else the schema's default, else what the operator's text prescribes.

The last group is missing in `onnx.defs`, which has no default for pads, strides, dilations, perm, kernel_shape and group
sizes whose default depends on the operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.recorded_graph import RecordedGraph, label
from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, Marker
from rewriter.core.language import schema


def explicit(node: gs.Node, name: str) -> Any:
    """The attribute as the node states it, ABSENT when it does not."""
    found = node.attrs.get(name, ABSENT)
    return read(found)


def read(value: Any) -> Any:
    """An attribute value of the graph as a value of the language: tensors as arrays, tuples as lists."""
    from rewriter.core.graph.objects import constant_array

    if isinstance(value, gs.Constant):
        return constant_array(value)
    return list(value) if isinstance(value, tuple) else value


def effective(context: RecordedGraph, node: gs.Node, name: str) -> Any:
    """Explicit value, schema default or computed default; ABSENT when there is none of them, UNKNOWN when it cannot be told."""
    found = explicit(node, name)
    if isinstance(found, gs.Node.AttributeRef):
        return context.doubt(f"attribute {name} of {label(node)} is whatever the caller of the function says")
    if found is not ABSENT:
        return found
    domain = node.domain or ""
    version = context.index.scope(node).opsets.get(domain, context.index.scope(node).opsets.get("", 1))
    default = schema.effective_default(node.op, domain, version, name)
    if default is not None:
        return list(default) if isinstance(default, tuple) else default
    compute = COMPUTED.get(name)
    if compute is None or schema.computed_default(node.op, domain, name) is None:
        return ABSENT
    return compute(context, node)


def _spatial(context: RecordedGraph, node: gs.Node) -> Any:
    """Number of spatial axes of a convolution or pooling; UNKNOWN when the rank is."""
    kernel = node.attrs.get("kernel_shape")
    if isinstance(kernel, list | tuple):
        return len(kernel)
    rank = context.rank(node.inputs[0]) if node.inputs else UNKNOWN
    return UNKNOWN if isinstance(rank, Marker) else max(rank - 2, 0)


def _repeat(item: int, times: int) -> Callable[[RecordedGraph, gs.Node], Any]:
    def compute(context: RecordedGraph, node: gs.Node) -> Any:
        if item == 0 and node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID", ""):
            return context.doubt(f"pads of {label(node)} depend on auto_pad")
        axes = _spatial(context, node)
        return axes if axes is UNKNOWN else [item] * (axes * times)

    return compute


def _perm(context: RecordedGraph, node: gs.Node) -> Any:
    rank = context.rank(node.inputs[0]) if node.inputs else UNKNOWN
    return UNKNOWN if isinstance(rank, Marker) else list(range(rank))[::-1]


def _kernel(context: RecordedGraph, node: gs.Node) -> Any:
    shape = context.shape(node.inputs[1]) if len(node.inputs) > 1 else UNKNOWN
    return UNKNOWN if isinstance(shape, Marker) else shape[2:]


COMPUTED: dict[str, Callable[[RecordedGraph, gs.Node], Any]] = {
    "pads": _repeat(0, 2),
    "strides": _repeat(1, 1),
    "dilations": _repeat(1, 1),
    "perm": _perm,
    "kernel_shape": _kernel,
}
