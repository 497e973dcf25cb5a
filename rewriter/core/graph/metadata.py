"""The texts of a node and the devices that it runs on, which do not affect its outputs, and the notes that this program adds.

The texts of a node, its doc_string and metadata_props, are in its message, which is never changed. If a node got other texts,
the node itself keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.onnxfile.tensors import text

HISTORY = "rewriter.history"
"""Of the model's metadata_props: the runs that changed it (`rewriter.trust.stamp`)."""

RULES = "rewriter.rules"
"""Of a node's metadata_props: the rules that made or changed it, separated by spaces."""


class NodeTexts(NamedTuple):
    doc_string: str
    metadata: Mapping[str, str]


def node_texts(node: gs.Node) -> NodeTexts:
    """The texts of a node; all are empty if the node is not of this package."""
    changed: NodeTexts | None = getattr(node, "texts", None)
    proto: onnx.NodeProto | None = getattr(node, "proto", None)
    if changed is not None or proto is None:
        return changed or NodeTexts("", {})
    return NodeTexts(text(proto.doc_string), {text(entry.key): text(entry.value) for entry in proto.metadata_props})


def write_texts(message: onnx.NodeProto, texts: NodeTexts) -> None:
    """Puts texts into a message, which is edited; entries of the metadata keep their order."""
    message.ClearField("doc_string")
    if texts.doc_string:
        message.doc_string = texts.doc_string
    message.ClearField("metadata_props")
    message.metadata_props.extend(onnx.StringStringEntryProto(key=key, value=value) for key, value in texts.metadata.items())


def rename_sharded(message: onnx.NodeProto, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Edits the device settings of a message: they get the names that the operands and results are going to have."""
    names: dict[str, str] = {}
    for before, now in ((message.input, inputs), (message.output, outputs)):
        if len(before) == len(now):
            names.update(zip(reversed(before), reversed(now), strict=True))  # of a tensor read twice the first place counts
    for device in message.device_configurations:
        for spec in device.sharding_spec:
            if spec.tensor_name and names.get(spec.tensor_name):
                spec.tensor_name = names[spec.tensor_name]
