"""What was derived for one node holds for every node that looks the same to the rules of derivation.

Deep models repeat themselves: thousands of nodes of one operator, with equal attributes, work on operands of equal types.
Deriving what such a node gives takes 20 to 50 microseconds, telling that it is such a node takes two.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.facts.derive import Fact, declared_type
from rewriter.graph.objects import Node
from rewriter.onnxfile.tensor_types import UNKNOWN

A = onnx.AttributeProto
_MOST = 1 << 15  # different nodes that are remembered
_PLAIN = (int, float, str, bool)
_SINGLE = (A.INT, A.FLOAT, A.STRING, A.INTS, A.FLOATS, A.STRINGS)


Kept = tuple[list[Fact], list[int]]
"""The facts of a node's outputs, and which of them are not complete."""

_LONGEST = 2048  # characters of a look that is kept for other models of this process
_of_all: dict[Hashable, Kept] = {}


class Repeats:
    """The facts of the outputs of ordinary nodes, by what the nodes look like; what is short is shared with other models."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Kept] = {}

    def known(self, view: Hashable, node: gs.Node) -> list[Fact] | None:
        """What was derived for a node of this look; None for one that must be derived by itself."""
        found = self._known.get(view) or _of_all.get(view)
        if found is None or (found[1] and _declares_more(found[1], node)):
            return None
        return found[0]

    def remember(self, view: Hashable, facts: list[Fact]) -> None:
        """Notes what followed from a look alone, without what the file declares of a node's outputs."""
        incomplete = [place for place, fact in enumerate(facts) if not fact.type.other and not fact.type.complete]
        known = _of_all if len(repr(view)) <= _LONGEST else self._known
        if len(known) >= _MOST:
            known.clear()
        known[view] = facts, incomplete


def look(node: gs.Node, imports: Mapping[str, int], operands: Sequence[Fact | None]) -> Hashable | None:
    """All that derivation asks of a node but the contents of constants that carry no shape.

    None where nothing can be told without looking at the very node: its attributes are no plain values, or all of its operands
    are constant, so that it may fold.
    """
    seen: list[Hashable] = []
    constant = True
    for fact in operands:
        if fact is None:
            seen.append(None)
        else:
            constant = constant and fact.mark is not None
            seen.append((fact.type, fact.value, fact.mark is None))
    attributes = None if constant else _attributes(node)
    if attributes is None:
        return None
    outputs = tuple([bool(tensor.name) for tensor in node.outputs])
    return node.op, node.domain, tuple(imports.items()), tuple(seen), attributes, outputs


def _attributes(node: gs.Node) -> Hashable | None:
    """The attributes as something to compare; None when some are no plain values."""
    if isinstance(node, Node) and node._attrs is None:
        messages = node.messages
        if not messages:
            return ()
        if any(message.type not in _SINGLE or message.ref_attr_name for message in messages):
            return None
        return tuple([message.SerializeToString() for message in messages])
    found: list[Any] = []
    for name, value in node.attrs.items():
        items = tuple(value) if isinstance(value, list | tuple) else value
        for item in items if isinstance(items, tuple) else (items,):
            if type(item) not in _PLAIN:
                return None
        kinds = tuple(map(type, items)) if isinstance(items, tuple) else type(items)
        found.append((name, kinds, items))
    return tuple(found)


def _declares_more(places: Sequence[int], node: gs.Node) -> bool:
    """Whether what the file declares of an output, at one of these places, may add to what follows from the operands."""
    return any(place < len(node.outputs) and declared_type(node.outputs[place]) != UNKNOWN for place in places)
