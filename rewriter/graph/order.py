"""The execution order of nodes, kept valid while nodes come and go.

Every node has an integer key; an edge always leads from a smaller to a larger key. Keys are far apart at first, so that new
nodes find room right before the node that they replace; an edge that would lead backwards moves just the nodes between (D.
Pearce and P. Kelly, "A dynamic topological sort algorithm for directed acyclic graphs", 2007), or shows that it would close a
cycle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

import onnx_graphsurgeon as gs

from rewriter.graph.gs_lists import makers
from rewriter.graph.objects import note

_set = object.__setattr__  # graphsurgeon's own looks after operands, of which there are none here
GAP = 1 << 64
STEP = 1 << 32


def stable_sort(nodes: Sequence[gs.Node], before: Callable[[gs.Node], Iterable[gs.Node]]) -> list[gs.Node]:
    """Topological order that keeps the given one wherever it is valid; nodes on or behind a cycle keep their place at the end.

    `before(node)` yields the nodes of the same list that must come first, repeats allowed. Linear but for a heap of ready
    nodes.
    """
    place = {id(node): i for i, node in enumerate(nodes)}
    followers: dict[int, list[int]] = {}
    missing = [0] * len(nodes)
    sorted_already = True
    for i, node in enumerate(nodes):
        for j in {place[id(other)] for other in before(node) if id(other) in place}:
            followers.setdefault(j, []).append(i)
            missing[i] += 1
            sorted_already &= j < i
    if sorted_already:
        return list(nodes)
    ready = [i for i, count in enumerate(missing) if not count]
    heapify(ready)
    result = []
    while ready:
        i = heappop(ready)
        result.append(i)
        for j in followers.get(i, ()):
            missing[j] -= 1
            if not missing[j]:
                heappush(ready, j)
    done = set(result)
    return [nodes[i] for i in result] + [node for i, node in enumerate(nodes) if i not in done]


def is_sorted(nodes: Sequence[gs.Node], members: Mapping[int, gs.Node]) -> bool:
    """Whether nodes without bodies, the same ones as `members` by id(), stand in an order in which they can run."""
    made = set[int]()
    for node in nodes:
        for tensor in node.inputs:
            if id(tensor) not in made and any(id(maker) in members for maker in makers(tensor)):
                return False
        made.update(map(id, node.outputs))
    return True


class NoRoom(Exception):
    """Two keys have no third between them; `Order.relabel` makes room."""


class Order:
    """The order of the nodes of one scope; each has its key in itself, above 0.

    Attributes:
        untouched: whether those that are left still stand in the order in which they were given.
    """

    def __init__(self, nodes: Sequence[gs.Node]) -> None:
        self._unnumbered: list[gs.Node] | None = list(nodes)
        self.untouched = True

    def number(self) -> None:
        """Gives every node its key; in a model in which nothing stands nobody asks for one."""
        if self._unnumbered is not None:
            self.relabel(self._unnumbered)

    def key(self, node: gs.Node) -> int:
        """The key of a node."""
        if self._unnumbered is not None:
            self.relabel(self._unnumbered)
        return node._key  # type: ignore[no-any-return]

    def arranged(self, nodes: Mapping[int, gs.Node]) -> list[gs.Node]:
        """Nodes, given by id() and at first in their order, in the order that they have now."""
        return list(nodes.values()) if self.untouched else sorted(nodes.values(), key=self.key)

    def put(self, node: gs.Node, key: int) -> None:
        """Gives a node that was not there its key."""
        if self._unnumbered is not None:
            self.relabel(self._unnumbered)
        _set(node, "_key", key)
        self.untouched = False

    def misplaced(self, nodes: Sequence[gs.Node], before: Callable[[gs.Node], Iterable[gs.Node]]) -> list[gs.Node]:
        """Of nodes as they are written those that stand before one whose output they need; none where there is a cycle.
        `before` is as for `stable_sort`.
        """
        found, least = [], None
        for node in reversed(nodes):
            key = self.key(node)
            if least is not None and key > least:
                found.append(node)
            least = key if least is None else min(least, key)
        if not found or any(self.key(other) >= self.key(node) for node in nodes for other in before(node)):
            return []
        return found[::-1]

    def room_before(self, high: int, low: int, count: int) -> list[int]:
        """`count` rising keys between `low` and `high`, close to `high`. Raises NoRoom when there are none left."""
        step = min(STEP, (high - low) // (count + 1))
        if not step:
            raise NoRoom
        return [high - step * (count - i) for i in range(count)]

    def relabel(self, nodes: Sequence[gs.Node]) -> None:
        """Spreads the keys of `nodes` (in their present order) evenly again."""
        self._unnumbered = None
        note(nodes, "_key", range(GAP, GAP * (len(nodes) + 1), GAP))

    def link(self, first: gs.Node, then: gs.Node, followers: Callable[[gs.Node], Iterator[gs.Node]]) -> bool:
        """Makes `first` come before `then`; False (and nothing changed) when `then` already leads to `first`.

        `followers(node)` yields the direct consumers in this scope. Only nodes between the two are looked at and moved.
        Raises NoRoom when the moved nodes find no keys.
        """
        limit = self.key(first)
        if then._key > limit:
            return True
        if first is then:
            return False
        moved, waiting, seen, ceiling = [then], deque([then]), {id(then)}, limit + GAP
        while waiting:
            for node in followers(waiting.popleft()):
                if node is first:
                    return False
                key = node._key
                if key > limit:
                    ceiling = min(ceiling, key)
                elif id(node) not in seen:
                    seen.add(id(node))
                    moved.append(node)
                    waiting.append(node)
        step = (ceiling - limit) // (len(moved) + 1)
        if not step:
            raise NoRoom
        self.untouched = False
        for i, node in enumerate(sorted(moved, key=self.key), 1):
            _set(node, "_key", limit + step * i)
        return True
