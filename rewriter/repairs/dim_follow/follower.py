"""Facts of a graph in which dimensions got a name: how each tensor grows with them.

Every node is inferred in two worlds: with the sizes that the dimensions had, and with large primes in their place. A dimension
of a result that is the same in both does not depend on them; one that grew by prime / size does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from fractions import Fraction
from itertools import combinations
from math import prod

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.facts.array_functions import output_values
from rewriter.core.facts.derive import NOTHING, Fact, array_of_value, constant_node_fact, node_facts
from rewriter.core.facts.facts import Facts
from rewriter.core.facts.infer import output_types
from rewriter.core.facts.shape_rules import ShapeValue, of_array
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.index import GraphIndex
from rewriter.core.onnxfile.tensors import Dim, TensorType

# The shapes of a graph for specific sizes of its named dimensions.
#
# Facts of the engine keep names, and a name is lost if a dimension is multiplied or divided. Inferring with numbers loses
# nothing: if the same graph has the shape [8,12] for a batch of 8 and [7919,12] for a batch of 7919, it is plain which
# dimension is the batch. Shapes that the file declares for inner tensors are ignored, since they have the old size.

CONSTANT = 1  # a mark: the tensor is one; which one does not matter here


class World:
    """Facts of tensors for one choice of sizes. Nodes have to be added in the order of computation.

    Args:
        index: of the graph.
        facts: the engine's, for constants.
        sizes: of named dimensions; other names stay names.
    """

    def __init__(self, index: GraphIndex, facts: Facts, sizes: Mapping[str, int]) -> None:
        self._index = index
        self._engine = facts
        self._sizes = sizes
        self._facts: dict[int, Fact] = {}

    def shape(self, tensor: gs.Tensor) -> tuple[Dim, ...] | None:
        """Shape of a tensor, None when not even the rank is known."""
        return self.fact(tensor).type.shape

    def value(self, tensor: gs.Tensor) -> ShapeValue | None:
        """The partially known items of a short tensor."""
        return self.fact(tensor).value

    def fact(self, tensor: gs.Tensor) -> Fact:
        """Facts of a tensor; for a tensor without a maker, with the sizes of this world."""
        if id(tensor) not in self._facts:
            known = NOTHING
            if self._index.producer(tensor) is None:
                leaf = self._engine.of_leaf(tensor)
                known = leaf if leaf.mark is not None else Fact(self._sized(leaf.type))
            self._facts[id(tensor)] = known
        return self._facts[id(tensor)]

    def _sized(self, known: TensorType) -> TensorType:
        if known.shape is None:
            return known
        return known._replace(shape=tuple(self._sizes.get(dim, dim) if isinstance(dim, str) else dim for dim in known.shape))

    def tell(self, node: gs.Node) -> None:
        """Infers the outputs of a node; again if its operands have changed."""
        for tensor, fact in zip(node.outputs, self._of(node), strict=False):
            if tensor.name:
                self._facts[id(tensor)] = fact

    def keep(self, node: gs.Node) -> None:
        """Takes the outputs of a node as the engine knows them."""
        for tensor in node.outputs:
            if tensor.name:
                self._facts[id(tensor)] = self._engine.fact(tensor)

    def _of(self, node: gs.Node) -> list[Fact]:
        if node.op == "Constant" and (node.domain or "") in ("", "ai.onnx"):
            return [constant_node_fact(node, CONSTANT)]
        operands = [self.fact(tensor) if tensor.name else None for tensor in node.inputs]

        def constant(i: int) -> np.ndarray | None:
            fact = operands[i]
            known = None if fact is None else array_of_value(fact)
            return self._engine.constant(node.inputs[i]) if known is None else known

        imports = self._index.scope(node).opsets
        facts = node_facts(node, imports, operands, constant)
        types = output_types(facts, imports)
        found = []
        for tensor, kind, value in zip(node.outputs, types, output_values(facts, types), strict=True):
            if value is None and self._engine.is_constant(tensor) and (array := self._engine.constant(tensor)) is not None:
                value = of_array(array)
            mark = CONSTANT if value is not None and value.known() is not None else None
            found.append(Fact(kind, value, mark))
        return found


PRIMES = (7919, 6857, 5519, 4793)
"""Sizes that no model has, and that no products of others are."""


class Follower:
    """Follows dimensions through a graph.

    Args:
        context: the model.
        edits: the transaction that repairs go through.
        sizes: the old size of each newly named dimension.
        names: the dimensions in `sizes` that are followed; all by default.

    Attributes:
        any_size: whether dimensions may change on the way, as long as every node works with other sizes.
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
        """The factor by which each dimension of a tensor grows; None if one of them cannot be determined."""
        found = self.dimension_ratios(tensor)
        return None if found is None or None in found else [ratio for ratio in found if ratio is not None]

    def dimension_ratios(self, tensor: gs.Tensor) -> list[Fraction | None] | None:
        """The same, with None for each dimension whose factor cannot be determined, or None instead of the list."""
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
        """The old size of the dimension that grows by this ratio."""
        return self._units[ratio]

    def grows(self, tensor: gs.Tensor) -> bool:
        """Whether the type of a tensor depends on the dimensions."""
        return self.old.shape(tensor) != self.new.shape(tensor)

    def tell(self, node: gs.Node) -> None:
        """Infers a node in both worlds: a node on the way, or a node that a repair has added."""
        self.old.tell(node)
        self.new.tell(node)
