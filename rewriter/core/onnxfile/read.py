"""Reading a model file, with a one-line error message if the file is no model."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from rewriter.core.errors import RewriterError
from rewriter.core.onnxfile import files, weights_apart
from rewriter.core.onnxfile.files import MOST_BYTES, all_bytes, opened, read_bytes
from rewriter.core.onnxfile.weights_apart import WeightFile
from rewriter.core.onnxfile.wire import MalformedError, Source, fields
from rewriter.core.record import record

__all__ = ["MOST_BYTES", "ModelFile", "read_bytes", "read_model_file"]

Parse = Callable[[bytes], Any]

_STARTS = (
    (b"version https://git-lfs", "a Git LFS pointer (run `git lfs pull` to get the model)"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x1f\x8b", "a gzip archive (unpack it first)"),
    (b"\x89HDF", "an HDF5 file, as Keras writes"),
    (b"\x80\x02", "a Python pickle, as PyTorch writes"),
    (b"%PDF", "a PDF file"),
    (b"<!doctype html", "an HTML page, perhaps of an error in a download"),
    (b"<html", "an HTML page, perhaps of an error in a download"),
    (b"<?xml", "an XML file"),
    (b"{", "a JSON file (if it is a model, `rewriter text` reads it)"),
    (b"[", "a JSON file"),
    (b"ir_version:", "a model in protobuf's text format (`rewriter text` reads it)"),
    (b"<", "a model in ONNX's text format, perhaps (`rewriter text` reads it)"),
)


@record(frozen=True, slots=True)
class ModelFile:
    """The parts of a file that were read.

    Attributes:
        proto: the model, or its raw message; without its large tensors' data when there are `weights`.
        data: the file's bytes; None when there are `weights`.
        weights: the file with the data that were left out; None if no data were.
    """

    proto: Any
    data: bytes | None
    weights: WeightFile | None


def read_model_file(path: Path, parse: Parse = onnx.ModelProto.FromString) -> ModelFile:
    """The model in a file, as `parse` makes it of bytes. The weights of a large model are not read.

    Raises RewriterError if the file is missing, no regular file, empty, larger than 2 GiB, no ONNX model, truncated, or nested
    too deep.
    """
    with opened(path) as (descriptor, size):
        model = _without_weights(path, descriptor, parse) if size >= files.LARGE else None
        if model is not None:
            return model
        data = all_bytes(descriptor)
    if not data:
        raise RewriterError(f"{path}: the file is empty")
    try:
        proto = parse(data)
    except DecodeError as error:
        raise RewriterError(f"{path}: {_why_not(data, str(error))}") from error
    if not proto.HasField("graph"):
        raise RewriterError(f"{path}: {_kind(data) or 'not an ONNX model: it has no graph'}")
    return ModelFile(proto, data, None)


def _without_weights(path: Path, descriptor: int, parse: Parse) -> ModelFile | None:
    """The model in a large file; None if the whole file must be read, for example for an error message."""
    weights = WeightFile(os.dup(descriptor), str(path))
    try:
        proto = parse(weights_apart.without_weights(weights))
    except (MalformedError, DecodeError):
        return None
    return ModelFile(proto, None, weights) if proto.HasField("graph") else None


def _why_not(data: bytes, message: str) -> str:
    if "MaxDepth" in message:
        return "its subgraphs or types are nested too deep to be read"
    kind = _kind(data)
    if kind:
        return kind
    missing = _missing(data)
    if missing:
        return f"truncated: at least {missing} bytes are missing at the end"
    return "not an ONNX model (not a valid protobuf message)"


def _kind(data: bytes) -> str:
    start = data[:64].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for mark, kind in _STARTS:
        if start.startswith(mark.lower()):
            return f"not an ONNX model but {kind}"
    mark = data[4:8]
    if mark in (b"TFL3", b"ORTM"):
        return f"not an ONNX model but {'a TensorFlow Lite model' if mark == b'TFL3' else 'an ONNX Runtime model (.ort)'}"
    return ""


def _missing(data: bytes) -> int:
    """How many bytes the last top-level field of a message lacks; 0 when the message is broken otherwise."""
    try:
        deque(fields(Source.of(data), 0, len(data)), maxlen=0)
    except MalformedError as error:
        return error.missing
    return 0
