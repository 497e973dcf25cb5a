"""Initializers and constants that two models have both, found by their contents, weights in files without loading them."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.errors import RewriterError
from rewriter.graph.lazy_values import LazyTensor
from rewriter.graph.objects import Node
from rewriter.graph.values import Constant, constant_array, elem_type
from rewriter.onnxfile import external_data
from rewriter.onnxfile.weights_apart import digest
from rewriter.onnxfile.weights_in_files import payload_of
from rewriter.surgery.data_files import size_of_proto
from rewriter.surgery.parts import same_each_time

_RAW_DATA = 9  # the field
_AT_ONCE = 1 << 20
_BEGINNING = 256  # bytes that mostly tell two initializers apart


class Known:
    """The initializers of a model by what they hold. Their contents are looked at only when another one has their type."""

    def __init__(self, tensors: list[gs.Tensor]) -> None:
        self._by_type: dict[tuple[Any, ...], list[Constant]] = {}
        self._digests: dict[int, str | None] = {}
        for tensor in tensors:
            self.add(tensor)

    def add(self, tensor: gs.Tensor) -> None:
        if isinstance(tensor, Constant):
            self._by_type.setdefault(_type(tensor), []).append(tensor)

    def like(self, tensor: gs.Tensor) -> Constant | None:
        """An initializer of the same type and contents; of several one of the same name."""
        if not isinstance(tensor, Constant):
            return None
        candidates = self._by_type.get(_type(tensor))
        if not candidates:
            return None
        first = beginning(tensor)
        candidates = [other for other in candidates if first is None or beginning(other) in (None, first)]
        wanted = self._digest(tensor) if candidates else None
        found = [other for other in candidates if wanted is not None and self._digest(other) == wanted]
        return next((other for other in found if other.name == tensor.name), found[0] if found else None)

    def _digest(self, tensor: Constant) -> str | None:
        if id(tensor) not in self._digests:
            try:
                self._digests[id(tensor)] = contents_digest(tensor)
            except RewriterError:
                self._digests[id(tensor)] = None
        return self._digests[id(tensor)]


def beginning(tensor: Constant) -> bytes | None:
    """The first bytes of an initializer that is in a file; None for others, of which the digest costs little."""
    values = tensor._values
    if not isinstance(values, LazyTensor) or not isinstance(values.proto, onnx.TensorProto):
        return None
    try:
        left_out = payload_of(values.proto)
        if left_out is not None and left_out.field == _RAW_DATA:
            return left_out.file.read(left_out.offset, min(_BEGINNING, left_out.length))
        if external_data.is_external(values.proto) and values.folder is not None:
            place = external_data.reference(values.proto)
            with external_data.opened(values.folder, place.location) as (descriptor, _):
                return os.pread(descriptor, min(_BEGINNING, size_of_proto(values.proto)), place.offset)
    except RewriterError:
        return None
    return bytes(values.proto.raw_data[:_BEGINNING]) if values.proto.HasField("raw_data") else None


def contents_digest(tensor: Constant) -> str:
    """SHA-256 of the bytes of an initializer; equal ones may be stored in different ways. Raises RewriterError."""
    values = tensor._values
    if isinstance(values, LazyTensor) and isinstance(values.proto, onnx.TensorProto):
        proto = values.proto
        left_out = payload_of(proto)
        if left_out is not None and left_out.field == _RAW_DATA:
            return digest([left_out])
        if external_data.is_external(proto) and values.folder is not None:
            return _external_digest(proto, values.folder)
        if proto.HasField("raw_data"):
            return sha256(proto.raw_data).hexdigest()
    array = constant_array(tensor)
    data = repr(array.tolist()).encode() if array.dtype.hasobject else None
    return sha256(array.tobytes() if data is None else data).hexdigest()


def _external_digest(proto: onnx.TensorProto, folder: Path) -> str:
    place, size = external_data.reference(proto), size_of_proto(proto)
    found = sha256()
    with external_data.opened(folder, place.location) as (descriptor, _):
        for offset in range(place.offset, place.offset + size, _AT_ONCE):
            found.update(os.pread(descriptor, min(_AT_ONCE, place.offset + size - offset), offset))
    return found.hexdigest()


def _type(tensor: Constant) -> tuple[Any, ...]:
    listed = tensor.name if tensor.listed else None  # callers may override it by its name
    return elem_type(tensor), tuple(tensor.shape), isinstance(tensor.proto, onnx.SparseTensorProto), listed


def unite_constant_nodes(first: list[gs.Node], second: list[gs.Node], wired: dict[int, gs.Tensor]) -> set[int]:
    """Finds nodes of the second model that the first has as well, and that are computed from constants alone.

    Args:
        first, second: the nodes.
        wired: what tensors of the second model, by id(), become; what these nodes make is added.

    Returns:
        The nodes of the second model that are not needed, by id().
    """
    known: dict[bytes | None, gs.Node] = {data: node for node in first if (data := _bytes(node)) is not None}
    fixed = {number for number, tensor in wired.items() if isinstance(tensor, gs.Constant)}
    found: set[int] = set()
    for node in second:
        like = known.get(_bytes(node))
        if like is None or not same_each_time(node):
            continue
        pairs = [pair for pair in zip(node.inputs, like.inputs, strict=True) if pair[0].name or pair[1].name]
        if all(id(own) in fixed and wired[id(own)] is other for own, other in pairs):
            found.add(id(node))
            made = [(id(own), other) for own, other in zip(node.outputs, like.outputs, strict=True)]
            wired.update(made)
            fixed.update(number for number, _ in made)
    return found


def _bytes(node: gs.Node) -> bytes | None:
    """What a node was read from; None when it has become another operator since, or has other attributes or operands."""
    if not isinstance(node, Node) or node._read is None:
        return None
    before = node._read[0], node._read[2], len(node._read[3])
    edited = before != (node.op, node.domain, len(node.inputs)) or (node._attrs is not None and node._attrs is not node._loaded)
    return None if edited else node.data
