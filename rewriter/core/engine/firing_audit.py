"""Audit details of a firing beyond its text: the values that its conditions found, the weights that it touched, and its
surroundings. These are collected only for an audit.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.evaluate import Bindings
from rewriter.core.conditions.witnessed import Witnessed
from rewriter.core.engine.attempt import Fired, Noted, Tracer
from rewriter.core.engine.compile import CompiledRule
from rewriter.core.errors import RewriterError, printable
from rewriter.core.facts.derive import constant_node_array
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.edits import Edits, NodeState, state_of
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model_text import attribute_texts, constant_text, node_text, type_words
from rewriter.core.graph.objects import Scope, operator_key
from rewriter.core.graph.values import constant_array
from rewriter.core.log import Box, Port, Role, Snapshot, View, Weight
from rewriter.core.onnxfile.tensors import dtype_number
from rewriter.core.record import record, replace


def known_type(facts: Facts, tensor: gs.Tensor) -> str:
    """`float[1,64,N]`; "" if the type is unknown."""
    dtype, shape = facts.dtype(tensor), facts.shape(tensor)
    return "" if not dtype and shape is None else type_words(dtype, shape)


# Constants by their type and hash: how an audit and a picture name weights, without showing them.

FEW = {"i": 8, "u": 8, "b": 8, "f": 2}  # elements of a constant that is shown by its values, by kind
CONSTANT = ("", "Constant")


class Weights:
    """The constants of one model; each is read once."""

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        self._known: dict[int, tuple[gs.Tensor, Any, tuple[str, str, str]]] = {}

    def words(self, tensor: gs.Tensor) -> str:
        """`int64[2] {0, -1}` or `float[64,3,7,7] #1a2b3c4d5e6f`; "" if the tensor is no constant."""
        found = self.find(tensor)
        if found is None:
            return ""
        kind, digits, values = found
        return f"{kind} {values or '#' + (digits[:12] or '?')}"

    def find(self, tensor: gs.Tensor) -> tuple[str, str, str] | None:
        """Type, sha256 and values (if few) of an initializer, a tensor attribute or a Constant node's output; else None.

        The hash is "" if the values cannot be read.
        """
        constant = isinstance(tensor, gs.Constant)
        maker = None if constant or not tensor.name else self._index.producer(tensor)
        if not constant and (maker is None or operator_key(maker) != CONSTANT):
            return None
        contents = tensor._values if maker is None else maker
        known = self._known.get(id(tensor))
        if known is None or known[1] is not contents:
            known = self._known[id(tensor)] = tensor, contents, _read(tensor, maker)
        return known[2]


def _read(tensor: gs.Tensor, maker: gs.Node | None) -> tuple[str, str, str]:
    try:
        array = constant_array(tensor) if maker is None else constant_node_array(maker)
    except (RewriterError, MemoryError):
        array = None
    if array is None:
        return constant_text(tensor) if maker is None else "unknown", "", ""
    kind = constant_text(tensor) if maker is None else type_words(dtype_number(array.dtype), array.shape, "unknown")
    return kind, digest(array), _values(array)


def digest(array: np.ndarray[Any, Any]) -> str:
    """SHA-256 of an array's values, row by row, little-endian; of texts, each with its length before it."""
    if array.dtype.kind == "O":
        found = sha256()
        for item in array.ravel():
            data = item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogateescape")
            found.update(len(data).to_bytes(8, "little") + data)
        return found.hexdigest()
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.byteswap()
    return sha256(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"").hexdigest()


def _values(array: np.ndarray[Any, Any]) -> str:
    if array.size > FEW.get(array.dtype.kind, 0):
        return ""
    return "{" + ", ".join(f"{np.float32(item):g}" if array.dtype.kind == "f" else str(item) for item in array.ravel()) + "}"


# Takes snapshots: the nodes that a firing matched, made, edited and removed, and those around them, before and after.
#
# The state before is put together afterwards, from the copies that edits keep of each node they touch. So a run without
# snapshots pays nothing for them.

