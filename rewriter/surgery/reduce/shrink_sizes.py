"""Smaller dimensions for a model: one length gets another, everywhere at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import onnx

from rewriter.errors import RewriterError
from rewriter.onnxfile.tensors import read_tensor, write_tensor
from rewriter.surgery.reduce.some_nodes import graphs

SMALL = (2, 3, 4, 6, 8)
"""Lengths that a dimension is tried with. Not 1, since such a dimension is broadcast, and means something else."""

_MOST_ITEMS = 64  # of a tensor of integers that may hold lengths
_INT64 = int(onnx.TensorProto.INT64)


def lengths(model: onnx.ModelProto) -> list[int]:
    """The lengths of dimensions that might be smaller, those first that most elements of weights hang on."""
    found: Counter[int] = Counter()
    for graph in graphs(model):
        for tensor in graph.initializer:
            count = _count(tensor)
            for dim in set(tensor.dims):
                found[dim] += count
        for info in (*graph.input, *graph.output):
            for dim in info.type.tensor_type.shape.dim:
                found[dim.dim_value] += 1
    return [length for length, _ in found.most_common() if length > SMALL[0]]


def with_length(model: onnx.ModelProto, old: int, new: int, folder: Path | None, *, attributes: bool) -> onnx.ModelProto:
    """The model with another length for all dimensions of one length; short tensors of integers that hold it follow.

    Args:
        folder: of external data.
        attributes: whether attributes that are this number follow, too.

    Raises:
        RewriterError: a weight cannot be read.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for graph in graphs(result):
        for info in (*graph.input, *graph.output, *graph.value_info):
            for dim in info.type.tensor_type.shape.dim:
                if dim.HasField("dim_value") and dim.dim_value == old:
                    dim.dim_value = new
        for tensor in _tensors(graph):
            _shrink(tensor, old, new, folder)
        for node in graph.node if attributes else ():
            _attributes(node, old, new)
    return result


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        yield from (attribute.t for attribute in node.attribute if attribute.HasField("t"))


def _shrink(tensor: onnx.TensorProto, old: int, new: int, folder: Path | None) -> None:
    holds = tensor.data_type == _INT64 and _count(tensor) <= _MOST_ITEMS
    if old not in tensor.dims and not holds:
        return
    array = read_tensor(tensor, folder)[tuple(slice(new if dim == old else dim) for dim in tensor.dims)]
    if holds and (array == old).any():
        array = array.copy()
        array[array == old] = new
    elif old not in tensor.dims:
        return
    tensor.CopyFrom(write_tensor(array, tensor.name, tensor, tensor.data_type))


def _attributes(node: onnx.NodeProto, old: int, new: int) -> None:
    for attribute in node.attribute:
        if attribute.HasField("i") and attribute.i == old:
            attribute.i = new
        for place, item in enumerate(attribute.ints):
            if item == old:
                attribute.ints[place] = new


def _count(tensor: onnx.TensorProto) -> int:
    count = 1
    for dim in tensor.dims:
        count *= max(dim, 0)
    return count


def inline(model: onnx.ModelProto, folder: Path | None, most: int) -> None:
    """Puts small weights that are in other files into the model."""
    for graph in graphs(model):
        for tensor in _tensors(graph):
            if tensor.data_location == onnx.TensorProto.EXTERNAL and _count(tensor) <= most:
                try:
                    tensor.CopyFrom(write_tensor(read_tensor(tensor, folder), tensor.name, tensor, tensor.data_type))
                except RewriterError:
                    continue  # it stays where it is said to be
