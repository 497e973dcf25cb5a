"""Tensors of a graph that remember the messages they came from, and their way back: an unedited tensor is written as it was, an
edited one as a copy with the difference applied.

They are graphsurgeon's `Variable` and `Constant` with three differences. Types, shapes and weights are read from the message on
first use. Equality is identity, since two different tensors of a broken model may have the same name. The exact element type is
known, also if graphsurgeon's `dtype` cannot express it.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from onnx_graphsurgeon.ir.tensor import LazyValues, SparseValues

from rewriter.core.errors import RewriterError
from rewriter.core.graph.gs_lists import TensorLinks
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.files import write_all
from rewriter.core.onnxfile.model_file import LEAST_ASIDE, Payload, WeightFile, completed, payload_of
from rewriter.core.onnxfile.tensors import (
    NUMPY_NATIVE,
    Array,
    clean,
    dtype_number,
    gs_dtype,
    numpy_dtype,
    read_sparse,
    read_tensor,
    same_array,
    text,
    write_tensor,
)

# Values of tensors that are read from their messages on first use.


class LazyTensor(LazyValues):  # type: ignore[misc]
    """The values of an initializer or tensor attribute, loaded on first use.

    Attributes:
        proto: the message in the model, never to be changed.
        folder: of the model, for external data.
        file: the file with the values, if they were left out of the message; the reference keeps it open.
    """

    def __init__(self, proto: onnx.TensorProto, folder: Path | None) -> None:
        self.proto = proto
        self.folder = folder
        left_out = payload_of(proto)
        self.file: WeightFile | None = None if left_out is None else left_out.file

    @property
    def tensor(self) -> Any:
        """A complete copy of the message: graphsurgeon's exporter writes into the result."""
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


Dim = int | str | None
T = TypeVar("T", bound="_Tensor")
_UNREAD: Any = object()


class _Tensor(TensorLinks):
    """The slots of variables and constants, equal in both, since one may become the other. Setting them calls no code of
    graphsurgeon, since `inputs` and `outputs` update themselves here.
    """

    __slots__ = ("_dtype", "_said", "_shape", "_type", "infos", "name")
    __setattr__ = object.__setattr__

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        """For callers of the constructor, which is graphsurgeon's."""
        return _bare(cls, "")


class Variable(_Tensor, gs.Variable):  # type: ignore[misc]
    """A tensor that a node computes or the caller feeds.

    Attributes:
        name, inputs (producers), outputs (users), dtype, shape, type: as in graphsurgeon; `dtype` is a NumPy dtype, or the ONNX
            number if NumPy has none, or None; `shape` a list of int, str (named) and None (unknown), or None if not even the
            rank is known.
        infos: the messages that declare it (graph input or output first, then value_info).
    """

    __slots__ = ()
    name: str
    infos: tuple[onnx.ValueInfoProto, ...]
    _dtype: Any
    _shape: list[Dim] | None
    _type: str | None
    _said: tuple[tuple[onnx.ValueInfoProto, ...], Declared] | None

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def said(self) -> Declared:
        """The declarations in its messages."""
        known = self._said
        if known is None or known[0] is not self.infos:
            known = self._said = self.infos, declared(self.infos)
        return known[1]

    @property
    def typed(self) -> bool:
        """Whether its element type was read or set."""
        return self._dtype is not _UNREAD

    @property
    def dtype(self) -> Any:
        if self._dtype is _UNREAD:
            self._dtype = gs_dtype(self.said.elem_type)
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self._dtype = dtype

    @property
    def shape(self) -> list[Dim] | None:
        if self._shape is _UNREAD:
            shape = self.said.shape
            self._shape = None if shape is None else list(shape)
        return self._shape

    @shape.setter
    def shape(self, shape: Any) -> None:
        self._shape = shape

    @property
    def type(self) -> str | None:
        """Which field of TypeProto it has: tensor_type, sequence_type, map_type, optional_type, ..."""
        if self._type is _UNREAD:
            self._type = self.said.kind
        return self._type

    @type.setter
    def type(self, kind: str | None) -> None:
        self._type = kind

    @property
    def elem_type(self) -> int | None:
        """Element type as TensorProto number; None if it is unknown or the value is a sequence, map or optional."""
        if self.type not in (None, "tensor_type", "sparse_tensor_type"):
            return None
        if self._dtype is _UNREAD:
            return self.said.elem_type or None
        return dtype_number(self._dtype)

    @property
    def silent(self) -> bool:
        """Whether nothing declares its type, as for most tensors in a graph."""
        return not self.infos and self._dtype is _UNREAD and self._shape is _UNREAD and self._type is _UNREAD

    @property
    def retyped(self) -> bool:
        """Whether element type, shape or kind were set to other values than the messages have."""
        unread = (self._dtype is _UNREAD, self._shape is _UNREAD, self._type is _UNREAD)
        if all(unread):
            return False
        said = self.said
        return (
            (not unread[0] and dtype_number(self._dtype) != (said.elem_type or None))
            or (not unread[1] and not same_shape(self._shape, said.shape))
            or (not unread[2] and self._type != said.kind)
        )

    def to_constant(self, values: Any, export_dtype: Any = None) -> Constant:
        """Becomes a constant; all users and producers see it."""
        self._dtype = self._shape = self._type = _UNREAD
        self.__class__ = Constant
        self._values, self._export_dtype = values, export_dtype
        return self

    def to_variable(self, dtype: Any = None, shape: Any = ()) -> Variable:
        """Stays a variable, of another type and shape."""
        self._dtype, self._shape = self.dtype if dtype is None else dtype, list(shape)
        return self

    def copy(self) -> Variable:
        """A copy without producers and users."""
        copy = new_variable(self.name)
        copy.infos, copy._dtype, copy._type = self.infos, self._dtype, self._type
        copy._shape = list(self._shape) if self._shape is not _UNREAD and self._shape is not None else self._shape
        return copy


