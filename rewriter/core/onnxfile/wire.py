"""Finding the weights in a serialised model without parsing it, so that they can be left out of it and put back.

A model is a message of protobuf: fields, each a key and a value, some of them messages again. Both ways of rewriting it walk
down to its tensors. If a tensor is rewritten, the lengths of the enclosing fields are written anew. All else is named by its
place and neither copied nor read. A wrong length is found before anything is allocated for it.

The node `y = Relu(x)` is twelve bytes, three fields that each begin with a key (number * 8 + 2) and a length:

    0a 01 78             field 1, input: one byte, "x"
    12 01 79             field 2, output: one byte, "y"
    22 04 52 65 6c 75    field 4, op_type: four bytes, "Relu"

>>> node = bytes.fromhex("0a0178 120179 220452656c75")
>>> [(number, start, node[value:stop]) for number, _, start, value, stop in fields(Source.of(node), 0, len(node))]
[(1, 0, b'x'), (2, 3, b'y'), (4, 6, b'Relu')]
>>> entry(4, b"Relu").hex(" "), varint(4096).hex(" ")  # seven bits a byte, the lowest first; 80 is set where more follows
('22 04 52 65 6c 75', '80 20')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

LENGTH_DELIMITED = 2
_VARINT, _FIXED64, _FIXED32 = 0, 1, 5
_GROUPS = (3, 4)  # an old kind of inner message that no field of ONNX is
_HEAD = 24  # bytes that hold any key and any length
_SINGLE_TENSOR = 5  # the only tensor among the fields of ATTRIBUTE that is no list
_MOST_LEVELS = 100  # of messages in each other; protobuf's own limit

MODEL, GRAPH, NODE, ATTRIBUTE, TENSOR, SPARSE, FUNCTION, TRAINING = range(8)

Table = Mapping[int, Mapping[int, int]]
"""By message and number: fields with messages that contain tensors at any depth."""

LAZY: Table = {
    MODEL: {7: GRAPH, 25: FUNCTION},
    GRAPH: {1: NODE, 5: TENSOR},
    NODE: {5: ATTRIBUTE},
    ATTRIBUTE: {5: TENSOR, 6: GRAPH},
    FUNCTION: {7: NODE},
}
"""Fields whose tensors become constants of a graph, which are read on first use: initializers and attributes of nodes."""

ALL: Table = {
    MODEL: {**LAZY[MODEL], 20: TRAINING},
    GRAPH: {**LAZY[GRAPH], 15: SPARSE},
    NODE: LAZY[NODE],
    ATTRIBUTE: {**LAZY[ATTRIBUTE], 10: TENSOR, 11: GRAPH, 22: SPARSE, 23: SPARSE},
    FUNCTION: {**LAZY[FUNCTION], 11: ATTRIBUTE},
    SPARSE: {1: TENSOR, 2: TENSOR},
    TRAINING: {1: GRAPH, 2: GRAPH},
}
"""All of them."""


class MalformedError(Exception):
    """The bytes are no message, or lie about a length.

    Attributes:
        missing: how many bytes the last field of the message lacks; 0 when the message is broken otherwise.
    """

    def __init__(self, missing: int = 0) -> None:
        super().__init__(missing)
        self.missing = missing


class Source:
    """The bytes to walk through: in memory, or in a file that is read one window at a time.

    Attributes:
        buffer, base: the window and the place where it begins.
        size: of all of it.
    """

    __slots__ = ("_read", "base", "buffer", "size")

    def __init__(self, size: int, read: Callable[[int, int], bytes], buffer: bytes = b"") -> None:
        """`read(place, count)` returns the bytes at a place, fewer only at the end."""
        self.size = size
        self.buffer = buffer
        self.base = 0
        self._read = read

    @classmethod
    def of(cls, data: bytes) -> Source:
        """Bytes in memory."""
        return cls(len(data), lambda place, count: data[place : place + count], data)

    def move(self, place: int) -> None:
        """Moves the window to a place: a large one while walking on, a small one after a jump."""
        near = 0 <= place - self.base <= len(self.buffer) + 4096
        self.buffer = self._read(place, 1 << 16 if near else 1 << 12)
        self.base = place

    def bytes(self, start: int, stop: int) -> bytes:
        """The bytes between two places, without moving the window."""
        i = start - self.base
        if i >= 0 and stop - self.base <= len(self.buffer):
            return self.buffer[i : stop - self.base]
        return self._read(start, stop - start)


Piece = Any
"""A piece of a rewritten message: a pair (start, stop) of the source, bytes, or anything else that has a `length`."""


class Pieces(list[Piece]):
    """Pieces in a row, with their length together."""

    __slots__ = ("length",)

    def __init__(self) -> None:
        super().__init__()
        self.length = 0

    def copy_range(self, start: int, stop: int) -> None:
        """Adds a part of the source as it is."""
        if stop > start:
            self.append((start, stop))
            self.length += stop - start

    def add(self, piece: Piece) -> None:
        """Adds bytes, or something that has a length."""
        self.append(piece)
        self.length += len(piece) if isinstance(piece, bytes) else piece.length

    def add_message(self, number: int, inner: Pieces) -> None:
        """Adds a field that holds a message."""
        self.add(varint(number << 3 | LENGTH_DELIMITED) + varint(inner.length))
        self.extend(inner)
        self.length += inner.length


Field = tuple[int, int, int, int, int]
"""Number, wire type, where its key starts, where its value starts (behind a length), where it stops."""


class Walk:
    """One way of rewriting the tensors of a model.

    Attributes:
        source: the serialised model.
        table: the fields in which to search tensors.
        worth: whether there may be such a tensor between two places; if not, the walk skips them.
        tensor: the new pieces of a tensor between two places, None to leave it as it is.
        least: messages with fewer bytes are skipped, such as small nodes, since there may be a million of them.
    """

    def __init__(
        self,
        source: Source,
        table: Table,
        worth: Callable[[int, int], bool],
        tensor: Callable[[int, int], Pieces | None],
        least: int = 0,
    ) -> None:
        self.source = source
        self.table = table
        self.worth = worth
        self.tensor = tensor
        self.least = least

    def rewritten(self, kind: int) -> Pieces | None:
        """The whole message; None if no tensor in it was rewritten. Raises MalformedError if it is no message."""
        return self._message(kind, 0, self.source.size, 0)

    def _message(self, kind: int, start: int, stop: int, level: int) -> Pieces | None:
        if level > _MOST_LEVELS:
            raise MalformedError
        if kind == TENSOR:
            return self.tensor(start, stop)
        inner, worth, tensors = self.table[kind], self.worth, 0
        pieces, done = Pieces(), start
        least = self.least if kind == GRAPH else 0
        for number, wire, at, value, end in fields(self.source, start, stop, least):
            if number not in inner or wire != LENGTH_DELIMITED:
                continue
            if kind == ATTRIBUTE and number == _SINGLE_TENSOR:
                tensors += 1
                if tensors > 1:  # protobuf merges them into one, so that none of them may be read alone
                    return None
            if worth(value, end):
                new = self._message(inner[number], value, end, level + 1)
                if new is not None:
                    pieces.copy_range(done, at)
                    pieces.add_message(number, new)
                    done = end
        if not pieces:
            return None
        pieces.copy_range(done, stop)
        return pieces


def fields(source: Source, start: int, stop: int, least: int = 0) -> Iterator[Field]:
    """The fields of a message between two places; many fields of less than `least` bytes are left out.
    Raises MalformedError if a field does not fit.
    """
    if stop > source.size:
        raise MalformedError
    at = start
    while at < stop:
        i = at - source.base
        if i < 0 or i + _HEAD > len(source.buffer) < source.size - source.base:
            source.move(at)
            i = 0
        buffer = source.buffer
        if least:
            i = _behind_small(buffer, i, min(len(buffer) - _HEAD, stop - source.base), least)
            if source.base + i > at:
                at = source.base + i
                if at > stop:
                    raise MalformedError
                continue
        try:
            key = buffer[i]
            i += 1
            if key > 127:
                key, i = varint_at(buffer, i - 1)
            wire = key & 7
            if wire == LENGTH_DELIMITED:
                length = buffer[i]
                i += 1
                if length > 127:
                    length, i = varint_at(buffer, i - 1)
            elif wire == _VARINT:
                length = 1
                while buffer[i + length - 1] > 127:
                    length += 1
            else:
                length = 8 if wire == _FIXED64 else 4
        except IndexError:
            raise MalformedError from None
        value = source.base + i
        end = value + length
        if wire in _GROUPS or wire > _FIXED32 or not key >> 3:
            raise MalformedError
        if end > stop:
            raise MalformedError(end - stop)
        yield key >> 3, wire, at, value, end
        at = end


def _behind_small(buffer: bytes, i: int, end: int, least: int) -> int:
    """The place behind fields of few bytes that follow each other, a place from `end` on for all."""
    while i < end:
        key, length, start = buffer[i], buffer[i + 1], i + 2
        if length > 127:
            length, start = length & 127 | buffer[i + 2] << 7, i + 3
        if length >= least or key & 135 != LENGTH_DELIMITED or key < 8 or buffer[start - 1] > 127:
            break
        i = start + length
    return i


def varint_at(buffer: bytes, i: int) -> tuple[int, int]:
    """The number at a place, and the place behind it. Raises MalformedError, or IndexError at the end."""
    value = shift = 0
    while True:
        byte = buffer[i]
        value |= (byte & 127) << shift
        i += 1
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise MalformedError
    return value, i


def entry(number: int, content: bytes) -> bytes:
    """A field with a length, as protobuf writes it."""
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(content)) + content


def varint(value: int) -> bytes:
    """A number as protobuf writes it, in groups of seven bits."""
    result = bytearray()
    while value > 127:
        result.append(value & 127 | 128)
        value >>= 7
    result.append(value)
    return bytes(result)
