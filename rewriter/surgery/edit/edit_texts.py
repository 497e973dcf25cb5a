"""Edits of what a model says beside its graph: documentation, metadata, declarations of inner tensors, names."""

from __future__ import annotations

import onnx

from rewriter.errors import RewriterError
from rewriter.graph.metadata import HISTORY
from rewriter.graph.model import Model
from rewriter.graph.objects import Graph
from rewriter.surgery.edit.editing import Editing, pair
from rewriter.surgery.messages import clear, messages

KINDS = ("doc", "metadata", "value_info", "names")
_FIELDS = {"doc": "doc_string", "metadata": "metadata_props", "value_info": "value_info"}


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
    clear(model, [field for kind, field in _FIELDS.items() if kind in kinds])
    if "names" in kinds:
        for message in messages(model):
            if isinstance(message, onnx.NodeProto):
                message.ClearField("name")
    stripped = Model.from_proto(model, editing.model.folder)
    stripped.constant_inputs = editing.model.constant_inputs
    editing.replace(stripped)
    editing.did.append(f"stripped  {', '.join(kinds)}: {before - model.ByteSize():,} bytes")
