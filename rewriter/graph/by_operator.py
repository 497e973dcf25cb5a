"""The nodes of a model by their operator: what concerns the nodes of some operators is asked of those alone.

Most questions about a model as a whole (which rules can find anything in it, where they may stand, whether its opset has all it
uses) are about operators, of which a model has some dozens, however many nodes it has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Set

import onnx_graphsurgeon as gs

from rewriter.graph.values import Variable

OpKey = tuple[str, str]


def operator_key(node: gs.Node) -> OpKey:
    """(domain, operator) with the default domain written as ""."""
    domain = node.domain
    return "" if not domain or domain == "ai.onnx" else domain, node.op


class NodesByOperator:
    """Nodes by (domain, operator), current during a run."""

    __slots__ = ("_constants", "_nodes")

    def __init__(self, nodes: Iterable[gs.Node]) -> None:
        self._constants: tuple[int, Collection[gs.Constant]] | None = None
        written: defaultdict[tuple[str, str | None], list[gs.Node]] = defaultdict(list)
        for node in nodes:
            written[node.op, node.domain].append(node)
        self._nodes: dict[OpKey, dict[int, gs.Node]] = {}
        for alike in written.values():  # a domain may be written in several ways
            self._nodes.setdefault(operator_key(alike[0]), {}).update(zip(map(id, alike), alike, strict=True))

    @property
    def keys(self) -> Set[OpKey]:
        """The operators that some node has."""
        return self._nodes.keys()

    def of(self, key: OpKey) -> Collection[gs.Node]:
        """The nodes of one operator, in no particular order. The live view: copy before editing."""
        return self._nodes.get(key, {}).values()

    def constants(self, novelty: int) -> Collection[gs.Constant]:
        """Each initializer that a node reads, or has read since `novelty` became what it is, once."""
        if self._constants is not None and self._constants[0] == novelty:
            return self._constants[1]
        found: dict[int, gs.Constant] = {}
        for nodes in self._nodes.values():
            for node in nodes.values():
                for tensor in node.inputs:
                    if tensor.__class__ is not Variable and isinstance(tensor, gs.Constant):
                        found[id(tensor)] = tensor
        self._constants = novelty, found.values()
        return found.values()

    def add(self, node: gs.Node) -> None:
        """Takes in a node."""
        self._nodes.setdefault(operator_key(node), {})[id(node)] = node

    def drop(self, node: gs.Node) -> None:
        """Forgets a node, which still has the operator that it had when it was taken in."""
        key = operator_key(node)
        nodes = self._nodes[key]
        del nodes[id(node)]
        if not nodes:
            del self._nodes[key]
