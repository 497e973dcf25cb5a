"""The types of `census_flow` for nodes in columns: not followed node by node, but guessed for all tensors and then corrected.

In a graph whose nodes are in order each tensor has one answer: its node computes it from the answers for the operands. So a
guess that agrees with itself everywhere is the answer. Other guesses are computed again from the operands, all tensors at once.
Since most tensors of a model have one type, that is seldom needed more than a few times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rewriter.core.language.schema import ANY, bits_of
from rewriter.core.onnxfile.census import Body, NodeKind
from rewriter.core.onnxfile.columns import Column, Columns, IntArray, Links, distinct, number_of

Mask = np.ndarray[Any, np.dtype[np.bool_]]

MOST_ROUNDS = 16
_FLOATS = (1, 10, 11, 16)

Outputs = Callable[[NodeKind, tuple[int, ...], int], int]
"""The answer for output i of a kind, from the answers for its operands."""


def settled(body: Body, declared: Mapping[bytes, int], outputs: Outputs, foreign: Callable[[NodeKind], bool]) -> bool:
    """Fills `output_types` and `declared_outputs` of the kinds of a body; False when the guesses do not come to rest.

    Args:
        body: with `columns`, and orderly.
        declared: the declared types of the outputs of the graph.
        outputs: computes the outputs of a kind.
        foreign: whether only a declaration gives the types of a kind's outputs.
    """
    columns = body.columns
    assert isinstance(columns, Columns)
    assert columns.links is not None
    if any(len(dict(part)) < len(part) for part in (body.inputs, body.constants)):
        return False
    flow = _ColumnTypes(body, columns, columns.links)
    for _ in range(MOST_ROUNDS):
        cases, agrees = flow.round(outputs, foreign)
        if agrees:
            for kind, operands, found in cases:
                kind.output_types[operands] = found
            _hand(declared, columns, columns.links)
            return True
    return False


def _hand(declared: Mapping[bytes, int], columns: Columns, links: Links) -> None:
    """Notes which kinds make outputs of the graph."""
    places = links.index.find(number_of(declared)) - len(links.seeds)
    for place, bits in zip(places.tolist(), declared.values(), strict=True):
        if place >= 0:
            position, at = _place(links.output_columns, place)
            kind = columns.kinds[columns.rest_of[links.output_columns[position].nodes[at]]]
            kind.declared_outputs[position] = kind.declared_outputs.get(position, 0) | bits


def _place(columns: list[Column], place: int) -> tuple[int, int]:
    """The column of an output, and its place there."""
    for position, column in enumerate(columns):
        if place < len(column.nodes):
            return position, place
        place -= len(column.nodes)
    raise IndexError


class _ColumnTypes:
    """The types of each tensor, as the number of a set of types; 0 is no operand, 1 an operand that is left out."""

    def __init__(self, body: Body, columns: Columns, links: Links) -> None:
        self.columns = columns
        self.links = links
        self.sets = [0, 0]
        self._number: dict[int, int] = {}
        known = {**dict(body.inputs), **dict(body.constants)}
        seeds = [self.number(bits_of(known[name])) for name in links.seeds]
        self.declared = self._declared(body)
        floats = {self._number.get(bits_of(dtype)) for dtype in _FLOATS}
        usual = Counter([seed for seed in seeds if seed in floats] or seeds).most_common(1)[0][0] if seeds else self.number(ANY)
        self.guess: IntArray = np.where(self.declared > 0, self.declared, usual)
        self.guess[: len(seeds)] = seeds

    def number(self, bits: int) -> int:
        """The number of a set of types."""
        if bits == 0:
            return 1
        found = self._number.get(bits)
        if found is None:
            found = self._number[bits] = len(self.sets)
            self.sets.append(bits)
        return found

    def _declared(self, body: Body) -> IntArray:
        """The declared types of outputs; 0 if there are none. If a name is declared twice, the last declaration counts."""
        links = self.links
        count = len(links.seeds) + sum(len(column.nodes) for column in links.output_columns)
        result: IntArray = np.zeros(count, np.intp)
        declared = {name: dtype for part in (body.infos, body.outputs) for name, dtype in part}
        places = links.index.find(number_of(declared))
        numbers = np.fromiter((self.number(bits_of(dtype)) for dtype in declared.values()), np.intp, len(declared))
        found = places >= len(links.seeds)
        result[places[found]] = numbers[found]
        return result

    def round(
        self, outputs: Outputs, foreign: Callable[[NodeKind], bool]
    ) -> tuple[list[tuple[NodeKind, tuple[int, ...], tuple[int, ...]]], bool]:
        """The outputs of the kinds for the present guesses of operands, and whether they agree with the guesses of outputs."""
        case_of, cases = self._cases()
        found = [(kind, operands, tuple([outputs(kind, operands, i) for i in range(count)])) for kind, operands, count in cases]
        alien = np.array([foreign(kind) for kind, _, _ in cases], bool)
        start, agrees = len(self.links.seeds), True
        after = self.guess.copy()
        for position, column in enumerate(self.links.output_columns):
            stop = start + len(column.nodes)
            table = np.array([self.number(types[position]) if position < len(types) else 0 for _, _, types in found], np.intp)
            case = case_of[column.nodes]
            after[start:stop] = self._joined(table[case], self.declared[start:stop], alien[case])
            start = stop
        agrees = bool((after == self.guess).all())
        self.guess = after
        return found, agrees

    def _cases(self) -> tuple[IntArray, list[tuple[NodeKind, tuple[int, ...], int]]]:
        """Which nodes are of one kind and have operands of the same types; of each such case its kind, the operands' types and
        the number of outputs.
        """
        columns, sets = self.columns, len(self.sets)
        case: IntArray = columns.rest_of
        size = len(columns.kinds)
        types = []
        for column, read in zip(columns.operands, self.links.read, strict=True):
            here = np.where(read < 0, 1, self.guess[read])
            types.append((column.nodes, here))
            case = case * sets
            case[column.nodes] += here
            case, size = _compact(case, size * sets)
        example: IntArray = np.zeros(size, np.intp)
        example[case] = np.arange(len(case))
        operands: list[list[int]] = [[] for _ in range(size)]
        for nodes, here in types:
            at = np.minimum(np.searchsorted(nodes, example), len(nodes) - 1)
            for number in np.flatnonzero(nodes[at] == example).tolist():
                operands[number].append(self.sets[here[at[number]]])
        counts = np.zeros(size, np.intp)
        for position, column in enumerate(columns.outputs, 1):
            counts[case[column.nodes]] = position
        kinds = [columns.kinds[rest] for rest in columns.rest_of[example].tolist()]
        return case, [
            (kind, tuple(operand_types), count)
            for kind, operand_types, count in zip(kinds, operands, counts.tolist(), strict=True)
        ]

    def _joined(self, computed: IntArray, declared: IntArray, alien: Mask) -> IntArray:
        """The computed types, joined with the declared types if those differ."""
        differ = np.flatnonzero((declared > 0) & (declared != computed))
        if not len(differ):
            return computed
        result: IntArray = computed.copy()
        for place in differ.tolist():
            bits, written = self.sets[computed[place]], self.sets[declared[place]]
            result[place] = self.number(written if bits == ANY and alien[place] else bits | written)
        return result


def _compact(keys: IntArray, size: int) -> tuple[IntArray, int]:
    """Keys below `size` renumbered without gaps, and how many there are."""
    if size > 4 * len(keys) + 1024:
        found = distinct(keys)
        return np.searchsorted(found, keys), len(found)
    there = np.zeros(size, bool)
    there[keys] = True
    numbers: IntArray = np.cumsum(there)
    numbers -= 1
    return numbers[keys], int(numbers[-1]) + 1
