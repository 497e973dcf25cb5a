"""What is known of a graph in which dimensions got a name: how each tensor grows with them.

Every node is inferred in two worlds: with the sizes that the dimensions had, and with large primes in their place. A dimension
of a result that is the same in both does not depend on them; one that grew by prime / size does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction
from itertools import combinations
from math import prod

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.graph.edits import Edits
from rewriter.onnxfile.tensor_types import Dim
from rewriter.rewriting.dim_follow.sized_shapes import World

PRIMES = (7919, 6857, 5519, 4793)
"""Sizes that no model has, and that no products of others are."""


class Follower:
    """Follows dimensions through a graph.

    Args:
        context: the model.
        edits: the transaction that repairs go through.
        sizes: what each newly named dimension was.
        names: those of them that are followed; all by default.

    Attributes:
        any_size: whether what the dimensions become on the way does not matter, as long as every node takes other sizes.
    """

    any_size = False

    def __init__(self, context: Context, edits: Edits, sizes: Mapping[str, int], names: Collection[str] | None = None) -> None:
        self.context = context
        self.edits = edits
        self.index = context.index
        followed = list(sizes if names is None else names)
        larger = {**sizes, **dict(zip(followed, PRIMES, strict=False))}
        self.old = World(self.index, context.facts, sizes)
        self.new = World(self.index, context.facts, larger)
        self._sizes = sizes
        self._names = {Fraction(larger[name], size): name for name, size in sizes.items() if name in followed}
        chosen = [c for count in range(len(followed) + 1) for c in combinations(followed, count)]
        self._units = {
            prod((Fraction(larger[n], sizes[n]) for n in c), start=Fraction(1)): prod(sizes[n] for n in c) for c in chosen
        }

    def ratios(self, tensor: gs.Tensor) -> list[Fraction] | None:
        """By what each dimension of a tensor grows; None when that cannot be told of one of them."""
        found = self.dimension_ratios(tensor)
        return None if found is None or None in found else [ratio for ratio in found if ratio is not None]

    def dimension_ratios(self, tensor: gs.Tensor) -> list[Fraction | None] | None:
        """The same, with None for each dimension of which it cannot be told, or for all of them."""
        old, new = self.old.shape(tensor), self.new.shape(tensor)
        if old is None or new is None or len(old) != len(new):
            return None
        return [self._ratio(*pair) for pair in zip(old, new, strict=True)]

    def _ratio(self, old: Dim, new: Dim) -> Fraction | None:
        if old == new:
            return Fraction(1)
        if isinstance(old, int) and isinstance(new, int) and old:
            ratio = Fraction(new, old)
            return ratio if ratio in self._units else None
        return None

    def unit(self, ratio: Fraction) -> int:
        """The old size of what grows by this ratio."""
        return self._units[ratio]

    def grows(self, tensor: gs.Tensor) -> bool:
        """Whether the type of a tensor depends on the dimensions."""
        return self.old.shape(tensor) != self.new.shape(tensor)

    def tell(self, node: gs.Node) -> None:
        """Infers a node in both worlds: one on the way, or one that a repair has put in."""
        self.old.tell(node)
        self.new.tell(node)
