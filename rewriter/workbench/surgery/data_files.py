"""Weights in other files than the model: found in every kind of message, and moved along with a part or a merged model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import Function, Graph, Node, find_scopes
from rewriter.core.graph.values import Constant, LazySparse, LazyTensor
from rewriter.core.isolation.child import signals_wait
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.files import NewFile, check_target, sync_folder
from rewriter.core.onnxfile.model_file import Payload, WeightFile, payload_of, write_pieces
from rewriter.core.onnxfile.tensors import byte_size, read_tensor, write_tensor
from rewriter.core.record import record

# All weights of a model that are in other files: overlooking one would copy its whole file along.


def constants(model: Model) -> Iterator[Constant]:
    """The initializers of a model and of its bodies."""
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
    """Reads data into the model whose references cannot be changed: sparse tensors, lists of tensors, training information.

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
                copy = deepcopy(proto)
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
    """The values of the attributes that may refer to other files."""
    for scope in find_scopes(model.graph):
        if isinstance(scope.graph, Function):
            yield from scope.graph.attrs.values()
        for node in scope.graph.nodes:
            if not isinstance(node, Node) or node._attrs is not None or (node.data is not None and b"location" in node.data):
                yield from node.attrs.values()


ALIGNMENT = 4096
"""Alignment of tensors in a data file: runtimes map them into memory, and the system maps pages."""

RAW_DATA = 9
"""The number of the field."""

LEAST = 1024
"""Smallest size of a tensor, in bytes, that may go to a data file."""


class DataFiles:
    """The data files of models, each opened when the first tensor refers to it."""

    def __init__(self) -> None:
        self._files: dict[tuple[Path, str], WeightFile] = {}

    def opened(self, folder: Path, location: str) -> WeightFile:
        """A data file. Raises RewriterError when it is missing, or not allowed."""
        file = self._files.get((folder, location))
        if file is None:
            with external_data.opened(folder, location) as (descriptor, _):
                file = self._files[folder, location] = WeightFile(os.dup(descriptor), location)
        return file

    def contents(self, tensor: gs.Constant) -> bytes | Payload:
        """The values of a constant as a file stores them; data in a file are not read.

        Raises:
            RewriterError: the data are missing, or do not match the type and shape.
        """
        values = tensor._values
        if not isinstance(values, LazyTensor):
            return np.ascontiguousarray(values).tobytes()
        size, proto = size_of(tensor), values.proto
        if isinstance(proto, onnx.TensorProto):
            if external_data.is_external(proto):
                return self._place(tensor.name, proto, values.folder, size)
            if (found := payload_of(proto)) is not None and found.length == size:
                return found
            if proto.HasField("raw_data") and len(proto.raw_data) == size:
                return bytes(proto.raw_data)
        return bytes(onnx.numpy_helper.from_array(np.ascontiguousarray(values.load())).raw_data)

    def _place(self, name: str, proto: onnx.TensorProto, folder: Path | None, size: int) -> Payload:
        place = external_data.reference(proto)
        if folder is None:
            raise RewriterError(f"tensor {name!r}: its data are in {place.location!r}, in a folder that is not known")
        if place.length is not None and place.length != size:
            raise RewriterError(f"tensor {name!r}: {place.length} bytes of external data, but its type and shape need {size}")
        file = self.opened(folder, place.location)
        if place.offset + size > file.size:
            raise RewriterError(f"tensor {name!r}: its data end after the end of {place.location!r}")
        return Payload(file, place.offset, size, RAW_DATA)


@record(frozen=True, slots=True)
class _Place:
    """The place where bytes are now (a data file of a model, or None for bytes in a message), and their new place."""

    tensor: Constant
    offset: int
    length: int
    shared: bool


def save(model: Model, target: Path, *, force: bool = False) -> list[Path]:
    """Writes a model, and its data in other files to one file of its own, `NAME.data`. Returns the files that were written.

    Raises:
        RewriterError: a file exists or cannot be written, or data of the model are missing.
    """
    bring_in_others(model)
    moved = [*filter(external, constants(model)), *in_attributes(model)]
    if not moved:
        model.write(target, force=force)
        return [target]
    return save_apart(model, target, moved, force=force)


