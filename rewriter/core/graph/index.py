"""The index of a graph: the producer and the users of each tensor, and the scope and the order of each node, kept valid during
edits.

Data about a node or a tensor are kept in the object itself: `node._scope` and `node._key` are the place of a node, and `Ties`
finds the maker and the readers of a tensor. All changes go through an `Edits` transaction (edits.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, repeat
from operator import attrgetter, is_
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.graph import gs_lists
from rewriter.core.graph.gs_lists import makers
from rewriter.core.graph.objects import (
    Function,
    Graph,
    Node,
    NodesByOperator,
    OpKey,
    Scope,
    find_scopes,
    nested,
    note,
    operator_key,
)

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


# A table of all names of a model. A new name occurs nowhere else, neither in another scope nor in a subgraph that would capture
# it. New names are derived from the names that they replace and are the same on every run.


class NameTable:
    """Names in use, of tensors or of nodes; `fresh` makes new ones in constant time each.

    The names of a model are read when the first new one is needed: most runs make none.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._unread: Iterable[str] = names
        self._read = set[str]()
        self._next: dict[str, int] = {}
        self._wanted_names: dict[str, str] = {}  # name made here → the name that was wanted

    @property
    def _used(self) -> set[str]:
        if self._unread:
            self._read.update(self._unread)
            self._unread = ()
        return self._read

    def __contains__(self, name: str) -> bool:
        return name in self._used

    def fresh(self, wanted: str) -> str:
        """`wanted` if it is free, else `wanted_1`, `wanted_2`, ...; the result counts as used from now on."""
        name, used = wanted, self._used
        number = self._next.get(wanted, 0)
        while not name or name in used:
            number += 1
            name = f"{wanted}_{number}"
        self._next[wanted] = number
        used.add(name)
        self._wanted_names[name] = wanted
        return name

    def release(self, name: str) -> None:
        """Frees a name made by `fresh` once it is unused, so that a rewrite cycle shows itself by equal names."""
        wanted = self._wanted_names.pop(name, None)
        if wanted is not None:
            self._used.discard(name)
            self._next[wanted] = 0 if name == wanted else min(self._next[wanted], int(name[len(wanted) + 1 :]) - 1)

    def mark(self) -> int:
        """A point to come back to with `restore`."""
        return len(self._wanted_names)

    def restore(self, mark: int) -> None:
        """Frees every name made since `mark`."""
        for name in list(self._wanted_names)[mark:] if len(self._wanted_names) > mark else ():
            self.release(name)


_BODIES = attrgetter("_bodies")


def _is_as_loaded(scope: Scope) -> bool:
    """Whether a scope has the nodes that were read, and none of them has a body, which might be another one."""
    graph = scope.graph
    if not isinstance(graph, Graph | Function) or scope.owner is not None:
        return False
    nodes = graph.origin.nodes
    return len(nodes) == len(graph.nodes) and all(map(is_, nodes, graph.nodes)) and not any(map(_BODIES, nodes))


