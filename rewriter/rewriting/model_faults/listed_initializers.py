"""Initializers that are listed among the inputs, and are therefore no constants to those who load the model."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.graph.index import GraphIndex
from rewriter.graph.objects import Graph
from rewriter.rewriting.transaction import Rewriting

FREE_SINCE = 4  # the ir_version from which on initializers need not be listed


def listed_initializers(context: Context) -> list[str]:
    return [tensor.name for tensor in _listed(context.index)]


def unlist_initializers(rewriting: Rewriting) -> None:
    graph, edits = rewriting.index.graph, rewriting.edits
    for tensor in list(_listed(rewriting.index)):
        edits.later(setattr, tensor, "listed", True)
        edits.declare("input", tensor.name, (tensor.dtype, tensor.shape), None)
        tensor.listed = False
    if 0 < (graph.ir_version or 0) < FREE_SINCE:
        edits.later(setattr, graph, "ir_version", graph.ir_version)
        edits.declare("model", "ir_version", graph.ir_version, FREE_SINCE)
        graph.ir_version = FREE_SINCE


def _listed(index: GraphIndex) -> Iterator[gs.Tensor]:
    if isinstance(index.graph, Graph):
        yield from (tensor for tensor in index.graph.initializers if getattr(tensor, "listed", False))
