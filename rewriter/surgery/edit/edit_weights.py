"""Edits of constants: an input gets a value, an initializer becomes an input or gets another value."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.errors import RewriterError
from rewriter.graph.values import Constant, Variable, elem_type, new_constant
from rewriter.onnxfile.tensor_types import dtype_number, numpy_dtype
from rewriter.onnxfile.tensors import gs_dtype
from rewriter.surgery.edit.editing import Editing, pair
from rewriter.surgery.literals import array
from rewriter.surgery.ports import shown


def constant(editing: Editing, text: str) -> None:
    """`INPUT=VALUE`: the input becomes an initializer. Raises RewriterError when the value does not fit it."""
    graph = editing.graph
    by_name = {tensor.name: tensor for tensor in graph.inputs}
    name, value = pair(text, "INPUT=VALUE, as x=@x.npy or x=0.5", by_name.__contains__)
    if name not in by_name:
        raise RewriterError(f"there is no input {name!r}; there is {', '.join(map(repr, by_name)) or 'none'}")
    tensor = by_name[name]
    found = _fitting(tensor, value, tensor.shape)
    graph.inputs = [other for other in graph.inputs if other is not tensor]
    assert isinstance(tensor, Variable)
    made = new_constant(name, found)
    tensor.to_constant(made._values)
    tensor.infos = ()
    graph.initializers = [*graph.initializers, tensor]
    editing.same = False
    editing.did.append(f"constant  {shown(tensor)}")


def free(editing: Editing, text: str) -> None:
    """Makes an input of an initializer. Raises RewriterError when there is none of this name."""
    graph = editing.graph
    tensor = editing.parts.tensor(text)
    if not isinstance(tensor, Constant):
        raise RewriterError(f"{text!r} is no initializer")
    graph.initializers = [other for other in graph.initializers if other is not tensor]
    tensor.to_variable(tensor.dtype, tensor.shape)
    graph.inputs = [*graph.inputs, tensor]
    editing.same = False
    editing.did.append(f"input  {shown(tensor)}")


def set_weight(editing: Editing, text: str) -> None:
    """`NAME=VALUE`: an initializer gets other values of the same type and shape. Raises RewriterError."""
    name, value = pair(text, "NAME=@FILE.npy", editing.parts.tensors.__contains__)
    tensor = editing.parts.tensor(name)
    if not isinstance(tensor, Constant):
        raise RewriterError(f"{name!r} is no initializer")
    found = _fitting(tensor, value, tensor.shape)
    tensor._values = new_constant(name, found)._values
    editing.same = False
    editing.did.append(f"weight  {shown(tensor)}")


def _fitting(tensor: gs.Tensor, text: str, shape: Any) -> np.ndarray[Any, Any]:
    """The value, if it has the type and shape of the tensor; a number stands for a tensor that is full of it."""
    number = elem_type(tensor)
    dtype = None if number is None else numpy_dtype(number)
    found = array(text, tensor.name, dtype)
    known = None if shape is None else list(shape)
    if not text.startswith("@") and found.ndim == 0 and known and all(isinstance(dim, int) for dim in known):
        found = np.full(known, found, found.dtype)
    if number is not None and dtype_number(found.dtype) != number:
        raise RewriterError(f"{tensor.name!r} is {gs_dtype(number)}, but the value is {found.dtype}; convert it first")
    if known is not None and (
        len(known) != found.ndim
        or any(isinstance(dim, int) and dim != size for dim, size in zip(known, found.shape, strict=True))
    ):
        raise RewriterError(f"{tensor.name!r} has the shape {known}, but the value has {list(found.shape)}")
    return found
