"""Tensors back to messages: the original message of an unedited tensor, else a copy with the difference applied."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import onnx
import onnx_graphsurgeon as gs
from onnx_graphsurgeon.ir.tensor import LazyValues

from rewriter.core.errors import RewriterError
from rewriter.core.graph.values import (
    Constant,
    Declared,
    LazyTensor,
    Variable,
    constant_array,
    declared,
    elem_type,
    elements_of,
    plain_dim,
    same_shape,
)
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.tensors import dtype_number, read_sparse, read_tensor, same_array, text, write_tensor

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
