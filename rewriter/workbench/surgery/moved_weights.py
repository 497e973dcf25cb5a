"""`rewriter save`: weights moved into a file next to the model, or into the model."""

from __future__ import annotations

from copy import deepcopy

import onnx

from rewriter.core.errors import RewriterError, counted
from rewriter.core.graph.model import Model
from rewriter.core.graph.values import Constant, LazyTensor
from rewriter.core.onnxfile.model_file import Payload
from rewriter.workbench.surgery.data_files import (
    LEAST,
    DataFiles,
    bring_in_others,
    constants,
    external,
    in_attributes,
    save_apart,
    size_of,
)
from rewriter.workbench.surgery.extract import as_in
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish
from rewriter.workbench.surgery.opened import Opened

_STRING = 8
_WHOLE = frozenset((6, 7))
"""Element types of shapes and axes: shape inference reads them, and ONNX Runtime looks up no other files for it."""
_SIZES = frozenset(("Range", "Resize", "Upsample"))
"""Operators that have such operands of other types: bounds of a range, scales."""


def apart(source: Opened, *, least: int = LEAST, location: str | None = None, checks: Checks | None = None) -> Surgery:
    """A model with its weights of at least so many bytes in one file next to it.

    The weights are copied once, when the model is written, and are checked in the new file.

    Raises:
        RewriterError: no weight is that large.
    """
    model = source.read()
    bring_in_others(model)
    moved = [tensor for tensor in constants(model) if external(tensor) or _may_go(tensor, least)]
    moved += in_attributes(model)
    if not moved:
        raise RewriterError(f"no weight has {least:,} bytes or more, shapes and axes aside; --threshold sets another limit")
    options = [("--threshold", [str(least)]), ("--location", [location] if location else [])]
    done = Surgery(model, [f"{counted(len(moved), 'weight')} outside of the model"], [])

    def check() -> None:
        found = _finished(model, source, command_text("save --external", options), checks)
        done.same, done.notes = found.same, found.notes

    done.write = lambda target, force: save_apart(model, target, moved, force=force, location=location, check=check)
    return done


def inside(source: Opened, checks: Checks | None = None) -> Surgery:
    """A model with all its weights in it. Raises RewriterError if weights are missing."""
    model = source.read()
    files = DataFiles()
    others = bring_in_others(model)
    moved = [*filter(external, constants(model)), *in_attributes(model)]
    for tensor in moved:
        tensor._values = LazyTensor(_inside(tensor, files), model.folder)
    done = _finished(model, source, "save --inline", checks)
    done.did = [f"{counted(len(moved) + others, 'weight')} brought into the model"]
    return done


def _finished(model: Model, source: Opened, command: str, checks: Checks | None) -> Surgery:
    return finish(model, [source], command, [], [], checks, as_in(source, model))


def _may_go(tensor: Constant, least: int) -> bool:
    if tensor.elem_type == _STRING or isinstance(tensor.proto, onnx.SparseTensorProto):
        return False
    sizes = tensor.elem_type in _WHOLE or any(node.op in _SIZES for node in tensor.outputs)
    return size_of(tensor) >= (max(least, LEAST) if sizes else least)


def _inside(tensor: Constant, files: DataFiles) -> onnx.TensorProto:
    """The message of a constant, with the place from which its bytes are to be copied."""
    place = files.contents(tensor)
    assert isinstance(place, Payload)
    copy: onnx.TensorProto = deepcopy(tensor._values.proto)
    copy.ClearField("external_data")
    copy.ClearField("data_location")
    copy.MergeFromString(place.mark())
    return copy
