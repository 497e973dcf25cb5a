"""Faults of a model as a whole, as conditions ask for them: `model.unsorted_nodes`.

What finds a fault is outside of the core, with what puts it right (`core.whole_model`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import onnx

from rewriter.core.conditions.recorded_graph import RecordedGraph
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Graph
from rewriter.core.graph.values import elem_type
from rewriter.core.whole_model import repairs

# How new a format a model needs, by what it uses (onnx.proto names the ir_version that brought each part).

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
"""Where the graph of a model keeps the texts that rules read and write as `model.doc_string`."""

LASTING = frozenset({"repeated_nodes", "repeated_tensors", "unsorted_nodes", "unnamed_nodes", "odd_names", "missing_imports"})
"""Faults that only come with something new: where there was none, there is none as long as nodes only go or read other tensors
that were there.
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
