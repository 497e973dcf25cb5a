"""The nodes of a large graph in columns: where they are in the bytes, and their names as numbers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from rewriter.core.onnxfile.census import Body, NodeKind
from rewriter.core.onnxfile.wire import entry
from rewriter.core.record import field, record

# Names looked up many at once: by numbers that stand for them, in tables of numpy.
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
"""What must follow the last name, so that a word can be read at each of its bytes."""


class Numbered(NamedTuple):
    """Numbers of names, and whether all names are ASCII."""

    numbers: Numbers
    ascii: bool


def number(octets: bytes, starts: IntArray, sizes: IntArray) -> Numbered:
    """The numbers of the names that stand at these places of some bytes, which end with `PADDING`."""
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
    """The numbers of names that are at hand."""
    listed = list(names)
    sizes = np.fromiter(map(len, listed), np.intp, len(listed))
    return number(b"".join((*listed, PADDING)), np.cumsum(sizes) - sizes, sizes).numbers


class NameIndex:
    """The place of each name in a list, found by number.

    Attributes:
        repeated: whether a name stands in the list twice; then it is found at one of its places.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.repeated = False
        self._numbers = numbers
        self._rounds: list[tuple[np.uint64, np.uint64, IntArray]] = []
        left: IntArray = np.arange(len(numbers))
        factor = int(_SPREAD)
        while len(left):  # of the names that meet in one slot one stays; the others go on to another table
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
        """The places of names in the list, -1 for those that are not in it."""
        result: IntArray = np.full(len(numbers), -1, np.intp)
        left: IntArray | slice = slice(None)
        for factor, shift, table in self._rounds:
            left_numbers = numbers[left]
            holders = table[self._slots(left_numbers, factor, shift)]
            right = (self._numbers[holders] == left_numbers) & (holders >= 0)
            result[left] = np.where(right, holders, -1)
            wrong = np.flatnonzero(~right & (holders >= 0))
            if not len(wrong):
                break
            left = wrong if isinstance(left, slice) else left[wrong]
        return result


# Where the nodes stand in the bytes of a large graph: found by protobuf, which cuts as fast as memory can be read.
#
# Protobuf is told of a message that has nothing but nodes, and these as bytes; so ONNX needs not be imported for it. It does
# not say where the pieces stood, but where every exporter puts them: one after the other, each behind its key and its length.
#
# A graph whose name stands behind two nodes of 12 and 11 bytes, `y = Relu(x)` and `z = Neg(y)`:
#
#     0 | 0a 0c | 0a 01 78  12 01 79  22 04 52 65 6c 75     a node from 2 to 14
#     14| 0a 0b | 0a 01 79  12 01 7a  22 03 4e 65 67        a node from 16 to 27
#     27| 12 01 67                                          the name, "g"
#
# >>> data = bytes.fromhex("0a0c 0a0178 120179 220452656c75 0a0b 0a0179 12017a 22034e6567 120167") >>> starts, stops = cut(data,
# 0, len(data)) >>> starts.tolist(), stops.tolist() ([2, 16], [14, 27]) >>> cut(bytes.fromhex("120167") + data, 0, len(data) +
# 3) is None # the first node is not where it was said to be True

_KEY = 10
_MOST = 5  # bytes of a length


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
    """Where the nodes of a graph begin and end, of which the first one's field begins at `i`; None when they stand otherwise.

    Raises:
        MemoryError: there is none left for a copy of the nodes.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        nodes = _message().FromString(memoryview(data)[i:end]).node[:]
    except DecodeError:
        return None
    sizes: IntArray = np.fromiter(map(len, nodes), np.intp, len(nodes))
    heads = 2 + sum((sizes >> 7 * count > 0).astype(np.intp) for count in range(1, _MOST))
    stops = i + np.cumsum(heads + sizes)
    return (stops - sizes, stops) if _stand(data, stops - sizes - heads, sizes) else None


def _stand(data: bytes, places: IntArray, sizes: IntArray) -> bool:
    """Whether there are fields of these lengths at these places; each shows where the next one is to stand."""
    octets = np.frombuffer(data, np.uint8)
    if (octets[places] != _KEY).any():
        return False
    while len(places):
        places = places + 1
        more = sizes > 127
        if (octets[places] != (sizes & 127 | more << 7)).any():
            return False
        places, sizes = places[more], sizes[more] >> 7
    return True


_INPUT, _OUTPUT, _NAME, _OPERATOR = 10, 18, 26, 34  # keys of the fields of a NodeProto
_COMPARED = 256  # bytes of a text that are worth comparing many at once


class Column(NamedTuple):
    """One name at most of each node: which nodes have it, where it stands, and its number. One of no length is left out."""

    nodes: IntArray
    starts: IntArray
    sizes: IntArray
    numbers: Numbers


@record(eq=False, slots=True)
class Links:
    """Which tensor each operand means.

    Attributes:
        seeds: names of the tensors that no node makes: inputs and constants. They are the first ones; behind them stand the
            outputs, column by column.
        output_columns: the columns of outputs without those that are left out.
        read: by position, the tensor that each operand means; -1 for one that is left out, or that nothing defines.
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
        rests: what stands behind the names (operator, attributes, domain), each once; `rest_of`: which one a node has.
        kinds: those of `rests`.
        links: what the operands mean; None until `settle`.
        listed: the nodes one by one, once somebody went through them and where they are few.
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
        """Which kinds (by number) stand with how many operands, with and without those left out at the end."""
        listed, used_counts = np.zeros(len(self), np.intp), np.zeros(len(self), np.intp)
        for position, column in enumerate(self.operands, 1):
            listed[column.nodes] = position
            used_counts[column.nodes[column.sizes > 0]] = position
        most = len(self.operands) + 1
        keys = (self.rest_of * most + listed) * most + used_counts
        distinct = np.flatnonzero(np.bincount(keys)) if len(self.rests) * most * most < 2 * len(keys) else np.unique(keys)
        return [(key // most // most, key // most % most, key % most) for key in distinct.tolist()]


def read_columns(data: bytes, i: int, end: int) -> tuple[Columns | None, int]:
    """The nodes of a graph from the first one on, and where the next thing begins; None when they are out of the ordinary.

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
        places: how far it has come in each node.
        plain: False when a name is longer than any exporter makes it, or not ASCII; then all else means nothing.
    """

    def __init__(self, octets: bytes, starts: IntArray, stops: IntArray) -> None:
        self.octets = octets
        self.plain = True
        self.places = starts
        self._stops = stops
        self._bytes = np.frombuffer(octets, np.uint8)

    def all_at(self, key: int) -> bool:
        """Whether all nodes go on with this field."""
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
        """What is left of the nodes from here on, each text once, and which one each node has."""
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
    """Finds which tensor each operand means, and tells what can be told of all names of a graph at once."""
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
