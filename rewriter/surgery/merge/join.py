"""Two graphs become one: the inputs of the second are what the first gives, or stay inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

import onnx_graphsurgeon as gs

from rewriter.graph.index import GraphIndex
from rewriter.graph.model import Model
from rewriter.graph.names import NameTable
from rewriter.graph.objects import Graph
from rewriter.surgery.merge.join_functions import unite_functions
from rewriter.surgery.merge.join_weights import Known, unite_constant_nodes


def join(first: Model, second: Model, wires: Mapping[int, gs.Tensor], known: set[int]) -> list[str]:
    """Puts the nodes of a model behind those of another one.

    Args:
        first: is edited.
        second: is used up.
        wires: what inputs of the second model, by id(), become: tensors of the first.
        known: tensors of both, by id(), that callers know by their names; no two of them have the same.

    Returns:
        Notes on what had to be named otherwise.
    """
    one, other = first.graph, second.graph
    assert isinstance(one, Graph) and isinstance(other, Graph)
    notes = [f"function {text}, since another operator has this name" for text in unite_functions(first, second)]
    index = GraphIndex(other)
    wired = dict(wires)
    dropped = _unite_constants(one, other, wired)
    _replace(index, wired)
    other.nodes[:] = [node for node in other.nodes if id(node) not in dropped]
    other.initializers = [tensor for tensor in other.initializers if id(tensor) not in wired]
    _name_apart(GraphIndex(one), index, wired, known)
    other.origin.annotations = [[wired.get(id(tensor), tensor) for tensor in part] for part in other.origin.annotations]
    one.origin = one.origin.joined(other.origin)
    one.nodes.extend(other.nodes)
    one.initializers = [*one.initializers, *other.initializers]
    one.inputs = [*one.inputs, *(tensor for tensor in other.inputs if id(tensor) not in wired)]
    one.outputs = [*one.outputs, *other.outputs]
    one.__dict__.setdefault("joined_weights", []).append(other.weights)  # the file has to stay open
    return notes


def _unite_constants(one: Graph, other: Graph, wired: dict[int, gs.Tensor]) -> set[int]:
    """Notes which initializers and constants of the second graph the first has; the nodes that are not needed, by id().

    What the second graph gives out stays, since callers know it by its name.
    """
    known, given = Known(one.initializers), set(map(id, other.outputs))
    for tensor in other.initializers:
        like = None if id(tensor) in given else known.like(tensor)
        if like is not None:
            wired[id(tensor)] = like
    nodes = [node for node in other.nodes if given.isdisjoint(map(id, node.outputs))]
    return unite_constant_nodes(one.nodes, nodes, wired)


def _replace(index: GraphIndex, wired: Mapping[int, gs.Tensor]) -> None:
    """Has all readers read other tensors; also where bodies and the graph hand one out."""
    if not wired:
        return
    for node in index.all_nodes():
        for position, tensor in enumerate(node.inputs):
            if id(tensor) in wired:
                node.inputs[position] = wired[id(tensor)]
    for scope in index.scopes:
        if any(id(tensor) in wired for tensor in scope.graph.outputs):
            scope.graph.outputs = [wired.get(id(tensor), tensor) for tensor in scope.graph.outputs]


def _name_apart(one: GraphIndex, other: GraphIndex, wired: Mapping[int, gs.Tensor], known: set[int]) -> None:
    """Gives tensors and nodes of the second graph other names where the first has theirs, unless callers know them: then the
    first gives way.
    """
    own = {id(tensor): tensor for tensor in _tensors(one)}
    theirs = {id(t): t for t in _tensors(other) if id(t) not in own and id(t) not in wired}
    names = NameTable(tensor.name for tensor in chain(own.values(), theirs.values()))
    fixed = {tensor.name for tensor in theirs.values() if id(tensor) in known}
    for tensor in own.values():
        if tensor.name in fixed and id(tensor) not in known:
            tensor.name = names.fresh(tensor.name)
    taken = {tensor.name for tensor in own.values()}
    for tensor in theirs.values():
        if tensor.name in taken and id(tensor) not in known:
            tensor.name = names.fresh(tensor.name)
    nodes = {node.name for node in one.all_nodes()} - {""}
    new = [node for scope in other.scopes if not scope.is_function for node in scope.graph.nodes]
    table = NameTable(chain(nodes, (node.name for node in new)))
    for node in new:
        if node.name in nodes:
            node.name = table.fresh(node.name)


def _tensors(index: GraphIndex) -> Iterator[gs.Tensor]:
    """The tensors of the main graph and of bodies, some of them several times."""
    for scope in index.scopes:
        if scope.is_function:
            continue
        graph = scope.graph
        held = graph.initializers if isinstance(graph, Graph) else ()
        for part in (graph.inputs, graph.outputs, held, *(n.inputs for n in graph.nodes), *(n.outputs for n in graph.nodes)):
            yield from (tensor for tensor in part if tensor.name)
