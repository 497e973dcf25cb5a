"""Reading constants: from the message of a tensor, with any element type and with its data in any place, to an array.

`onnx.numpy_helper` does the decoding. With a false message, it could read a file of the current directory or fill the memory.
Such messages are rejected before it is called.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper

from rewriter.core.errors import RewriterError
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.model_file import Payload, completed, payload_of

# Types of tensors as far as they are known, and how the types from two sources are joined.
#
# `onnx` has types as protobuf messages. Facts are compared, joined and hashed all the time, so here they are plain tuples, and
# the messages are made and read once for each distinct type.

Dim = int | str | None
"""A dimension: its length, its name in the file, or unknown."""

_LARGEST = 2**63 - 1


class TensorType(NamedTuple):
    """Element type (TensorProto number) and shape, each None when unknown.

    `other` holds the serialised TypeProto of other values (sequence, optional, map); dtype and shape are None then.
    """

    dtype: int | None = None
    shape: tuple[Dim, ...] | None = None
    other: bytes = b""

    @property
    def complete(self) -> bool:
        """Whether the element type and every length are known."""
        return self.dtype is not None and self.shape is not None and all(isinstance(dim, int) for dim in self.shape)


UNKNOWN_TYPE = TensorType()


@lru_cache(maxsize=1 << 14)
def encode(known: TensorType) -> bytes:
    """The serialised TypeProto; empty when not even the element type is known."""
    if known.other or known.dtype is None:
        return known.other
    proto = onnx.TypeProto()
    proto.tensor_type.elem_type = known.dtype
    if known.shape is not None:
        dims = proto.tensor_type.shape.dim
        proto.tensor_type.shape.SetInParent()
        for dim in known.shape:
            entry = dims.add()
            if isinstance(dim, int):
                entry.dim_value = dim
            elif dim is not None:
                entry.dim_param = dim
    return bytes(proto.SerializeToString())


@lru_cache(maxsize=1 << 14)
def decode(data: bytes) -> TensorType:
    """The type in a serialised TypeProto. Negative dimensions and empty names count as unknown."""
    proto = onnx.TypeProto.FromString(data)
    kind = proto.WhichOneof("value")
    if kind != "tensor_type":
        return TensorType(other=data) if kind is not None else UNKNOWN_TYPE
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return TensorType(tensor.elem_type or None)
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in tensor.shape.dim)
    return TensorType(tensor.elem_type or None, clean(shape))


def clean(shape: Any) -> tuple[Dim, ...] | None:
    """A shape as this module writes it, from a file's or a user's: -1, "" and strange objects are unknown dimensions."""
    if shape is None:
        return None
    try:
        return tuple(_clean_dim(dim) for dim in shape)
    except TypeError:
        return None


def _clean_dim(dim: Any) -> Dim:
    if isinstance(dim, str):
        return dim or None
    if isinstance(dim, (int, np.integer)):
        return int(dim) if 0 <= dim <= _LARGEST else None
    return None


def dtype_number(dtype: Any) -> int | None:
    """TensorProto number of a NumPy type or of such a number; None for anything else."""
    if dtype is None or (isinstance(dtype, int) and not dtype):
        return None
    if isinstance(dtype, int):
        return int(dtype) if dtype > 0 else None
    try:
        return _number_of(np.dtype(dtype))
    except (TypeError, ValueError):
        return None


@lru_cache(maxsize=256)
def _number_of(dtype: np.dtype[Any]) -> int | None:
    if dtype.kind in "OSU":
        return int(onnx.TensorProto.STRING)
    try:
        return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))
    except (KeyError, ValueError, TypeError):
        return None


@lru_cache(maxsize=256)
def numpy_dtype(number: int) -> np.dtype[Any] | None:
    """The NumPy type that holds this element type exactly; None if there is none."""
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, ValueError, TypeError):
        return None


def refine(first: TensorType, second: TensorType) -> TensorType:
    """Both types together. If they contradict each other, `first` counts, but a number is preferred to a name."""
    if first == second or first.other or second == UNKNOWN_TYPE:
        return first
    if first == UNKNOWN_TYPE:
        return second
    return TensorType(first.dtype if first.dtype is not None else second.dtype, refine_shape(first.shape, second.shape))


def refine_shape(first: tuple[Dim, ...] | None, second: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """Both shapes together: the rank and the numbers of `first` come first, then the numbers of `second`, then names."""
    if first is None:
        return second
    if second is None or first == second or len(first) != len(second):
        return first
    return tuple(_refine_dim(a, b) for a, b in zip(first, second, strict=True))


def _refine_dim(first: Dim, second: Dim) -> Dim:
    if isinstance(first, int) or second is None:
        return first
    return second if isinstance(second, int) or first is None else first


def join(first: TensorType, second: TensorType) -> TensorType:
    """The type of a tensor that has sometimes the first and sometimes the second type."""
    if first == second:
        return first
    if first.other or second.other:
        return UNKNOWN_TYPE
    return TensorType(first.dtype if first.dtype == second.dtype else None, join_shape(first.shape, second.shape))


def join_shape(first: tuple[Dim, ...] | None, second: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """The dimensions in which two shapes agree; None when not even the ranks do."""
    if first is None or second is None or len(first) != len(second):
        return None
    return tuple(a if a == b else None for a, b in zip(first, second, strict=True))


def count(shape: tuple[Dim, ...] | None) -> int | None:
    """Number of elements of a fully known shape, else None."""
    if shape is None:
        return None
    total = 1
    for dim in shape:
        if not isinstance(dim, int):
            return None
        total *= dim
    return total


Array = np.ndarray[Any, Any]

_BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}  # element types that share bytes
_STRING = int(onnx.TensorProto.STRING)
_RAW_DATA = 9
_SAME_AS_RAW = {4: int(onnx.TensorProto.FLOAT), 10: int(onnx.TensorProto.DOUBLE)}  # fields, and which elements they hold so
_MOST_BYTES = 2**31  # a dense array of more bytes cannot come from a tensor of a protobuf file, only from a sparse one or a lie

NUMPY_NATIVE = frozenset((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
"""Element types for which NumPy itself has a dtype; the others need ml_dtypes."""


def gs_dtype(elem_type: int) -> Any:
    """An element type as graphsurgeon's `dtype`: a NumPy dtype, the number if NumPy has none, None for 0."""
    return (numpy_dtype(elem_type) if elem_type in NUMPY_NATIVE else elem_type) if elem_type else None


