"""The index of a graph: the producer and the users of each tensor, and the scope and the order of each node.

Data about a node or a tensor are kept in the object itself: `node._scope` and `node._key` are the place of a node, and `Ties`
(order.py) finds the maker and the readers of a tensor. All changes go through an `Edits` transaction (edits.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, repeat
from operator import attrgetter, is_

import onnx_graphsurgeon as gs

from rewriter.core.graph.objects import Function, Graph, NodesByOperator, Scope, find_scopes, nested, note, operator_key
from rewriter.core.graph.order import CROWD, NoRoom, Order, Ties, is_sorted, stable_sort

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


__all__ = ["CROWD", "GraphIndex", "operator_key"]

_BODIES = attrgetter("_bodies")
_set = object.__setattr__  # graphsurgeon's own also updates operands, and here there are none


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

    def inside(self, node: gs.Node) -> list[gs.Node]:
        """All nodes in the bodies of a node, at any depth."""
        bodies = self._bodies.get(id(node))
        return [inner for scope in bodies for inner in self._members[scope.number].values()] if bodies else []

    def body(self, node: gs.Node, attribute: str) -> Scope | None:
        """The scope of the subgraph that a node holds in an attribute."""
        return next((s for s in self._bodies.get(id(node), ()) if s.owner is node and s.attr == attribute), None)

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
