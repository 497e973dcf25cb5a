"""The weights of a model that are in other files, whatever holds them: one that is overlooked takes its whole file along."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx

from rewriter.graph.lazy_values import LazySparse, LazyTensor
from rewriter.graph.model import Model
from rewriter.graph.objects import Function, Graph, Node
from rewriter.graph.scopes import find_scopes
from rewriter.graph.values import Constant
from rewriter.onnxfile import external_data
from rewriter.onnxfile.tensors import read_tensor, write_tensor


def constants(model: Model) -> Iterator[Constant]:
    """The initializers of a model, those of its bodies with them."""
    for scope in find_scopes(model.graph):
        if isinstance(scope.graph, Graph):
            yield from (tensor for tensor in scope.graph.initializers if isinstance(tensor, Constant))


def external(tensor: Any) -> bool:
    """Whether the data of a constant are in another file."""
    values = getattr(tensor, "_values", None)
    return (
        isinstance(values, LazyTensor)
        and isinstance(values.proto, onnx.TensorProto)
        and external_data.is_external(values.proto)
    )


def in_attributes(model: Model) -> list[Constant]:
    """The tensors with data in other files that are values of attributes, of nodes and of functions, each once."""
    found = {id(value): value for value in _values(model) if isinstance(value, Constant) and external(value)}
    return list(found.values())


def bring_in_others(model: Model) -> int:
    """Reads into the model what no reference can be changed of: sparse tensors, lists of tensors, training information.

    Returns:
        The number of tensors.
    Raises:
        RewriterError: data are missing.
    """
    count = 0
    for tensor in constants(model):
        if isinstance(tensor._values, LazySparse):
            proto, folder = tensor._values.proto, tensor._values.folder
            if any(map(external_data.is_external, (proto.values, proto.indices))):
                copy = onnx.SparseTensorProto()
                copy.CopyFrom(proto)
                count += _read((copy.values, copy.indices), folder)
                tensor._values = LazySparse(copy, folder)
    lists = [value for value in _values(model) if isinstance(value, onnx.AttributeProto)]
    graphs = [graph for info in model.training_info for graph in (info.initialization, info.algorithm)]
    return count + _read(external_data.tensors_in(graphs, lists), model.folder)


def _read(tensors: Any, folder: Path | None) -> int:
    found = [tensor for tensor in tensors if external_data.is_external(tensor)]
    for tensor in found:
        tensor.CopyFrom(write_tensor(read_tensor(tensor, folder), tensor.name, tensor, tensor.data_type))
    return len(found)


def _values(model: Model) -> Iterator[Any]:
    """The values of those attributes that may refer to other files."""
    for scope in find_scopes(model.graph):
        if isinstance(scope.graph, Function):
            yield from scope.graph.attrs.values()
        for node in scope.graph.nodes:
            if not isinstance(node, Node) or node._attrs is not None or (node.data is not None and b"location" in node.data):
                yield from node.attrs.values()
