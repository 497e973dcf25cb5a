"""The lists that tie nodes and tensors together, cheap enough to make four for every node of a large model.

They behave as graphsurgeon's own: what is put into `node.inputs` finds the node in its `outputs`. Which list of the other side
that is belongs to the class and not to the object, the owner is a slot, and making one costs a tenth.
"""

from __future__ import annotations

from typing import Any

from onnx_graphsurgeon.util.misc import SynchronizedList


class Inputs(SynchronizedList):  # type: ignore[misc]
    """`inputs` of a node (tensors) or of a tensor (its producers)."""

    __slots__ = ("parent_obj",)
    __init__ = list.__init__
    field_name = "outputs"
    parent_obj: Any


class Outputs(SynchronizedList):  # type: ignore[misc]
    """`outputs` of a node (tensors) or of a tensor (its users)."""

    __slots__ = ("parent_obj",)
    __init__ = list.__init__
    field_name = "inputs"
    parent_obj: Any


def link(owner: Any, fields: dict[str, Any]) -> None:
    """Gives a new node or tensor its two empty lists; `fields` is its `__dict__`."""
    inputs, outputs = Inputs(), Outputs()
    inputs.parent_obj = outputs.parent_obj = owner
    fields["inputs"], fields["outputs"] = inputs, outputs