def byte_size(elem_type: int, elements: int) -> int:
    """Bytes of a number of elements in a file; 0 for an unknown element type."""
    dtype = numpy_dtype(elem_type)
    return (elements * _BITS.get(elem_type, 0 if dtype is None else dtype.itemsize * 8) + 7) // 8


_MOST = 1 << 59
"""The most elements whose bytes NumPy can count."""


def read_tensor(tensor: onnx.TensorProto, folder: Path | None) -> Array:
    """The values of a tensor as a writable array of its shape. Types that NumPy lacks are ml_dtypes, strings are objects.

    Args:
        tensor: the message; it is not changed.
        folder: of the model, for external data; None rejects external data.
    Raises:
        RewriterError: the data do not fit the type and shape, the element type is unknown, or the external data cannot be read.
    """
    shape, count = _shape(tensor.dims, tensor.name)
    dtype = numpy_dtype(tensor.data_type)
    if dtype is None:
        raise RewriterError(f"tensor {tensor.name!r} has the unknown element type {tensor.data_type}")
    if tensor.data_type == _STRING:
        return _strings(tensor if payload_of(tensor) is None else completed(tensor), shape, count)
    size = byte_size(tensor.data_type, count)
    left_out = payload_of(tensor)
    if left_out is not None:
        return _from_file(tensor, left_out, size, dtype, shape, folder)
    if external_data.is_external(tensor):
        return _from_bytes(tensor, external_data.read(tensor, size, folder), dtype, shape)
    if tensor.HasField("raw_data"):
        _check_size(tensor, len(tensor.raw_data), size)
        return _from_bytes(tensor, tensor.raw_data, dtype, shape)
    return _decoded(tensor)


def read_sparse(tensor: onnx.SparseTensorProto, folder: Path | None) -> Array:
    """The dense array of a sparse tensor; errors as for `read_tensor`, also when an index lies outside the shape."""
    name = tensor.values.name
    shape, count = _shape(tensor.dims, name)
    values = read_tensor(tensor.values, folder).reshape(-1)
    indices = read_tensor(tensor.indices, folder)
    if count * max(values.itemsize, 1) > _MOST_BYTES:
        raise RewriterError(f"sparse tensor {name!r} of shape {list(shape)} is too large to be made dense")
    if indices.dtype != np.int64 or indices.ndim not in (1, 2) or len(indices) != len(values):
        raise RewriterError(f"sparse tensor {name!r} has indices of a wrong type or shape")
    if indices.ndim == 2 and indices.shape[1] != len(shape):
        raise RewriterError(f"sparse tensor {name!r} has indices of a wrong type or shape")
    limits: Any = np.asarray(shape, dtype=np.int64) if indices.ndim == 2 else count
    if indices.size and (bool((indices < 0).any()) or bool((indices >= limits).any())):
        raise RewriterError(f"sparse tensor {name!r} has an index outside its shape")
    flat = indices if indices.ndim == 1 else _flatten(indices, shape)
    dense = np.zeros(count, values.dtype)
    dense[flat] = values
    return dense.reshape(shape)


