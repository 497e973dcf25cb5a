"""Edits of what belongs to the model as a whole: its interface, its opset imports, its ir_version and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.conditions.model_fields import MODEL_TEXTS
from rewriter.conditions.rule_values import Failure
from rewriter.graph.metadata import HISTORY, RULES
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
    elif field == "metadata_props" and isinstance(at, str) and isinstance(value, str):
        _set_metadata(rewriting, at, value)
    elif (field == "ir_version" and isinstance(value, int)) or _is_text(graph, field, value):
        kept = MODEL_TEXTS.get(field, field)
        before = getattr(graph, kept, None)
        if before != value:
            rewriting.edits.later(setattr, graph, kept, before)
            rewriting.edits.declare("model", field, before, value)
            setattr(graph, kept, value)
    else:
        raise Failure(f"model.{field} cannot be set to this")


def changed_entry(entries: Mapping[str, str], key: str, value: str) -> dict[str, str]:
    """Entries with another value, or without the key where the value is empty. Raises Failure for keys that rewriter writes."""
    if key in (HISTORY, RULES):
        raise Failure(f"metadata_props[{key!r}] is written by rewriter itself")
    return {name: text for name, text in {**entries, key: value}.items() if text or name != key}


def _set_metadata(rewriting: Rewriting, key: str, value: str) -> None:
    graph = rewriting.index.graph
    entries = vars(graph).get("model_metadata")
    if entries is None:
        raise Failure("this graph is not that of a model, and has no metadata_props")
    before = dict(entries)
    after = changed_entry(before, key, value)
    if after != before:
        rewriting.edits.later(_replace_entries, entries, before)
        rewriting.edits.declare("model", f'metadata_props["{key}"]', before.get(key, ""), value)
        _replace_entries(entries, after)


def _replace_entries(entries: dict[str, str], now: Mapping[str, str]) -> None:
    entries.clear()
    entries.update(now)


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
