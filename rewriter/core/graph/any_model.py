"""Loads a model in any form: a path, a message, a graph, or an object of another library.

Each function of the Python interface takes all of these forms. Only this module distinguishes them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError, reason
from rewriter.core.graph.model import Model
from rewriter.core.graph.model import load as load_file

StrPath = os.PathLike[str] | str
AnyModel: TypeAlias = StrPath | onnx.ModelProto | Model | Any
"""A path, an `onnx.ModelProto`, an onnx-graphsurgeon graph, a `Model`, an object that has one (`Result`), an `onnx_ir.Model`,
or an object with a `model_proto`: PyTorch's `ONNXProgram`.
"""


def as_source(model: AnyModel) -> StrPath | onnx.ModelProto:
    """The path of a model, or its message, which is a copy unless the model is a message itself.

    Raises:
        RewriterError: this is no model.
    """
    if isinstance(model, str | os.PathLike | onnx.ModelProto):
        return model
    if isinstance(model, gs.Graph) and not isinstance(model, gs.Function):
        return _exported(model)
    graph = isinstance(model, gs.Graph)  # prints an error on stderr for an attribute that it lacks
    if not graph and not isinstance(model, Model) and isinstance(own := getattr(model, "model", None), Model):
        model = own
    if isinstance(model, Model):
        return model.to_proto()
    proto = None if graph else getattr(model, "model_proto", None)
    if isinstance(proto, onnx.ModelProto):
        return proto
    ir = sys.modules.get("onnx_ir")
    if ir is not None and isinstance(model, ir.Model):
        from_ir: onnx.ModelProto = ir.to_proto(model)
        return from_ir
    kind = f"{type(model).__module__}.{type(model).__name__}".removeprefix("builtins.")
    raise RewriterError(
        "a model is a path, an onnx.ModelProto, an onnx-graphsurgeon graph, a rewriter.Model or Result, an onnx_ir.Model or "
        f"PyTorch's ONNXProgram, not {kind}"
    )


def load(model: AnyModel) -> Model:
    """Reads a model, also if the ONNX checker rejects it. External data are not touched until a value is used. Forms other than
    a file are copied.

    Args:
        model: a path, an `onnx.ModelProto`, an onnx-graphsurgeon graph, a `Model` or `Result`, an `onnx_ir.Model` or PyTorch's
            `ONNXProgram`.

    Raises:
        RewriterError: the file is missing or no ONNX model, with one line about its likely kind; or `model` is no model.
    """
    source = as_source(model)
    return Model.from_proto(source) if isinstance(source, onnx.ModelProto) else load_file(source)


@contextmanager
def as_file(model: AnyModel) -> Iterator[tuple[str, bool]]:
    """The path of the model, and whether it is a temporary file, which is gone afterwards.

    Raises:
        RewriterError: it is no model, it refers to external data, or it is larger than a message may be.
    """
    message = as_source(model)
    if not isinstance(message, onnx.ModelProto):
        yield os.fspath(message), False
        return
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in message.graph.initializer):
        raise RewriterError("the model refers to data in other files; save it, and pass the path")
    if not message.ByteSize():
        raise RewriterError("the model is empty: the message has no fields")
    with TemporaryDirectory(prefix="rewriter-") as folder:
        path = Path(folder, "model.onnx")
        try:
            path.write_bytes(message.SerializeToString())
        except OSError as error:
            raise RewriterError(f"{path}: {reason(error)}") from None
        except Exception as error:  # protobuf's own, which has no public base
            raise RewriterError(f"the model cannot be written as one message ({error}); save it with external data") from None
        yield str(path), True


def _exported(graph: gs.Graph) -> onnx.ModelProto:
    try:
        exported: onnx.ModelProto = gs.export_onnx(graph)
    except Exception as error:  # graphsurgeon and onnx raise errors of many types for an incomplete graph
        raise RewriterError(f"the graph cannot be exported: {type(error).__name__}: {error}") from error
    return exported