def write_tensor(
    array: Array, name: str, like: onnx.TensorProto | None = None, elem_type: int | None = None
) -> onnx.TensorProto:
    """The message of an array, with its data inline and the doc string and metadata of `like`.

    `elem_type` is the element type to write if it is not the array's own. Raises RewriterError if ONNX has no such type.
    """
    number = dtype_number(array.dtype)
    if elem_type is not None and elem_type != number:
        target = numpy_dtype(elem_type)
        if target is None:
            raise RewriterError(f"constant {name!r} has the unknown element type {elem_type}")
        array, number = array.astype(target), elem_type
    if number is None:
        raise RewriterError(f"constant {name!r}: ONNX has no element type for {array.dtype}")
    if number == _STRING:
        result = onnx.TensorProto(data_type=_STRING, dims=array.shape)
        items = array.reshape(-1).tolist()
        result.string_data.extend(item if isinstance(item, bytes) else str(item).encode() for item in items)
    else:
        result = numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))
    result.name = name
    if like is not None:
        if like.HasField("doc_string"):
            result.doc_string = like.doc_string
        result.metadata_props.extend(like.metadata_props)
    return result


def same_array(first: Array, second: Array) -> bool:
    """Whether two arrays have the same type, shape and bits (so that NaN equals NaN and 0.0 differs from -0.0)."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return first.tolist() == second.tolist() if first.dtype.hasobject else first.tobytes() == second.tobytes()


def _shape(dims: Any, name: str) -> tuple[tuple[int, ...], int]:
    shape, count, most = tuple(dims), 1, 1
    for dim in shape:
        if dim < 0:
            raise RewriterError(f"tensor {name!r} has the negative dimension {dim}")
        count *= dim
        most *= dim or 1
    if most >= _MOST:  # also of an empty tensor, as [0, 2**62]
        raise RewriterError(f"tensor {name!r} has dimensions {list(shape)}, which no array has")
    return shape, count


def _strings(tensor: onnx.TensorProto, shape: tuple[int, ...], count: int) -> Array:
    if external_data.is_external(tensor) or tensor.HasField("raw_data") or len(tensor.string_data) != count:
        raise RewriterError(f"tensor {tensor.name!r} has {len(tensor.string_data)} strings, but its shape needs {count}")
    array = np.empty(count, dtype=object)
    for i, item in enumerate(tensor.string_data):
        array[i] = text_or_bytes(item)
    return array.reshape(shape)


def text(value: str | bytes) -> str:
    """A string field of a message; protobuf returns bytes if the field is not UTF-8."""
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")


def text_or_bytes(data: bytes) -> str | bytes:
    """A string of the file as text, or unchanged if it is not UTF-8."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _check_size(tensor: onnx.TensorProto, found: int, size: int) -> None:
    if found != size:
        raise RewriterError(f"tensor {tensor.name!r} has {found} bytes, but its type and shape need {size}")


def _from_file(
    tensor: onnx.TensorProto, data: Payload, size: int, dtype: np.dtype[Any], shape: tuple[int, ...], folder: Path | None
) -> Array:
    """The values of a tensor whose data were left out of its message: read directly into the array if the formats agree."""
    plain = (
        tensor.data_type not in _BITS and dtype.isnative and sys.byteorder == "little" and not external_data.is_external(tensor)
    )
    if plain and data.field == _RAW_DATA:
        _check_size(tensor, data.length, size)
        return data.array(dtype, shape)
    if plain and _SAME_AS_RAW.get(data.field) == tensor.data_type and data.length == size and not tensor.HasField("raw_data"):
        return data.array(dtype, shape)
    return read_tensor(completed(tensor), folder)


def _from_bytes(tensor: onnx.TensorProto, data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    if tensor.data_type in _BITS:
        return _decoded(onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=shape, raw_data=data))
    return np.frombuffer(data, dtype.newbyteorder("<") if dtype.isnative else dtype).astype(dtype).reshape(shape)


def _decoded(tensor: onnx.TensorProto) -> Array:
    try:
        return np.array(numpy_helper.to_array(tensor))
    except Exception as error:  # a wrong length can lead to any error in the decoder
        raise RewriterError(f"tensor {tensor.name!r}: its data do not fit its type and shape {list(tensor.dims)}") from error


def _flatten(indices: Array, shape: tuple[int, ...]) -> Array:
    flat = np.zeros(len(indices), np.int64)
    for axis, dim in enumerate(shape):
        flat = flat * dim + indices[:, axis]
    return flat
