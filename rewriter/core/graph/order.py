"""The makers and readers of tensors, and the execution order of nodes that follows, kept valid during edits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.graph import gs_lists
from rewriter.core.graph.gs_lists import makers
from rewriter.core.graph.objects import Node, OpKey, Scope, note, operator_key

_set = object.__setattr__  # graphsurgeon's own also updates operands, and here there are none
GAP = 1 << 64
STEP = 1 << 32


def stable_sort(nodes: Sequence[gs.Node], before: Callable[[gs.Node], Iterable[gs.Node]]) -> list[gs.Node]:
    """A topological order that keeps the order of `nodes` wherever it is valid. Nodes on or behind a cycle come last, in their
    order.

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
    """Whether nodes without bodies are in an order in which they can run; `members` are the same nodes by id()."""
    seen_outputs = set[int]()
    for node in nodes:
        for tensor in node.inputs:
            if id(tensor) not in seen_outputs and any(id(maker) in members for maker in makers(tensor)):
                return False
        seen_outputs.update(map(id, node.outputs))
    return True


class NoRoom(Exception):
    """Two keys have no third between them; `Order.relabel` makes room."""


class Order:
    """The order of the nodes of one scope. Each node holds its own key, a number above 0.

    Attributes:
        untouched: whether the remaining nodes are still in their first order.
    """

    def __init__(self, nodes: Sequence[gs.Node]) -> None:
        self._unnumbered: list[gs.Node] | None = list(nodes)
        self.untouched = True

    def number(self) -> None:
        """Sets the key of every node. In a model in which no pattern matches, no key is needed."""
        if self._unnumbered is not None:
            self.relabel(self._unnumbered)

    def key(self, node: gs.Node) -> int:
        """The key of a node."""
        if self._unnumbered is not None:
            self.relabel(self._unnumbered)
        return node._key  # type: ignore[no-any-return]

    def arranged(self, nodes: Mapping[int, gs.Node]) -> list[gs.Node]:
        """Nodes in their present order; `nodes` lists them by id() in their first order."""
        return list(nodes.values()) if self.untouched else sorted(nodes.values(), key=self.key)

    def put(self, node: gs.Node, key: int) -> None:
        """Sets the key of a new node."""
        if self._unnumbered is not None:
            self.relabel(self._unnumbered)
        _set(node, "_key", key)
        self.untouched = False

    def misplaced(self, nodes: Sequence[gs.Node], before: Callable[[gs.Node], Iterable[gs.Node]]) -> list[gs.Node]:
        """The nodes that are written before a node whose output they need; none if there is a cycle. `before` is as for
        `stable_sort`.
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


# The makers and the readers of a tensor.
#
# A tensor knows these nodes by itself (`_makers`, `_users`; see gs_lists.py): one node mostly, a table of them where there are
# several. graphsurgeon keeps them in lists that search with `==`: detaching a reader from a tensor with thousands of them costs
# a comparison each. So lists that a caller may refer to, and the lists of graphsurgeon's own tensors, are set aside when they
# are first read, and brought up to date at the end.

CROWD = 32  # from this many readers on, they are looked up by operator


class Users(dict[int, gs.Node]):
    """Distinct readers of one tensor by id(), those in inner scopes included.

    Attributes:
        token: of the index that made the table; for another one it may be out of date.
    """

    __slots__ = ("_crowd", "token")
    _crowd: dict[OpKey, dict[int, gs.Node]] | None

    def __init__(self, nodes: Sequence[gs.Node], token: object) -> None:
        for node in nodes:
            self[id(node)] = node
        self.token = token
        self._crowd = None

    def add(self, node: gs.Node) -> None:
        """The node reads the tensor from now on."""
        self[id(node)] = node
        if self._crowd is not None:
            self._crowd.setdefault(operator_key(node), {})[id(node)] = node

    def drop(self, node: gs.Node) -> None:
        """The node, with the operator that it had in `add`, does not read the tensor any more."""
        self.pop(id(node), None)
        if self._crowd is not None:
            self._crowd.get(operator_key(node), {}).pop(id(node), None)

    def having(self, ops: frozenset[OpKey]) -> Iterable[gs.Node]:
        """Readers whose (domain, operator) is one of `ops`; if there are very many readers, the others are not visited."""
        if len(self) <= CROWD:
            return [node for node in self.values() if operator_key(node) in ops]
        if self._crowd is None:
            self._crowd = {}
            for node in self.values():
                self._crowd.setdefault(operator_key(node), {})[id(node)] = node
        crowd = self._crowd
        return (node for op in sorted(crowd) if op in ops for node in crowd[op].values())


class Ties:
    """The makers and readers of all tensors of a graph, current during a run.

    Attributes:
        token: marks the scopes of this graph; scopes of another index of it may be left.
        outputs: by id(), the tensors that are outputs of scopes, with these scopes.
        novelty: counts the edits that may have added a new part to the model. Edits that remove a node, or replace its operands
            by existing tensors, do not count. While the number stays, no fault of new parts can arise.
    """

    def __init__(self) -> None:
        self.token = object()
        self.outputs: dict[int, list[Scope]] = {}
        self.novelty = 0
        self._aside: dict[int, tuple[gs.Tensor, list[gs.Node], list[gs.Node], list[int]]] = {}

    def __contains__(self, node: gs.Node) -> bool:
        scope = getattr(node, "_scope", None)
        return scope is not None and scope.token is self.token

    def producer(self, tensor: gs.Tensor) -> gs.Node | None:
        """The node that makes this tensor; None for inputs, initializers and omitted operands."""
        try:
            links = tensor._makers
        except AttributeError:
            links = tensor.inputs
        if isinstance(links, list):
            return next((node for node in links if node in self), None)
        return links

    def users(self, tensor: gs.Tensor) -> dict[int, gs.Node]:
        """Distinct consumers by id, those in inner scopes included. Copy before editing."""
        readers = self._readers(tensor)
        return readers if isinstance(readers, Users) else {} if readers is None else {id(readers): readers}

    def _readers(self, tensor: gs.Tensor) -> Any:
        """The readers of a tensor: None, a single node, or a table of them."""
        if not tensor.name:
            return None
        try:
            readers = tensor._users
        except AttributeError:
            return self._settle(tensor)
        if readers is None or readers.__class__ is Node or (readers.__class__ is Users and readers.token is self.token):
            return readers
        return self._settle(tensor)

    def users_with(self, tensor: gs.Tensor, ops: frozenset[OpKey]) -> Iterable[gs.Node]:
        """Consumers whose (domain, operator) is one of `ops`; if there are very many consumers, the others are not visited."""
        readers = self._readers(tensor)
        if readers.__class__ is Users:
            return readers.having(ops)
        return () if readers is None or operator_key(readers) not in ops else (readers,)

    def uses(self, tensor: gs.Tensor) -> list[gs.Node]:
        """Distinct consumers of a tensor, those in inner scopes included."""
        readers = self._readers(tensor)
        return list(readers.values()) if readers.__class__ is Users else [] if readers is None else [readers]

    def use_count(self, tensor: gs.Tensor) -> int:
        """The number of distinct consumers of a tensor, those in inner scopes included."""
        readers = self._readers(tensor)
        return len(readers) if readers.__class__ is Users else int(readers is not None)

    def is_used(self, tensor: gs.Tensor) -> bool:
        """Whether a node reads the tensor, or it is an output of a scope."""
        return bool(self._readers(tensor)) or id(tensor) in self.outputs

    def is_live(self, node: gs.Node) -> bool:
        """Whether anything needs an output that the node makes."""
        for tensor in node.outputs:
            if tensor.name and (self._readers(tensor) or id(tensor) in self.outputs) and self.producer(tensor) is node:
                return True
        return False

    # --- lists ---------------------------------------------------------------------------------------------------------------

    def forget_strangers(self, nodes: Iterable[gs.Node]) -> None:
        """Removes links to other nodes than `nodes`, which a caller's edits may have left in the tensors."""
        for node in nodes:
            for tensor in (*node.inputs, *node.outputs):
                if isinstance(tensor, gs_lists.TensorLinks):
                    gs_lists.keep(tensor, self.__contains__)

    def put_back(self) -> None:
        """Brings the lists that were set aside up to date."""
        for tensor, made_by, readers, before in self._aside.values():
            gs_lists.put_back(tensor, made_by, readers, changed=before != [id(tensor._makers), *self.users(tensor)])
        self._aside.clear()

    def _settle(self, tensor: gs.Tensor) -> Users:
        """Stores the maker and the readers in the tensor, as in tensors whose lists were never read. Returns the readers."""
        readers = Users([node for node in gs_lists.users(tensor) if node in self] if tensor.name else (), self.token)
        maker = self.producer(tensor)
        if gs_lists.is_listed(tensor):
            self._aside[id(tensor)] = tensor, tensor.inputs, tensor.outputs, [id(maker), *readers]
        tensor._makers, tensor._users = maker, readers
        return readers

    # --- changes (called by Edits and the index only) ------------------------------------------------------------------------

    def make(self, tensor: gs.Tensor, node: gs.Node | None) -> None:
        """Notes which node makes a tensor."""
        if isinstance(getattr(tensor, "_makers", ()), list | tuple):
            self._settle(tensor)
        tensor._makers = node

    def use(self, tensor: gs.Tensor, node: gs.Node) -> None:
        """Notes that a node reads a tensor."""
        if not tensor.name:
            return
        readers = self._readers(tensor)
        if not readers and self.producer(tensor) is None:
            self.novelty += 1  # it may be a new constant
        if readers is None:
            tensor._users = node
        elif readers.__class__ is Users:
            readers.add(node)
        elif readers is not node:
            tensor._users = Users((readers, node), self.token)

    def unuse(self, tensor: gs.Tensor, node: gs.Node) -> None:
        """Notes that a node does not read a tensor any more."""
        if getattr(tensor, "_users", None) is node:
            tensor._users = None
        elif (readers := self._readers(tensor)).__class__ is Users:
            readers.drop(node)

    def hand_over(self, old: gs.Tensor, new: gs.Tensor) -> list[gs.Node]:
        """Notes that all readers of one tensor read another one instead. Returns these nodes."""
        readers = self._readers(old)
        if not readers:
            return []
        new_readers = self._readers(new)
        if not new_readers and self.producer(new) is None:
            self.novelty += 1
        old._users = None
        nodes = list(readers.values()) if readers.__class__ is Users else [readers]
        if new_readers is None and new.name:
            new._users = readers
        elif new.name:
            if new_readers.__class__ is not Users:
                new_readers = new._users = Users((new_readers,), self.token)
            for node in nodes:
                new_readers.add(node)
        return nodes
