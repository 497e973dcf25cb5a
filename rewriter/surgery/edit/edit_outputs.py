"""Edits of what a model gives out."""

from __future__ import annotations

from rewriter.errors import RewriterError
from rewriter.surgery.edit.editing import Editing
from rewriter.surgery.ports import Ports, shown


def add_output(editing: Editing, text: str) -> None:
    """Makes outputs of tensors, of all that nodes make, or of all that nodes of an operator make (`op:Conv`).

    Raises:
        RewriterError: there is no such tensor, or its type is not known.
    """
    graph = editing.graph
    known = set(map(id, graph.outputs))
    new = [tensor for tensor in editing.parts.outputs_of([text]) if id(tensor) not in known]
    if not new:
        raise RewriterError(f"{text!r} is an output already")
    Ports(editing.facts, editing.types).declare(new, "output")
    graph.outputs = [*graph.outputs, *new]
    editing.did += [f"output  {shown(tensor)}" for tensor in new]


def drop_output(editing: Editing, text: str) -> None:
    """Takes outputs away, and the nodes that nothing else needs.

    Raises:
        RewriterError: there is no such output, or none would be left.
    """
    graph, index = editing.graph, editing.index
    gone = {id(tensor): tensor for tensor in editing.parts.outputs_of([text])}
    dropped = [tensor for tensor in graph.outputs if id(tensor) in gone]
    if not dropped:
        raise RewriterError(f"{text!r} is no output; there is {', '.join(repr(tensor.name) for tensor in graph.outputs)}")
    left = [tensor for tensor in graph.outputs if id(tensor) not in gone]
    if not left:
        raise RewriterError(f"without {text!r} the model has no output left")
    graph.outputs = left
    before = len(graph.nodes)
    for tensor in dropped:
        index.unlist_output(tensor)
        editing.edits.released[id(tensor)] = tensor
    names = ", ".join(tensor.name for tensor in dropped)
    editing.settle()
    editing.did.append(f"dropped output {names}, and {before - len(graph.nodes)} nodes that led to nothing else")
