"""Large new constants wait in a temporary file until the model is saved, so that memory does not limit how many there are."""

from __future__ import annotations

import os
import sys
import tempfile
import weakref

import numpy as np
import onnx

from rewriter.core.onnxfile.tensors import NUMPY_NATIVE, Array, dtype_number
from rewriter.core.onnxfile.weights_apart import LEAST_ASIDE, Payload, WeightFile
from rewriter.core.onnxfile.write import write_all

MAX_BYTES_IN_MEMORY = 1 << 25
"""Bytes of such constants that stay in memory at a time; further constants are put aside."""

_RAW_DATA = 9


def put_aside(array: Array) -> tuple[onnx.TensorProto, WeightFile] | None:
    """The message of a large array whose data went to a temporary file, and this file, which must stay open as long.

    None if the array stays in memory: there is room for it in memory, or none on the disk.
    """
    if array.base is None and _state.bytes_in_memory + array.nbytes <= MAX_BYTES_IN_MEMORY:  # a view keeps its base in memory
        _state.bytes_in_memory += array.nbytes
        weakref.finalize(array, _state.release, array.nbytes)
        return None
    if dtype_number(array.dtype) not in NUMPY_NATIVE or array.dtype.hasobject or sys.byteorder != "little":
        return None
    try:
        file = _state.file()
        place = file.add(array)
    except OSError:  # the disk is full, or missing
        return None
    message = onnx.TensorProto(data_type=dtype_number(array.dtype), dims=array.shape)
    message.MergeFromString(place.mark())
    return message, file


class _GrowingFile(WeightFile):
    """A growing file without a name. It is removed when no constant refers to it any more."""

    def __init__(self) -> None:
        with tempfile.TemporaryFile(prefix="rewriter-") as file:
            super().__init__(os.dup(file.fileno()), "the temporary file of new weights")

    def check(self) -> None:
        """Does nothing: the file grows, and no other process can write to it."""

    def add(self, array: Array) -> Payload:
        """Appends an array, in pieces if its bytes are not in order. Raises OSError if there is no room."""
        offset = self.size
        os.lseek(self.descriptor, offset, os.SEEK_SET)
        pieces = (
            [array] if array.flags.c_contiguous else np.array_split(array, min(len(array), -(-array.nbytes // LEAST_ASIDE)))
        )
        for piece in pieces:
            write_all(self.descriptor, np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)
        self.size += array.nbytes
        return Payload(self, offset, array.nbytes, _RAW_DATA)


class _State:
    """The bytes of constants in memory, and the file in use."""

    def __init__(self) -> None:
        self.bytes_in_memory = 0
        self._file: weakref.ref[_GrowingFile] | None = None

    def release(self, size: int) -> None:
        self.bytes_in_memory -= size

    def file(self) -> _GrowingFile:
        file = None if self._file is None else self._file()
        if file is None:
            file = _GrowingFile()
            self._file = weakref.ref(file)
        return file


_state = _State()
