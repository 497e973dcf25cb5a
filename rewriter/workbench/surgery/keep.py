"""What a part of a model needs besides its nodes: constants, functions, operator sets; all else is left behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_graphsurgeon as gs

from rewriter.core.graph.gs_lists import makers, tie, users
from rewriter.core.graph.objects import Function, Graph, Node
from rewriter.core.graph.scopes import opset_versions
from rewriter.workbench.surgery.parts import may_hold_bodies, reads

FunctionKey = tuple[str, str, str]
"""Domain, name, overload."""


def with_inner(nodes: Iterable[gs.Node]) -> Iterator[gs.Node]:
    """Nodes, and those in their bodies at any depth."""
    for node in nodes:
        yield node
        for graph in node.subgraphs(recursive=True) if may_hold_bodies(node) else ():
            yield from graph.nodes


def called(node: gs.Node) -> FunctionKey:
    """The function that a node calls, if its operator is one."""
    return node.domain or "", node.op, node.overload if isinstance(node, Node) else ""


def key_of(function: gs.Function) -> FunctionKey:
    """The name by which nodes call a function."""
    return function.domain or "", function.name, getattr(function, "overload", "") or ""


def needed_functions(graph: gs.Graph) -> list[gs.Function]:
    """The functions that the nodes of a graph call, those that these call with them, in the order of the model."""
    if not graph.functions:
        return []
    known = {key_of(function): function for function in graph.functions}
    found: set[FunctionKey] = set()
    waiting = [graph]
    while waiting:
        for node in with_inner(waiting.pop().nodes):
            key = called(node)
            if key in known and key not in found:
                found.add(key)
                waiting.append(known[key])
    return [function for key, function in known.items() if key in found]


def keep_nodes(graph: Graph, nodes: list[gs.Node]) -> None:
    """Leaves these nodes, in their order, and takes out what was there for the others alone: constants that nothing reads
    any more, functions that nothing calls, operator sets that nothing is of.
    """
    kept = {id(node) for node in with_inner(nodes)}
    gone = [node for node in with_inner(graph.nodes) if id(node) not in kept]
    graph.nodes[:] = nodes
    _untie(gone)
    drop_unread(graph)
    graph.functions[:] = needed_functions(graph)
    drop_imports(graph)


def drop_unread(graph: Graph) -> None:
    """Takes out the initializers that no node reads and that are no outputs, but for the parameters of quantized tensors."""
    read = {id(tensor) for node in graph.nodes for tensor in reads(node)}
    read.update(map(id, graph.outputs))
    alive = set[int]()
    if graph.origin.annotations:
        alive = read | {id(tensor) for node in graph.nodes for tensor in node.outputs} | set(map(id, graph.inputs))
    for tensors in graph.origin.annotations:
        if tensors[0] is not None and id(tensors[0]) in alive:
            read.update(id(tensor) for tensor in tensors[1:] if tensor is not None)
    graph.initializers = [tensor for tensor in graph.initializers if id(tensor) in read]


def drop_imports(graph: Graph) -> None:
    """Takes out the imports of operator sets that no node is of; ONNX's own stays."""
    needed = {node.domain or "" for node in with_inner(graph.nodes)} | {"", "ai.onnx"}
    for function in graph.functions:
        needed.update(opset_versions(function))
        needed.update(node.domain or "" for node in with_inner(function.nodes))
    if any(entry.domain not in needed for entry in graph.import_domains):
        graph.import_domains = [entry for entry in graph.import_domains if entry.domain in needed]


def _untie(gone: list[gs.Node]) -> None:
    """Has tensors forget nodes that are not there any more."""
    dead = set(map(id, gone))
    touched = {id(tensor): tensor for node in gone for tensor in (*node.inputs, *node.outputs)}
    for tensor in touched.values():
        tie(
            tensor,
            [node for node in makers(tensor) if id(node) not in dead],
            [node for node in users(tensor) if id(node) not in dead],
        )
    for node in gone:
        list.clear(node.inputs)
        list.clear(node.outputs)


__all__ = ["Function", "drop_imports", "drop_unread", "keep_nodes", "key_of", "needed_functions", "with_inner"]