class GraphIndex(Ties):
    """Relations of all nodes and tensors of a model, current during a run.

    While a run lasts, only `node.inputs`, `node.outputs` and this index are current; `tensor.inputs`, `tensor.outputs` and
    `graph.nodes` are again after `finish`.

    Attributes:
        names: all tensor names of the model.
        node_names: all node names of the model; a node and a tensor may share one.
    """

    def __init__(self, graph: gs.Graph) -> None:
        super().__init__()
        self.graph = graph
        self.scopes: list[Scope] = find_scopes(graph)
        self.names = NameTable(self._tensor_names())
        self.node_names = NameTable(self._names_of_nodes())
        self._members: list[dict[int, gs.Node]] = [
            dict(zip(map(id, scope.graph.nodes), scope.graph.nodes, strict=True)) for scope in self.scopes
        ]
        self._by_operator: NodesByOperator | None = None
        self._inputs: set[int] = set()
        self._kept: list[gs.Node] = []  # removed objects stay alive: no new object may get their id()
        self._changed_scopes: set[int] = set()
        self._unsorted: set[int] = set()  # scopes whose nodes were not written in the order in which they can run
        for scope in self.scopes:
            scope.token = self.token
            note(scope.graph.nodes, "_scope", repeat(scope))
            for tensor in scope.graph.outputs:
                self.outputs.setdefault(id(tensor), []).append(scope)
            self._inputs.update(id(tensor) for tensor in scope.graph.inputs)
        if not all(map(_is_as_loaded, self.scopes)):
            self.forget_strangers(self.all_nodes())
        self._bodies = nested(self.scopes)
        with_bodies = {scope.parent.number for scope in self.scopes if scope.parent is not None}
        self._orders = [Order(self._arrange(scope, scope.number in with_bodies)) for scope in self.scopes]

    def _arrange(self, scope: Scope, has_bodies: bool) -> list[gs.Node]:
        """The nodes of a scope in an order in which they can run. The members of the scope get this order."""
        nodes: list[gs.Node] = scope.graph.nodes
        if not has_bodies and is_sorted(nodes, self._members[scope.number]):
            return nodes
        arranged = stable_sort(nodes, self.before)
        if not all(map(is_, nodes, arranged)):
            self._unsorted.add(scope.number)
            self._members[scope.number] = dict(zip(map(id, arranged), arranged, strict=True))
        return arranged

    # --- questions ---------------------------------------------------------------------------------------------------------

    def has(self, number: int) -> bool:
        """Whether a node of this id() is in the graph."""
        return any(number in members for members in self._members)

    @property
    def node_count(self) -> int:
        """The number of nodes in all scopes."""
        return sum(map(len, self._members))

    def positions(self, nodes: Iterable[gs.Node]) -> list[tuple[tuple[int, int], gs.Node]]:
        """Nodes with their positions."""
        for order in self._orders:
            order.number()
        return [((node._scope.number, node._key), node) for node in nodes]

    def scope(self, node: gs.Node) -> Scope:
        return node._scope  # type: ignore[no-any-return]

    def position(self, node: gs.Node) -> tuple[int, int]:
        """Sort key of a node among all nodes of the model: scope number, then execution order."""
        number = node._scope.number
        return number, self._orders[number].key(node)

    def output_of(self, tensor: gs.Tensor) -> bool:
        """Whether the tensor is an output of the model, of a subgraph body or of a function."""
        return id(tensor) in self.outputs

    def input_of(self, tensor: gs.Tensor) -> bool:
        """Whether the tensor is a declared input of the model, of a subgraph body or of a function."""
        return id(tensor) in self._inputs

    def all_nodes(self) -> Iterator[gs.Node]:
        """All nodes of all scopes, in no particular order."""
        return chain.from_iterable(members.values() for members in self._members)

    @property
    def by_operator(self) -> NodesByOperator:
        """All nodes by their operator."""
        if self._by_operator is None:
            self._by_operator = NodesByOperator(self.all_nodes())
        return self._by_operator

    def before(self, node: gs.Node) -> Iterator[gs.Node]:
        """Nodes of the same scope whose outputs this node, or a body inside it, reads."""
        for reader in (node, *self.inside(node)):
            for tensor in reader.inputs:
                maker = self.producer(tensor)
                if maker is not None and maker._scope is node._scope:
                    yield maker

    def lift(self, node: gs.Node, scope: Scope) -> gs.Node | None:
        """The node of `scope` that is or contains `node`; None when `node` does not lie inside `scope`."""
        here: Scope | None = node._scope
        while here is not None and here is not scope:
            owner = here.owner
            if owner is None:
                return None
            node, here = owner, here.parent
        return node if here is scope else None

    def followers(self, node: gs.Node) -> Iterator[gs.Node]:
        """Nodes of the same scope that read this node's outputs, directly or from a body inside them."""
        scope = node._scope
        for tensor in node.outputs:
            for user in self.users(tensor).values():
                inside = self.lift(user, scope)
                if inside is not None:
                    yield inside

    # --- names ---------------------------------------------------------------------------------------------------------------

    def mark_names(self) -> tuple[int, int]:
        """How many names of tensors and of nodes were made so far, a point to come back to with `give_back_names`."""
        return self.names.mark(), self.node_names.mark()

    def give_back_names(self, mark: tuple[int, int]) -> None:
        """Frees every name made since then."""
        self.names.restore(mark[0])
        self.node_names.restore(mark[1])

    def release_names(self, nodes: Iterable[gs.Node], tensors: Iterable[gs.Tensor]) -> None:
        """Frees names that were made here: of removed nodes, of their outputs that are unused, and of tensors."""
        if self.node_names.mark():
            for node in nodes:
                self.node_names.release(node.name)
        if self.names.mark():
            for node in nodes:
                for tensor in node.outputs:
                    if self.producer(tensor) is None and not self.is_used(tensor):
                        self.names.release(tensor.name)
            for tensor in tensors:
                self.names.release(tensor.name)

    def _tensor_names(self) -> Iterator[str]:
        for scope in self.scopes:
            for tensor in (*scope.graph.inputs, *scope.graph.outputs):
                yield tensor.name
        for node in self.all_nodes():
            for tensor in node.inputs:
                yield tensor.name
            for tensor in node.outputs:
                yield tensor.name
        for scope in self.scopes:
            if isinstance(scope.graph, Graph | Function):
                yield from scope.graph.origin.names()

    def _names_of_nodes(self) -> Iterator[str]:
        for node in self.all_nodes():
            yield node.name

    # --- changes (called by Edits only) ------------------------------------------------------------------------------------

    def attach(self, node: gs.Node, scope: Scope, key: int) -> None:
        self._kept.append(node)
        self._members[scope.number][id(node)] = node
        _set(node, "_scope", scope)
        self._orders[scope.number].put(node, key)
        self._changed_scopes.add(scope.number)
        if self._by_operator is not None:
            self._by_operator.add(node)
        for tensor in node.outputs:
            self.make(tensor, node)
        for tensor in node.inputs:
            self.use(tensor, node)

    def detach(self, node: gs.Node) -> tuple[Scope, int, list[gs.Tensor]]:
        """Takes a node out. Returns its scope, its place and the tensors that it made."""
        owned = []
        for tensor in node.outputs:
            if getattr(tensor, "_makers", None) is node:  # as mostly
                tensor._makers = None
            elif self.producer(tensor) is node:
                self.make(tensor, None)
            else:
                continue
            owned.append(tensor)
        for tensor in node.inputs:
            if getattr(tensor, "_users", None) is node:
                tensor._users = None
            else:
                self.unuse(tensor, node)
        scope: Scope = node._scope
        number = scope.number
        key = self._orders[number].key(node)
        _set(node, "_scope", None)
        del self._members[number][id(node)]
        if self._by_operator is not None:
            self._by_operator.drop(node)
        self._kept.append(node)
        self._changed_scopes.add(number)
        return scope, key, owned

    def set_op(self, node: gs.Node, op: str, domain: str) -> None:
        """Makes a node one of another operator."""
        for tensor in node.inputs:
            self.unuse(tensor, node)
        if self._by_operator is not None:
            self._by_operator.drop(node)
        node.op, node.domain = op, domain
        if self._by_operator is not None:
            self._by_operator.add(node)
        for tensor in node.inputs:
            self.use(tensor, node)

    def unlist_output(self, tensor: gs.Tensor) -> None:
        """Forgets that the tensor is an output of the main graph."""
        listing = self.outputs[id(tensor)]
        listing.remove(self.scopes[0])
        if not listing:
            del self.outputs[id(tensor)]

    def list_output(self, tensor: gs.Tensor) -> None:
        self.outputs.setdefault(id(tensor), []).append(self.scopes[0])

    def has_bodies(self, node: gs.Node) -> bool:
        """Whether there are scopes inside a node."""
        return id(node) in self._bodies

    def scopes_inside(self, node: gs.Node) -> list[Scope]:
        """All scopes inside a node, at any depth."""
        return self._bodies.get(id(node), [])

    def set_scopes_inside(self, node: gs.Node, scopes: list[Scope]) -> None:
        self._bodies[id(node)] = scopes

    def inside(self, node: gs.Node) -> list[gs.Node]:
        """All nodes in the bodies of a node, at any depth."""
        return [inner for scope in self.scopes_inside(node) for inner in self._members[scope.number].values()]

    def body(self, node: gs.Node, attribute: str) -> Scope | None:
        """The scope of the subgraph that a node holds in an attribute."""
        return next((s for s in self.scopes_inside(node) if s.owner is node and s.attr == attribute), None)

    def made_in(self, scope: Scope) -> dict[str, gs.Tensor]:
        """By name, the tensors that nodes of one scope make."""
        return {tensor.name: tensor for node in self.members(scope) for tensor in node.outputs if tensor.name}

    def nodes_of(self, scope: Scope) -> Iterable[gs.Node]:
        """The nodes of one scope in no particular order."""
        return self._members[scope.number].values()

    def misplaced(self, scope: Scope) -> list[gs.Node]:
        """Nodes that stand before one whose output they need; none in a scope that is going to be written in order, or that
        has a cycle.
        """
        order, nodes = self._orders[scope.number], scope.graph.nodes
        if scope.number in self._changed_scopes or (order.untouched and scope.number not in self._unsorted):
            return []
        return order.misplaced(nodes, self.before)

    def mark_changed(self, scope: Scope) -> bool:
        """Has `finish` write the nodes of a scope in execution order; False if it already was to do so."""
        if scope.number in self._changed_scopes:
            return False
        self._changed_scopes.add(scope.number)
        return True

    def unmark_changed(self, scope: Scope) -> None:
        self._changed_scopes.discard(scope.number)

    def members(self, scope: Scope) -> list[gs.Node]:
        """The nodes of one scope in execution order."""
        return self._orders[scope.number].arranged(self._members[scope.number])

    def key_at(self, node: gs.Node) -> int:
        scope: Scope = node._scope
        return self._orders[scope.number].key(node)

    def keys_before(self, root: gs.Node, operands: Iterable[gs.Tensor], count: int) -> list[int]:
        """Order keys for `count` new nodes right before `root` and, if possible, behind the makers of `operands`."""
        scope: Scope = root._scope
        order = self._orders[scope.number]
        for _ in range(2):
            high, low = order.key(root), 0
            for tensor in operands:
                maker = self.producer(tensor)
                if maker is not None and maker._scope is scope and order.key(maker) < high:
                    low = max(low, order.key(maker))
            try:
                return order.room_before(high, low, count)
            except NoRoom:
                self._relabel(scope)
        raise AssertionError("a relabelled order has room")

    def link(self, first: gs.Node, then: gs.Node) -> bool:
        """Orders an edge from `first` to `then` (lifted into one scope); False when it would close a cycle."""
        scope: Scope = first._scope
        target = self.lift(then, scope)
        if target is None:
            return True
        for _ in range(2):
            try:
                return self._orders[scope.number].link(first, target, self.followers)
            except NoRoom:
                self._relabel(scope)
        raise AssertionError("a relabelled order has room")

    def put_behind(self, node: gs.Node) -> bool:
        """Orders a node behind all whose outputs it reads; False when that would close a cycle."""
        scope: Scope = node._scope
        key = self._orders[scope.number].key(node)
        for tensor in node.inputs:
            maker = self.producer(tensor)
            if maker is not None and maker._scope is scope and maker._key >= key:
                break
        else:
            if id(node) not in self._bodies:
                return True  # the usual case: all nodes are in order already
        return all(self.link(maker, node) for maker in self.before(node))

    def put_before(self, node: gs.Node) -> bool:
        """Orders a node before all that read its outputs; False when that would close a cycle."""
        scope: Scope = node._scope
        key = self._orders[scope.number].key(node)
        readers = (user for tensor in node.outputs for user in self.users(tensor).values())
        if all(user._scope is scope and user._key > key for user in readers):
            return True
        return all(self.link(node, follower) for follower in list(self.followers(node)))

    def _relabel(self, scope: Scope) -> None:
        order = self._orders[scope.number]
        order.relabel(order.arranged(self._members[scope.number]))
        self._changed_scopes.add(scope.number)

    def finish(self) -> None:
        """Brings graphsurgeon's own lists in line with the index: node lists of changed scopes, reverse lists of touched
        tensors.
        """
        for number in self._changed_scopes:
            self.scopes[number].graph.nodes[:] = self._orders[number].arranged(self._members[number])
        self.put_back()
        for node in self._kept:
            if node._scope is None:
                list.clear(node.inputs)
                list.clear(node.outputs)
        self._changed_scopes.clear()
