r"""Nodes of a large graph as columns of numbers, read from its bytes by numpy.

A loop that looks into every node of a large model costs several times as much as protobuf's own parsing. Here the contents of
nodes are read column by column: the first operands of all nodes, the second ones, and so on. The reader is strict: it leaves
nodes that are not written as exporters write them (fields in another order, names that are not ASCII) to the caller, who reads
all nodes of such a graph one by one.

A graph whose name follows two nodes of 12 and 11 bytes, `y = Relu(x)` and `z = Neg(y)`:

    0 | 0a 0c | 0a 01 78  12 01 79  22 04 52 65 6c 75     a node from 2 to 14
    14| 0a 0b | 0a 01 79  12 01 7a  22 03 4e 65 67        a node from 16 to 27
    27| 12 01 67                                          the name, "g"

Protobuf finds the places of the nodes, as fast as memory can be read:

>>> data = bytes.fromhex("0a0c 0a0178 120179 220452656c75 0a0b 0a0179 12017a 22034e6567 120167")
>>> starts, stops = cut(data, 0, len(data))
>>> starts.tolist(), stops.tolist()
([2, 16], [14, 27])
>>> cut(bytes.fromhex("120167") + data, 0, len(data) + 3) is None  # the first node is not where it was said to be
True

All first operands are read at once: the byte at 2 and at 16 is the key 0a of `input` in both nodes, the next one a length, and
the name follows. The same holds at 5 and 19, the places of the key of `output`. The rest of each node (operator and attributes)
is its kind:

>>> read, stop = read_columns(data, 0, len(data))
>>> [(column.starts.tolist(), column.sizes.tolist()) for column in (*read.operands, *read.outputs)]
[([4, 18], [1, 1]), ([7, 21], [1, 1])]
>>> read.rests, read.rest_of.tolist(), stop
([b'"\x04Relu', b'"\x03Neg'], [0, 1], 27)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from rewriter.core.onnxfile.census import Body, NodeKind
from rewriter.core.onnxfile.wire import entry
from rewriter.core.record import field, record

_INPUT, _OUTPUT, _NAME, _OPERATOR = 10, 18, 26, 34  # keys of the fields of a NodeProto
_COMPARED = 256  # bytes of a text that are worth comparing many at once


# The places of the nodes: protobuf reads a message type that has only nodes, and these as bytes, so that ONNX need not be
# imported. Protobuf does not return the places of the pieces. Every exporter puts the nodes one after the other, each behind
# its key and its length.

_NODE = 10  # key of the field of a GraphProto
_MOST_OF_LENGTH = 5  # bytes


@cache
def _message() -> Any:
    """The class of `message Nodes { repeated bytes node = 1; }`."""
    from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
    from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

    field = entry(1, b"node") + bytes([3 << 3, 1, 4 << 3, 3, 5 << 3, 12])  # number, label, type
    message = entry(1, b"Nodes") + entry(2, field)
    pool = DescriptorPool()
    pool.AddSerializedFile(entry(1, b"rewriter/nodes.proto") + entry(4, message))
    return GetMessageClass(pool.FindMessageTypeByName("Nodes"))


def cut(data: bytes, i: int, end: int) -> tuple[IntArray, IntArray] | None:
    """Where the nodes of a graph begin and end; the field of the first node begins at `i`. None if they are placed otherwise.

    Raises:
        MemoryError: there is no memory left for a copy of the nodes.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        nodes = _message().FromString(memoryview(data)[i:end]).node[:]
    except DecodeError:
        return None
    sizes: IntArray = np.fromiter(map(len, nodes), np.intp, len(nodes))
    heads = 2 + sum((sizes >> 7 * count > 0).astype(np.intp) for count in range(1, _MOST_OF_LENGTH))
    stops = i + np.cumsum(heads + sizes)
    return (stops - sizes, stops) if _stand(data, stops - sizes - heads, sizes) else None


