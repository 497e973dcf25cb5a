"""The fields of a node and of the model, as conditions name them: `n.axis`, `model.unsorted_nodes`.

An attribute has its effective value: the node's own, else the schema's default, else the default in the operator's text.
The last group is missing in `onnx.defs`, which has no default for pads, strides, dilations, perm, kernel_shape and group
sizes whose default depends on the operands. The code that finds a fault of the model is outside of the core, next to the code
that repairs it (`core.whole_model`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.conditions.recorded_graph import RecordedGraph, label
from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, Marker
from rewriter.core.graph.attributes import node_texts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Graph
from rewriter.core.graph.values import elem_type
from rewriter.core.language import schema
from rewriter.core.language.functions import FAULTS
from rewriter.core.whole_model import repairs


def node_field(context: RecordedGraph, node: gs.Node, name: str) -> Any:
    """The value of a label's field: one of the node's own lists and texts, else an attribute."""
    if name == "inputs":
        return [tensor if tensor.name else ABSENT for tensor in node.inputs]
    if name == "outputs":
        return list(node.outputs)
    if name == "op":
        return node.op
    if name == "doc_string":
        return node_texts(node).doc_string
    return effective(context, node, name)


def model_field(context: RecordedGraph, name: str) -> Any:
    """The value of `model.NAME`; for a fault, the list of the parts that have it."""
    if name == "ir_version":
        return context.ir_version
    if name == "opset":
        return context.opset(None)
    if name == "outputs":
        return [tensor.name for tensor in context.index.graph.outputs]
    if name in FAULTS:
        return find(name, context)
    if name == "least_ir_version":
        return least_ir_version(context)
    found = getattr(context.index.graph, MODEL_TEXTS.get(name, name), None)
    return found if isinstance(found, str) else context.doubt(f"model.{name} is not known")


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
    """Explicit value, schema default or computed default; ABSENT if there is none, UNKNOWN if it cannot be determined."""
    found = explicit(node, name)
    if isinstance(found, gs.Node.AttributeRef):
        return context.doubt(f"attribute {name} of {label(node)} depends on the caller of the function")
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


# The format version that a model needs for the parts that it uses (onnx.proto names the ir_version that brought each part).

LEAST = 3
"""Below it models have no opset imports."""

_TYPES: Mapping[int, tuple[str, ...]] = {
    4: ("BFLOAT16",),
    9: ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"),
    10: ("UINT4", "INT4"),
    11: ("FLOAT4E2M1",),
    12: ("FLOAT8E8M0",),
    13: ("UINT2", "INT2"),
}
_BY_TYPE: Mapping[int, int] = {
    getattr(onnx.TensorProto, name): version
    for version, names in _TYPES.items()
    for name in names
    if hasattr(onnx.TensorProto, name)
}
_BY_KIND: Mapping[str, int] = {"sparse_tensor_type": 8, "optional_type": 8}


def least_ir_version(context: RecordedGraph) -> int:
    """The lowest ir_version whose format has all that this model computes with; metadata of nodes are read over by older
    programs.
    """
    return max((*_of_graph(context.index), *_of_tensors(context.index)), default=LEAST)


def _of_graph(index: GraphIndex) -> Iterator[int]:
    graph = index.graph
    if isinstance(graph, Graph):
        if not all(getattr(tensor, "listed", False) for tensor in graph.initializers):
            yield 4
        if graph.origin.annotations:
            yield 5
        if graph.origin.sparse:
            yield 6
    for function in getattr(graph, "functions", ()):
        defaults = any(value is not None for value in (function.attrs or {}).values())
        yield 10 if getattr(function, "overload", "") else 9 if defaults else 8


def _of_tensors(index: GraphIndex) -> Iterator[int]:
    for scope in index.scopes:
        nodes = (tensor for node in index.nodes_of(scope) for tensor in (*node.inputs, *node.outputs))
        for tensor in (*scope.graph.inputs, *scope.graph.outputs, *nodes):
            yield _BY_TYPE.get(elem_type(tensor) or 0, LEAST)
            yield _BY_KIND.get(str(getattr(tensor, "type", None)), LEAST)


MODEL_TEXTS = {
    "producer_name": "producer_name", "producer_version": "producer_version", "name": "name", "doc_string": "model_doc_string",
}  # fmt: skip
"""The attributes of the graph with the texts that rules read and write as `model.doc_string`."""

LASTING = frozenset({"repeated_nodes", "repeated_tensors", "unsorted_nodes", "unnamed_nodes", "odd_names", "missing_imports"})
"""Faults that only new parts can cause: a model without them stays without them as long as nodes are only removed or read other
existing tensors.
"""


def find(name: str, context: RecordedGraph) -> list[str]:
    """The parts of the model that have a fault; one that can only have come with something new is not looked for again until
    something new came.
    """
    novelty = context.index.novelty
    if context.absent.get(name) == novelty:
        return []
    found = repairs().find(name, context)
    if not found and name in LASTING:
        context.absent[name] = novelty
    return found
