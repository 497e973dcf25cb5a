"""The modules of the framework that nodes belong to, as the exporter recorded them or named the nodes."""

from __future__ import annotations

import re

import onnx

from rewriter.onnxfile.tensors import text

SCOPES = "pkg.torch.onnx.name_scopes"
"""Metadata in which PyTorch's dynamo exporter lists the modules around a node, outermost first."""


def module_of(node: onnx.NodeProto, name: str) -> list[str]:
    """The modules around a node, outermost first: what the exporter recorded, or the parts of its name between slashes."""
    for entry in node.metadata_props:
        if text(entry.key) == SCOPES:
            scopes = [scope for scope in re.findall(r"'([^']*)'", text(entry.value))[:-1] if scope]
            return [scope.rpartition(".")[2] for scope in scopes]
    return [part for part in name.split("/")[:-1] if part]
