"""Messages of ONNX in which nodes stay the bytes they are, and the names of many nodes read from these bytes at once.

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

import os
from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import Any, TypeVar

import onnx
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

from rewriter.core.onnxfile.wire import entry, varint, varint_at
from rewriter.core.record import record

T = TypeVar("T")
_PACKAGE = "rewriter.raw"
_CHUNK = 1 << 12  # nodes
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
    written = [_rewritten(nodes[start : start + _CHUNK]) for start in range(0, len(nodes), _CHUNK)]
    if any(part is not None for part in written):
        parts = zip(range(0, len(nodes), _CHUNK), written, strict=True)
        del raw.graph.node[:]
        for start, part in parts:
            raw.graph.node.extend(nodes[start : start + _CHUNK] if part is None else part)
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
