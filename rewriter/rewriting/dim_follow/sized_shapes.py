"""The shapes of a graph for given sizes of its named dimensions.

Facts of the engine keep names, and a name is lost where a dimension is multiplied or divided. Inferring with numbers loses
nothing: where the same graph has the shape [8,12] for a batch of 8 and [7919,12] for a batch of 7919, it is plain which
dimension is the batch. What the file declares of inner tensors is not believed, since it was written for the old size.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.facts.derive import NOTHING, Fact, array_of_value, constant_node_fact, node_facts
from rewriter.facts.facts import Facts
from rewriter.facts.infer import output_types
from rewriter.facts.shape_values import ShapeValue, of_array
from rewriter.facts.value_rules import output_values
from rewriter.graph.index import GraphIndex
from rewriter.onnxfile.tensor_types import Dim, TensorType

CONSTANT = 1  # a mark: the tensor is one; which one does not matter here


class World:
    """Facts of tensors for one choice of sizes. Nodes are to be told in the order of computation.

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
        """Facts of a tensor; of one that no node makes, with the sizes of this world."""
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
        """Infers the outputs of a node; anew, when its operands have changed."""
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