READERS = 3  # of one tensor, that are shown around a firing
ATTRIBUTES = 12  # of one node
CORE = 96  # nodes of a firing that are shown on either side


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
        return {id(tensor): known_type(self._facts, tensor) for tensor in tensors if tensor.name}

    # --- snapshots ------------------------------------------------------------------------------------------------------------

    def snapshot(self, matched: Sequence[gs.Node], edits: Edits, types: Mapping[int, str]) -> Snapshot:
        """The surroundings of a firing that is kept."""
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
        """Nodes of one graph as they are, in their order; the picture shows the surroundings of `middle`."""
        states = {id(node): state_of(node) for node in nodes if operator_key(node) != CONSTANT or node is middle}
        roles: dict[int, Role] = dict.fromkeys(states, "plain")
        if middle is not None:
            roles[id(middle)] = "matched"
        return _Painter(self, scope, roles).view(states, {}, ())

    def near(self, node: gs.Node, hops: int, most: int) -> list[gs.Node]:
        """The nodes of the same graph within a number of steps from a node, the nearest first, up to a limit."""
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
        """The untouched neighbours of the nodes that a firing matched and made."""
        found: dict[int, gs.Node] = {}
        for state in (*before.values(), *after.values()):
            for node in self._neighbours(state, scope):
                if id(node) not in before and id(node) not in after and id(node) not in edits.before:
                    found.setdefault(id(node), node)
        kept = sorted((node for number, node in found.items() if number not in edits.added), key=self.index.key_at)
        return {id(node): state_of(node) for node in kept[:CORE]}

    # --- words -------------------------------------------------------------------------------------------------------------

    def port(self, number: int, tensor: gs.Tensor, types: Mapping[int, str], more: int = 0) -> Port:
        """A tensor as a picture shows it; with its former type, if that was noted."""
        kind = types.get(id(tensor))
        return Port(
            number,
            printable(tensor.name),
            known_type(self._facts, tensor) if kind is None else kind,
            self.constant_words(tensor),
            more,
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
        """The nodes in `states`.

        For nodes that are not merely around a firing, the readers of outputs that are not shown are counted, except `hidden`.
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


@record(frozen=True, slots=True)
class FiringAudit:
    """The details to collect in addition to conditions and weights.

    Attributes:
        snapshots: the number of firings of each rule, from the first, whose surroundings are kept.
        snapshot_of: the number of another firing whose surroundings are kept.
    """

    snapshots: int = 0
    snapshot_of: int = 0


class Auditor(Tracer):
    """Collects the details of the firings of one run."""

    def __init__(self, context: Context, audit: FiringAudit) -> None:
        self._audit = audit
        self._context = context
        self._weights = Weights(context.index)
        self._taker = SnapshotTaker(context, self._weights.words)
        self._taken: Counter[str] = Counter()
        self._number = 0
        self._noted: Noted

    # --- before the rewrite ------------------------------------------------------------------------------------------------

    def rewrites(self, compiled: CompiledRule, names: Bindings, nodes: Mapping[int, gs.Node]) -> None:
        """Notes the conditions, which all hold, and the types, before anything is edited."""
        rule = compiled.rule
        found = tuple(Witnessed(where.condition, names, self._context, rule).found() for where in rule.ast.wheres)
        wanted = self._taken[compiled.code] < self._audit.snapshots or self._number + 1 == self._audit.snapshot_of
        self._noted = Noted(found, self._taker.types(nodes.values()) if wanted else {}, wanted)

    # --- after the rewrite -------------------------------------------------------------------------------------------------

    def has_rewritten(self, compiled: CompiledRule, root: gs.Node | None, fired: Fired | None) -> None:
        """Adds the notes from before the rewrite to the firing."""
        if fired is not None:
            noted = fired.noted = self._noted
            fired.conditions = tuple(replace(c, found=found) for c, found in zip(fired.conditions, noted.found, strict=True))

    def weights(self, edits: Edits) -> tuple[Weight, ...]:
        """The constants that the changed nodes read before and after, each once."""
        before = [tensor for state in edits.before.values() for tensor in state.inputs]
        now = [*edits.added.values(), *(node for node in edits.edited.values() if node in self._context.index)]
        after = [tensor for node in now for tensor in node.inputs]
        used = {id(tensor) for tensor in before}, {id(tensor) for tensor in after}
        found = []
        for tensor in {id(tensor): tensor for tensor in (*before, *after)}.values():
            facts = self._weights.find(tensor)
            if facts is not None:
                when = "both" if id(tensor) in used[0] & used[1] else "before" if id(tensor) in used[0] else "after"
                found.append(Weight(printable(tensor.name), *facts, when))
        return tuple(found)

    def count(self, code: str, noted: Noted) -> None:
        """Counts a firing that is kept."""
        self._number += 1
        self._taken[code] += noted.snapshot

    def snapshot(self, nodes: Sequence[gs.Node], edits: Edits, noted: Noted) -> Snapshot:
        """The surroundings of a firing. Call it once the facts are up to date after the firing."""
        return self._taker.snapshot(nodes, edits, noted.types)

    def text(self, node: gs.Node | NodeState) -> str:
        """A node as ONNX text, tensor attributes with their hashes."""
        return node_text(node, self._weights.words)
