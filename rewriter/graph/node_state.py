"""A node as it was at some moment.

Keeping one costs next to nothing, since edits replace the attributes of a node and never write into them: what a log, a picture
or a search for cycles wants to know of it is worked out only when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.graph.objects import Node

Parts = tuple[gs.Node, str, str | None, str | None, list[gs.Tensor], list[gs.Tensor], Mapping[str, Any] | None]
"""A node, and what of it can change: operator, domain, name, inputs, outputs, attributes (None: nobody has read them)."""


def parts_of(node: gs.Node) -> Parts:
    """What a `NodeState` is made of; to keep just this costs next to nothing."""
    attrs = node._attrs if node.__class__ is Node else node.attrs
    return node, node.op, node.domain, node.name, node.inputs[:], node.outputs[:], attrs


class NodeState:
    """A node as it was, whatever became of it; it reads like the node itself.

    Attributes:
        op, domain, name: "" where the node has none.
        inputs, outputs: its tensors.
    """

    __slots__ = ("_attrs", "_node", "domain", "inputs", "name", "op", "outputs")

    def __init__(
        self,
        node: gs.Node,
        op: str,
        domain: str | None,
        name: str | None,
        inputs: Sequence[gs.Tensor],
        outputs: Sequence[gs.Tensor],
        attrs: Mapping[str, Any] | None,
    ) -> None:
        self.op = op
        self.domain = domain or ""
        self.name = name or ""
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self._node = node
        self._attrs = attrs

    @property
    def attrs(self) -> Mapping[str, Any]:
        """The attributes that it had; those of a node whose attributes nobody had read were those of its message."""
        found = self._attrs
        if found is None:
            found = self._attrs = self._node.loaded_attrs
        return found

    def differs_in_operands_alone(self, node: gs.Node) -> bool:
        """Whether the node has still its operator, its attributes, its outputs and as many operands."""
        attrs = node._attrs if isinstance(node, Node) else node.attrs
        return (
            (self.op, self.domain, len(self.inputs)) == (node.op, node.domain or "", len(node.inputs))
            and (attrs is self._attrs or (self._attrs is None and attrs is self._node.loaded_attrs))
            and len(self.outputs) == len(node.outputs)
            and all(before is now for before, now in zip(self.outputs, node.outputs, strict=True))
        )


def state_of(node: gs.Node) -> NodeState:
    """A node as it is now."""
    return NodeState(*parts_of(node))
