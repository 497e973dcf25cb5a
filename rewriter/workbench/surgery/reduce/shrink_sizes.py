"""What a model holds as weights, and smaller dimensions for it: one length gets another, everywhere at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from rewriter.core.errors import RewriterError
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.part import bodies, graphs
from rewriter.core.onnxfile.tensors import read_tensor, write_tensor
from rewriter.workbench.surgery.data_files import size_of_proto
from rewriter.workbench.surgery.messages import messages

# What a model holds as weights, wherever it holds them: who shares a reduced model must not share one that was overlooked.
#
# Besides initializers there are constants of nodes as tensors and as lists, sparse tensors, what local functions hold, and
# lists of operators that keep what they learned in attributes, such as trees.

LARGE = 1 << 10
"""Bytes of a weight from which on an input may stand in its place; shorter lists of attributes are no weights."""

Scope = onnx.GraphProto | onnx.FunctionProto

_LISTS = ("value_floats", "value_ints", "value_strings")
_MOST_NAMED = 3


def scopes(model: onnx.ModelProto) -> Iterator[Scope]:
    """The main graph and the functions of a model, and all bodies in them."""
    for whole in (model.graph, *model.functions):
        yield whole
        yield from bodies(whole.node)


def infos(scope: Scope) -> Iterator[onnx.ValueInfoProto]:
    """What declares types in a scope."""
    if isinstance(scope, onnx.GraphProto):
        yield from (*scope.input, *scope.output)
    yield from scope.value_info


def tensors(scope: Scope) -> Iterator[onnx.TensorProto]:
    """The dense tensors of a scope; those of its bodies are theirs."""
    return _held(scope, "initializer", "t", "tensors")


def sparse_tensors(scope: Scope) -> Iterator[onnx.SparseTensorProto]:
    """The same for sparse ones."""
    return _held(scope, "sparse_initializer", "sparse_tensor", "sparse_tensors")


def _held(scope: Scope, listed: str, one: str, several: str) -> Iterator[Any]:
    """Weights by the fields that hold them: of a graph, and of an attribute with one of them or a list."""
    if isinstance(scope, onnx.GraphProto):
        yield from getattr(scope, listed)
    for attribute in _attributes(scope):
        if attribute.HasField(one):
            yield getattr(attribute, one)
        yield from getattr(attribute, several)


def constant_lists(scope: Scope) -> Iterator[tuple[onnx.AttributeProto, str]]:
    """Attributes of Constant that are its value as a list, and the fields that the lists are in."""
    for node in scope.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name in _LISTS:
                    yield attribute, attribute.name.removeprefix("value_")


def _attributes(scope: Scope) -> Iterator[onnx.AttributeProto]:
    for node in scope.node:
        yield from node.attribute
    if isinstance(scope, onnx.FunctionProto):
        yield from scope.attribute_proto


def large_names(model: onnx.ModelProto) -> list[str]:
    """The large weights of the main graph and of bodies, by the names that an input could have in their place."""
    found = []
    for graph in graphs(model):
        found += [tensor.name for tensor in graph.initializer if _size(tensor) >= LARGE]
        found += [sparse.values.name for sparse in graph.sparse_initializer if _size(sparse) >= LARGE]
        found += [node.output[0] for node in graph.node if node.op_type == "Constant" and node.output and _size(node) >= LARGE]
    return list(dict.fromkeys(found))


def weights(model: onnx.ModelProto) -> list[tuple[str, int]]:
    """All weights of a model, each a name and its bytes."""
    found = [(message, _bytes(message)) for message in messages(model)]
    return [(message.name, size) for message, size in found if size]


def staying(model: onnx.ModelProto) -> list[str]:
    """A note of the large weights that are in a reduced model all the same; none where there is none."""
    large = [(name, size) for name, size in weights(model) if size >= LARGE]
    if not large:
        return []
    names = list(dict.fromkeys(repr(name) for name, _ in large))
    named = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
    return [f"weights of {sum(size for _, size in large):,} bytes stay, with their values: {named}"]


def _size(message: onnx.NodeProto | onnx.TensorProto | onnx.SparseTensorProto) -> int:
    return sum(map(_bytes, messages(message)))


def _bytes(message: object) -> int:
    """Bytes of a tensor, or of a list or text in an attribute that is long."""
    if isinstance(message, onnx.TensorProto):
        return sum(map(len, message.string_data)) or size_of_proto(message)
    if not isinstance(message, onnx.AttributeProto):
        return 0
    size = 4 * len(message.floats) + 8 * len(message.ints) + len(message.s) + sum(map(len, message.strings))
    return size if size >= LARGE else 0


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
            _resize_attributes(node, old, new)
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


def _resize_attributes(node: onnx.NodeProto, old: int, new: int) -> None:
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
