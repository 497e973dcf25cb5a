"""One node of an instance while its operands get their shapes and its attributes their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rewriter.core.record import field, record
from rewriter.trust.proof.instances.instance import Array
from rewriter.trust.proof.instances.random_arrays import ANY, Role

# The source of the dimensions of instances: small numbers, so that lengths are equal by accident as often as not.
#
# The first draws can be fixed as digits. If few dimensions are free, all shapes over {1, 2, 3} are tried in this way.

_CHOICES = (1, 2, 2, 3, 3, 4)
_EMPTY = 0.05  # of dimensions have length 0


class Dims:
    """A source of lengths; `drawn` counts them."""

    def __init__(self, rng: np.random.Generator, digits: Sequence[int] = (), *, empty: bool = True) -> None:
        self.rng = rng
        self.drawn = 0
        self._digits = digits
        self._empty = empty

    def again(self) -> np.random.Generator:
        """A source of chance that is another one for other digits, whereas all that is drawn here stays the same."""
        return np.random.default_rng([self.below(1 << 30), *self._digits])

    def draw(self, least: int = 0) -> int:
        """A length of at least `least`."""
        self.drawn += 1
        if self.drawn <= len(self._digits):
            return max(int(self._digits[self.drawn - 1]), least)
        if self._empty and least == 0 and self.rng.random() < _EMPTY:
            return 0
        return max(_CHOICES[self.below(len(_CHOICES))], least)

    def shape(self, rank: int) -> list[int]:
        """A shape."""
        return [self.draw() for _ in range(rank)]

    def chance(self, part: float) -> bool:
        """True in that part of the cases."""
        return bool(self.rng.random() < part)

    def below(self, stop: int) -> int:
        """A whole number from 0 to before `stop`."""
        return int(self.rng.integers(0, max(stop, 1)))

    def pick(self, items: Sequence[object]) -> object:
        """One of the items."""
        return items[self.below(len(items))]


class Rejected(Exception):
    """A draft failed; another one may succeed."""


RANKS = (*(0,) * 4, *(1,) * 8, *(2,) * 12, *(3,) * 8, *(4,) * 4, *(5,) * 3, 6)
"""Ranks of an unconstrained tensor, as often as they are drawn; errors show in small ranks, but some in large ranks only."""


@record(eq=False)
class Term:
    """A tensor of an instance. `shape` None: still free; `value` is set if the contents matter to a shape."""

    name: str
    dtype: int = 0
    shape: list[int] | None = None
    value: Array | None = None
    role: Role = ANY
    is_output: bool = False
    constant: bool = False
    ranks: frozenset[int] | None = None
    dims: Sequence[Any] | None = None
    lengths: Mapping[int, int] = field(default_factory=dict)


@record(eq=False)
class Draft:
    """A node. `attrs` are written on it; attributes in `closed` must not be added."""

    op: str
    domain: str
    version: int
    dims: Dims
    inputs: list[Term | None]
    outputs: list[Term]
    attrs: dict[str, Any] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()

    def there(self, position: int) -> bool:
        """Whether the node has an operand at that position."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def shape(self, position: int = 0) -> list[int]:
        """Shape of an operand, drawn now if it is still free; [] for an absent one."""
        term = self.inputs[position] if self.there(position) else None
        return [] if term is None else self.free(term) if term.shape is None else term.shape

    def known(self, position: int) -> list[int] | None:
        """Shape of an operand if it is settled."""
        term = self.inputs[position] if self.there(position) else None
        return None if term is None else term.shape

    def want(self, position: int, shape: Iterable[int]) -> None:
        """Sets the shape of an operand that is still free."""
        term = self.inputs[position] if self.there(position) else None
        if term is not None and term.shape is None:
            term.shape = self._fitted(term, list(shape))

    def give(self, position: int, value: Array) -> None:
        """Sets contents, and their shape, for an operand that is still free."""
        term = self.inputs[position] if self.there(position) else None
        if term is not None and term.value is None and term.shape is None:
            term.value, term.shape = value, list(value.shape)

    def role(self, position: int, role: Role) -> None:
        """Sets the meaning of an operand for this node."""
        term = self.inputs[position] if self.there(position) else None
        if term is not None and term.role == ANY:
            term.role = role

    def ranked(self, *ranks: int, position: int = 0) -> list[int]:
        """Shape of an operand of one of these ranks, drawn now if it is still free."""
        term = self.inputs[position] if self.there(position) else None
        if term is None or term.shape is not None:
            return self.shape(position)
        allowed = [rank for rank in ranks if term.ranks is None or rank in term.ranks] or list(term.ranks or ranks)
        return self.free(term, allowed)

    def free(self, term: Term, ranks: Sequence[int] = ()) -> list[int]:
        """Draws a shape for a term."""
        choices = (
            list(ranks) or [rank for rank in RANKS if term.ranks is None or rank in term.ranks] or sorted(term.ranks or ())
        )
        rank = len(term.dims) if term.dims is not None and Ellipsis not in term.dims else int(str(self.dims.pick(choices)))
        term.shape = self._fitted(term, self.dims.shape(rank))
        return term.shape

    def attr(self, name: str, value: Any, chance: float = 1.0) -> Any:
        """Writes an attribute unless the pattern has settled it; returns its value, or None if it stays unwritten."""
        if name in self.attrs:
            return self.attrs[name]
        if name in self.closed or not self.dims.chance(chance):
            return None
        self.attrs[name] = value
        return value

    def axis(self, rank: int, default: int, *, end: int = 0, chance: float = 0.8) -> int:
        """An axis attribute, negative in a third of the cases; returns it counted from the front."""
        axis = self.dims.below(rank + end) if rank + end > 0 else 0
        written = axis - rank if not end and self.version >= 11 and self.dims.chance(0.33) else axis
        found = self.attr("axis", written, chance)
        chosen = default if found is None else int(found)
        return chosen + rank if chosen < 0 else chosen

    def ints(self, values: Iterable[int], position: int) -> None:
        """Sets int64 contents of an operand."""
        self.give(position, np.array(list(values), dtype=np.int64))

    @staticmethod
    def _fitted(term: Term, shape: list[int]) -> list[int]:
        """Puts the numbers that the pattern or its conditions require into the shape."""
        for position, length in term.lengths.items():
            if -len(shape) <= position < len(shape):
                shape[position] = length
        dims = term.dims
        if dims is None:
            return shape
        if Ellipsis in dims:
            at = list(dims).index(Ellipsis)
            tail = list(dims)[at + 1 :]
            while len(shape) < at + len(tail):
                shape.append(2)
            front = list(dims)[:at]
            middle = shape[at : len(shape) - len(tail)]
            dims = [*front, *middle, *tail]
        elif len(dims) != len(shape):
            return shape
        return [want if isinstance(want, int) else have for want, have in zip(dims, shape, strict=True)]
