"""Nodes of a large graph as columns of names, cut out of its bytes by one regular expression.

A loop over the nodes of a large model costs several times as much as protobuf's own parsing. Most nodes look alike, though: up
to three operands and one output, short ASCII names, an operator and its attributes. The expression guesses where such nodes
end, and every length that stands in the bytes is then held against the guess, so that what is cut here is cut as protobuf cuts
it. Where the expression does not fit, or guesses wrong, the caller reads one node itself and tries again after it.

Names keep the byte of their length in front; so two names are the same exactly if these texts are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

from rewriter.graph.census import Body
from rewriter.graph.keyed import keyed
from rewriter.graph.wire import MalformedError

SMALL = 1 << 15
"""Bytes of a graph below which compiling the expression costs more than it saves."""
CHUNK = 1 << 17
"""Bytes that are looked at together: what is lost at most by a wrong guess."""
PATIENCE = 32
"""Disappointments (few nodes, or a wrong guess) after which the rest of a graph is read node by node."""
FEW = 16

Row = tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes]
"""Length and content of a node; in the content: three operands, output, name (empty where there is none) and the rest."""

_NAME = rb"([\x01-\x7f][ !#-~]*)"
_SIZE = rb"[\x01-\x7f]|[\x80-\xff][\x01-\x7f]"
_OPERAND = rb"(?:\n" + _NAME + rb"|)"
_REST = rb'".\w*(?:(?=\n)|[*:2][^\n]*(?:\n(?!(?:' + _SIZE + rb")[\n\x12])[^\n]*)*)"
_OUTPUT = rb'\x12(?!(?:\3|\4|\5)[\x1a"])' + _NAME  # a node that reads its own output is for the caller
_NODE = rb"\n(" + _SIZE + rb")(" + _OPERAND * 3 + _OUTPUT + rb"(?:\x1a" + _NAME + rb"|\x1a\x00|)(" + _REST + rb"))|.+"


@dataclass(eq=False, slots=True)
class Rows:
    """Nodes one after the other, as columns.

    Attributes:
        operands: three columns.
        rests: what stands behind the names: operator, attributes, domain.
    """

    operands: tuple[tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...]]
    outputs: tuple[bytes, ...]
    names: tuple[bytes, ...]
    rests: tuple[bytes, ...]

    def occurrences(self) -> Iterator[bytes]:
        """The names of tensors in the order of the nodes, what a node reads before what it makes."""
        return chain.from_iterable(zip(*self.operands, self.outputs, strict=True))

    def nodes(self) -> Iterator[tuple[bytes, list[bytes], list[bytes]]]:
        """Of each node the rest, and the names of operands and outputs as they are written."""
        for first, second, third, output, rest in zip(*self.operands, self.outputs, self.rests, strict=True):
            yield rest, [name[1:] for name in (first, second, third) if name], [output[1:]]


class Cutter:
    """Cuts the nodes of one graph."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.find = re.compile(_NODE, re.DOTALL).findall
        self.patience = PATIENCE
        self.lengths: set[tuple[bytes, int]] = set()

    def cut(self, i: int, end: int) -> tuple[Rows | None, int]:
        """The nodes from a place on that can be cut, and where the next thing begins; None for none."""
        if self.patience < 0 or end - i < SMALL:
            return None, i
        found = self.find(self.data, i, min(i + CHUNK, end))
        if found and not found[-1][0]:
            found.pop()  # what is no node
        count = self.right(found)
        self.patience = min(self.patience + 1, PATIENCE) if count >= FEW else self.patience - 1
        if not count:
            return None, i
        sizes, bodies, *columns = zip(*found[:count], strict=True)
        stop = i + count + sum(map(len, sizes)) + sum(map(len, bodies))
        return Rows((columns[0], columns[1], columns[2]), columns[3], columns[4], columns[5]), stop

    def right(self, rows: list[Row]) -> int:
        """How many rows from the first on are as long as they say. No row is empty in front of one that is not."""
        pairs = set(zip(map(itemgetter(0), rows), map(len, map(itemgetter(1), rows)), strict=True)) - self.lengths
        wrong = {pair for pair in pairs if _number(pair[0]) != pair[1]}
        self.lengths |= pairs - wrong
        if not wrong:
            return len(rows)
        count = next(i for i, row in enumerate(rows) if (row[0], len(row[1])) in wrong)
        self.patience -= count + 1 < len(rows)  # the last one may have been cut off, or what follows was taken for a part of it
        return count


def settle(body: Body) -> None:
    """Holds the names in columns against their lengths, and tells what can be told of all names of a body at once.

    In a body whose nodes stand in order, the names in the order in which they are first met are those that are there from the
    beginning, and then the outputs. A node that reads its own output is not seen by that; the expression leaves it out.

    Raises:
        MalformedError: a length is not what it seemed.
    """
    seeds = dict.fromkeys([b"", *(keyed(name) for name, _ in (*body.constants, *body.inputs))])
    met, made, names = [iter(seeds)], list(seeds), list(map(keyed, body.names))
    looped = False
    for part in body.parts:
        if isinstance(part, tuple):
            _, inputs, outputs = part
            looped |= not set(inputs).isdisjoint(filter(None, outputs))
            written = [keyed(name) for name in outputs if name]
            met.append(iter([keyed(name) for name in inputs if name] + written))
            made += written
        else:
            met.append(part.occurrences())
            made += part.outputs
            names += filter(None, part.names)
    order = dict.fromkeys(chain.from_iterable(met))
    distinct = set(names)
    if not true_lengths(order) or not true_lengths(distinct):
        raise MalformedError
    body.distinct = len(distinct) == len(names)
    body.orderly = not looped and not body.inner and list(order) == made


def true_lengths(names: Iterable[bytes]) -> bool:
    """Whether each name of a column is as long as its first byte says; an empty text is no name.

    Among them may be names of `keyed` that are longer than one byte can say.
    """
    given = list(filter(None, names))
    pairs = set(zip(map(len, given), map(itemgetter(0), given), strict=True))
    return all(told > 127 or size == told + 1 for size, told in pairs)


def _number(size: bytes) -> int:
    return size[0] if len(size) == 1 else (size[0] & 127) | size[1] << 7