def save_apart(
    model: Model,
    target: Path,
    moved: Sequence[Constant],
    *,
    force: bool = False,
    location: str | None = None,
    check: Callable[[], None] = lambda: None,
) -> list[Path]:
    """Writes a model, with the data of some constants, and all data in other files, in one file next to it. Errors as for
    `save`.

    `check` is called once the model refers to the data, whose file has a temporary name until `check` returns.
    """
    location = location or f"{target.name}.data"
    data = external_data.resolve(target.parent, location)
    check_target(target, force)
    check_target(data, force)
    places = list(_placed(moved))
    existed = data.exists()
    folder = Path(os.path.abspath(target.parent))
    with NewFile(data, force) as file:
        file.fill(lambda descriptor: _fill(descriptor, places))
        model.folder = folder
        _refer(places, os.path.relpath(file.place, target.parent).replace(os.sep, "/"), folder)
        check()
        _refer(places, location, folder)
        file.sync()
        with signals_wait():
            file.name()
            try:
                sync_folder(data.parent)
                model.write(target, force=force)
            except BaseException:
                if not existed:
                    data.unlink(missing_ok=True)
                raise
    return [target, data]


def size_of(tensor: gs.Constant) -> int:
    """Bytes of the values of a constant, as a file stores them; nothing is read."""
    values = tensor._values
    number = values.elem_type if isinstance(values, LazyTensor) else None
    if number is None:
        return int(np.asarray(values).nbytes) if not isinstance(values, LazyTensor) else 0
    if isinstance(values.proto, onnx.SparseTensorProto):
        return size_of_proto(values.proto.values) + size_of_proto(values.proto.indices)
    return size_of_proto(values.proto)


def size_of_proto(proto: onnx.TensorProto) -> int:
    """Bytes of the values of a tensor, by its type and shape."""
    return byte_size(proto.data_type, prod(proto.dims))


def _placed(moved: Sequence[Constant]) -> Iterator[_Place]:
    end, known = 0, dict[tuple[str, str, int, int | None], tuple[int, int]]()
    for tensor in moved:
        key = _source_key(tensor)
        if key is not None and key in known:
            yield _Place(tensor, *known[key], shared=True)
            continue
        offset, length = -(-end // ALIGNMENT) * ALIGNMENT, size_of(tensor)
        if key is not None:
            known[key] = offset, length
        yield _Place(tensor, offset, length, shared=False)
        end = offset + length


def _source_key(tensor: Constant) -> tuple[str, str, int, int | None] | None:
    if not external(tensor):
        return None
    place = external_data.reference(tensor._values.proto)
    return str(tensor._values.folder), place.location, place.offset, place.length


def _fill(descriptor: int, places: Sequence[_Place]) -> None:
    files = DataFiles()
    for place in places:
        if not place.shared:
            os.lseek(descriptor, place.offset, os.SEEK_SET)
            write_pieces(descriptor, [files.contents(place.tensor)])


def _refer(places: Sequence[_Place], location: str, folder: Path) -> None:
    """Makes constants refer to the data file."""
    for place in places:
        place.tensor._values = LazyTensor(_reference(place, location), folder)


def _reference(place: _Place, location: str) -> onnx.TensorProto:
    tensor, values = place.tensor, place.tensor._values
    message = onnx.TensorProto(name=tensor.name)
    if isinstance(values, LazyTensor):
        message.data_type = values.elem_type
        message.dims.extend(values.shape)
        if values.proto.HasField("doc_string"):
            message.doc_string = values.proto.doc_string
        message.metadata_props.extend(values.proto.metadata_props)
    else:
        message.data_type = onnx.helper.np_dtype_to_tensor_dtype(np.asarray(values).dtype)
        message.dims.extend(np.asarray(values).shape)
    external_data.refer(message, location=location, offset=place.offset, length=place.length)
    return message