def _stand(data: bytes, places: IntArray, sizes: IntArray) -> bool:
    """Whether there are fields of these lengths at these places; each field shows the place of the next one."""
    octets = np.frombuffer(data, np.uint8)
    if (octets[places] != _NODE).any():
        return False
    while len(places):
        places = places + 1
        more = sizes > 127
        if (octets[places] != (sizes & 127 | more << 7)).any():
            return False
        places, sizes = places[more], sizes[more] >> 7
    return True


# The contents of the nodes.


class Column(NamedTuple):
    """At most one name of each node: the nodes that have it, its place and its number. An empty name is left out."""

    nodes: IntArray
    starts: IntArray
    sizes: IntArray
    numbers: Numbers


@record(eq=False, slots=True)
class Links:
    """The tensor of each operand.

    Attributes:
        seeds: names of the tensors that no node makes: inputs and constants. They come first; the outputs follow, column by
            column.
        output_columns: the columns of outputs, without omitted outputs.
        read: by position, the tensor of each operand; -1 if it is left out or undefined.
        index: finds a tensor by its name.
    """

    seeds: list[bytes]
    output_columns: list[Column]
    read: list[IntArray]
    index: NameIndex


MOST_LISTED = 1 << 12


@record(eq=False, slots=True)
class Columns:
    """The nodes of one graph in their order.

    Attributes:
        octets: the bytes of the model, with some to spare behind them.
        operands, outputs: by position.
        names: of the nodes; not all need have one.
        rests: the parts of nodes behind the names (operator, attributes, domain), each once; `rest_of`: the part of each node.
        kinds: the kinds of `rests`.
        links: the tensors of the operands; None until `settle`.
        listed: the nodes one by one, once a caller went through them and if they are few.
    """

    octets: bytes
    operands: list[Column]
    outputs: list[Column]
    names: Column
    rests: list[bytes]
    rest_of: IntArray
    kinds: list[NodeKind] = field(default_factory=list)
    links: Links | None = None
    listed: list[tuple[NodeKind, list[bytes], list[bytes]]] | None = None

    def __len__(self) -> int:
        return len(self.rest_of)

    def nodes(self) -> Iterator[tuple[NodeKind, list[bytes], list[bytes]]]:
        """The nodes one by one."""
        if self.listed is not None:
            return iter(self.listed)
        columns: list[list[list[bytes]]] = [[[] for _ in range(len(self))] for _ in range(2)]
        for lists, parts in zip(columns, (self.operands, self.outputs), strict=True):
            for column in parts:
                for node, start, size in zip(*(values.tolist() for values in column[:3]), strict=True):
                    lists[node].append(self.octets[start : start + size])
        found = zip(map(self.kinds.__getitem__, self.rest_of.tolist()), *columns, strict=True)
        if len(self) > MOST_LISTED:
            return found
        self.listed = list(found)
        return iter(self.listed)

    def arities(self) -> Iterable[tuple[int, int, int]]:
        """Kinds (by number) with their numbers of operands, with and without operands left out at the end."""
        listed, used_counts = np.zeros(len(self), np.intp), np.zeros(len(self), np.intp)
        for position, column in enumerate(self.operands, 1):
            listed[column.nodes] = position
            used_counts[column.nodes[column.sizes > 0]] = position
        most = len(self.operands) + 1
        keys = (self.rest_of * most + listed) * most + used_counts
        found = np.flatnonzero(np.bincount(keys)) if len(self.rests) * most * most < 2 * len(keys) else distinct(keys)
        return [(key // most // most, key // most % most, key % most) for key in found.tolist()]


def read_columns(data: bytes, i: int, end: int) -> tuple[Columns | None, int]:
    """The nodes of a graph from the first one on, and the place behind them; None if the nodes are written in an unusual way.

    Raises:
        MalformedError, IndexError: a length is wrong.
    """
    bounds = cut(data, i, end)
    if bounds is None:
        return None, i
    stop = int(bounds[1][-1])
    reader = _ColumnReader(data if stop + len(PADDING) <= len(data) else data + PADDING, *bounds)
    operands, outputs = reader.several(_INPUT), reader.several(_OUTPUT)
    names = reader.one(_NAME)
    if not reader.plain or not reader.all_at(_OPERATOR):
        return None, i
    rests, rest_of = reader.rests()
    return Columns(reader.octets, operands, outputs, names, rests, rest_of), stop


class _ColumnReader:
    """Reads the fields of all nodes side by side, from the first one on.

    Attributes:
        places: the present place in each node.
        plain: False if a name is longer than any exporter makes it, or not ASCII; then all else is invalid.
    """

    def __init__(self, octets: bytes, starts: IntArray, stops: IntArray) -> None:
        self.octets = octets
        self.plain = True
        self.places = starts
        self._stops = stops
        self._bytes = np.frombuffer(octets, np.uint8)

    def all_at(self, key: int) -> bool:
        """Whether all nodes continue with this field."""
        return bool(((self._bytes[self.places] == key) & (self.places < self._stops)).all())

    def several(self, key: int) -> list[Column]:
        """A field that may be repeated."""
        found: list[Column] = []
        column = self.one(key)
        while len(column.nodes):
            found.append(column)
            column = self.one(key, column.nodes)
        return found

    def one(self, key: int, among: IntArray | None = None) -> Column:
        """A field of some nodes, as far as they have it here."""
        places, stops = self.places, self._stops
        if among is not None:
            places, stops = places[among], stops[among]
        there = np.flatnonzero((self._bytes[places] == key) & (places < stops))
        nodes = there if among is None else among[there]
        places = places[there] + 1
        sizes: IntArray = self._bytes[places].astype(np.intp)
        places += 1
        if (sizes > 127).any():
            long = np.flatnonzero(sizes > 127)
            more = self._bytes[places[long]].astype(np.intp)
            self.plain &= not (more > 127).any()
            sizes[long] += (more << 7) - 128
            places[long] += 1
        self.places[nodes] = places + sizes
        numbers, ascii = number(self.octets, places, sizes)
        self.plain &= ascii
        return Column(nodes, places, sizes, numbers)

    def rests(self) -> tuple[list[bytes], IntArray]:
        """The rests of the nodes from here on, each text once, and the number of each node's text."""
        sizes = self._stops - self.places
        numbers = number(self.octets, self.places, np.minimum(sizes, _COMPARED)).numbers
        for node in np.flatnonzero(sizes > _COMPARED).tolist():
            numbers[node] ^= hash(self.octets[self.places[node] : self._stops[node]]) & 0xFFFF_FFFF_FFFF_FFFF
        examples = NameIndex(numbers).find(numbers)
        there = np.zeros(len(examples), bool)
        there[examples] = True
        order = np.cumsum(there) - 1
        places = zip(self.places[there].tolist(), self._stops[there].tolist(), strict=True)
        return [self.octets[start:stop] for start, stop in places], order[examples]


def settle(body: Body) -> None:
    """Finds the tensor of each operand, and computes all that can be found for all names of a graph at once."""
    columns = body.columns
    assert isinstance(columns, Columns)
    named = columns.names.sizes > 0
    body.distinct = not NameIndex(columns.names.numbers[named]).repeated
    seeds = list(dict.fromkeys(name for part in (body.inputs, body.constants) for name, _ in part))
    output_columns = [_present_entries(column) for column in columns.outputs]
    index = NameIndex(np.concatenate([number_of(seeds), *(column.numbers for column in output_columns)]))
    columns.links = Links(seeds, output_columns, [index.find(column.numbers) for column in columns.operands], index)
    makers = np.concatenate([np.full(len(seeds), -1), *(column.nodes for column in output_columns)])
    body.orderly = not index.repeated
    for column, read in zip(columns.operands, columns.links.read, strict=True):
        is_present = column.sizes > 0
        read[~is_present] = -1
        body.orderly = body.orderly and bool((((read >= 0) & (makers[read] < column.nodes)) | ~is_present).all())


def _present_entries(column: Column) -> Column:
    is_present = column.sizes > 0
    if is_present.all():
        return column
    return Column(column.nodes[is_present], column.starts[is_present], column.sizes[is_present], column.numbers[is_present])


def distinct(numbers: IntArray) -> IntArray:
    """The distinct numbers, which are not negative, in ascending order. `numpy.unique` would also import `numpy.ma`."""
    ordered = np.sort(numbers)
    return ordered[np.diff(ordered, prepend=-1) > 0]


# Looks up many names at once: by their numbers, in tables of numpy.
#
# The number of a name is made of its bytes, eight at a time, and of a secret that each process draws for itself, so that no
# file can be made in which different names get one number. Among a million names the chance that it happens anyway is below one
# in ten million.

IntArray = np.ndarray[Any, np.dtype[np.intp]]
Numbers = np.ndarray[Any, np.dtype[np.uint64]]

_SECRET = np.uint64(int.from_bytes(os.urandom(8), "little"))
_MIX, _SPREAD = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_KEEP = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)  # the first bytes of a word
_NOT_ASCII = np.uint64(0x8080808080808080)
PADDING = bytes(8)
"""The bytes that must follow the last name, so that a word can be read at each of its bytes."""


class Numbered(NamedTuple):
    """Numbers of names, and whether all names are ASCII."""

    numbers: Numbers
    ascii: bool


def number(octets: bytes, starts: IntArray, sizes: IntArray) -> Numbered:
    """The numbers of the names at these places of some bytes, which end with `PADDING`."""
    words: Numbers = np.ndarray((len(octets) - 7,), "<u8", octets, strides=(1,))
    result = found = _SECRET ^ (sizes.astype(np.uint64) * _SPREAD)
    where: IntArray | None = None
    seen = np.uint64(0)
    while len(starts):
        word = words[starts]
        if sizes.min() < 8:
            word &= _KEEP[np.minimum(sizes, 8)]
        seen |= np.bitwise_or.reduce(word)
        word ^= found
        word *= _MIX
        word ^= word >> _HALF
        if where is None:
            result = word
        else:
            result[where] = word
        more = np.flatnonzero(sizes > 8)
        if len(more) == len(starts):
            found, starts, sizes = word, starts + 8, sizes - 8
        else:
            where = more if where is None else where[more]
            found, starts, sizes = word[more], starts[more] + 8, sizes[more] - 8
    return Numbered(result, not seen & _NOT_ASCII)


def number_of(names: Iterable[bytes]) -> Numbers:
    """The numbers of these names."""
    listed = list(names)
    sizes = np.fromiter(map(len, listed), np.intp, len(listed))
    return number(b"".join((*listed, PADDING)), np.cumsum(sizes) - sizes, sizes).numbers


class NameIndex:
    """The place of each name in a list, found by number.

    Attributes:
        repeated: whether a name occurs in the list twice; then it is found at one of its places.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.repeated = False
        self._numbers = numbers
        self._rounds: list[tuple[np.uint64, np.uint64, IntArray]] = []
        left: IntArray = np.arange(len(numbers))
        factor = int(_SPREAD)
        while len(left):  # if several names fall into one slot, one stays, and the others move to another table
            shift = np.uint64(62 - len(left).bit_length())
            table: IntArray = np.full(4 << len(left).bit_length(), -1, np.intp)
            slots = self._slots(numbers[left], np.uint64(factor), shift)
            table[slots] = left
            self._rounds.append((np.uint64(factor), shift, table))
            holders = table[slots]
            lost = np.flatnonzero(holders != left)
            same = numbers[holders[lost]] == numbers[left[lost]]
            self.repeated |= bool(same.any())
            left, factor = left[lost[~same]], factor * int(_MIX) % (1 << 64)

    @staticmethod
    def _slots(numbers: Numbers, factor: np.uint64, shift: np.uint64) -> IntArray:
        return ((numbers * factor) >> shift).astype(np.intp)

    def find(self, numbers: Numbers) -> IntArray:
        """The places of names in the list, -1 for names that are not in it."""
        result: IntArray = np.full(len(numbers), -1, np.intp)
        left: IntArray | slice = slice(None)
        for factor, shift, table in self._rounds:
            asked = numbers[left]
            holders = table[self._slots(asked, factor, shift)]
            right = (self._numbers[holders] == asked) & (holders >= 0)
            result[left] = np.where(right, holders, -1)
            wrong = np.flatnonzero(~right & (holders >= 0))
            if not len(wrong):
                break
            left = wrong if isinstance(left, slice) else left[wrong]
        return result
