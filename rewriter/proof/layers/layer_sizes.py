"""How many bytes each tensor of a model will take for given inputs, before it is run: what fits into a memory budget."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np
import onnx

from rewriter.errors import RewriterError
from rewriter.facts.facts import Facts
from rewriter.graph.index import GraphIndex
from rewriter.graph.model import Model
from rewriter.proof.models.model_inputs import Feed

SMALL = 1024
"""Bytes of an initializer that may hold a shape and is therefore kept; of larger ones only the type matters."""


def expected_sizes(model: onnx.ModelProto, feed: Feed, tensors: Iterable[str]) -> dict[str, int]:
    """Bytes of tensors of the main graph; those whose shape cannot be told in advance are left out."""
    try:
        graph = Model.from_proto(_skeleton(model, feed)).graph
    except RewriterError:
        return {}
    facts = Facts(GraphIndex(graph))
    made = {tensor.name: tensor for node in graph.nodes for tensor in node.outputs}
    found = {}
    for name in tensors:
        tensor = made.get(name)
        if tensor is None:
            continue
        shape, dtype = facts.shape(tensor), facts.dtype(tensor)
        if shape is not None and all(isinstance(dim, int) for dim in shape):
            found[name] = prod(dim for dim in shape if isinstance(dim, int)) * _item_size(dtype)
    return found


def _item_size(dtype: int | None) -> int:
    try:
        return max(1, int(onnx.helper.tensor_dtype_to_np_dtype(dtype or 0).itemsize))
    except KeyError:
        return 8


def _skeleton(model: onnx.ModelProto, feed: Feed) -> onnx.ModelProto:
    """The model without weights, and with inputs of the fed shapes."""
    graph = onnx.GraphProto(name="skeleton", node=model.graph.node)
    listed = set()
    for tensor in model.graph.initializer:
        if prod(tensor.dims) * _item_size(tensor.data_type) <= SMALL and not tensor.external_data:
            graph.initializer.append(tensor)
        else:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
        listed.add(tensor.name)
    for info in model.graph.input:
        if info.name not in listed:
            fed = onnx.ValueInfoProto()
            fed.CopyFrom(info)
            if info.name in feed and info.type.WhichOneof("value") == "tensor_type":
                fed.type.tensor_type.shape.Clear()
                fed.type.tensor_type.shape.dim.extend(
                    onnx.TensorShapeProto.Dimension(dim_value=size) for size in np.shape(feed[info.name])
                )
            graph.input.append(fed)
    return onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions, graph=graph)
