"""What `--tidy` removes beyond what the rules made dead: nodes that lead nowhere, initializers nobody reads, imports nobody
needs.

Not done unasked: what no rule touched is none of our business.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx_graphsurgeon as gs

from rewriter.graph.edits import Edits
from rewriter.graph.index import GraphIndex
from rewriter.graph.objects import Graph
from rewriter.graph.scopes import Scope, opset_versions
from rewriter.record import record


@record(frozen=True, slots=True)
class Tidied:
    """How much was removed."""

    nodes: int
    initializers: int
    imports: int


def tidy(graph: gs.Graph, keep: Collection[str] = ()) -> Tidied:
    """Removes dead nodes, unused initializers and unused opset imports of a graph and of all graphs inside it; initializers of
    these names stay, and those that annotations of quantization name.
    """
    index = GraphIndex(graph)
    if not graph.outputs:  # nothing leads to an output, so that all would seem unused
        return Tidied(0, 0, 0)
    nodes = _dead_nodes(index)
    index.finish()
    initializers = sum(_unused_initializers(scope, index, keep) for scope in index.scopes)
    return Tidied(nodes, initializers, _unused_imports(index))


def _dead_nodes(index: GraphIndex) -> int:
    """Backwards from the nodes whose outputs nobody uses; linear in what is removed."""
    edits = Edits(index)
    edits.sweep([node for node in list(index.all_nodes()) if node.outputs])
    return len(edits.removed)


def _unused_initializers(scope: Scope, index: GraphIndex, keep: Collection[str]) -> int:
    if not isinstance(scope.graph, Graph):
        return 0
    listed = scope.graph.initializers
    before = len(listed)
    annotated = {id(tensor) for tensors in scope.graph.origin.annotations for tensor in tensors[1:]}
    # One that is also listed as an input belongs to the interface of the model.
    listed[:] = [t for t in listed if getattr(t, "listed", False) or index.is_used(t) or id(t) in annotated or t.name in keep]
    return before - len(listed)


def _unused_imports(index: GraphIndex) -> int:
    graph, gone = index.graph, unused_domains(index)
    if gone:
        graph.import_domains = [entry for entry in graph.import_domains if entry.domain not in gone]
    return len(gone)


def unused_domains(index: GraphIndex) -> list[str]:
    """Imported domains that no node of the scopes sharing the imports belongs to; the default domain is none of them."""
    graph = index.graph
    imported = [entry.domain for entry in graph.import_domains or () if entry.domain not in ("", "ai.onnx")]
    if not imported:
        return []
    needed = {node.domain or "" for node in index.all_nodes()}
    needed |= {domain for function in getattr(graph, "functions", ()) for domain in opset_versions(function)}
    return [domain for domain in imported if domain not in needed]
