"""What can be known of a tensor's type, and how two sources of such knowledge become one.

`onnx` speaks of types in protobuf messages; facts are compared, joined and hashed all the time, so here they are plain tuples,
and the messages are made and read once for each distinct type.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import onnx

Dim = int | str | None
"""A dimension: its length, the name the file gives it, or unknown."""

_LARGEST = 2**63 - 1


class TensorType(NamedTuple):
    """Element type (TensorProto number) and shape, each None when unknown.

    `other` holds the serialised TypeProto of what is no tensor (sequence, optional, map); dtype and shape are None then.
    """

    dtype: int | None = None
    shape: tuple[Dim, ...] | None = None
    other: bytes = b""

    @property
    def complete(self) -> bool:
        """Whether the element type and every length are known."""
        return self.dtype is not None and self.shape is not None and all(isinstance(dim, int) for dim in self.shape)


UNKNOWN = TensorType()


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
        return TensorType(other=data) if kind is not None else UNKNOWN
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return TensorType(tensor.elem_type or None)
    shape = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in tensor.shape.dim)
    return TensorType(tensor.elem_type or None, clean(shape))


def clean(shape: Any) -> tuple[Dim, ...] | None:
    """A shape as this module writes it, from what a file or a user wrote: -1, "" and strange objects are unknown dimensions."""
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
    """The NumPy type that holds this element type exactly; None where there is none."""
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, ValueError, TypeError):
        return None


def refine(first: TensorType, second: TensorType) -> TensorType:
    """Both together; where they contradict each other, `first` is believed, but a number is better than a name."""
    if first == second or first.other or second == UNKNOWN:
        return first
    if first == UNKNOWN:
        return second
    return TensorType(first.dtype if first.dtype is not None else second.dtype, refine_shape(first.shape, second.shape))


def refine_shape(first: tuple[Dim, ...] | None, second: tuple[Dim, ...] | None) -> tuple[Dim, ...] | None:
    """Both shapes together; `first` is believed in its rank and its numbers, then the numbers of `second`, then names."""
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
    """What holds of a tensor that is sometimes the one and sometimes the other."""
    if first == second:
        return first
    if first.other or second.other:
        return UNKNOWN
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
