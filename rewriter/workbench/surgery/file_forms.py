"""The forms of model files, and conversion between them: ONNX's own text, JSON, protobuf's text.

`rewriter text` and the tests of rules use them. Facts that ONNX's own text cannot express are kept next to it, so that the
way back gives the same model.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf import (  # type: ignore[import-untyped]
    json_format,
    text_format,
)
from google.protobuf.descriptor import FieldDescriptor  # type: ignore[import-untyped]
from onnx import numpy_helper

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model, load
from rewriter.core.graph.model_text import SHOWN
from rewriter.core.onnxfile import external_data
from rewriter.core.onnxfile.files import check_target, read_bytes, write_file
from rewriter.core.onnxfile.model_file import FIELDS, Payload, completed, digest, length, payload_of, write_pieces
from rewriter.core.onnxfile.tensors import read_tensor, text_or_bytes
from rewriter.trust.proof import judges
from rewriter.workbench.surgery.data_files import DataFiles
from rewriter.workbench.surgery.opened import messages

# Protobuf's JSON, written so that protobuf reads it: its own reader finds the shortest form of the largest float too large.

_LARGEST = float(np.finfo(np.float32).max)
_SHORTEST = float(f"{_LARGEST:.8g}")
_DOUBLES = "double_data"
"""The only field of ONNX whose numbers have more bits than a float."""


def as_data(message: Any) -> dict[str, Any]:
    """A message as data for JSON, with ONNX's names for its fields."""
    data: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    waiting: list[Any] = [data]
    while waiting:
        container = waiting.pop()
        for place, value in container.items() if isinstance(container, dict) else enumerate(container):
            if isinstance(value, (dict, list)) and place != _DOUBLES:
                waiting.append(value)
            elif isinstance(value, float) and abs(value) == _SHORTEST:
                container[place] = math.copysign(_LARGEST, value)
    return data


# The difference of two messages as data for JSON, and putting it in again.
#
# Entries of lists are identified by names (the first output of a node, the name of a tensor), so that they are found again
# in a list that was edited meanwhile. If both messages have a value, the difference contains the pair of values: it is put
# in only if the other message still has its own value.

Rest = dict[str, Any]
_GONE = None
_NAMES = ("name", "key", "tensor_name", "domain")


def missing(wanted: Any, current: Any) -> Rest:
    """By field, the changes that make `current` equal to `wanted`."""
    rest: Rest = {}
    for field in wanted.DESCRIPTOR.fields:
        ours, theirs = _value(wanted, field), _value(current, field)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            if not _repeated(field) and ours is not None and theirs is not None:
                if inner := missing(ours, theirs):
                    rest[field.name] = inner
                continue
            if _repeated(field) and len(ours) == len(theirs) and ours:
                inner = {
                    name: below for name, a, b in zip(_names(theirs), ours, theirs, strict=True) if (below := missing(a, b))
                }
                if inner:
                    rest[field.name] = inner
                continue
        if ours != theirs:
            rest[field.name] = [_said(theirs, field), _said(ours, field)]
    return rest


def supplied(message: Any, rest: Rest) -> int:
    """Puts the missing fields into a message; returns how many of them no longer had a place."""
    left = 0
    for name, what in rest.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        if isinstance(what, list):
            before, after = what
            if repr(_said(_value(message, field), field)) == repr(before):  # NaN is NaN
                _put(message, field, after)
            else:
                left += 1
        elif not _repeated(field):
            left += supplied(getattr(message, name), what)
        else:
            entries = dict(zip(_names(getattr(message, name)), getattr(message, name), strict=True))
            for key, inner in what.items():
                left += supplied(entries[key], inner) if key in entries else 1
    return left


