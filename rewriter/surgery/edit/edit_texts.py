"""Edits of what a model says beside its graph: documentation, metadata, declarations of inner tensors, names."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from rewriter.errors import RewriterError
from rewriter.graph.metadata import HISTORY
from rewriter.graph.model import Model
from rewriter.graph.objects import Graph
from rewriter.surgery.edit.editing import Editing, pair

KINDS = ("doc", "metadata", "value_info", "names")


def doc(editing: Editing, text: str) -> None:
    """Sets the model's doc string."""
    assert isinstance(editing.graph, Graph)
    editing.graph.model_doc_string = text
    editing.did.append("doc")


def meta(editing: Editing, text: str) -> None:
    """`KEY=VALUE` in the model's metadata; an empty value takes the key away. Raises RewriterError."""
    key, value = pair(text, "KEY=VALUE")
    if key == HISTORY:
        raise RewriterError(f"{HISTORY} is the record of what was done to the model; --strip metadata takes it away")
    if value:
        editing.model.metadata[key] = value
    elif editing.model.metadata.pop(key, None) is None:
        raise RewriterError(f"there is no metadata entry {key!r}")
    editing.did.append(f"metadata  {key}")


def strip(editing: Editing, text: str) -> None:
    """Takes away doc strings, metadata, declarations of inner tensors, or the names of nodes: a list of these words.

    Raises:
        RewriterError: it holds another word.
    """
    kinds = [word.strip() for word in text.split(",") if word.strip()]
    if not kinds or (unknown := [word for word in kinds if word not in KINDS]):
        raise RewriterError(f"{(unknown if kinds else [text])[0]!r} cannot be stripped; there is {', '.join(KINDS)}")
    editing.settle()
    model = editing.model.sketch()
    before = model.ByteSize()
    for message in _messages(model):
        if "doc" in kinds and "doc_string" in message.DESCRIPTOR.fields_by_name:
            message.ClearField("doc_string")
        if "metadata" in kinds and "metadata_props" in message.DESCRIPTOR.fields_by_name:
            message.ClearField("metadata_props")
        if "value_info" in kinds and isinstance(message, (onnx.GraphProto, onnx.FunctionProto)):
            message.ClearField("value_info")
        if "names" in kinds and isinstance(message, onnx.NodeProto):
            message.ClearField("name")
    stripped = Model.from_proto(model, editing.model.folder)
    stripped.constant_inputs = editing.model.constant_inputs
    editing.replace(stripped)
    editing.did.append(f"stripped  {', '.join(kinds)}: {before - model.ByteSize():,} bytes")


def _messages(model: onnx.ModelProto) -> Iterator[onnx.ModelProto | onnx.GraphProto | onnx.NodeProto | onnx.FunctionProto]:
    """Everything in a model that can hold a doc string or metadata; it may be changed."""
    yield model
    waiting: list[onnx.GraphProto | onnx.FunctionProto] = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        yield graph
        if isinstance(graph, onnx.GraphProto):
            yield from (*graph.input, *graph.output, *graph.initializer)
        yield from graph.value_info
        for node in graph.node:
            yield node
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    waiting.append(attribute.g)
                waiting.extend(attribute.graphs)