class Constant(_Tensor, gs.Constant):  # type: ignore[misc]
    """A tensor whose values are known: an initializer, or the value of a tensor attribute.

    Attributes:
        proto: the message it came from; None for a new one. Its `values` are loaded when first read.
        listed: whether it is also a graph input, or is to be if it is new; a caller may override it.
        infos: messages that declare it as graph input or in value_info.
    """

    name: str
    proto: onnx.TensorProto | onnx.SparseTensorProto | None = None
    listed: bool = False
    infos: tuple[onnx.ValueInfoProto, ...]
    data_location: int | None = None
    _values: Any
    _export_dtype: Any = None

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def elem_type(self) -> int | None:
        """Element type as TensorProto number, without loading anything; None when it is none that ONNX has."""
        return elem_type(self)

    def to_variable(self, dtype: Any = None, shape: Any = ()) -> Variable:
        """Becomes a variable; all users see it."""
        dtype = self.export_dtype if dtype is None else dtype
        for name in ("_values", "_export_dtype", "proto", "listed", "data_location"):
            self.__dict__.pop(name, None)
        self.__class__ = Variable
        self._dtype, self._shape, self._type = dtype, list(shape), "tensor_type"
        return self

    def to_constant(self, values: Any, data_location: int | None = None, export_dtype: Any = None) -> Constant:
        """Stays a constant, of other values."""
        self._values, self.data_location, self._export_dtype = values, data_location, export_dtype
        return self

    def copy(self) -> Constant:
        """A copy without users; the values are shared."""
        copy = _bare(Constant, self.name)
        copy.infos = self.infos
        copy.__dict__.update(self.__dict__)
        return copy


class Declared:
    """The declarations of a tensor in messages: element type (0: none), shape, and kind of value."""

    __slots__ = ("elem_type", "kind", "shape")

    def __init__(self, elem_type: int = 0, shape: list[Dim] | None = None, kind: str | None = "tensor_type") -> None:
        self.elem_type = elem_type
        self.shape = shape
        self.kind = kind


def declared(infos: tuple[onnx.ValueInfoProto, ...]) -> Declared:
    """The declarations of all messages together; if they differ, the first one counts."""
    result, kind = Declared(), None
    for info in infos:
        one = info.type.WhichOneof("value")
        if one is None or (kind is not None and one != kind):
            continue
        kind = one
        message = getattr(info.type, one)
        if one == "sequence_type":
            message = elements_of(message)
        elif one not in ("tensor_type", "sparse_tensor_type"):
            continue
        result.elem_type = result.elem_type or max(message.elem_type, 0)
        if result.shape is None and one != "sequence_type" and message.HasField("shape"):
            result.shape = [_dim(dim) for dim in message.shape.dim]
    result.kind = kind or "tensor_type"
    return result


