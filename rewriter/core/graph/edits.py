"""Edits of a graph as one transaction. Each step can be rolled back, so that a rewrite happens completely or not at all.

Edits go by identity. A redefined tensor keeps its object and its name and only gets another producer. Its users, however many
there are, need no edit, and outputs of the graph keep their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.graph.attributes import NodeTexts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Node, Scope

# A node as it was at some moment.
#
# Keeping one costs next to nothing, since edits replace the attributes of a node and never write into them. Details for a log,
# a picture or a search for cycles are computed only on request.

Parts = tuple[gs.Node, str, str | None, str | None, list[gs.Tensor], list[gs.Tensor], Mapping[str, Any] | None]
"""A node and its parts that can change: operator, domain, name, inputs, outputs, attributes (None: never read)."""


def parts_of(node: gs.Node) -> Parts:
    """The parts of a `NodeState`; keeping only them costs next to nothing."""
    attrs = node._attrs if node.__class__ is Node else node.attrs
    return node, node.op, node.domain, node.name, node.inputs[:], node.outputs[:], attrs


class NodeState:
    """A node as it was at some moment. It reads like the node itself.

    Attributes:
        op, domain, name: "" if the node has none.
        inputs, outputs: its tensors.
    """

    __slots__ = ("_attrs", "_node", "domain", "inputs", "name", "op", "outputs")

    def __init__(self, parts: Parts) -> None:
        self._node, self.op, domain, name, inputs, outputs, self._attrs = parts
        self.domain = domain or ""
        self.name = name or ""
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes that the node had. If they were never read, they are the attributes of its message."""
        found = self._attrs
        if found is None:
            found = self._attrs = self._node.loaded_attrs
        return found

    def differs_in_operands_alone(self, node: gs.Node) -> bool:
        """Whether the node still has the same operator, attributes, outputs and number of operands."""
        attrs = node._attrs if isinstance(node, Node) else node.attrs
        return (
            (self.op, self.domain, len(self.inputs)) == (node.op, node.domain or "", len(node.inputs))
            and (attrs is self._attrs or (self._attrs is None and attrs is self._node.loaded_attrs))
            and len(self.outputs) == len(node.outputs)
            and all(before is now for before, now in zip(self.outputs, node.outputs, strict=True))
        )


def state_of(node: gs.Node) -> NodeState:
    """A node as it is now."""
    return NodeState(parts_of(node))


# A hash of a node, so that a graph's state can be compared with an earlier one by adding and subtracting the changes.

SMALL = 1024  # bytes up to which a new constant is compared by its contents; a larger one by its name


def signature(node: gs.Node | NodeState) -> int:
    """Equal for nodes of the same operator, attributes and operands; valid within one process."""
    attributes = tuple(sorted((name, attribute_key(value)) for name, value in node.attrs.items()))
    return hash(
        (node.domain or "", node.op, attributes, tuple(map(_operand, node.inputs)), tuple(t.name for t in node.outputs))
    )


def _operand(tensor: gs.Tensor) -> Any:
    """A tensor's name; for a small constant that a rule made, its contents, since its name may have been used before."""
    if isinstance(tensor, gs.Constant):
        values = tensor._values
        if isinstance(values, np.ndarray) and values.nbytes <= SMALL:
            return str(values.dtype), values.shape, values.tobytes()
    return tensor.name


def attribute_key(value: Any) -> Any:
    """Equal for attribute values that are written alike."""
    if isinstance(value, list | tuple):
        return tuple(map(attribute_key, value))
    if isinstance(value, float):  # 2.0 is another attribute than 2
        return "float", value
    return value if isinstance(value, int | str | bytes) else id(value)


