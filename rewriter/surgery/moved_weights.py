"""`rewriter save`: weights moved into a file beside the model, or into the model."""

from __future__ import annotations

from pathlib import Path

import onnx

from rewriter.errors import RewriterError
from rewriter.graph.lazy_values import LazyTensor
from rewriter.graph.model import Model
from rewriter.graph.values import Constant
from rewriter.onnxfile import external_data
from rewriter.onnxfile.weights_in_files import Payload, WeightFile
from rewriter.surgery.data_files import LEAST, constants, external, save, save_apart, size_of, size_of_proto

_RAW_DATA = 9
_STRING = 8
_WHOLE = frozenset((6, 7))
"""Element types of shapes and axes, which shape inference reads and ONNX Runtime does not look up in other files for it."""


def move_out(model: Model, target: Path, *, least: int = LEAST, location: str | None = None, force: bool = False) -> list[Path]:
    """Writes a model with its weights of at least so many bytes in one file beside it; the files that were written.

    Raises:
        RewriterError: a file exists or cannot be written, or data of the model are missing.
    """
    moved = [tensor for tensor in constants(model) if external(tensor) or _may_go(tensor, least)]
    if not moved:
        raise RewriterError(f"no weight has {least:,} bytes or more; --threshold sets another limit")
    return save_apart(model, target, moved, force=force, location=location)


def move_in(model: Model, target: Path, *, force: bool = False) -> list[Path]:
    """Writes a model with all its weights in it. Raises RewriterError when these are missing, or too large for one file."""
    files: dict[tuple[Path, str], WeightFile] = {}
    for tensor in constants(model):
        if external(tensor):
            tensor._values = LazyTensor(_inside(tensor, files), model.folder)
    return save(model, target, force=force)


def _may_go(tensor: Constant, least: int) -> bool:
    if tensor.elem_type == _STRING or isinstance(tensor.proto, onnx.SparseTensorProto):
        return False
    return size_of(tensor) >= (max(least, LEAST) if tensor.elem_type in _WHOLE else least)


def _inside(tensor: Constant, files: dict[tuple[Path, str], WeightFile]) -> onnx.TensorProto:
    """The message of an initializer that says where its bytes are to be copied from."""
    proto, folder = tensor._values.proto, tensor._values.folder
    place, size = external_data.reference(proto), size_of_proto(proto)
    if folder is None or (place.length is not None and place.length != size):
        raise RewriterError(f"tensor {tensor.name!r}: its data in {place.location!r} do not fit its type and shape")
    key = (folder, place.location)
    if key not in files:
        import os

        with external_data.opened(folder, place.location) as (descriptor, _):
            files[key] = WeightFile(os.dup(descriptor), place.location)
    if place.offset + size > files[key].size:
        raise RewriterError(f"tensor {tensor.name!r}: its data end behind the end of {place.location!r}")
    copy = onnx.TensorProto()
    copy.CopyFrom(proto)
    copy.ClearField("external_data")
    copy.ClearField("data_location")
    copy.MergeFromString(Payload(files[key], place.offset, size, _RAW_DATA).mark())
    return copy
