"""The rules that a model's nodes say have made or changed them."""

from __future__ import annotations

import onnx

from rewriter.graph.objects import rules_of
from rewriter.inspect.summary import places
from rewriter.onnxfile.tensors import text
from rewriter.record import record


@record(frozen=True, slots=True)
class Mark:
    """A node (of a node without a name: its first output) and its rules, first to last."""

    place: str
    node: str
    op: str
    rules: tuple[str, ...]


def marks(model: onnx.ModelProto) -> list[Mark]:
    """All marked nodes, in the order of the model; none where ir_version is below 10, which has no metadata of nodes."""
    return [
        Mark(place.path, text(node.name) or next(map(text, node.output), ""), text(node.op_type), rules)
        for place, graph in places(model)
        for node in graph.node
        if (rules := rules_of(node))
    ]
