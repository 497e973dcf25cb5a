"""The forms in which a model can be a file, by the endings that `onnx.load` knows, and turning one into another.

ONNX's own text (`onnx_text`) is for people. Protobuf's JSON and text say all that a model says, and are for programs.
"""

from __future__ import annotations

import json
from pathlib import Path

import onnx
from google.protobuf import json_format, text_format  # type: ignore[import-untyped]

from rewriter.errors import RewriterError
from rewriter.graph.model import Model, load
from rewriter.onnxfile import copy_external_data
from rewriter.onnxfile.files import read_bytes
from rewriter.onnxfile.write import check_target, write_bytes
from rewriter.surgery.text import onnx_text
from rewriter.surgery.text.exact_json import as_data

BINARY, TEXT, JSON, PROTO_TEXT = "onnx", "onnxtxt", "json", "textproto"

ENDINGS = {
    **dict.fromkeys((".onnx", ".pb", ".pbin"), BINARY),
    **dict.fromkeys((".onnxtxt", ".onnxtext"), TEXT),
    **dict.fromkeys((".json", ".onnxjson"), JSON),
    **dict.fromkeys((".textproto", ".txtpb", ".prototxt", ".pbtxt"), PROTO_TEXT),
}


def form_of(path: Path) -> str | None:
    """The form that a file's name says; None when it says none."""
    return ENDINGS.get(path.suffix.lower())


def read_form(path: Path) -> tuple[Model, list[str]]:
    """The model in a file of any form, and what is to be said of it.

    Raises:
        RewriterError: the file cannot be read, or does not hold what its name or its beginning says.
    """
    form = form_of(path) or _by_beginning(read_bytes(path))
    if form == BINARY:
        return load(path), []
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise RewriterError(f"{path}: not a text: {error}") from None
    if form == TEXT:
        return onnx_text.read(text, path)
    proto = onnx.ModelProto()
    try:
        if form == JSON:
            json_format.Parse(text, proto, max_recursion_depth=200)
        else:
            text_format.Parse(text, proto)
    except (json_format.ParseError, text_format.ParseError, RecursionError, ValueError) as error:
        raise RewriterError(f"{path}: no model as protobuf writes it as {form}: {' '.join(str(error).split())[:300]}") from None
    if not proto.HasField("graph"):
        raise RewriterError(f"{path}: not an ONNX model: it holds no graph")
    return Model.from_proto(proto, path.parent), []


def shown(model: Model, form: str) -> str:
    """A model as text, for the standard output: of weights ONNX's own has the SHA-256. Errors as for `write_form`."""
    return onnx_text.shown(model) if form == TEXT else _written(model, form)


def write_form(model: Model, target: Path, form: str, *, force: bool = False) -> list[Path]:
    """Writes a model in a form; the files that were written.

    Raises:
        RewriterError: a file exists or cannot be written, or the form cannot say something that the model says.
    """
    check_target(target, force)
    if form == TEXT:
        return onnx_text.write(model, target, force=force)
    if form == BINARY:
        model.save(target, force=force)
        return [target]
    text = _written(model, form)
    if model.folder is not None:
        copy_external_data.copy_data_files(model.sketch(), model.folder, target.parent, force)
    write_bytes(target, text.encode(), force)
    return [target]


def _written(model: Model, form: str) -> str:
    try:
        if form == JSON:
            return json.dumps(as_data(model.to_proto()), indent=2)
        return str(text_format.MessageToString(model.to_proto(), as_utf8=True))
    except (UnicodeError, ValueError, json_format.SerializeToJsonError) as error:
        raise RewriterError(f"the model cannot be written as {form}: {error}") from None


def _by_beginning(data: bytes) -> str:
    start = data[:4096].lstrip()
    if start.startswith(b"{"):
        return JSON
    if start.startswith((b"<", b"#")):
        return TEXT
    return PROTO_TEXT if start.startswith((b"ir_version", b"producer_", b"graph")) else BINARY
