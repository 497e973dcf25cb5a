"""A first look at a root: the questions of a pattern that need no search and no facts, asked before a match is begun.

At most places where the operator is right the rule is not, and for one of these reasons. Nothing has to be remembered of a
glance that failed: its answers change only with nodes that the worklist follows anyway.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from rewriter.graph.index import GraphIndex, operator_key
from rewriter.language import schema
from rewriter.language.pattern import Made, Pattern

OpKey = tuple[str, str]


class Glance:
    """What the root of a pattern shows at once: number of operands, attributes that are or are not written, who makes its
    operands.
    """

    __slots__ = ("_absent", "_fixed", "_makers", "_most", "_present")

    def __init__(self, pattern: Pattern) -> None:
        root = pattern.nodes[pattern.root]
        self._fixed = root.fixed
        self._most = root.most
        attrs = root.source.attrs
        self._present = tuple(attr.name for attr in attrs if attr.mode == "present")
        self._absent = tuple(attr.name for attr in attrs if attr.mode == "absent")
        # In a commutative operator an operand may stand anywhere.
        free = not root.source.ordered and any(schema.is_commutative(op, domain) for domain, op in root.ops)
        self._makers: list[tuple[int | None, frozenset[OpKey]]] = [
            (None if free else position, pattern.nodes[operand.node].ops)
            for position, operand in enumerate(root.inputs)
            if isinstance(operand, Made) and operand.run is None
        ]

    def __call__(self, node: gs.Node, index: GraphIndex) -> bool:
        """False when the pattern cannot stand here."""
        inputs = node.inputs
        count = len(inputs)
        if count < self._fixed:
            return False
        if self._most is not None and count > self._most and any(tensor.name for tensor in inputs[self._most :]):
            return False
        if self._present or self._absent:
            attrs = node.attrs
            if any(name not in attrs for name in self._present) or any(name in attrs for name in self._absent):
                return False
        return all(self._made(inputs, position, ops, index) for position, ops in self._makers)

    @staticmethod
    def _made(inputs: list[gs.Tensor], position: int | None, ops: frozenset[OpKey], index: GraphIndex) -> bool:
        candidates = inputs if position is None else inputs[position : position + 1]
        for tensor in candidates:
            maker = index.producer(tensor)
            if maker is not None and operator_key(maker) in ops:
                return True
        return False
