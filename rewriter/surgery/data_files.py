"""Weights beside a model that is a part of another, or made of several: it gets a data file of its own, with what it needs.

The bytes go from file to file by the system and never through memory.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from rewriter.errors import RewriterError
from rewriter.graph.lazy_values import LazyTensor
from rewriter.graph.model import Model
from rewriter.graph.values import Constant
from rewriter.onnxfile import external_data
from rewriter.onnxfile.tensor_types import numpy_dtype
from rewriter.onnxfile.transfer import transfer, write_all
from rewriter.onnxfile.weights_in_files import payload_of
from rewriter.onnxfile.write import check_target, new_file, signals_deferred, sync_folder
from rewriter.record import record
from rewriter.surgery.weights_outside import bring_in_others, constants, external, in_attributes

ALIGNMENT = 4096
"""Of tensors in a data file: runtimes map them into memory, and the system does that by pages."""

LEAST = 1024
"""Bytes of a tensor from which on it may go to a data file."""

_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}


@record(frozen=True, slots=True)
class _Place:
    """Where bytes are now (a data file of a model, or None for those in a message), and where they go."""

    tensor: Constant
    offset: int
    length: int
    shared: bool


def save(model: Model, target: Path, *, force: bool = False) -> list[Path]:
    """Writes a model; what it refers to in other files goes to a file of its own, `NAME.data`. The files that were written.

    Raises:
        RewriterError: a file exists or cannot be written, or data of the model are missing.
    """
    bring_in_others(model)
    moved = [*filter(external, constants(model)), *in_attributes(model)]
    if not moved:
        model.save(target, force=force)
        return [target]
    return save_apart(model, target, moved, force=force)


def save_apart(
    model: Model,
    target: Path,
    moved: Sequence[Constant],
    *,
    force: bool = False,
    location: str | None = None,
    judged: Callable[[], None] = lambda: None,
) -> list[Path]:
    """Writes a model with the data of some constants in one file beside it, all that are in other files among them. Errors as
    for `save`.

    `judged` is called when the model refers to the data, which have a temporary name until it returns.
    """
    location = location or f"{target.name}.data"
    data = external_data.resolve(target.parent, location)
    check_target(target, force)
    check_target(data, force)
    places = list(_placed(moved))
    existed = data.exists()
    folder = Path(os.path.abspath(target.parent))
    with new_file(data, lambda descriptor: _fill(descriptor, places), force) as file:
        model.folder = folder
        _refer(places, os.path.relpath(file.place, target.parent).replace(os.sep, "/"), folder)
        judged()
        _refer(places, location, folder)
        file.sync()
        with signals_deferred():
            file.name()
            try:
                sync_folder(data.parent)
                model.save(target, force=force)
            except BaseException:
                if not existed:
                    data.unlink(missing_ok=True)
                raise
    return [target, data]


def size_of(tensor: gs.Constant) -> int:
    """Bytes of the values of a constant, as a file holds them; nothing is read."""
    values = tensor._values
    number = values.elem_type if isinstance(values, LazyTensor) else None
    if number is None:
        return int(np.asarray(values).nbytes) if not isinstance(values, LazyTensor) else 0
    if isinstance(values.proto, onnx.SparseTensorProto):
        return size_of_proto(values.proto.values) + size_of_proto(values.proto.indices)
    return size_of_proto(values.proto)


def size_of_proto(proto: onnx.TensorProto) -> int:
    """Bytes of the values of a tensor, by its type and shape."""
    dtype, count = numpy_dtype(proto.data_type), 1
    for dim in proto.dims:
        count *= dim
    return (count * _BITS.get(proto.data_type, 0 if dtype is None else dtype.itemsize * 8) + 7) // 8


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
    for place in places:
        if not place.shared:
            os.lseek(descriptor, place.offset, os.SEEK_SET)
            _copy(place, descriptor)


def _copy(place: _Place, descriptor: int) -> None:
    tensor, values = place.tensor, place.tensor._values
    if not isinstance(values, LazyTensor):
        write_all(descriptor, np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)
    elif external(tensor):
        source = external_data.reference(values.proto)
        if values.folder is None:
            raise RewriterError(f"tensor {tensor.name!r}: its data are in {source.location!r}, in a folder that is not known")
        if source.length is not None and source.length != place.length:
            raise RewriterError(
                f"tensor {tensor.name!r}: {source.length} bytes of external data, but its type and shape need {place.length}"
            )
        with external_data.opened(values.folder, source.location) as (descriptor_in, size):
            if source.offset + place.length > size:
                raise RewriterError(f"tensor {tensor.name!r}: its data end behind the end of {source.location!r}")
            transfer(descriptor_in, source.offset, place.length, descriptor)
    elif (found := payload_of(values.proto)) is not None and found.length == place.length:
        found.file.check()
        transfer(found.file.descriptor, found.offset, found.length, descriptor)
    elif values.proto.HasField("raw_data") and len(values.proto.raw_data) == place.length:
        write_all(descriptor, values.proto.raw_data)
    else:
        array = np.ascontiguousarray(values.load())
        write_all(descriptor, onnx.numpy_helper.from_array(array).raw_data)


def _refer(places: Sequence[_Place], location: str, folder: Path) -> None:
    """Has constants say that their data are in the data file."""
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
    message.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", place.offset), ("length", place.length)):
        message.external_data.add(key=key, value=str(value))
    return message


__all__ = ["ALIGNMENT", "LEAST", "save", "save_apart", "size_of", "size_of_proto"]