def elements_of(sequence: Any) -> Any:
    """The tensor type of a sequence's elements, as in graphsurgeon; if they are maps, of the values in the maps."""
    element = sequence.elem_type
    return (element.map_type.value_type if element.HasField("map_type") else element).tensor_type


def _dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    name = dim.dim_param
    return (name if isinstance(name, str) else None) or None


def same_shape(first: Any, second: Any) -> bool:
    """Whether two shapes are written alike (-1 as a number and None are not the same)."""
    if first is None or second is None:
        return first is second
    return [plain_dim(dim) for dim in first] == [plain_dim(dim) for dim in second]


def plain_dim(dim: Any) -> Dim:
    """A dimension as it can be written: int, non-empty str, or None."""
    if isinstance(dim, (int, np.integer)):
        return int(dim)
    return dim or None if isinstance(dim, str) else None


def used_count(tensors: Sequence[gs.Tensor]) -> int:
    """Number of operands or outputs of a node, without omitted ones at the end."""
    count = len(tensors)
    while count and not tensors[count - 1].name:
        count -= 1
    return count


def elem_type(tensor: gs.Tensor) -> int | None:
    """Element type of any graphsurgeon tensor as TensorProto number, without loading values; None when unknown or no tensor."""
    if isinstance(tensor, Variable):
        return tensor.elem_type
    if not isinstance(tensor, gs.Constant):
        known = getattr(tensor, "type", None) in (None, "tensor_type", "sparse_tensor_type")
        return dtype_number(getattr(tensor, "dtype", None)) if known else None
    if tensor._export_dtype is not None:
        return dtype_number(tensor._export_dtype)
    values = tensor._values
    if isinstance(values, LazyTensor):
        return values.elem_type or None
    if isinstance(values, LazyValues):
        message = values.tensor
        return int(message.values.data_type if isinstance(values, SparseValues) else message.data_type) or None
    return dtype_number(values.dtype)


def static_shape(tensor: gs.Tensor) -> tuple[Dim, ...] | None:
    """Shape of any graphsurgeon tensor: lengths, names, None for unknown dimensions; None when the rank is unknown."""
    return clean(tensor.shape)


def constant_array(tensor: gs.Constant) -> Array:
    """The values of a constant. Reading them does not change how it is saved. Do not write into the array.

    Types that NumPy lacks (bfloat16, float8, int4) are ml_dtypes, strings are objects (str, or bytes if not UTF-8).
    Raises RewriterError if the values cannot be read.
    """
    values = tensor._values
    if isinstance(values, LazyTensor):
        return values.load()
    if isinstance(values, SparseValues):
        return read_sparse(values.tensor, None)
    if isinstance(values, LazyValues):
        return read_tensor(values.tensor, None)
    target = None if tensor._export_dtype is None else dtype_number(tensor._export_dtype)
    if target is None or target == dtype_number(values.dtype):
        return np.asarray(values)
    dtype = numpy_dtype(target)
    if dtype is None:
        raise RewriterError(f"constant {tensor.name!r} has the unknown element type {target}")
    return np.asarray(values).astype(dtype)


def new_variable(name: str, dtype: Any = None, shape: Any = None) -> Variable:
    """A variable without producer and users; `dtype` (NumPy or ONNX number) and `shape` may stay unknown."""
    tensor = _bare(Variable, name)
    if dtype is not None:
        tensor._dtype = dtype
    if shape is not None:
        tensor._shape = list(shape)
    return tensor


def new_variables(names: Iterable[str]) -> list[Variable]:
    """Variables as from `new_variable`, in half the time."""
    new, unread, result = object.__new__, _UNREAD, []
    for name in names:
        tensor = new(Variable)
        tensor.name = name
        tensor.infos = ()
        tensor._makers = tensor._users = tensor._said = None
        tensor._dtype = tensor._shape = tensor._type = unread
        result.append(tensor)
    return result


def _bare(kind: type[T], name: str) -> T:
    """A tensor with only a name; made without a constructor, which would take most of the loading time."""
    tensor: Any = object.__new__(kind)
    tensor.name = name
    tensor.infos = ()
    tensor._makers = tensor._users = tensor._said = None
    tensor._dtype = tensor._shape = tensor._type = _UNREAD
    return tensor  # type: ignore[no-any-return]


