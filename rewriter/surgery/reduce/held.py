"""What a model holds as weights, wherever it holds them: who shares a reduced model must not share one that was overlooked.

Besides initializers there are constants of nodes as tensors and as lists, sparse tensors, what local functions hold, and lists
of operators that keep what they learned in attributes, such as trees.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx

from rewriter.surgery.data_files import size_of_proto
from rewriter.surgery.messages import messages
from rewriter.surgery.reduce.some_nodes import bodies, graphs

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
