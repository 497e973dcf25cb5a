"""How facts follow the edits of a graph.

From the tensors that an edit touched, in execution order, each node that can see a change is looked at again, and what follows
only if its outputs' facts are really others. A body comes before the node that owns it, and the body's inputs before the body.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappop, heappush

import onnx_graphsurgeon as gs

from rewriter.facts.facts import Facts

_MOST_VISITS = 16  # of one node in one refresh; more come only from a graph with cycles, whose facts need not settle

Key = tuple[int, ...]


def refresh(facts: Facts, tensors: Iterable[gs.Tensor]) -> list[gs.Tensor]:
    """Brings facts up to date after edits, and gives the tensors whose facts are others now.

    Args:
        tensors: those whose producer, or the operator, attributes or operands of it, changed; those whose declaration or
            contents changed; new and removed ones as well.
    """
    stale = facts.known_among(tensors)
    return _Refresh(facts).run(stale) if stale else []


class _Refresh:
    """One refresh of facts."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.index = facts.index
        self._waiting: list[tuple[Key, int]] = []
        self._steps: dict[int, gs.Node | gs.Tensor] = {}
        self._visits: dict[int, int] = {}
        self._changed: dict[int, gs.Tensor] = {}

    def run(self, tensors: Iterable[gs.Tensor]) -> list[gs.Tensor]:
        """The tensors whose facts changed; see `refresh`."""
        for tensor in tensors:
            self._start(tensor)
        while self._waiting:
            _, at = heappop(self._waiting)
            step = self._steps.pop(at)
            self._visits[at] = self._visits.get(at, 0) + 1
            if isinstance(step, gs.Node):
                self._visit_node(step)
            else:
                self._visit_leaf(step)
        return list(self._changed.values())

    def _start(self, tensor: gs.Tensor) -> None:
        node = self.index.producer(tensor)
        if node is not None:
            self._push_node(node)
        elif isinstance(tensor, gs.Constant) or self.index.input_of(tensor) or self.index.is_used(tensor):
            self._push_leaf(tensor)
        else:
            self.facts.forget(tensor)

    def _visit_node(self, node: gs.Node) -> None:
        for graph in self.facts.inner_graphs(node):
            for tensor in graph.outputs:
                self.facts.fact(tensor)
        for tensor in node.inputs:
            self.facts.fact(tensor)
        for tensor, fact in self.facts.of_node(node):
            before = self.facts.known(tensor)
            if before != fact:
                self.facts.store(tensor, fact)
                if before is not None:
                    self._spread(tensor)

    def _visit_leaf(self, tensor: gs.Tensor) -> None:
        before = self.facts.known(tensor)
        place = self.facts.body_input(tensor)
        for operand in place[0].owner.inputs if place is not None and place[0].owner is not None else ():
            self.facts.fact(operand)
        fact = self.facts.of_leaf(tensor)
        if before != fact:
            self.facts.store(tensor, fact)
            self._spread(tensor)

    def _spread(self, tensor: gs.Tensor) -> None:
        self._changed[id(tensor)] = tensor
        for node in self.index.users(tensor).values():
            self._push_node(node)
            for graph in self.facts.inner_graphs(node):
                for inner in graph.inputs:
                    if self.facts.known(inner) is not None:
                        self._push_leaf(inner)
        for node in self.facts.owners.get(id(tensor), {}).values():
            if node in self.index:
                self._push_node(node)

    def _push_node(self, node: gs.Node) -> None:
        if any(self.facts.known(tensor) is not None for tensor in node.outputs):
            self._push((*self._key(node), 2), node)

    def _push_leaf(self, tensor: gs.Tensor) -> None:
        place = self.facts.body_input(tensor)
        owner = None if place is None else place[0].owner
        self._push((-1,) if owner is None else (*self._key(owner), 0), tensor)

    def _push(self, key: Key, step: gs.Node | gs.Tensor) -> None:
        if id(step) not in self._steps and self._visits.get(id(step), 0) < _MOST_VISITS:
            self._steps[id(step)] = step
            heappush(self._waiting, (key, id(step)))

    def _key(self, node: gs.Node) -> Key:
        """Sorts a node behind its operands' makers and the nodes in its bodies (together with a last 0, 1 or 2)."""
        key: Key = ()
        while True:
            number, place = self.index.position(node)
            scope = self.index.scope(node)
            if scope.owner is None or scope.owner not in self.index:
                return (number, place, *key)
            key = (1, number, place, *key)
            node = scope.owner
