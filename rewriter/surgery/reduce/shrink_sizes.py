"""Smaller dimensions for a model: one length gets another, everywhere at once."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from itertools import chain
from pathlib import Path

import numpy as np
import onnx

from rewriter.errors import RewriterError
from rewriter.onnxfile import external_data
from rewriter.onnxfile.tensors import read_tensor, write_tensor
from rewriter.surgery.reduce.held import Scope, constant_lists, infos, scopes, sparse_tensors, tensors

SMALL = (2, 3, 4, 6, 8)
"""Lengths that a dimension is tried with. Not 1, since such a dimension is broadcast, and means something else."""

_MOST_ITEMS = 64  # of a tensor of integers that may hold lengths
_INT64 = int(onnx.TensorProto.INT64)


def lengths(model: onnx.ModelProto) -> list[int]:
    """The lengths of dimensions that might be smaller, those first that most elements of weights hang on."""
    found: Counter[int] = Counter()
    for scope in scopes(model):
        for tensor in chain[onnx.TensorProto | onnx.SparseTensorProto](tensors(scope), sparse_tensors(scope)):
            count = _count(tensor)
            for dim in set(tensor.dims):
                found[dim] += count
        for attribute, field in constant_lists(scope):
            found[len(getattr(attribute, field))] += len(getattr(attribute, field))
        for info in infos(scope) if isinstance(scope, onnx.GraphProto) else ():
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
    for scope in scopes(result):
        for info in infos(scope):
            for dim in info.type.tensor_type.shape.dim:
                if dim.HasField("dim_value") and dim.dim_value == old:
                    dim.dim_value = new
        for tensor in tensors(scope):
            _shrink(tensor, old, new, folder)
        for sparse in sparse_tensors(scope):
            _shrink_sparse(sparse, old, new, folder)
        _shrink_lists(scope, old, new)
        for node in scope.node if attributes else ():
            _attributes(node, old, new)
    return result


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


def _shrink_sparse(sparse: onnx.SparseTensorProto, old: int, new: int, folder: Path | None) -> None:
    """Keeps the elements that are still inside."""
    if old not in sparse.dims:
        return
    shape = tuple(sparse.dims)
    small = tuple(new if dim == old else dim for dim in shape)
    indices, values = read_tensor(sparse.indices, folder), read_tensor(sparse.values, folder).reshape(-1)
    try:
        places = indices.T if indices.ndim == 2 else np.stack(np.unravel_index(indices, shape))
        kept = (places < np.reshape(small, (-1, 1))).all(axis=0)
        left = places[:, kept].T if indices.ndim == 2 else np.ravel_multi_index(tuple(places[:, kept]), small)
        values = values[kept]
    except (ValueError, IndexError) as error:
        raise RewriterError(f"sparse tensor {sparse.values.name!r}: its indices do not fit its shape") from error
    sparse.indices.CopyFrom(write_tensor(left.astype(np.int64), sparse.indices.name, sparse.indices))
    sparse.values.CopyFrom(write_tensor(values, sparse.values.name, sparse.values, sparse.values.data_type))
    sparse.ClearField("dims")
    sparse.dims.extend(small)


def _shrink_lists(scope: Scope, old: int, new: int) -> None:
    for attribute, field in constant_lists(scope):
        items = getattr(attribute, field)
        if len(items) == old:
            del items[new:]
        for place, item in enumerate(items if field == "ints" and len(items) <= _MOST_ITEMS else ()):
            if item == old:
                items[place] = new


def _attributes(node: onnx.NodeProto, old: int, new: int) -> None:
    for attribute in node.attribute:
        if attribute.HasField("i") and attribute.i == old:
            attribute.i = new
        for place, item in enumerate(attribute.ints):
            if item == old:
                attribute.ints[place] = new


def _count(tensor: onnx.TensorProto | onnx.SparseTensorProto) -> int:
    count = 1
    for dim in tensor.dims:
        count *= max(dim, 0)
    return count


def inline(model: onnx.ModelProto, folder: Path | None, most: int) -> None:
    """Puts small weights that are in other files into the model."""
    for tensor in external_data.tensors_of(model):
        if external_data.is_external(tensor) and _count(tensor) <= most:
            with suppress(RewriterError):  # it stays where it is said to be
                tensor.CopyFrom(write_tensor(read_tensor(tensor, folder), tensor.name, tensor, tensor.data_type))
