"""The census of a model, read from its bytes: operators, attributes, names and declared types, without protobuf or numpy.

Most models need no repair, and for most of them the census alone shows it, in less time than it takes to import ONNX. These are
the records of the census; `take_census` reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Protocol, TypeVar

from rewriter.core.record import field, record

Node = tuple["NodeKind", list[bytes], list[bytes]]
"""Its kind, names of operands, names of outputs."""

OPAQUE = object()
"""An attribute that is there but not read: a tensor, a graph, a reference to an attribute of a function."""


VECTOR = 1 << 20
"""`VECTOR` + n stands for the rank 1 of a vector of n elements: its length may be the rank of another tensor."""


class Form:
    """Operator and attributes, one object for all models of this process: results that follow from them alone are found once.

    The attributes of nodes that are not read (`OPAQUE`) may differ, except for the element type and the rank of a tensor.
    """

    __slots__ = ("attrs", "domain", "dtype", "op", "rank")

    def __init__(self, op: str, domain: str, attrs: dict[str, Any], dtype: int, rank: int | None) -> None:
        self.op = op
        self.domain = domain
        self.attrs = attrs
        self.dtype = dtype
        self.rank = rank

    def kind(self) -> NodeKind:
        """The kind of it in one more model."""
        return NodeKind(self.op, self.domain, self.attrs, self.dtype, self.rank, form=self)


LONGEST, MOST_KEPT = 1 << 8, 1 << 14
"""Bytes of a piece of a model that is known again in others, and how many such pieces."""
known_forms: dict[bytes, Form] = {}
"""By the bytes behind the names of a node, with and without fields that no form depends on."""
known_types: dict[bytes, tuple[int, int | None]] = {}
"""Element type and rank, by the bytes of a type."""

Piece = TypeVar("Piece")


def keep(pieces: dict[bytes, Piece], octets: bytes, piece: Piece) -> Piece:
    """The meaning of these bytes, kept for other models if they are few: most models are made of the same pieces."""
    if len(octets) > LONGEST:
        return piece
    if len(pieces) >= MOST_KEPT:
        pieces.clear()
    return pieces.setdefault(octets, piece)


@record(eq=False, slots=True)
class NodeKind:
    """Nodes that have operator and attributes in common.

    Attributes:
        form: the part that equal kinds of other models share, attributes included; None for long attributes and subgraphs.
        attrs: by name, the value that `Node.attrs` would have, or `OPAQUE`.
        dtype: element type of the tensor or sparse tensor among the attributes, 0 without one.
        rank: the rank of this tensor, or `VECTOR` and a length.
        bodies: subgraphs in the order of their attributes; a kind with subgraphs has one node only.
        arities: numbers of operands that occur, each with and without operands left out at the end.
        output_types: found by `follow_types`: element types of the outputs by the operands' element types, as sets of bits.
        declared_outputs: outputs that are outputs of their graph in some node, with the types declared there, as sets of bits.
        ranks: found by `follow_ranks`: the rank of the first output by the operands' ranks; None if a rank is unknown.
    """

    op: str
    domain: str
    attrs: dict[str, Any]
    dtype: int = 0
    rank: int | None = None
    form: Form | None = None
    bodies: dict[str, Body] = field(default_factory=dict)
    arities: set[tuple[int, int]] = field(default_factory=set)
    output_types: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)
    declared_outputs: dict[int, int] = field(default_factory=dict)
    ranks: dict[tuple[int | None, ...], int | None] = field(default_factory=dict)


class InColumns(Protocol):
    """Nodes as columns of numbers (`columns.Columns`, which needs numpy)."""

    kinds: list[NodeKind]

    def __len__(self) -> int: ...

    def nodes(self) -> Iterator[Node]: ...


@record(eq=False, slots=True)
class Body:
    """A graph or function: nodes, and element types by name, 0 for unknown ones.

    Attributes:
        listed: the nodes in their order, unless they are in `columns`.
        inner: bodies of the nodes.
        ranks: of the inputs and constants, by name; None for unknown ones, `VECTOR` and a length for constant vectors.
        names: of the listed nodes that have one; `naming` has the operators of nodes with a name and of nodes without one.
        orderly: each name of a tensor is known to be defined once, and before it is read.
        distinct: no two nodes are known to have one name.
    """

    listed: list[Node] = field(default_factory=list)
    columns: InColumns | None = None
    inner: list[Body] = field(default_factory=list)
    orderly: bool = False
    distinct: bool = False
    inputs: list[tuple[bytes, int]] = field(default_factory=list)
    outputs: list[tuple[bytes, int]] = field(default_factory=list)
    infos: list[tuple[bytes, int]] = field(default_factory=list)
    constants: list[tuple[bytes, int]] = field(default_factory=list)
    ranks: dict[bytes, int | None] = field(default_factory=dict)
    names: list[bytes] = field(default_factory=list)
    name: str = ""
    naming: set[tuple[str, bool]] = field(default_factory=set)
    imports: dict[str, int] = field(default_factory=dict)

    @property
    def nodes(self) -> Iterator[Node]:
        """All nodes in their order."""
        return iter(self.listed) if self.columns is None else self.columns.nodes()

    @property
    def kinds(self) -> Iterable[NodeKind]:
        """The kinds of the nodes; a kind may occur several times."""
        return (kind for kind, _, _ in self.listed) if self.columns is None else self.columns.kinds


@record(eq=False)
class Census:
    """A model as far as it was read.

    Attributes:
        imports: opset version by domain; ONNX's own is "".
        functions: (domain, name) of the local ones, with their bodies.
        refers: whether a tensor may have its data in a file of their own.
        latest_type: the largest number of an element type in a tensor or a declaration.
    """

    graph: Body
    kinds: list[NodeKind]
    ir_version: int | None = None
    producer_name: str = ""
    producer_version: str = ""
    imports: dict[str, int] = field(default_factory=dict)
    functions: dict[tuple[str, str], Body] = field(default_factory=dict)
    refers: bool = False
    latest_type: int = 0

    @cached_property
    def bodies(self) -> list[Body]:
        """The graph, the functions, and the bodies in them."""
        found: list[Body] = []
        waiting = [*self.functions.values(), self.graph]
        while waiting:
            found.append(waiting.pop())
            waiting.extend(found[-1].inner)
        return found

    @property
    def versions(self) -> set[int]:
        """Of ONNX's own operators, in the model and in its functions."""
        imports_of_graphs = [self.imports or {"": 1}, *(body.imports for body in self.functions.values())]
        return {imports[""] for imports in imports_of_graphs if "" in imports}