def new_constant(name: str, array: Any, elem_type: int | None = None) -> Constant:
    """A constant that holds `array` (a NumPy array or scalar), converted if `elem_type` (TensorProto number) is another type. A
    large array may be moved to a temporary file, from which it is read like a loaded constant.

    Raises RewriterError when ONNX has no such element type.
    """
    array = np.asarray(array)
    if elem_type is not None and elem_type != dtype_number(array.dtype):
        dtype = numpy_dtype(elem_type)
        if dtype is None:
            raise RewriterError(f"constant {name!r}: there is no element type {elem_type}")
        array = array.astype(dtype)
    if dtype_number(array.dtype) is None:
        raise RewriterError(f"constant {name!r}: ONNX has no element type for {array.dtype}")
    tensor = _bare(Constant, name)
    tensor._values = array if array.nbytes < LEAST_ASIDE else _aside(array)
    return tensor


def _aside(array: Array) -> Array | LazyTensor:
    """A large array, or its data in a temporary file."""
    aside = put_aside(array)
    return array if aside is None else LazyTensor(aside[0], None)


def loaded_constant(name: str, proto: onnx.TensorProto | onnx.SparseTensorProto, folder: Path | None) -> Constant:
    """The constant of a message in a model."""
    tensor = _bare(Constant, name)
    tensor.proto = proto
    tensor._values = (LazySparse if isinstance(proto, onnx.SparseTensorProto) else LazyTensor)(proto, folder)
    return tensor


# Large new constants wait in a temporary file until the model is saved, so that memory does not limit how many there are.

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


Message = onnx.TensorProto | onnx.SparseTensorProto


def tensor_message(tensor: gs.Constant, folder: Path | None) -> Message:
    """The message of a constant, the original object if the constant was not edited.

    Values that were only read, even through `values`, are not edited. A sparse tensor whose values were edited becomes a dense
    one. Raises RewriterError when new values cannot be written, or data next to another model cannot be read.
    """
    source = _source(tensor, folder)
    if source is None:
        proto = tensor.proto if isinstance(tensor, Constant) else None
        like = proto.values if isinstance(proto, onnx.SparseTensorProto) else proto
        return write_tensor(constant_array(tensor), tensor.name, like, elem_type(tensor))
    holder = source.values if isinstance(source, onnx.SparseTensorProto) else source
    if text(holder.name) == tensor.name:
        return source
    copy = type(source)()
    copy.CopyFrom(source)
    (copy.values if isinstance(copy, onnx.SparseTensorProto) else copy).name = tensor.name
    return copy


def constant_node(tensor: gs.Constant, folder: Path | None) -> onnx.NodeProto:
    """The node that a constant is in a function, which has no initializers. Raises RewriterError as `tensor_message`."""
    attribute = onnx.AttributeProto(name="value", type=onnx.AttributeProto.TENSOR)
    message = tensor_message(tensor, folder)
    if isinstance(message, onnx.SparseTensorProto):
        attribute = onnx.AttributeProto(name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR, sparse_tensor=message)
    else:
        attribute.t.CopyFrom(message)
    return onnx.NodeProto(op_type="Constant", output=[tensor.name], attribute=[attribute])


def _source(tensor: gs.Constant, folder: Path | None) -> Message | None:
    """The message that still holds the values of a constant; None when they are new."""
    values = tensor._values
    if isinstance(values, LazyTensor):
        return values.proto if values.folder == folder or not _has_external(values.proto) else None
    if isinstance(values, LazyValues):
        return values.tensor  # type: ignore[no-any-return]
    proto = tensor.proto if isinstance(tensor, Constant) else None
    if proto is None or tensor._export_dtype is not None:
        return None
    try:
        before = read_sparse(proto, folder) if isinstance(proto, onnx.SparseTensorProto) else read_tensor(proto, folder)
    except RewriterError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise  # the system fails, and whether it is another array is unknown
        return None  # it could not be read before either, so the array is another one
    return proto if same_array(before, values) else None


def _has_external(proto: Message) -> bool:
    parts = (proto.values, proto.indices) if isinstance(proto, onnx.SparseTensorProto) else (proto,)
    return any(external_data.is_external(part) for part in parts)


