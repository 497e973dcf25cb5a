"""Weights that stay in the file they were read from: a message says where they are, in place of holding them.

Such a message carries a *mark*: a field that ONNX does not have, which protobuf keeps when it copies or writes a message, so
that the mark goes wherever the message goes. It begins with random bytes of this process, so no model can bring one along.
"""

from __future__ import annotations

import gc
import os
import struct
import weakref
from typing import Any

import numpy as np
import onnx
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

from rewriter.core.errors import RewriterError, reason
from rewriter.core.onnxfile.wire import entry
from rewriter.core.record import record

MARK = 20_000
"""Number of the field; those of ONNX are small."""

FIELDS = {4: "float_data", 9: "raw_data", 10: "double_data"}
"""Fields that can be left out, by number: those that protobuf writes with the very bytes that it read."""

PREFIX = os.urandom(16)
_REST = struct.Struct("<QBQQ")  # number of the file, number of the field, offset, length
_MOST_FORGOTTEN = 64  # open files from which on those of forgotten models are looked for


class WeightFile:
    """An open file with weights, which are read when somebody asks for them.

    It is closed when nobody refers to it any more. It may be renamed or deleted meanwhile, but not written to.

    Attributes:
        descriptor: open for reading.
        name: what people are told when something is wrong with it.
        number: by which marks refer to it.
        size: in bytes.
    """

    opened = 0  # so many up to now

    def __init__(self, descriptor: int, name: str) -> None:
        """Takes the descriptor of a regular file as its own."""
        self.descriptor = descriptor
        self.name = name
        self.number = WeightFile.opened
        WeightFile.opened += 1
        self._stamp = _stamp(descriptor)
        self.size = self._stamp[0]
        if len(_open) >= _MOST_FORGOTTEN:
            gc.collect()  # graphs are circular: they and their files stay until the collector comes by
        _open[self.number] = self
        weakref.finalize(self, os.close, descriptor)

    def check(self) -> None:
        """Raises RewriterError when the file is not what it was any more, as far as its size and time of change tell."""
        if _stamp(self.descriptor) != self._stamp:
            raise RewriterError(f"{self.name}: the file was changed after it was read")

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fills a buffer with the bytes from there on. Raises RewriterError when the file was changed or cannot be read."""
        try:
            while buffer:
                done = os.preadv(self.descriptor, [buffer[: 1 << 30]], offset)
                if not done:
                    break
                buffer, offset = buffer[done:], offset + done
        except OSError as error:
            raise RewriterError(f"{self.name}: {reason(error)}") from error
        self.check()
        if buffer:
            raise RewriterError(f"{self.name}: the file became shorter while it was read")

    def read(self, offset: int, length: int) -> bytes:
        """So many bytes from there on; errors as for `read_into`."""
        data = bytearray(length)
        self.read_into(memoryview(data), offset)
        return bytes(data)


_open: weakref.WeakValueDictionary[int, WeightFile] = weakref.WeakValueDictionary()


@record(frozen=True, slots=True)
class Payload:
    """Bytes that are in a file.

    Attributes:
        file: the file.
        offset, length: where in it they are.
        field: which field of TensorProto they are the content of, by number; 0 for none.
    """

    file: WeightFile
    offset: int
    length: int
    field: int = 0

    def mark(self) -> bytes:
        """What stands in a message in place of the field, serialised."""
        content = PREFIX + _REST.pack(self.file.number, self.field, self.offset, self.length)
        return entry(MARK, content)

    def read(self) -> bytes:
        """The bytes; errors as for `WeightFile.read_into`."""
        return self.file.read(self.offset, self.length)

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """The bytes as an array, which they must fill; errors as for `WeightFile.read_into`."""
        array = np.empty(shape, dtype)
        self.file.read_into(array.reshape(-1).view(np.uint8).data, self.offset)
        return array


def payload(content: bytes) -> Payload | None:
    """What a mark's content says; None when it is no mark. Raises RewriterError when its file is closed."""
    if not content.startswith(PREFIX):
        return None
    number, field, offset, length = _REST.unpack_from(content, len(PREFIX))
    file = _open.get(number)
    if file is None:
        raise RewriterError("the model that these weights belong to is gone, and its file closed")
    return Payload(file, offset, length, field)


def payload_of(tensor: onnx.TensorProto) -> Payload | None:
    """Where the data of a tensor are that were left out; None when they were not. Errors as for `payload`."""
    if not WeightFile.opened:
        return None
    for unknown in UnknownFieldSet(tensor):
        if unknown.field_number == MARK and isinstance(unknown.data, bytes):
            found = payload(unknown.data)
            if found is not None:
                return found
    return None


def _stamp(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns
