"""Model files, read in part: the weights of large models stay in the file, and nodes stay the bytes they are.

The weights are taken out before protobuf reads a model, and put back after protobuf wrote it. The result has the very bytes
that protobuf would have written with the weights: each message writes its fields in the order of their numbers, and unknown
fields last.

A model that is one initializer of 1024 floats, and the same with a mark in place of the floats. The lengths around it change:

    3a 86 20         graph, 4102 bytes                   3a 2f         graph, 47 bytes
    2a 83 20         initializer, 4099 bytes             2a 2d         initializer, 45 bytes
    4a 80 20 00 ...  raw_data, 4096 bytes from 9 on      82 e2 09 29   field 20000, 41 bytes: a secret of this process, and
                                                                       file, field 9, offset 9 and length 4096

>>> model = bytes.fromhex("3a8620 2a8320 4a8020") + bytes(4096)
>>> with tempfile.TemporaryFile() as stored:
...     _ = stored.write(model)
...     stored.flush()
...     file = WeightFile(os.dup(stored.fileno()), "tiny.onnx")
>>> small = without_weights(file)
>>> small[:8].hex(" "), len(small)
('3a 2f 2a 2d 82 e2 09 29', 49)
>>> [piece if isinstance(piece, bytes) else (piece.field, piece.offset, piece.length) for piece in with_weights(small)]
[b':\x86 ', b'*\x83 ', b'J\x80 ', (9, 9, 4096)]
>>> joined(with_weights(small)) == model
True

The *mark* is a field that ONNX does not have, which protobuf keeps when it copies or writes a message, so that the mark goes
wherever the message goes, and the weights stay in the file they were read from. It begins with random bytes of this process, so
no model can bring one along.

Protobuf's own code does for a whole graph what would cost a loop of calls for each node: it cuts nodes apart and puts them
together again, and it lists the values of a field in all nodes. It uses message types that differ from ONNX's own in the
contents of their fields:

    RawModel, RawGraph, RawFunction         ModelProto, GraphProto and FunctionProto of ONNX, but a node is bytes
    Names                                   a node whose name, operator and domain are lists as its operands are, so that many
                                            nodes in a row read as one, with all names of a kind in one list

Unlike messages of nodes, their bytes take no more memory than in the file, and unedited nodes are written by passing their
bytes on. A message that is built from these is written byte for byte as ONNX's own message is.

A graph of two nodes, `y = Relu(x)` and `z = Neg(y)`; wire.py spells out the bytes of the first:

>>> nodes = [bytes.fromhex("0a0178 120179 220452656c75"), bytes.fromhex("0a0179 12017a 22034e6567")]
>>> graph = RawGraph.FromString(entry(1, nodes[0]) + entry(1, nodes[1]))
>>> [node.hex(" ") for node in graph.node]
['0a 01 78 12 01 79 22 04 52 65 6c 75', '0a 01 79 12 01 7a 22 03 4e 65 67']
>>> read = columns(graph.node)
>>> read.ops, read.inputs.names, read.outputs.names
(['Relu', 'Neg'], ['x', 'y'], ['y', 'z'])
>>> with_inputs(nodes[1], 1, ["x"]).hex(" ")  # z = Neg(x): only the operands in front are written anew
'0a 01 78 12 01 7a 22 03 4e 65 67'

For `columns` the nodes are joined, each followed by a field `input` that holds a mark no name contains. Read as one message of
`Names`, they have input = ["x", mark, "y", mark] and op_type = ["Relu", "Neg"], and a mark is the end of a node.
"""

from __future__ import annotations

import gc
import os
import struct
import weakref
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]
from google.protobuf.unknown_fields import UnknownFieldSet  # type: ignore[import-untyped]

from rewriter.core.errors import RewriterError, reason
from rewriter.core.onnxfile import external_data, files, wire
from rewriter.core.onnxfile.files import all_bytes, opened, transfer, write_all
from rewriter.core.onnxfile.wire import (
    LENGTH_DELIMITED,
    MalformedError,
    Piece,
    Pieces,
    Source,
    Walk,
    entry,
    fields,
    varint,
    varint_at,
)
from rewriter.core.record import record

T = TypeVar("T")
_PACKAGE = "rewriter.raw"
_NODES_AT_ONCE = 1 << 12  # nodes
_OPTIONAL, _REPEATED, _BYTES = 1, 3, 12  # of FieldDescriptorProto
_LIKE = (onnx.ModelProto, onnx.GraphProto, onnx.FunctionProto, onnx.NodeProto)
_COLUMNS = ("input", "output", "name", "op_type", "domain")


def _classes() -> list[Any]:
    """The classes, defined by a serialised file like those of protobuf's compiler. That costs less than loading the classes
    that such files are otherwise made with.
    """
    source = onnx.ModelProto.DESCRIPTOR.file
    model, graph, function, node = (kind.DESCRIPTOR.fields for kind in _LIKE)
    messages = {
        "ModelProto": [_field(field, kind=f"{_PACKAGE}.GraphProto" if field.name == "graph" else "") for field in model],
        "GraphProto": [_field(field, as_bytes=field.name == "node") for field in graph],
        "FunctionProto": [_field(field, as_bytes=field.name == "node") for field in function],
        "Names": [_field(field, repeated=True) for field in node if field.name in _COLUMNS],
    }
    file = [entry(1, b"rewriter/raw.proto"), entry(2, _PACKAGE.encode()), entry(3, source.name.encode())]
    file += [entry(4, b"".join([entry(1, name.encode()), *fields])) for name, fields in messages.items()]
    source.pool.AddSerializedFile(b"".join(file))
    return [GetMessageClass(source.pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in messages]


def _field(like: Any, *, kind: str = "", as_bytes: bool = False, repeated: bool = False) -> bytes:
    """A FieldDescriptorProto as its entry in a DescriptorProto: name, number, label, type, and the name of a message's type."""
    several = repeated or like.default_value == []  # the only query that all versions of protobuf have
    numbers = (3, like.number), (4, _REPEATED if several else _OPTIONAL), (5, _BYTES if as_bytes else like.type)
    parts = [entry(1, like.name.encode()), *(bytes([number << 3]) + varint(value) for number, value in numbers)]
    named = like.message_type or like.enum_type
    if named is not None and not as_bytes:
        parts.append(entry(6, f".{kind or named.full_name}".encode()))
    return entry(2, b"".join(parts))


RawModel, RawGraph, RawFunction, _Names = _classes()


def raw_model(data: bytes) -> Any:
    """The raw message of a serialised model, its nodes as protobuf writes them.

    Every node is parsed for that, some thousands at a time, so that the results stay in the processor's cache and are soon
    freed. Raises DecodeError if the bytes are no model.
    """
    raw = RawModel.FromString(data)
    nodes = raw.graph.node[:]
    written = [_rewritten(nodes[start : start + _NODES_AT_ONCE]) for start in range(0, len(nodes), _NODES_AT_ONCE)]
    if any(part is not None for part in written):
        parts = zip(range(0, len(nodes), _NODES_AT_ONCE), written, strict=True)
        del raw.graph.node[:]
        for start, part in parts:
            raw.graph.node.extend(nodes[start : start + _NODES_AT_ONCE] if part is None else part)
    return raw


def _rewritten(nodes: list[bytes]) -> list[bytes] | None:
    """Nodes as protobuf writes them; None when they stand so already."""
    data = RawModel(graph=RawGraph(node=nodes)).SerializeToString()  # as deep as they stand in the model
    again = onnx.ModelProto.FromString(data).SerializeToString(deterministic=True)
    return None if again == data else RawModel.FromString(again).graph.node[:]


def raw_message(kind: Any, message: Any) -> Any:
    """The raw form of a message, its nodes as protobuf writes them: `kind` is one of the classes above."""
    return kind.FromString(message.SerializeToString(deterministic=True))


@record(eq=False, slots=True)
class NameColumn:
    """The names in a list of each node, one node after the other.

    Attributes:
        names: of all nodes.
        ends: for each node the number of names up to it; None if each node has one.
    """

    names: list[str]
    ends: list[int] | None

    def parts(self, items: Iterable[T]) -> Iterable[tuple[T, ...]]:
        """Splits items, one for each name, into parts, one for each node."""
        if self.ends is None:
            return zip(items, strict=False)
        found = tuple(items)
        return [found[start:end] for start, end in pairwise([0, *self.ends])]


@record(eq=False, slots=True)
class NodeColumns:
    """The contents of nodes, as columns. A name that is not UTF-8 is bytes.

    Attributes:
        ops, names: "" if a node has none.
        domains: None if a node has none.
        inputs, outputs: names of tensors.
    """

    ops: Sequence[str]
    names: Sequence[str]
    domains: Sequence[str | None]
    inputs: NameColumn
    outputs: NameColumn


def columns(nodes: Sequence[bytes]) -> NodeColumns:
    """The columns of nodes that protobuf wrote, each singular field once at most therefore."""
    mark = _mark(b"".join(nodes))
    read = _read(nodes, mark, "input", "output")

    def single(name: str, default: Any) -> Sequence[Any]:
        values: list[str] = getattr(read, name)[:]
        if len(values) == len(nodes):
            return values
        if not values:
            return [default] * len(nodes)
        column = _column(getattr(_read(nodes, mark, name), name)[:], mark)
        return [part[0] if part else default for part in column.parts(column.names)]

    return NodeColumns(
        single("op_type", ""),
        single("name", ""),
        single("domain", None),
        _column(read.input[:], mark),
        _column(read.output[:], mark),
    )


def _column(marked: list[str], mark: str) -> NameColumn:
    """A column from a list in which the mark follows the names of each node."""
    half = len(marked) // 2
    if marked.count(mark) == half == marked[1::2].count(mark):
        return NameColumn(marked[: 2 * half : 2], None)
    names: list[str] = []
    ends = []
    for name in marked:
        if name == mark:
            ends.append(len(names))
        else:
            names.append(name)
    return NameColumn(names, ends)


def with_inputs(node: bytes, count: int, names: Iterable[str]) -> bytes:
    """A node as protobuf wrote it, with `names` in place of its `count` inputs, which come before all other fields."""
    place = 0
    for _ in range(count):
        size, place = (node[place + 1], place + 2) if node[place + 1] < 128 else varint_at(node, place + 1)
        place += size
    values = [name.encode() for name in names]
    inputs = [b"\n%c%b" % (len(value), value) if len(value) < 128 else entry(1, value) for value in values]
    return b"".join(inputs) + node[place:]


def _mark(data: bytes) -> str:
    """A text that occurs in no field of these bytes; if possible a single letter, which Python stores only once."""
    for mark in chain(map(chr, range(32)), iter(lambda: os.urandom(8).hex(), "")):
        if entry(0, mark.encode())[1:] not in data:
            return mark
    raise AssertionError("there is always another one")


def _read(nodes: Sequence[bytes], mark: str, *marked: str) -> Any:
    """All nodes as one, the mark behind each in some of its lists."""
    between = _Names(**{name: [mark] for name in marked}).SerializeToString()
    return _Names.FromString(between.join([*nodes, b""]))


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
        proto = parse(without_weights(weights))
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


MARK = 20_000
"""The number of the field; ONNX's own numbers are small."""

LEAST_ASIDE = 1 << 20
"""Bytes of a new constant from which on it may be put aside (`graph.values`)."""

FIELDS = {4: "float_data", 9: "raw_data", 10: "double_data"}
"""Fields that can be left out, by number: protobuf writes them with the very bytes that it read."""

PREFIX = os.urandom(16)
_REST = struct.Struct("<QBQQ")  # number of the file, number of the field, offset, length
_MOST_FORGOTTEN = 64  # from this many open files on, files of forgotten models are searched


class WeightFile:
    """An open file with weights, which are read on request.

    It is closed when the last reference to it is gone. Until then it may be renamed or deleted, but not written to.

    Attributes:
        descriptor: open for reading.
        name: of the file in error messages.
        number: by which marks refer to it.
        size: in bytes.
    """

    opened = 0  # number of files opened up to now

    def __init__(self, descriptor: int, name: str) -> None:
        """Takes the descriptor of a regular file as its own."""
        self.descriptor = descriptor
        self.name = name
        self.number = WeightFile.opened
        WeightFile.opened += 1
        self._stamp = _stamp(descriptor)
        self.size = self._stamp[0]
        if len(_open) >= _MOST_FORGOTTEN:
            gc.collect()  # graphs are circular: they and their files stay until the collector comes by
        _open[self.number] = self
        weakref.finalize(self, os.close, descriptor)

    def check(self) -> None:
        """Raises RewriterError if the file was changed, which its size and time of change show."""
        if _stamp(self.descriptor) != self._stamp:
            raise RewriterError(f"{self.name} changed while rewriter was working on it; run the command again")

    def read_into(self, buffer: memoryview, offset: int) -> None:
        """Fills a buffer with the bytes from there on. Raises RewriterError when the file was changed or cannot be read."""
        try:
            while buffer:
                done = os.preadv(self.descriptor, [buffer[: 1 << 30]], offset)
                if not done:
                    break
                buffer, offset = buffer[done:], offset + done
        except OSError as error:
            raise RewriterError(f"{self.name}: {reason(error)}") from error
        self.check()
        if buffer:
            raise RewriterError(f"{self.name}: the file became shorter while it was read")

    def read(self, offset: int, length: int) -> bytes:
        """A number of bytes from a place on; errors as for `read_into`."""
        data = bytearray(length)
        self.read_into(memoryview(data), offset)
        return bytes(data)


_open: weakref.WeakValueDictionary[int, WeightFile] = weakref.WeakValueDictionary()


@record(frozen=True, slots=True)
class Payload:
    """Bytes that are in a file.

    Attributes:
        file: the file.
        offset, length: their place in the file.
        field: the number of the TensorProto field with this content; 0 for none.
    """

    file: WeightFile
    offset: int
    length: int
    field: int = 0

    def mark(self) -> bytes:
        """The serialised field that replaces the weights in a message."""
        content = PREFIX + _REST.pack(self.file.number, self.field, self.offset, self.length)
        return entry(MARK, content)

    def read(self) -> bytes:
        """The bytes; errors as for `WeightFile.read_into`."""
        return self.file.read(self.offset, self.length)

    def array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        """The bytes as an array, which they must fill; errors as for `WeightFile.read_into`."""
        array = np.empty(shape, dtype)
        self.file.read_into(array.reshape(-1).view(np.uint8).data, self.offset)
        return array


def payload(content: bytes) -> Payload | None:
    """The weights that a mark's content refers to; None if it is no mark. Raises RewriterError if its file is closed."""
    if not content.startswith(PREFIX):
        return None
    number, field, offset, length = _REST.unpack_from(content, len(PREFIX))
    file = _open.get(number)
    if file is None:
        raise RewriterError("the model that these weights belong to is gone, and its file closed")
    return Payload(file, offset, length, field)


def payload_of(tensor: onnx.TensorProto) -> Payload | None:
    """The data of a tensor that were left out; None if they were not left out. Errors as for `payload`."""
    if not WeightFile.opened:
        return None
    for unknown in UnknownFieldSet(tensor):
        if unknown.field_number == MARK and isinstance(unknown.data, bytes):
            found = payload(unknown.data)
            if found is not None:
                return found
    return None


def _stamp(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns


LEAST_FIELD = 1 << 12
"""Bytes of a field of a tensor from which on it is left out."""

_UNIT = {4: 4, 9: 1, 10: 8}  # bytes of one item of the fields that can be left out
_WIRES = {1: (0, 2), 2: (0,), 3: (2,), 4: (2, 5), 5: (0, 2), 6: (2,), 7: (0, 2), 8: (2,), 9: (2,), 10: (1, 2), 11: (0, 2)}
"""How the fields of a tensor are written; protobuf moves fields that are written otherwise to the end."""

_SMALL = 1 << 16  # bytes of weights that pass through memory, together with the bytes around them
_CHUNK = 1 << 18  # bytes of weights that are digested at once: few enough to stay in a processor's own memory
_MANY = 64  # such pieces are written at once


def without_weights(file: WeightFile) -> bytes:
    """A serialised model with marks in place of its large tensor data.

    Raises:
        MalformedError: the file holds no model, or one that must be read as a whole.
        RewriterError: the file was changed meanwhile.
    """
    source = Source(file.size, lambda place, count: file.read(place, min(count, file.size - place)))
    least = LEAST_FIELD

    def tensor(start: int, stop: int) -> Pieces | None:
        large: list[wire.Field] = []
        numbers: list[int] = []
        for field in fields(source, start, stop):
            number, kind, _, value, end = field
            if number in _WIRES and kind not in _WIRES[number]:
                return None
            numbers.append(number)
            if number in FIELDS and end - value >= least:
                large.append(field)
        if len(large) != 1 or numbers.count(large[0][0]) != 1:
            return None
        number, kind, at, value, end = large[0]
        if kind != LENGTH_DELIMITED or (end - value) % _UNIT[number]:
            return None
        pieces = Pieces()
        pieces.copy_range(start, at)
        pieces.copy_range(end, stop)
        pieces.add(Payload(file, value, end - value, number).mark())
        return pieces

    pieces = Walk(source, wire.LAZY, lambda start, stop: stop - start >= least, tensor, least).rewritten(wire.MODEL)
    parts: list[Piece] = [(0, file.size)] if pieces is None else pieces
    return b"".join(part if isinstance(part, bytes) else file.read(part[0], part[1] - part[0]) for part in parts)


def with_weights(data: bytes, kind: int = wire.MODEL) -> list[bytes | Payload]:
    """A serialised message, in pieces: bytes, and in place of each mark the weights that it refers to.

    Args:
        data: as protobuf wrote it, its fields in the order of their numbers.
        kind: of message, a constant of `wire`.
    Raises:
        RewriterError: the file of some weights is closed, or a mark is in a place without a tensor.
    """
    marks = _places(data)
    if not marks:
        return [data]
    source = Source.of(data)

    def worth(start: int, stop: int) -> bool:
        i = bisect_left(marks, start)
        return i < len(marks) and marks[i] < stop

    try:
        pieces = Walk(source, wire.ALL, worth, lambda start, stop: _filled(source, start, stop)).rewritten(kind)
    except MalformedError:
        pieces = None
    if pieces is None or sum(isinstance(piece, Payload) for piece in pieces) != len(marks):
        raise RewriterError("weights of a large file stand where they cannot be written")
    return [data[piece[0] : piece[1]] if isinstance(piece, tuple) else piece for piece in pieces]


def completed(message: onnx.TensorProto) -> onnx.TensorProto:
    """A copy of a tensor's message that holds its data; errors as for `with_weights`, and when they cannot be read."""
    data = joined(with_weights(message.SerializeToString(deterministic=True), wire.TENSOR))
    complete: onnx.TensorProto = onnx.TensorProto.FromString(data)
    return complete


def joined(pieces: Sequence[bytes | Payload]) -> bytes:
    """All pieces in memory. Raises RewriterError when the weights cannot be read."""
    if len(pieces) == 1 and isinstance(pieces[0], bytes):
        return pieces[0]
    return b"".join(piece if isinstance(piece, bytes) else piece.read() for piece in pieces)


def length(pieces: Iterable[bytes | Payload]) -> int:
    """Bytes of all pieces together."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.length for piece in pieces)


def digest(pieces: Iterable[bytes | Payload]) -> str:
    """SHA-256 of all pieces together, in hexadecimal. Raises RewriterError when the weights cannot be read."""
    found, buffer = sha256(), memoryview(bytearray(_CHUNK))
    for piece in pieces:
        if isinstance(piece, bytes):
            found.update(piece)
            continue
        end = piece.offset + piece.length
        for offset in range(piece.offset, end, _CHUNK):
            part = buffer[: min(_CHUNK, end - offset)]
            piece.file.read_into(part, offset)
            found.update(part)
    return found.hexdigest()


def write_pieces(descriptor: int, pieces: Iterable[bytes | Payload]) -> None:
    """Writes pieces to a file. Raises RewriterError if a file of weights was changed, OSError if the system fails."""
    waiting: list[bytes] = []
    for piece in pieces:
        if isinstance(piece, bytes) or piece.length <= _SMALL:
            waiting.append(piece if isinstance(piece, bytes) else piece.read())
            if len(waiting) < _MANY:
                continue
        write_all(descriptor, b"".join(waiting))
        waiting.clear()
        if isinstance(piece, Payload) and piece.length > _SMALL:
            piece.file.check()
            try:
                transfer(piece.file.descriptor, piece.offset, piece.length, descriptor)
            finally:
                piece.file.check()
    write_all(descriptor, b"".join(waiting))


def _filled(source: Source, start: int, stop: int) -> Pieces | None:
    """The pieces of a tensor with a mark."""
    found = mark = None
    for number, kind, at, value, end in fields(source, start, stop):
        if number == MARK and kind == LENGTH_DELIMITED and found is None:
            found, mark = payload(source.bytes(value, end)), (at, end)
    if found is None or mark is None:
        return None
    place = next(at for number, _, at, _, _ in fields(source, start, stop) if number > found.field)  # the mark at last
    pieces = Pieces()
    pieces.copy_range(start, place)
    pieces.add(varint(found.field << 3 | LENGTH_DELIMITED) + varint(found.length))
    pieces.add(found)
    pieces.copy_range(place, mark[0])
    pieces.copy_range(mark[1], stop)
    return pieces


def _places(data: bytes) -> list[int]:
    """The places of the marks."""
    places = []
    place = data.find(PREFIX)
    while place >= 0:
        places.append(place)
        place = data.find(PREFIX, place + 1)
    return places


# A model without its weights, for programs that check it: references to external data replace the weights.
#
# Such a program checks that the external files exist and have the correct size, but does not read them. So empty files of the
# correct size replace the weights, however many gigabytes they are.


@record(frozen=True, slots=True)
class Outline:
    """A serialised model, and the files that replace the weights that were left out.

    Attributes:
        data: the model.
        files: size of each replacing file, by location; empty if no weights were left out.
    """

    data: bytes
    files: Mapping[str, int]

    def put_files(self, folder: Path) -> None:
        """Makes the files, which take no room on the disk."""
        for location, size in self.files.items():
            with open(folder / location, "wb") as file:
                file.truncate(size)


def outline(data: bytes) -> Outline:
    """The outline of a serialised model with marks. Raises RewriterError when the file of some weights is closed."""
    if PREFIX not in data:
        return Outline(data, {})
    message = onnx.ModelProto.FromString(data)
    files: dict[str, int] = {}
    for tensor in external_data.tensors_of(message):
        found = payload_of(tensor)
        if found is not None and not external_data.is_external(tensor):
            location = f"left-out-weights-{found.file.number}"
            files[location] = max(files.get(location, 0), found.offset + found.length)
            tensor.DiscardUnknownFields()
            external_data.refer(tensor, location=location, offset=found.offset, length=found.length)
    return Outline(message.SerializeToString(deterministic=True), files)
