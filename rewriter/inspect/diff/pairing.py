"""Which node of one graph is which of the other.

First those that compute the same from the same. Then, of what is left, the makers of the outputs and, from pair to pair, the
makers of their operands and the readers of their outputs, as long as the operator is the same. A name decides only among what
structure does not tell apart.
"""

from __future__ import annotations

from collections import defaultdict, deque

from rewriter.inspect.diff.sides import Side, key
from rewriter.onnxfile.tensors import text


class Pairing:
    """Pairs of nodes by number: `forth` from the first graph to the second, `back` the other way."""

    def __init__(self, one: Side, other: Side) -> None:
        self.one = one
        self.other = other
        self.forth: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self._waiting: deque[tuple[int, int]] = deque()
        self._equal()
        self._from_outputs()
        self._spread()
        self._by_name()

    def _pair(self, one: int, other: int) -> bool:
        if one in self.forth or other in self.back or key(self.one.nodes[one]) != key(self.other.nodes[other]):
            return False
        self.forth[one], self.back[other] = other, one
        self._waiting.append((one, other))
        return True

    def _equal(self) -> None:
        """Nodes of equal digests; of several, those of equal names first, then in their order."""
        there: dict[tuple[bytes, ...], list[int]] = defaultdict(list)
        for number in range(len(self.other.nodes)):
            there[self._outputs(self.other, number)].append(number)
        left = []
        for number, node in enumerate(self.one.nodes):
            alike = there.get(self._outputs(self.one, number), [])
            same = next((n for n in alike if _names(self.other, n) == _names(self.one, number)), None)
            if same is not None and self._pair(number, same):
                alike.remove(same)
            elif alike:
                left.append((number, node))
        for number, _ in left:
            alike = there[self._outputs(self.one, number)]
            if alike:
                self._pair(number, alike.pop(0))

    @staticmethod
    def _outputs(side: Side, number: int) -> tuple[bytes, ...]:
        return tuple(side.digest(name) for name in side.names(number)[1] if name)

    def _from_outputs(self) -> None:
        """The makers of outputs of one name, then of one position."""
        named = {name for name in self.one.outputs if name in self.other.outputs}
        for name in self.one.outputs:
            if name in named:
                self._makers(name, name)
        mine = [name for name in self.one.outputs if name not in named]
        theirs = [name for name in self.other.outputs if name not in named]
        for one, other in zip(mine, theirs, strict=False):
            self._makers(one, other)

    def _spread(self) -> None:
        while self._waiting:
            one, other = self._waiting.popleft()
            mine, theirs = self.one.names(one), self.other.names(other)
            for name, counterpart in zip(mine[0], theirs[0], strict=False):
                self._makers(name, counterpart)
            for name, counterpart in zip(mine[1], theirs[1], strict=False):
                self._readers(name, counterpart)

    def _makers(self, one: str, other: str) -> None:
        """Pairs the makers of two tensors, or, where a node was put in between, the next ones of the same operator."""
        mine, theirs = self.one.made.get(one), self.other.made.get(other)
        if mine is None and theirs is None:
            return
        if mine is not None and theirs is not None and (self._pair(mine[0], theirs[0]) or self._paired(mine[0], theirs[0])):
            return
        if mine is not None and theirs is not None and theirs[0] not in self.back:
            for name in self.other.names(theirs[0])[0]:
                behind = self.other.made.get(name)
                if behind is not None and self._pair(mine[0], behind[0]):
                    return
        if mine is not None and theirs is not None and mine[0] not in self.forth:
            for name in self.one.names(mine[0])[0]:
                behind = self.one.made.get(name)
                if behind is not None and self._pair(behind[0], theirs[0]):
                    return

    def _paired(self, one: int, other: int) -> bool:
        return self.forth.get(one) == other

    def _readers(self, one: str, other: str) -> None:
        """Pairs readers at the same operand position, in their order."""
        there: dict[tuple[object, int], list[int]] = defaultdict(list)
        for number, position in self.other.read.get(other, ()):
            if number not in self.back:
                there[key(self.other.nodes[number]), position].append(number)
        for number, position in self.one.read.get(one, ()):
            alike = there.get((key(self.one.nodes[number]), position))
            if alike and self._pair(number, alike[0]):
                alike.pop(0)

    def _by_name(self) -> None:
        """What structure did not reach: nodes of one operator that make a tensor of one name."""
        for number in range(len(self.one.nodes)):
            if number not in self.forth:
                found = next((self.other.made[name] for name in _names(self.one, number) if name in self.other.made), None)
                if found is not None and self._pair(number, found[0]):
                    self._spread()


def _names(side: Side, number: int) -> list[str]:
    return [text(name) for name in side.nodes[number].output if name]
