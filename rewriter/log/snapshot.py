"""What a firing looked like: the nodes around it before and after, as data that pictures are drawn from.

A snapshot holds texts and numbers only. It can be sent to another process, and outlives the graph it was taken of.
"""

from __future__ import annotations

from typing import Literal

from rewriter.record import record

Role = Literal["added", "removed", "edited", "matched", "around", "plain"]


@record(frozen=True, slots=True)
class Port:
    """An operand or output of a node.

    Attributes:
        tensor: number of the tensor in the snapshot; 0 for an operand that is left out.
        name: of the tensor.
        type: "float[1,64,N]", or "" when unknown.
        constant: of a constant its element type, shape and hash, or its few values; "" for what is computed or given.
        more: of an output, how many nodes read it that the snapshot does not show.
    """

    tensor: int
    name: str
    type: str = ""
    constant: str = ""
    more: int = 0


@record(frozen=True, slots=True)
class Box:
    """A node. A node that stands before and after has the same `key` in both.

    Its `role` is what a firing did to it; "matched" is what was matched and stays, or what a picture is about, "around" what
    merely stands near a firing, and "plain" has nothing to do with one.
    """

    key: int
    op: str
    name: str
    role: Role
    attributes: tuple[tuple[str, str], ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@record(frozen=True, slots=True)
class View:
    """Some nodes of one graph; `given` and `wanted` are those of their tensors that are inputs and outputs of the graph."""

    boxes: tuple[Box, ...] = ()
    given: tuple[Port, ...] = ()
    wanted: tuple[Port, ...] = ()


@record(frozen=True, slots=True)
class Snapshot:
    """The surroundings of a firing before and after it."""

    before: View
    after: View
