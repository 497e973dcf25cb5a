"""A model that a program holds, as the file that everything else works on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from rewriter.errors import RewriterError, reason

StrPath = os.PathLike[str] | str
AnyModel = StrPath | onnx.ModelProto | Any
"""A path, a message, an `onnx_ir.Model`, or what has a `model_proto`: PyTorch's `ONNXProgram`."""


@contextmanager
def as_file(model: AnyModel) -> Iterator[tuple[str, bool]]:
    """The path of the model, and whether it is a temporary file, which is gone afterwards.

    Raises:
        RewriterError: it is no model, it refers to external data, or it is larger than a message may be.
    """
    if isinstance(model, str | os.PathLike):
        yield os.fspath(model), False
        return
    message = _message(model)
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in message.graph.initializer):
        raise RewriterError("the model refers to data in other files; save it, and give the path")
    with TemporaryDirectory(prefix="rewriter-") as folder:
        path = Path(folder, "model.onnx")
        try:
            path.write_bytes(message.SerializeToString())
        except OSError as error:
            raise RewriterError(f"{path}: {reason(error)}") from None
        except Exception as error:  # protobuf's own, which has no public base
            raise RewriterError(f"the model cannot be written as one message ({error}); save it with external data") from None
        yield str(path), True


def _message(model: Any) -> onnx.ModelProto:
    if isinstance(model, onnx.ModelProto):
        return model
    held = getattr(model, "model_proto", None)
    if isinstance(held, onnx.ModelProto):
        return held
    ir = sys.modules.get("onnx_ir")
    if ir is not None and isinstance(model, ir.Model):
        made: onnx.ModelProto = ir.to_proto(model)
        return made
    kind = f"{type(model).__module__}.{type(model).__name__}"
    raise RewriterError(f"a model is a path, an onnx.ModelProto, an onnx_ir.Model or PyTorch's ONNXProgram, not a {kind}")
