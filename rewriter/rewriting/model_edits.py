"""Edits of what belongs to the model as a whole: its interface, its opset imports, its ir_version and metadata."""

from __future__ import annotations

from typing import Any

import onnx_graphsurgeon as gs

from rewriter.conditions.model_fields import MODEL_TEXTS
from rewriter.conditions.rule_values import Failure
from rewriter.rewriting.model_outputs import set_outputs
from rewriter.rewriting.opset_edits import set_opset
from rewriter.rewriting.transaction import Rewriting


def set_model_field(rewriting: Rewriting, field: str, at: Any, value: Any) -> None:
    """`model.ir_version = 8`, `model.opset["ai.onnx.ml"] = 3`, `model.producer_name = "..."`, `model.outputs = [...]`.
    Raises Failure for other fields.
    """
    graph = rewriting.index.graph
    if field == "opset" and isinstance(value, int):
        set_opset(rewriting.index, rewriting.edits, rewriting.scope, "" if at is None else str(at), value)
    elif field == "outputs" and at is None and isinstance(value, list):
        set_outputs(rewriting, value)
    elif (field == "ir_version" and isinstance(value, int)) or _is_text(graph, field, value):
        kept = MODEL_TEXTS.get(field, field)
        before = getattr(graph, kept, None)
        if before != value:
            rewriting.edits.later(setattr, graph, kept, before)
            rewriting.edits.declare("model", field, before, value)
            setattr(graph, kept, value)
    else:
        raise Failure(f"model.{field} cannot be set to this")


def _is_text(graph: gs.Graph, field: str, value: Any) -> bool:
    """Whether a text of the model is set to one. A plain graph of graphsurgeon's has no place for all of them."""
    return field in MODEL_TEXTS and isinstance(value, str) and hasattr(graph, MODEL_TEXTS[field])


def drop_input(rewriting: Rewriting, tensor: gs.Tensor) -> bool:
    """Removes a graph input that nothing reads; False when it is no input. Raises Failure when it is read."""
    graph = rewriting.index.graph
    if not any(item is tensor for item in graph.inputs):
        return False
    if rewriting.index.is_used(tensor):
        raise Failure(f"input {tensor.name!r} is still used")
    _replace(rewriting, graph, "inputs", tensor)
    return True


def drop_output(rewriting: Rewriting, tensor: gs.Tensor) -> bool:
    """Removes a graph output, and what nobody needs without it; False when it is no output."""
    graph = rewriting.index.graph
    if not any(item is tensor for item in graph.outputs):
        return False
    if len(graph.outputs) == 1:
        raise Failure("the last output of a graph cannot be removed")
    _replace(rewriting, graph, "outputs", tensor)
    rewriting.index.unlist_output(tensor)
    rewriting.edits.later(rewriting.index.list_output, tensor)
    rewriting.edits.released[id(tensor)] = tensor
    return True


def _replace(rewriting: Rewriting, graph: gs.Graph, side: str, tensor: gs.Tensor) -> None:
    before = list(getattr(graph, side))
    rewriting.edits.later(setattr, graph, side, before)
    rewriting.edits.retyped[id(tensor)] = tensor
    rewriting.edits.declare(side.removesuffix("s"), tensor.name, (tensor.dtype, tensor.shape), None)
    setattr(graph, side, [item for item in before if item is not tensor])
