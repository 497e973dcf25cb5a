"""Values of tensors that are read from their messages when somebody asks for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
from onnx_graphsurgeon.ir.tensor import LazyValues, SparseValues

from rewriter.onnxfile.tensor_types import numpy_dtype
from rewriter.onnxfile.tensors import Array, gs_dtype, read_sparse, read_tensor
from rewriter.onnxfile.weights_apart import completed
from rewriter.onnxfile.weights_in_files import WeightFile, payload_of


class LazyTensor(LazyValues):  # type: ignore[misc]
    """The values of an initializer or tensor attribute, loaded when asked for.

    Attributes:
        proto: the message in the model, never to be changed.
        folder: of the model, for external data.
        file: the file that the values are in, when they were left out of the message; held here so that it stays open.
    """

    def __init__(self, proto: onnx.TensorProto, folder: Path | None) -> None:
        self.proto = proto
        self.folder = folder
        left_out = payload_of(proto)
        self.file: WeightFile | None = None if left_out is None else left_out.file

    @property
    def tensor(self) -> Any:
        """A complete copy of the message: graphsurgeon's exporter writes into what it finds here."""
        if self.file is not None:
            return completed(self.proto)
        copy = type(self.proto)()
        copy.CopyFrom(self.proto)
        return copy

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.proto.dims)

    @property
    def elem_type(self) -> int:
        return int(self.proto.data_type)

    @property
    def dtype(self) -> Any:
        return gs_dtype(self.elem_type)

    @property
    def nbytes(self) -> int:
        dtype, count = numpy_dtype(self.elem_type), 1
        for dim in self.shape:
            count *= dim
        return count * (dtype.itemsize if dtype is not None else 0)

    def load(self) -> Array:
        """The values; RewriterError when they cannot be read."""
        return read_tensor(self.proto, self.folder)


class LazySparse(LazyTensor, SparseValues):  # type: ignore[misc]
    """The values of a sparse initializer; loaded they are dense."""

    proto: onnx.SparseTensorProto

    def __init__(self, proto: onnx.SparseTensorProto, folder: Path | None) -> None:
        self.proto = proto
        self.folder = folder
        self.file = None

    @property
    def elem_type(self) -> int:
        return int(self.proto.values.data_type)

    def load(self) -> Array:
        return read_sparse(self.proto, self.folder)
