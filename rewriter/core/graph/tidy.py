"""Steps before and after the rules: fixed shapes before them, `--tidy` around them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Graph, Scope, find_scopes, opset_versions
from rewriter.core.onnxfile.tensors import Dim
from rewriter.core.record import record


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
    if not graph.outputs:  # without outputs, all nodes would seem unused
        return Tidied(0, 0, 0)
    nodes, index = _without_dead_nodes(graph)
    initializers = sum(_unused_initializers(scope, index, keep) for scope in index.scopes)
    return Tidied(nodes, initializers, drop_imports(index))


def remove_dead_nodes(graph: gs.Graph) -> int:
    """Removes the nodes that nothing uses, before rules run that `tidy` follows; returns their number.

    A rule does not fire where a tensor that it calls private has another reader, which may be a dead node.
    """
    return _without_dead_nodes(graph)[0] if graph.outputs else 0


def _without_dead_nodes(graph: gs.Graph) -> tuple[int, GraphIndex]:
    """Works backwards from the nodes whose outputs are unused; linear in the number of removed nodes."""
    index = GraphIndex(graph)
    edits = Edits(index)
    edits.sweep([node for node in list(index.all_nodes()) if node.outputs])
    index.finish()
    return len(edits.removed), index


def _unused_initializers(scope: Scope, index: GraphIndex, keep: Collection[str]) -> int:
    if not isinstance(scope.graph, Graph):
        return 0
    listed = scope.graph.initializers
    before = len(listed)
    annotated = {id(tensor) for tensors in scope.graph.origin.annotations for tensor in tensors[1:]}
    # An initializer that is also listed as an input belongs to the interface of the model.
    listed[:] = [t for t in listed if getattr(t, "listed", False) or index.is_used(t) or id(t) in annotated or t.name in keep]
    return before - len(listed)


def drop_imports(index: GraphIndex) -> int:
    """Takes out the imports of operator sets that no node is of; how many. ONNX's own stays."""
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


# Fixed shapes for inputs of a model that take any, before anything else is done with it.
#
# A dimension that has a name gets its length wherever the model uses the name, since one name is one length. Shapes behind
# dimensions without a name are inferred anew from the inputs.

Static = Sequence[tuple[str, Sequence[int]]]
"""Names of inputs with their shapes."""


def fix_shapes(graph: gs.Graph, static: Static) -> None:
    """Gives inputs their shapes. Raises RewriterError, before anything is changed, if an input cannot have its shape."""
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    lengths: dict[str, int] = {}
    for name, shape in static:
        tensor = inputs.get(name)
        if tensor is None:
            raise RewriterError(f"--static {name}: the model has no such input; it has {', '.join(inputs) or 'none'}")
        said = tensor.shape
        if said is not None and len(said) != len(shape):
            raise RewriterError(f"--static {name}: the input has {len(said)} dimensions, not {len(shape)}")
        for dim, length in zip(said or (), shape, strict=False):
            if isinstance(dim, int) and dim != length:
                raise RewriterError(f"--static {name}: a dimension of the input is {dim}, and cannot become {length}")
            if isinstance(dim, str) and lengths.setdefault(dim, length) != length:
                raise RewriterError(f"--static {name}: dimension {dim} cannot have two lengths, {lengths[dim]} and {length}")
    for name, shape in static:
        inputs[name].shape = list(shape)
    if lengths:
        replace_dims(graph, lengths)


def replace_dims(graph: gs.Graph, changes: Mapping[str, Dim]) -> None:
    """Puts other names, or lengths, in place of names of dimensions, wherever the graph and its bodies declare them."""
    for scope in find_scopes(graph):
        if scope.is_function:
            continue
        for tensor in chain(scope.graph.inputs, scope.graph.outputs, *(node.outputs for node in scope.graph.nodes)):
            said = tensor.shape if isinstance(tensor, gs.Variable) else None
            if said is not None and any(isinstance(dim, str) and dim in changes for dim in said):
                tensor.shape = [changes.get(dim, dim) if isinstance(dim, str) else dim for dim in said]
