"""Which tensors the model gives out, and what the framework's own graph says of it.

Exporters lose outputs, add inner tensors to them, or list them in another order; the framework's file has them right. Outputs
are named by their tensors, in a list: `model.outputs = source_outputs()`.
"""

from __future__ import annotations

from typing import Any

import onnx_graphsurgeon as gs

from rewriter.conditions.array_functions import element_type
from rewriter.conditions.context import Context, label
from rewriter.conditions.rule_values import Failure
from rewriter.graph.objects import new_variable
from rewriter.rewriting.transaction import Refused, Rewriting, Undecided


def set_outputs(rewriting: Rewriting, names: list[Any]) -> None:
    """Makes these tensors the outputs of the main graph.

    A tensor that takes the place of one that is no output any more takes over its name, since callers rely on that.

    Raises:
        Failure: a name is no tensor of the main graph that a node makes, or stands twice.
    """
    index, graph = rewriting.index, rewriting.index.graph
    before = list(graph.outputs)
    made = index.made_in(index.scopes[0]) | {tensor.name: tensor for tensor in before}
    if len(set(names)) != len(names) or not names or any(name not in made for name in names):
        raise Failure(f"{names} are not different tensors of the main graph")
    after = [made[name] for name in names]
    dropped = [tensor for tensor in before if not _among(tensor, after)]
    gained = [tensor for tensor in after if not _among(tensor, before)]
    if len(dropped) == len(gained):
        for old, new in zip(dropped, gained, strict=True):
            _hand_over(rewriting, old, new)
            after = [old if tensor is new else tensor for tensor in after]
        dropped, gained = [], []
    _put(rewriting, after)
    for tensor in dropped:
        index.unlist_output(tensor)
        rewriting.edits.later(index.list_output, tensor)
        rewriting.edits.released[id(tensor)] = tensor
    for tensor in gained:
        _gain(rewriting, tensor)


def add_output(rewriting: Rewriting, name: str) -> None:
    """`output t`: makes a tensor of the main graph an output, the last one; nothing happens where it is one.

    Raises:
        Refused: it stands in a body or a function, no node makes it, or its element type is not known.
    """
    context, index, graph = rewriting.context, rewriting.index, rewriting.index.graph
    tensor = rewriting.made.get(name, rewriting.names.bound.get(name))
    if not isinstance(tensor, gs.Tensor):
        raise Refused(f"`{name}` is not there")
    if _among(tensor, graph.outputs):
        return
    if rewriting.scope is not index.scopes[0]:
        raise Refused("only tensors of the main graph can be outputs of the model")
    if index.producer(tensor) is None:
        raise Refused(f"{label(tensor)} is made by no node, which an output of the model is")
    if name not in rewriting.made and not context.facts.dtype(tensor):
        raise Undecided(f"element type of {label(tensor)} is unknown", "run shape inference")
    _put(rewriting, [*graph.outputs, tensor])
    _gain(rewriting, tensor)


def _put(rewriting: Rewriting, after: list[gs.Tensor]) -> None:
    graph = rewriting.index.graph
    before = list(graph.outputs)
    rewriting.edits.later(setattr, graph, "outputs", before)
    rewriting.edits.declare("model", "outputs", [tensor.name for tensor in before], [tensor.name for tensor in after])
    graph.outputs = after


def _gain(rewriting: Rewriting, tensor: gs.Tensor) -> None:
    index = rewriting.index
    index.list_output(tensor)
    rewriting.edits.later(index.unlist_output, tensor)
    rewriting.context.gained[id(tensor)] = tensor


def _hand_over(rewriting: Rewriting, old: gs.Tensor, new: gs.Tensor) -> None:
    """The node that makes `new` makes the output `old` instead; what made `old` goes on under another name for its readers."""
    index, edits = rewriting.index, rewriting.edits
    makers = index.producer(old), index.producer(new)
    if makers[0] is None or makers[1] is None:
        raise Failure(f"output {old.name!r} is made by no node")
    spare = new_variable(index.names.fresh(f"{old.name}_before"))
    edits.set_outputs(makers[0], [spare if tensor is old else tensor for tensor in makers[0].outputs])
    edits.replace_uses(old, spare)
    edits.replace_uses(new, old)
    edits.set_outputs(makers[1], [old if tensor is new else tensor for tensor in makers[1].outputs])


def complete_outputs(context: Context) -> None:
    """Outputs that a rule added declare what is known of them now that the run is over; a valid model must say it."""
    for tensor in context.gained.values():
        if context.index.output_of(tensor) and isinstance(tensor, gs.Variable):
            dtype, shape = context.facts.dtype(tensor), context.facts.shape(tensor)
            tensor.dtype = element_type(dtype) if dtype else tensor.dtype
            tensor.shape = tensor.shape if shape is None else list(shape)


def _among(tensor: gs.Tensor, tensors: list[gs.Tensor]) -> bool:
    return any(tensor is other for other in tensors)