def _names(entries: Sequence[Any]) -> list[str]:
    """A name for each entry of a list: its own, or its place if it has no name or shares it."""
    own = []
    for entry in entries:
        outputs = getattr(entry, "output", None)
        own.append(
            next((str(name) for name in outputs if name), "")
            if outputs is not None and hasattr(entry, "op_type")
            else next((str(getattr(entry, name)) for name in _NAMES if hasattr(entry, name)), "")
        )
    seen: dict[str, int] = {}
    for name in own:
        seen[name] = seen.get(name, 0) + 1
    return [name if name and seen[name] == 1 else f"#{place}" for place, name in enumerate(own)]


def _repeated(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == FieldDescriptor.LABEL_REPEATED


def _value(message: Any, field: FieldDescriptor) -> Any:
    if _repeated(field):
        return list(getattr(message, field.name))
    return getattr(message, field.name) if message.HasField(field.name) else _GONE


def _said(value: Any, field: FieldDescriptor) -> Any:
    if isinstance(value, list):
        return [_said(item, field) for item in value]
    if value is _GONE:
        return None
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        return as_data(value)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode()
    return value


def _put(message: Any, field: FieldDescriptor, said: Any) -> None:
    message.ClearField(field.name)
    if said is None:
        return
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        for item in said if _repeated(field) else [said]:
            into = getattr(message, field.name).add() if _repeated(field) else getattr(message, field.name)
            into.SetInParent()
            json_format.ParseDict(item, into)
    elif _repeated(field):
        getattr(message, field.name).extend(base64.b64decode(item) if _bytes(field) else item for item in said)
    else:
        setattr(message, field.name, base64.b64decode(said) if _bytes(field) else said)


def _bytes(field: FieldDescriptor) -> bool:
    return bool(field.type == FieldDescriptor.TYPE_BYTES)


# A model in ONNX's own text, with its weights in a file next to it, and the model again.
#
# `net.onnxtxt` is the output of `onnx.printer`. Tensors of more than a few elements go to `net.onnxtxt.data`, and the text
# names this file. Facts that the text cannot express (doc strings, metadata of nodes, which of two ways a number is stored)
# go to `net.onnxtxt.rest.json`. Reading the three returns the same model. A text may be edited, and works alone.

_VALUES = ("raw_data", "float_data", "double_data", "int32_data", "int64_data", "uint64_data")
_RAW = "raw_data"
_NUMBERS = {name: number for number, name in FIELDS.items()}
_NAME = re.compile("[A-Za-z_][A-Za-z_0-9]*")
_DOMAIN = re.compile(r"[A-Za-z_][A-Za-z_0-9]*(\.[A-Za-z_][A-Za-z_0-9]*)*")
_STRING = int(onnx.TensorProto.STRING)
_UNSAID = frozenset((14, 15, 21, 22, 23, 25, 26, 27, 28))
"""Element types without numbers in the text format: complex types, and types of fewer than eight bits."""
_PACKED = frozenset((21, 22, 23, 25, 26))
"""The element types among them that have several values in a number of `int32_data`, as they have in a byte."""


def shown_text(model: Model) -> str:
    """A model as text, with the SHA-256 of each weight in place of its values."""
    proto = model.sketch()
    _check_texts(proto, TEXT)
    for tensor, content, field in _moved(proto):
        _refer(tensor, {"sha256": digest([content]), "length": length([content])}, field)
    return judges.print_text(_printable(proto).SerializeToString())


def write(model: Model, target: Path, *, force: bool = False) -> list[Path]:
    """Writes a model as text and returns the files that were written.

    Raises:
        RewriterError: a file exists, or the text format cannot express something in the model.
    """
    proto = model.sketch()
    _check_texts(proto, TEXT)
    if model.folder is not None:
        external_data.copy_data_files(proto, model.folder, target.parent, force)
    contents: list[bytes | Payload] = []
    end = 0
    for tensor, content, field in _moved(proto):
        size = length([content])
        place = {"location": _data(target).name, "offset": end, "length": size, "checksum": digest([content])}
        _refer(tensor, place, field)
        contents.append(content)
        end += size
    text = judges.print_text(_printable(proto).SerializeToString())
    rest = missing(proto, _parsed(text, "ONNX's text cannot represent this model; write .json or .textproto"))
    written = [(target, text.encode())]
    if rest:
        written.append((_rest(target), json.dumps(rest, indent=1, ensure_ascii=False).encode()))
    files = [*([_data(target)] if contents else []), *(path for path, _ in reversed(written))]
    for file in files:
        check_target(file, force)
    if contents:
        write_file(_data(target), lambda descriptor: write_pieces(descriptor, contents), force)
    for path, data in reversed(written):
        write_file(path, data, force)
    if not rest and force:
        _rest(target).unlink(missing_ok=True)
    return files[::-1]


def read(text: str, path: Path) -> tuple[Model, list[str]]:
    """The model of a text and of the files next to it, and notes on these files.

    Raises:
        RewriterError: the text cannot be parsed, or its weights are missing or have changed since it was written.
    """
    proto = _parsed(text, str(path))
    notes = []
    if _rest(path).is_file():
        try:
            rest = json.loads(read_bytes(_rest(path)))
            left = supplied(proto, rest)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise RewriterError(f"{_rest(path)}: not a file that was written next to a text: {error}") from None
        if left:
            notes.append(f"entries of {_rest(path).name} whose node or tensor is no longer in the text, left out: {left:,}")
    files = DataFiles()
    for tensor in external_data.tensors_of(proto):
        if not external_data.is_external(tensor):
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if "sha256" in entries and "location" not in entries:
            raise RewriterError(f"{path}: has only the SHA-256 of {tensor.name!r}; `rewriter text -o FILE` keeps weights")
        if entries.get("location") == _data(path).name:
            _put_in(tensor, entries, path, files)
    for node in _nodes(proto):  # only an initializer of a graph keeps the file of its weights open
        for attribute in node.attribute:
            for tensor in _tensors(attribute):
                tensor.CopyFrom(completed(tensor))
    return Model.from_proto(proto, Path(os.path.abspath(path)).parent), notes


def _data(path: Path) -> Path:
    return path.with_name(f"{path.name}.data")


def _rest(path: Path) -> Path:
    return path.with_name(f"{path.name}.rest.json")


def _parsed(text: str, who: str) -> onnx.ModelProto:
    """The model of a text, in the form that exporters write: values of tensors as bytes, and no empty domains."""
    try:
        proto: onnx.ModelProto = onnx.ModelProto.FromString(judges.parse_text(text))
    except judges.RefusedError as error:
        raise RewriterError(f"{who}: {error}") from None
    for tensor in external_data.tensors_of(proto):
        if not external_data.is_external(tensor) and tensor.data_type != _STRING:
            _as_bytes(tensor)
    for node in _nodes(proto):
        if node.HasField("domain") and not node.domain:
            node.ClearField("domain")
    return proto


def _as_bytes(tensor: onnx.TensorProto) -> None:
    try:
        data = numpy_helper.from_array(read_tensor(tensor, None)).raw_data
    except RewriterError:
        return
    for name in _VALUES:
        tensor.ClearField(name)
    tensor.raw_data = data


def _nodes(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    return (message for message in messages(proto) if isinstance(message, onnx.NodeProto))


def _tensors(attribute: onnx.AttributeProto) -> list[onnx.TensorProto]:
    return [*([attribute.t] if attribute.HasField("t") else ()), *attribute.tensors]


def _moved(proto: onnx.ModelProto) -> Iterator[tuple[onnx.TensorProto, bytes | Payload, str]]:
    """Tensors that are too long to be shown, or cannot be shown, with their bytes and the field that contains these."""
    for tensor in external_data.tensors_of(proto):
        if external_data.is_external(tensor) or tensor.data_type == _STRING:
            continue
        apart = payload_of(tensor)
        if apart is not None:
            yield tensor, apart, FIELDS[apart.field]
            continue
        if np.prod(tensor.dims, dtype=float) <= SHOWN and tensor.data_type not in _UNSAID:
            continue
        empty = _RAW if tensor.HasField(_RAW) else "int32_data"
        field = next((name for name in _VALUES if len(getattr(tensor, name))), empty)
        if field == _RAW:
            yield tensor, tensor.raw_data, field
            continue
        try:
            yield tensor, numpy_helper.from_array(read_tensor(tensor, None)).raw_data, field
        except RewriterError:
            continue  # damaged: as much of it is shown as can be


def _refer(tensor: onnx.TensorProto, place: dict[str, object], field: str) -> None:
    kept = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    for name in ("name", "data_type", "doc_string"):
        if not tensor.HasField(name):
            kept.ClearField(name)
    if tensor.HasField("doc_string"):
        kept.doc_string = tensor.doc_string
    kept.metadata_props.extend(tensor.metadata_props)
    external_data.refer(kept, **place, **({} if field == _RAW else {"field": field}))
    tensor.CopyFrom(kept)


def _printable(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy with other words in place of words that the printer or the parser cannot process."""
    copy: onnx.ModelProto = onnx.ModelProto.FromString(proto.SerializeToString())
    for tensor in external_data.tensors_of(copy):
        if tensor.data_type == _STRING and not external_data.is_external(tensor):
            items = [_readable(item) for item in tensor.string_data]
            del tensor.string_data[:]
            tensor.string_data.extend(items or [b""])
    for function in copy.functions:
        function.name = _plain(function.name, _NAME)
    for node in _nodes(copy):
        node.op_type = _plain(node.op_type, _NAME)
        if node.domain:
            node.domain = _plain(node.domain, _DOMAIN)
        for attribute in node.attribute:
            for tensor in _tensors(attribute):
                if tensor.name or external_data.is_external(tensor):
                    tensor.name = _plain(tensor.name, _NAME)
            if attribute.HasField("s"):
                attribute.s = _readable(attribute.s)
            strings = [_readable(item) for item in attribute.strings]
            del attribute.strings[:]
            attribute.strings.extend(strings)
    return copy


def _readable(item: bytes) -> bytes:
    return item if isinstance(text_or_bytes(item), str) else b""


def _plain(name: str, form: re.Pattern[str]) -> str:
    return name if form.fullmatch(name) else re.sub("[^A-Za-z_0-9]", "_", name) or "_"


def _put_in(tensor: onnx.TensorProto, entries: dict[str, str], path: Path, files: DataFiles) -> None:
    """Reads the bytes of a tensor from the file next to the text; long ones stay there until the model is written."""
    place = external_data.reference(tensor)
    file = files.opened(Path(os.path.abspath(path)).parent, place.location)
    size = file.size - place.offset if place.length is None else place.length
    if size < 0 or place.offset + size > file.size:
        raise RewriterError(f"{path}: the data of {tensor.name!r} end after the end of {place.location!r}")
    found = Payload(file, place.offset, size, _NUMBERS.get(entries.get("field", _RAW), 0))
    if "checksum" in entries and digest([found]) != entries["checksum"]:
        raise RewriterError(f"{path}: the data of {tensor.name!r} in {place.location!r} do not match its checksum")
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    if found.field:
        tensor.MergeFromString(found.mark())
    else:
        _put_numbers(tensor, entries["field"], found.read())


def _put_numbers(tensor: onnx.TensorProto, field: str, data: bytes) -> None:
    if field == "int32_data" and (not data or tensor.data_type in _PACKED):
        tensor.int32_data.extend(data)
        return
    copy = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, raw_data=data)
    array = read_tensor(copy, None).reshape(-1)
    if field == "int32_data" and array.dtype.kind not in "iu":
        array = array.view(f"u{array.dtype.itemsize}")
    if field not in ("int32_data", "int64_data", "uint64_data"):
        raise RewriterError(f"tensor {tensor.name!r}: {field!r} is no field for values")
    getattr(tensor, field).extend(array.tolist())


BINARY, TEXT, JSON, PROTO_TEXT = "onnx", "onnxtxt", "json", "textproto"

ENDINGS = {
    **dict.fromkeys((".onnx", ".pb", ".pbin"), BINARY),
    **dict.fromkeys((".onnxtxt", ".onnxtext"), TEXT),
    **dict.fromkeys((".json", ".onnxjson"), JSON),
    **dict.fromkeys((".textproto", ".txtpb", ".prototxt", ".pbtxt"), PROTO_TEXT),
}


def form_of(path: Path) -> str | None:
    """The form that a file's name implies; None if it implies none."""
    return ENDINGS.get(path.suffix.lower())


def read_form(path: Path) -> tuple[Model, list[str]]:
    """The model in a file of any form, and notes on it.

    Raises:
        RewriterError: the file cannot be read, or is not in the form that its name or its beginning implies.
    """
    form = form_of(path) or _by_beginning(read_bytes(path))
    if form == BINARY:
        return load(path), []
    try:
        text = read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise RewriterError(f"{path}: not a text: {error}") from None
    if form == TEXT:
        return read(text, path)
    proto = onnx.ModelProto()
    try:
        if form == JSON:
            json_format.Parse(text, proto, max_recursion_depth=200)
        else:
            text_format.Parse(text, proto)
    except (json_format.ParseError, text_format.ParseError, RecursionError, ValueError) as error:
        raise RewriterError(f"{path}: not a model in protobuf's {form} form: {' '.join(str(error).split())[:300]}") from None
    if not proto.HasField("graph"):
        raise RewriterError(f"{path}: not an ONNX model: it has no graph")
    return Model.from_proto(proto, path.parent), []


def shown(model: Model, form: str) -> str:
    """A model as text, for the standard output: ONNX's own shows the SHA-256 of weights. Errors as for `write_form`."""
    return shown_text(model) if form == TEXT else _written(model, form)


def write_form(model: Model, target: Path, form: str, *, force: bool = False) -> list[Path]:
    """Writes a model in a form and returns the files that were written.

    Raises:
        RewriterError: a file exists or cannot be written, or the form cannot express something in the model.
    """
    check_target(target, force)
    if form == TEXT:
        return write(model, target, force=force)
    if form == BINARY:
        model.write(target, force=force)
        return [target]
    text = _written(model, form)
    if model.folder is not None:
        external_data.copy_data_files(model.sketch(), model.folder, target.parent, force)
    write_file(target, text.encode(), force)
    return [target]


def _written(model: Model, form: str) -> str:
    proto = model.to_proto()
    _check_texts(proto, form)
    try:
        if form == JSON:
            return json.dumps(as_data(proto), indent=2)
        return str(text_format.MessageToString(proto, as_utf8=True))
    except (UnicodeError, ValueError, json_format.SerializeToJsonError) as error:
        raise RewriterError(f"the model cannot be written as {form}: {error}") from None


def _check_texts(proto: onnx.ModelProto, form: str) -> None:
    """Raises RewriterError for a text that is not UTF-8: protobuf returns it as bytes, and no form could be read again."""
    for message in messages(proto):
        for field, value in message.ListFields():
            if field.type == FieldDescriptor.TYPE_STRING:
                for item in value if _repeated(field) else [value]:
                    if isinstance(item, bytes):
                        why = f"its {field.name} {repr(item)[1:]:.80} is not valid UTF-8"
                        raise RewriterError(f"the model cannot be written as {form}: {why}")


def _by_beginning(data: bytes) -> str:
    start = data[:4096].lstrip()
    if start.startswith(b"{"):
        return JSON
    if start.startswith((b"<", b"#")):
        return TEXT
    return PROTO_TEXT if start.startswith((b"ir_version", b"producer_", b"graph")) else BINARY
