"""Who produces, who uses, in which scope, in what order: the one place that knows how the parts of a graph hang together.

graphsurgeon keeps these relations in lists that search with `==`; detaching a consumer from a tensor with thousands of them
costs a comparison each. Here they are dictionaries by identity, filled for the tensors that change, and brought back into
graphsurgeon's lists once, by `finish`. All changes go through an `Edits` transaction (edits.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from operator import is_

import onnx_graphsurgeon as gs

from rewriter.graph import gs_lists
from rewriter.graph.by_operator import Kinds, OpKey, operator_key
from rewriter.graph.names import NameTable
from rewriter.graph.naming import Naming
from rewriter.graph.order import NoRoom, Order, is_sorted, stable_sort
from rewriter.graph.scopes import Scope, find_scopes, nested
from rewriter.graph.uses import CROWD, TensorUses

__all__ = ["CROWD", "GraphIndex", "operator_key"]


class GraphIndex:
    """Relations of all nodes and tensors of a model, current during a run.

    While a run lasts, only `node.inputs`, `node.outputs` and this index are current; `tensor.inputs`, `tensor.outputs` and
    `graph.nodes` are again after `finish`.

    Attributes:
        naming: the names in use.
        changed: tensors of which the index knows otherwise than their own lists.
        novelty: counts the edits that may have brought something into the model that was not there; those that take a node
            away, or hand it other operands that were there, are none of them. While it stays, no fault of new parts can come.
    """

    def __init__(self, graph: gs.Graph) -> None:
        self.graph = graph
        self.scopes: list[Scope] = find_scopes(graph)
        self.novelty = 0
        self.naming = Naming(self)
        self._members: list[dict[int, gs.Node]] = [
            dict(zip(map(id, scope.graph.nodes), scope.graph.nodes, strict=True)) for scope in self.scopes
        ]
        self._kinds: Kinds | None = None
        self._scope: dict[int, Scope] = {}
        self._uses: dict[int, TensorUses] = {}
        self._outputs: dict[int, list[Scope]] = {}
        self._inputs: set[int] = set()
        self._kept: list[gs.Node] = []  # removed objects stay alive: their id() must not be given to a new one
        self.changed: list[TensorUses] = []
        self._changed_scopes: set[int] = set()
        self._unsorted: set[int] = set()  # scopes whose nodes were not written in the order in which they can run
        for scope in self.scopes:
            self._scope.update(dict.fromkeys(self._members[scope.number], scope))
            for tensor in scope.graph.outputs:
                self._outputs.setdefault(id(tensor), []).append(scope)
            self._inputs.update(id(tensor) for tensor in scope.graph.inputs)
        self._bodies = nested(self.scopes)
        with_bodies = {scope.parent.number for scope in self.scopes if scope.parent is not None}
        self._orders = [Order(self._arrange(scope, scope.number in with_bodies)) for scope in self.scopes]

    def _arrange(self, scope: Scope, has_bodies: bool) -> list[gs.Node]:
        """The nodes of a scope in an order in which they can run, which is that of its members from now on."""
        nodes: list[gs.Node] = scope.graph.nodes
        if not has_bodies and is_sorted(nodes, self._members[scope.number]):
            return nodes
        arranged = stable_sort(nodes, self.before)
        if not all(map(is_, nodes, arranged)):
            self._unsorted.add(scope.number)
            self._members[scope.number] = dict(zip(map(id, arranged), arranged, strict=True))
        return arranged

    # --- questions ---------------------------------------------------------------------------------------------------------

    def __contains__(self, node: gs.Node) -> bool:
        return id(node) in self._scope

    def has(self, number: int) -> bool:
        """Whether a node of this id() is in the graph."""
        return number in self._scope

    def scope(self, node: gs.Node) -> Scope:
        return self._scope[id(node)]

    def position(self, node: gs.Node) -> tuple[int, int]:
        """Sort key of a node among all nodes of the model: scope number, then execution order."""
        scope = self._scope[id(node)]
        return scope.number, self._orders[scope.number].key(node)

    def producer(self, tensor: gs.Tensor) -> gs.Node | None:
        """The node that makes this tensor; None for inputs, initializers and omitted operands."""
        known = self._uses.get(id(tensor))
        if known is not None:
            return known.maker
        try:
            held = tensor._makers  # as `gs_lists.makers`, which this asks too often to call
        except AttributeError:
            held = tensor.inputs
        if isinstance(held, list):
            return next((node for node in held if id(node) in self._scope), None)
        return held if id(held) in self._scope else None

    def _look(self, tensor: gs.Tensor) -> TensorUses:
        """Writes down both ends of a tensor."""
        readers = {id(node): node for node in gs_lists.users(tensor) if id(node) in self._scope} if tensor.name else {}
        found = self._uses[id(tensor)] = TensorUses(tensor, self.producer(tensor), readers)
        return found

    def users(self, tensor: gs.Tensor) -> dict[int, gs.Node]:
        """Distinct consumers by id, those in inner scopes included. The live dictionary: copy before editing."""
        return (self._uses.get(id(tensor)) or self._look(tensor)).users

    def users_with(self, tensor: gs.Tensor, ops: frozenset[OpKey]) -> Iterable[gs.Node]:
        """Consumers whose (domain, operator) is one of `ops`; at a tensor with very many, only those are looked at."""
        return (self._uses.get(id(tensor)) or self._look(tensor)).users_with(ops)

    def uses(self, tensor: gs.Tensor) -> list[gs.Node]:
        """Distinct consumers of a tensor, those in inner scopes included."""
        return list(self.users(tensor).values())

    def is_used(self, tensor: gs.Tensor) -> bool:
        """Whether a node reads the tensor, or it is an output of a scope."""
        number = id(tensor)
        if number in self._outputs:
            return True
        known = self._uses.get(number)
        if known is not None:
            return bool(known.users)
        return bool(tensor.name) and any(id(node) in self._scope for node in gs_lists.users(tensor))

    def output_of(self, tensor: gs.Tensor) -> bool:
        """Whether the tensor is an output of the model, of a subgraph body or of a function."""
        return id(tensor) in self._outputs

    def input_of(self, tensor: gs.Tensor) -> bool:
        """Whether the tensor is a declared input of the model, of a subgraph body or of a function."""
        return id(tensor) in self._inputs

    def all_nodes(self) -> Iterator[gs.Node]:
        """All nodes of all scopes, in no particular order."""
        return chain.from_iterable(members.values() for members in self._members)

    @property
    def kinds(self) -> Kinds:
        """All nodes by their operator."""
        if self._kinds is None:
            self._kinds = Kinds(self.all_nodes())
        return self._kinds

    @property
    def names(self) -> NameTable:
        """All tensor names of the model."""
        return self.naming.tensors

    @property
    def node_names(self) -> NameTable:
        """All node names of the model; a node and a tensor may share one."""
        return self.naming.nodes

    def before(self, node: gs.Node) -> Iterator[gs.Node]:
        """Nodes of the same scope whose outputs this node, or a body inside it, reads."""
        scope = self._scope[id(node)]
        for tensor in node.inputs:
            maker = self.producer(tensor)
            if maker is not None and self._scope[id(maker)] is scope:
                yield maker
        for body in self._bodies.get(id(node), ()):
            for inner in self._members[body.number].values():
                for tensor in inner.inputs:
                    maker = self.producer(tensor)
                    if maker is not None and self._scope[id(maker)] is scope:
                        yield maker

    def lift(self, node: gs.Node, scope: Scope) -> gs.Node | None:
        """The node of `scope` that is or contains `node`; None when `node` does not lie inside `scope`."""
        here: Scope | None = self._scope[id(node)]
        while here is not None and here is not scope:
            owner = here.owner
            if owner is None:
                return None
            node, here = owner, here.parent
        return node if here is scope else None

    def followers(self, node: gs.Node) -> Iterator[gs.Node]:
        """Nodes of the same scope that read this node's outputs, directly or from a body inside them."""
        scope = self._scope[id(node)]
        for tensor in node.outputs:
            for user in self.users(tensor).values():
                inside = self.lift(user, scope)
                if inside is not None:
                    yield inside

    # --- changes (called by Edits only) ------------------------------------------------------------------------------------

    def attach(self, node: gs.Node, scope: Scope, key: int) -> None:
        self._kept.append(node)
        self._members[scope.number][id(node)] = node
        self._scope[id(node)] = scope
        self._orders[scope.number].set(node, key)
        self._changed_scopes.add(scope.number)
        if self._kinds is not None:
            self._kinds.add(node)
        for tensor in node.outputs:
            self.make(tensor, node)
        for tensor in node.inputs:
            self.use(tensor, node)

    def detach(self, node: gs.Node) -> tuple[Scope, int, list[gs.Tensor]]:
        """Takes a node out; where it stood, and the tensors that it made."""
        number = id(node)
        owned = [tensor for tensor in node.outputs if self.producer(tensor) is node]
        scope = self._scope.pop(number)
        del self._members[scope.number][number]
        key = self._orders[scope.number].drop(node)
        if self._kinds is not None:
            self._kinds.drop(node)
        self._kept.append(node)
        self._changed_scopes.add(scope.number)
        for tensor in node.inputs:
            self.unuse(tensor, node)
        for tensor in owned:
            self.make(tensor, None)
        return scope, key, owned

    def _change(self, tensor: gs.Tensor) -> TensorUses:
        """Both ends of a tensor that are going to change."""
        uses = self._uses.get(id(tensor)) or self._look(tensor)
        if not uses.changed:
            uses.changed = True
            self.changed.append(uses)
        return uses

    def make(self, tensor: gs.Tensor, node: gs.Node | None) -> None:
        """Notes which node makes a tensor."""
        self._change(tensor).maker = node

    def use(self, tensor: gs.Tensor, node: gs.Node) -> None:
        """Notes that a node reads a tensor."""
        if tensor.name:
            uses = self._change(tensor)
            if not uses.users and uses.maker is None:
                self.novelty += 1  # a new constant, it may be
            uses.add(node)

    def hand_over(self, old: gs.Tensor, new: gs.Tensor) -> None:
        """Notes that all who read one tensor read another one instead."""
        source, target = self._change(old), self._change(new)
        if not target.users and target.maker is None:
            self.novelty += 1
        if new.name:
            target.take_over(source)
        source.clear()

    def unuse(self, tensor: gs.Tensor, node: gs.Node) -> None:
        """Notes that a node does not read a tensor any more."""
        if tensor.name:
            self._change(tensor).drop(node)

    def set_op(self, node: gs.Node, op: str, domain: str) -> None:
        """Makes a node one of another operator."""
        for tensor in node.inputs:
            self.unuse(tensor, node)
        if self._kinds is not None:
            self._kinds.drop(node)
        node.op, node.domain = op, domain
        if self._kinds is not None:
            self._kinds.add(node)
        for tensor in node.inputs:
            self.use(tensor, node)

    def unlist_output(self, tensor: gs.Tensor) -> None:
        """Forgets that the tensor is an output of the main graph."""
        listing = self._outputs[id(tensor)]
        listing.remove(self.scopes[0])
        if not listing:
            del self._outputs[id(tensor)]

    def list_output(self, tensor: gs.Tensor) -> None:
        self._outputs.setdefault(id(tensor), []).append(self.scopes[0])

    def inside(self, node: gs.Node) -> list[gs.Node]:
        """All nodes in the bodies of a node, at any depth."""
        return [inner for scope in self._bodies.get(id(node), ()) for inner in self._members[scope.number].values()]

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
        """Has `finish` write the nodes of a scope in execution order; False where it was going to."""
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
        scope = self._scope[id(node)]
        return self._orders[scope.number].key(node)

    def keys_before(self, root: gs.Node, operands: Iterable[gs.Tensor], count: int) -> list[int]:
        """Order keys for `count` new nodes right before `root` and, where that can be, behind the makers of `operands`."""
        scope = self._scope[id(root)]
        order = self._orders[scope.number]
        for _ in range(2):
            high, low = order.key(root), 0
            for tensor in operands:
                maker = self.producer(tensor)
                if maker is not None and self._scope[id(maker)] is scope and order.key(maker) < high:
                    low = max(low, order.key(maker))
            try:
                return order.room_before(high, low, count)
            except NoRoom:
                self._relabel(scope)
        raise AssertionError("a relabelled order has room")

    def link(self, first: gs.Node, then: gs.Node) -> bool:
        """Orders an edge from `first` to `then` (lifted into one scope); False when it would close a cycle."""
        scope = self._scope[id(first)]
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
        keys = self._orders[self._scope[id(node)].number].keys
        key = keys[id(node)]
        for tensor in node.inputs:
            maker = self.producer(tensor)
            if maker is not None and keys.get(id(maker), 0) >= key:
                break
        else:
            if id(node) not in self._bodies:
                return True  # mostly: everything stands in order already
        return all(self.link(maker, node) for maker in self.before(node))

    def put_before(self, node: gs.Node) -> bool:
        """Orders a node before all that read its outputs; False when that would close a cycle."""
        keys = self._orders[self._scope[id(node)].number].keys
        key = keys[id(node)]
        if all(keys.get(number, 0) > key for tensor in node.outputs for number in self.users(tensor)):
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
        for uses in self.changed:
            tensor, maker = uses.tensor, uses.maker
            users = uses.users.values()
            readers = [user for user in users for operand in user.inputs if operand is tensor] if users else ()
            gs_lists.tie(tensor, () if maker is None else (maker,), readers)
            uses.changed = False
        for node in self._kept:
            if id(node) not in self._scope:
                list.clear(node.inputs)
                list.clear(node.outputs)
        self.changed.clear()
        self._changed_scopes.clear()