class Edits:
    """A transaction on an indexed graph. Call `commit` after the edits, or `rollback` to undo them.

    Attributes:
        touched: by id, the nodes that were edited or removed, with their parts before.
        added, removed: nodes by id, in the order in which it happened.
        edited: nodes by id whose operator, attributes, inputs or outputs changed.
        freed: constants (initializers) by id that lost their last use.
        retyped: tensors by id whose type or shape changed, so that types behind them may change.
        corrected: tensors by id whose wrong declaration was corrected; no other fact follows from it.
        declared: declarations of the model that changed, for logs: (what, name) to the value before and the value after.
    """

    __slots__ = (
        "_before", "_undo", "_undone", "added", "corrected", "declared", "edited", "freed", "index", "released", "removed",
        "retyped", "touched",
    )  # fmt: skip

    def __init__(self, index: GraphIndex) -> None:
        self.index = index
        self.touched: dict[int, Parts] = {}
        self._before: dict[int, NodeState] | None = None
        self.added: dict[int, gs.Node] = {}
        self.removed: dict[int, gs.Node] = {}
        self.edited: dict[int, gs.Node] = {}
        self.freed: dict[int, gs.Tensor] = {}
        self.retyped: dict[int, gs.Tensor] = {}
        self.corrected: dict[int, gs.Tensor] = {}
        self.declared: dict[tuple[str, str], tuple[Any, Any]] = {}
        self.released: dict[int, gs.Tensor] = {}  # tensors that lost a use or their producer: candidates for clean-up
        self._undo: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
        self._undone = 0  # steps that others took back since: nodes that were added and removed again

    def rollback(self) -> None:
        """Takes back every edit, last one first."""
        self.index.novelty += 1
        while self._undo:
            step, arguments = self._undo.pop()
            step(*arguments)
        for names in (self.added, self.removed, self.edited, self.freed, self.retyped, self.corrected, self.released):
            names.clear()
        self.touched.clear()
        self._before = None
        self.declared.clear()
        self._undone = 0

    @property
    def any(self) -> bool:
        """Whether anything was changed."""
        return len(self._undo) > self._undone

    @property
    def before(self) -> dict[int, NodeState]:
        """By id, the nodes that were edited or removed, as they were. Call it when all edits are done."""
        if self._before is None or len(self._before) < len(self.touched):
            self._before = {number: NodeState(parts) for number, parts in self.touched.items()}
        return self._before

    def _touch(self, node: gs.Node) -> None:
        if id(node) not in self.touched and id(node) not in self.added:
            self.touched[id(node)] = parts_of(node)

    def later(self, step: Callable[..., Any], *arguments: Any) -> None:
        """Registers a step that undoes a change of the caller; the change may bring something new."""
        self.index.novelty += 1
        self._undo.append((step, arguments))

    def declare(self, what: str, name: str, before: Any, after: Any) -> None:
        """Notes that a declaration of the model changed; of several changes, the first before and the last after."""
        first, _ = self.declared.get((what, name), (before, after))
        self.declared[what, name] = first, after

    # --- nodes -------------------------------------------------------------------------------------------------------------

    def add(self, node: gs.Node, scope: Scope, key: int) -> None:
        """Adds a new node whose inputs and outputs are set."""
        self.index.attach(node, scope, key)
        self.added[id(node)] = node
        self.later(self.index.detach, node)

    def remove(self, node: gs.Node) -> None:
        """Removes a node and the bodies inside it; its inputs may become dead, which `sweep` looks after."""
        if self.index.has_bodies(node):
            for inner in self.index.inside(node):
                self.remove_only(inner)
        self.remove_only(node)

    def remove_only(self, node: gs.Node) -> None:
        """Removes a node, but not the bodies inside it, so that the node can be placed elsewhere."""
        number, released = id(node), self.released
        if self.added.pop(number, None) is None:
            if number not in self.touched:
                self.touched[number] = parts_of(node)
            self.removed[number] = node
        else:
            self._undone += 2
        self._undo.append((self._restore, (node, *self.index.detach(node))))
        for tensor in node.inputs:
            released[id(tensor)] = tensor

    def _restore(self, node: gs.Node, scope: Scope, key: int, owned: Sequence[gs.Tensor]) -> None:
        stolen = [(tensor, self.index.producer(tensor)) for tensor in node.outputs if not any(tensor is t for t in owned)]
        self.index.attach(node, scope, key)
        for tensor, maker in stolen:
            self.index.make(tensor, maker)

    def set_input(self, node: gs.Node, position: int, tensor: gs.Tensor) -> None:
        """Replaces or adds an operand; missing ones before it become omitted ones, trailing omitted ones are cut."""
        operands = list(node.inputs)
        operands.extend(gs.Variable("") for _ in range(position + 1 - len(operands)))
        operands[position] = tensor
        while operands and not operands[-1].name:
            operands.pop()
        self.set_inputs(node, operands)

    def set_inputs(self, node: gs.Node, operands: Sequence[gs.Tensor]) -> None:
        """Replaces the operands."""
        before = list(node.inputs)
        if _same(before, operands):
            return
        self._touch(node)
        self.released.update(self._put_inputs(node, operands))
        self.edited[id(node)] = node
        self._undo.append((self._put_inputs, (node, before)))

    def _put_inputs(self, node: gs.Node, operands: Sequence[gs.Tensor]) -> dict[int, gs.Tensor]:
        """Replaces the operands. Returns the tensors that the node no longer reads."""
        before = {id(tensor): tensor for tensor in node.inputs}
        list.__setitem__(node.inputs, slice(None), operands)
        for tensor in operands:
            if before.pop(id(tensor), None) is None:
                self.index.use(tensor, node)
        for tensor in before.values():
            self.index.unuse(tensor, node)
        return before

    def set_outputs(self, node: gs.Node, outputs: Sequence[gs.Tensor]) -> None:
        """Replaces the output list; tensors that this node made before and makes no more are left without a producer."""
        before = list(node.outputs)
        if _same(before, outputs):
            return
        self._touch(node)
        self._put_outputs(node, outputs)
        self.edited[id(node)] = node
        self.later(self._put_outputs, node, before)

    def _put_outputs(self, node: gs.Node, outputs: Sequence[gs.Tensor]) -> None:
        for tensor in node.outputs:
            if self.index.producer(tensor) is node:
                self.index.make(tensor, None)
        list.clear(node.outputs)
        list.extend(node.outputs, outputs)
        for tensor in outputs:
            self.index.make(tensor, node)

    def set_op(self, node: gs.Node, op: str, domain: str) -> None:
        if (node.op, node.domain or "") == (op, domain or ""):
            return
        self._touch(node)
        self.later(self.index.set_op, node, node.op, node.domain)
        self.index.set_op(node, op, domain)
        self.edited[id(node)] = node

    def set_attribute(self, node: gs.Node, name: str, value: Any) -> None:
        """Sets an attribute; `None` removes it."""
        before = node.attrs
        if value is None and name not in before:
            return
        if name in before and not isinstance(value, gs.Tensor) and attribute_key(value) == attribute_key(before[name]):
            return
        self._touch(node)
        after = before.copy()
        if value is None:
            del after[name]
        else:
            after[name] = value
        node.attrs = after
        self.edited[id(node)] = node
        self.later(setattr, node, "attrs", before)

    def set_texts(self, node: Node, texts: NodeTexts) -> None:
        """Sets the doc_string and the metadata_props of a node, which do not change its results."""
        self.later(setattr, node, "texts", node.texts)
        node.texts = texts

    # --- tensors -----------------------------------------------------------------------------------------------------------

    def replace_uses(self, old: gs.Tensor, new: gs.Tensor) -> None:
        """Every node that reads `old` reads `new` instead; outputs of scopes are not touched."""
        moved = []
        for user in self.index.hand_over(old, new):
            number, parts = id(user), parts_of(user)
            if number not in self.touched and number not in self.added:
                self.touched[number] = parts
            before = parts[4]
            moved.append((user, before))
            for place, tensor in enumerate(before):
                if tensor is old:
                    _set_item(user.inputs, place, new)
            self.edited[number] = user
        if moved:
            self.released[id(old)] = old
            self._undo.append((self._put_back, (moved,)))

    def _put_back(self, operands: list[tuple[gs.Node, list[gs.Tensor]]]) -> None:
        for node, before in reversed(operands):
            self._put_inputs(node, before)

    def set_type(self, tensor: gs.Variable, dtype: Any, shape: Any, kind: str | None = None) -> None:
        """Sets the declared element type and shape of a variable, and its kind (`tensor_type`, ...) if `kind` is set."""
        kind = tensor.type if kind is None else kind
        if (tensor.dtype, tensor.shape, tensor.type) == (dtype, shape, kind):
            return
        self.later(_set_type, tensor, tensor.dtype, tensor.shape, tensor.type)
        self.declare("type", tensor.name, (tensor.dtype, tensor.shape), (dtype, shape))
        _set_type(tensor, dtype, shape, kind)
        self.retyped[id(tensor)] = tensor

    def correct_type(self, tensor: gs.Variable, dtype: Any, shape: Any) -> None:
        """Corrects the declared element type and shape of a variable, which are in truth others already."""
        self.later(_set_type, tensor, tensor.dtype, tensor.shape, tensor.type)
        self.declare("type", tensor.name, (tensor.dtype, tensor.shape), (dtype, shape))
        _set_type(tensor, dtype, shape, tensor.type)
        self.corrected[id(tensor)] = tensor

    # --- names and order ---------------------------------------------------------------------------------------------------

    def rename(self, part: gs.Node | gs.Tensor, name: str) -> None:
        """Renames a node or a tensor; its readers refer to the object and need no edit."""
        self.declare("node" if isinstance(part, gs.Node) else "tensor", name, part.name, name)
        self.later(setattr, part, "name", part.name)
        part.name = name

    def reorder(self, scope: Scope) -> None:
        """Has the nodes of a scope written in the order in which they can run."""
        if self.index.mark_changed(scope):
            self.later(self.index.unmark_changed, scope)

    # --- clean-up ----------------------------------------------------------------------------------------------------------

    def sweep(self, roots: Iterable[gs.Node]) -> None:
        """Removes what the edits made dead: `roots` without used outputs, then all that only removed nodes used.

        Nodes that were dead before the edits stay.
        """
        index, waiting = self.index, list(roots)
        while waiting or self.released:
            if self.released:
                released, self.released = self.released, {}
                for number, tensor in released.items():
                    if not tensor.name or index.is_used(tensor):
                        if self.freed:
                            self.freed.pop(number, None)
                    elif (maker := index.producer(tensor)) is not None:
                        if not waiting or waiting[-1] is not maker:  # else it is the next node to check anyway
                            waiting.append(maker)
                    elif isinstance(tensor, gs.Constant):
                        self.freed[number] = tensor
            while waiting:
                node = waiting.pop()
                if node._scope is not None and not index.is_live(node):
                    self.remove(node)


_set_item = list.__setitem__  # graphsurgeon's own looks after the other side, which is the index's to do


def _same(one: Sequence[gs.Tensor], other: Sequence[gs.Tensor]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _set_type(tensor: gs.Variable, dtype: Any, shape: Any, kind: str | None) -> None:
    tensor.dtype, tensor.shape, tensor.type = dtype, shape, kind
