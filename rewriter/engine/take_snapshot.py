"""Takes snapshots: the nodes that a firing matched, made, edited and removed, and those around them, before and after.

The state before is put together after the fact, from what edits keep of each node they touch; so a run pays nothing for
snapshots that nobody wants.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.graph.edits import Edits
from rewriter.graph.index import operator_key
from rewriter.graph.node_state import NodeState, state_of
from rewriter.graph.node_text import attribute_texts, printable
from rewriter.graph.scopes import Scope
from rewriter.language.dtypes import DTYPE_NAMES
from rewriter.log.snapshot import Box, Port, Role, Snapshot, View

READERS = 3  # of one tensor, that are shown around a firing
ATTRIBUTES = 12  # of one node
CORE = 96  # nodes of a firing that are shown on either side
CONSTANT = ("", "Constant")


States = dict[int, NodeState]


class SnapshotTaker:
    """Takes snapshots of one model."""

    def __init__(self, context: Context, constant_words: Callable[[gs.Tensor], str]) -> None:
        self.index = context.index
        self._facts = context.facts
        self.constant_words = constant_words

    def types(self, nodes: Iterable[gs.Node]) -> dict[int, str]:
        """Types of the tensors that these nodes read and make, by id."""
        tensors = (tensor for node in nodes for tensor in (*node.inputs, *node.outputs))
        return {id(tensor): self._type(tensor) for tensor in tensors if tensor.name}

    # --- snapshots ------------------------------------------------------------------------------------------------------------

    def snapshot(self, matched: Sequence[gs.Node], edits: Edits, types: Mapping[int, str]) -> Snapshot:
        """The surroundings of a firing that stands."""
        index = self.index
        states: States = dict(edits.before)
        changed: dict[int, Role] = dict.fromkeys(edits.removed, "removed")
        changed |= {number: "edited" for number in edits.edited if number in states and index.has(number)}
        changed |= {id(node): "matched" for node in matched if id(node) not in changed and index.has(id(node))}
        nodes = {id(node): node for node in (*matched, *edits.removed.values(), *edits.edited.values())}
        core = [number for number in nodes if number in changed][:CORE]
        added = [number for number, node in edits.added.items() if node in index][:CORE]
        nodes |= {id(node): node for node in edits.added.values()}
        scope = next((index.scope(nodes[n]) for n in (*core, *added) if index.has(n)), index.scopes[0])
        before = {n: states.get(n) or state_of(nodes[n]) for n in core}
        after = {n: state_of(nodes[n]) for n in (*core, *added) if changed.get(n) != "removed"}
        around = self._around(scope, before, after, edits, nodes)
        roles: dict[int, Role] = {**changed, **dict.fromkeys(added, "added"), **dict.fromkeys(around, "around")}
        painter = _Painter(self, scope, roles)
        return Snapshot(painter.view({**around, **before}, types, edits.added), painter.view({**around, **after}, {}, ()))

    def view(self, nodes: Sequence[gs.Node], scope: Scope, middle: gs.Node | None = None) -> View:
        """Nodes of one graph as they are, in their order; `middle` is the one that the picture is about."""
        states = {id(node): state_of(node) for node in nodes if operator_key(node) != CONSTANT or node is middle}
        roles: dict[int, Role] = dict.fromkeys(states, "plain")
        if middle is not None:
            roles[id(middle)] = "matched"
        return _Painter(self, scope, roles).view(states, {}, ())

    def near(self, node: gs.Node, hops: int, most: int) -> list[gs.Node]:
        """The nodes of the same graph within so many steps of a node, the nearest first, at most so many."""
        scope = self.index.scope(node)
        found = {id(node): node}
        edge = [node]
        for _ in range(hops):
            following: list[gs.Node] = []
            for here in edge:
                for other in self._neighbours(state_of(here), scope):
                    if id(other) not in found and len(found) < most:
                        found[id(other)] = other
                        following.append(other)
            edge = following
        return sorted(found.values(), key=self.index.key_at)

    def _neighbours(self, state: NodeState, scope: Scope) -> Iterator[gs.Node]:
        index = self.index
        for tensor in state.inputs:
            maker = index.producer(tensor) if tensor.name else None
            if maker is not None and index.scope(maker) is scope and operator_key(maker) != CONSTANT:
                yield maker
        for tensor in state.outputs:
            users = (user for user in index.uses(tensor) if index.scope(user) is scope)
            yield from (user for _, user in zip(range(READERS), users, strict=False))

    def _around(
        self, scope: Scope, before: States, after: States, edits: Edits, nodes: Mapping[int, gs.Node]
    ) -> dict[int, NodeState]:
        """The neighbours of what a firing matched and made, that it did not touch."""
        found: dict[int, gs.Node] = {}
        for state in (*before.values(), *after.values()):
            for node in self._neighbours(state, scope):
                if id(node) not in before and id(node) not in after and id(node) not in edits.before:
                    found.setdefault(id(node), node)
        kept = sorted((node for number, node in found.items() if number not in edits.added), key=self.index.key_at)
        return {id(node): state_of(node) for node in kept[:CORE]}

    # --- words -------------------------------------------------------------------------------------------------------------

    def _type(self, tensor: gs.Tensor) -> str:
        """`float[1,64,N]`; "" when nothing is known."""
        dtype, shape = self._facts.dtype(tensor), self._facts.shape(tensor)
        if not dtype and shape is None:
            return ""
        dims = "[...]" if shape is None else f"[{','.join('?' if dim is None else printable(str(dim)) for dim in shape)}]"
        return DTYPE_NAMES.get(dtype or 0, "tensor") + dims

    def port(self, number: int, tensor: gs.Tensor, types: Mapping[int, str], more: int = 0) -> Port:
        """A tensor as a picture shows it; with its type as it was, where that was noted."""
        kind = types.get(id(tensor))
        return Port(
            number, printable(tensor.name), self._type(tensor) if kind is None else kind, self.constant_words(tensor), more
        )


class _Painter:
    """Numbers nodes and tensors of one snapshot, the same ones before and after."""

    def __init__(self, taker: SnapshotTaker, scope: Scope, roles: Mapping[int, Role]) -> None:
        self._taker = taker
        self._scope = scope
        self._roles = roles
        self._keys: dict[int, int] = {}
        self._tensors: dict[int, int] = {}

    def view(self, states: Mapping[int, NodeState], types: Mapping[int, str], hidden: Collection[int]) -> View:
        """What stands in `states`.

        Of nodes that are not merely around a firing, the readers of outputs that are not shown are counted, except `hidden`.
        """
        shown = {id(t) for state in states.values() for t in (*state.inputs, *state.outputs) if t.name}
        graph = self._scope.graph
        return View(
            tuple(self._box(number, states, types, hidden) for number in states),
            tuple(self._port(t, types) for t in graph.inputs if id(t) in shown and not isinstance(t, gs.Constant)),
            tuple(self._port(t, types) for t in graph.outputs if id(t) in shown),
        )

    def _box(self, number: int, states: Mapping[int, NodeState], types: Mapping[int, str], hidden: Collection[int]) -> Box:
        state, role = states[number], self._roles[number]
        users = self._taker.index.users
        counted = role != "around"
        return Box(
            self._keys.setdefault(number, len(self._keys) + 1),
            printable(f"{state.domain}.{state.op}" if state.domain not in ("", "ai.onnx") else state.op),
            printable(state.name),
            role,
            tuple(attribute_texts(state.attrs, self._taker.constant_words))[:ATTRIBUTES],
            tuple(self._port(tensor, types) for tensor in state.inputs),
            tuple(
                self._port(t, types, sum(n not in states and n not in hidden for n in users(t)) if counted else 0)
                for t in state.outputs
            ),
        )

    def _port(self, tensor: gs.Tensor, types: Mapping[int, str], more: int = 0) -> Port:
        number = self._tensors.setdefault(id(tensor), len(self._tensors) + 1) if tensor.name else 0
        return self._taker.port(number, tensor, types, more)