def info_message(tensor: gs.Tensor, info: onnx.ValueInfoProto | None) -> onnx.ValueInfoProto:
    """The declaration of a tensor, the very object `info` if neither name nor type nor shape were edited.

    Only fields that differ are changed, so that denotations and doc strings stay. Without `info` it is a new message.
    """
    if info is None:
        known = tensor.infos[0] if isinstance(tensor, (Variable, Constant)) and tensor.infos else None
        if known is None:
            return _new_info(tensor)
        info = known
    renamed = text(info.name) != tensor.name
    if not renamed and not _may_be_retyped(tensor):
        return info
    said, now = _said(tensor, info), _now(tensor)
    if not getattr(tensor, "infos", ()):  # a new tensor under an old name: undeclared fields stay
        now.kind = now.kind if now.elem_type else said.kind
        now.elem_type = now.elem_type or said.elem_type
        now.shape = said.shape if now.shape is None else now.shape
    retyped = now.elem_type != said.elem_type or now.kind != said.kind or not same_shape(now.shape, said.shape)
    if not retyped and not renamed:
        return info
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(info)
    if renamed:
        copy.name = tensor.name
    if retyped:
        _retype(copy.type, said, now)
    return copy


def _may_be_retyped(tensor: gs.Tensor) -> bool:
    """False if the tensor surely has the type it was loaded with; a quick answer for nearly all tensors."""
    if isinstance(tensor, Variable):
        return not tensor.infos or tensor.retyped
    values = tensor._values if isinstance(tensor, Constant) else None
    return not (isinstance(values, LazyTensor) and isinstance(tensor, Constant) and values.proto is tensor.proto)


def _said(tensor: gs.Tensor, info: onnx.ValueInfoProto) -> Declared:
    if isinstance(tensor, Constant) and tensor.proto is not None:
        proto = tensor.proto
        number = proto.values.data_type if isinstance(proto, onnx.SparseTensorProto) else proto.data_type
        return Declared(max(number, 0), list(proto.dims))
    return declared(tensor.infos if isinstance(tensor, Variable) and tensor.infos else (info,))


def _now(tensor: gs.Tensor) -> Declared:
    if isinstance(tensor, gs.Constant):
        return Declared(elem_type(tensor) or 0, list(tensor.shape))
    return Declared(dtype_number(tensor.dtype) or 0, tensor.shape, getattr(tensor, "type", None) or "tensor_type")


def _new_info(tensor: gs.Tensor) -> onnx.ValueInfoProto:
    info = onnx.ValueInfoProto(name=tensor.name)
    now = _now(tensor)
    if now.elem_type:
        _retype(info.type, Declared(), now)
    return info


def _retype(message: onnx.TypeProto, said: Declared, now: Declared) -> None:
    kind = now.kind or "tensor_type"
    if message.WhichOneof("value") != kind:
        getattr(message, kind).SetInParent()
        said = Declared(0, None, kind)
    target: Any = getattr(message, kind)
    if kind == "sequence_type":
        target = elements_of(target)
    elif kind not in ("tensor_type", "sparse_tensor_type"):
        return
    if now.elem_type and now.elem_type != said.elem_type:
        target.elem_type = now.elem_type
    if kind == "sequence_type" or same_shape(now.shape, said.shape):
        return
    if now.shape is None:
        target.ClearField("shape")
        return
    _reshape(target, said.shape, [plain_dim(dim) for dim in now.shape])


def _reshape(target: Any, before: Any, now: list[int | str | None]) -> None:
    target.shape.SetInParent()
    dims = target.shape.dim
    same_rank = before is not None and len(before) == len(now) == len(dims)
    if not same_rank:
        del dims[:]
        for _ in now:
            dims.add()
    for i, (dim, value) in enumerate(zip(dims, now, strict=True)):
        if same_rank and plain_dim(before[i]) == value:
            continue
        if value is None:
            dim.ClearField("dim_value")
            dim.ClearField("dim_param")
        elif isinstance(value, int):
            dim.dim_value = value
        else:
            dim.dim_param = value


def has_type(tensor: gs.Tensor) -> bool:
    """Whether there is an element type to write into value_info."""
    if isinstance(tensor, Variable) and not tensor.infos and not tensor.typed:
        return False
    return elem_type(tensor) is not None or (isinstance(tensor, Variable) and bool(tensor.infos))
