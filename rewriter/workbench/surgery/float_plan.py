"""The nodes of a model that are to compute in another floating-point type, and the tensors that then have it.

A kept node, or a node whose operator lacks the type, computes as before. If the new type is narrower, so does every node that
computes from whole numbers alone: positions, masks and sizes would lose their places. Casts connect the two kinds of nodes.
A node that only moves data between kept nodes is kept as well, so that there are few casts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache

import onnx_graphsurgeon as gs

from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Graph
from rewriter.core.graph.scopes import Scope, bodies
from rewriter.core.language import schema
from rewriter.core.language.dtypes import DTYPES
from rewriter.core.language.meaning import takes, type_variables
from rewriter.core.language.operator_traits import having, of_form, of_type

# The operands and results of a node that may have another floating-point type, according to the schema of its operator.

FLOATS = frozenset(DTYPES[name] for name in ("float", "float16", "bfloat16", "double"))
_RUNTIME = "com.microsoft"
_HALF = frozenset(
    (
        "Attention", "BiasGelu", "EmbedLayerNormalization", "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "Gelu",
        "GroupQueryAttention", "MultiHeadAttention", "QuickGelu", "RotaryEmbedding", "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization",
    )
)  # fmt: skip
"""Operators of ONNX Runtime, without schemas here, whose operands and results are all float16 or all float."""


@cache
def type_groups(op: str, domain: str, version: int) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """For operands and for results, the type variable of each place; None for an operator without a schema."""
    if domain == _RUNTIME and op in _HALF:
        return ("T", ""), ("T", "")
    return type_variables(op, domain, version)


def can_be(node: gs.Node, version: int, target: int, *, result: bool, place: int) -> bool:
    """Whether an operand, or a result, of a node may have the target type."""
    domain = node.domain or ""
    if domain == _RUNTIME and node.op in _HALF and target == DTYPES["float16"]:
        return True
    return takes(node.op, domain, version, result, place, target)


_OF_OTHERS = frozenset(("BitCast", "ConcatFromSequence", "SequenceAt", "SequenceMap", "OptionalGetElement"))
_NARROW = frozenset((10, 16))
_MOVING = having("moves")
CASTS = of_type("to")
_NUMBERED = CASTS | of_form("range")
"""Operators that may make floating-point numbers from whole ones."""

TAKES_ALL = CASTS | of_form("shape", "size")
"""Operators for which the type of their operand makes no difference."""

_MIXING = of_form("convolution", "deconvolution", "einsum", "recurrent", "gemm", "matrix_product")
_WHOLE = frozenset((2, 3, 4, 5, 6, 7, 12, 13))


class FloatPlan:
    """The type that each node and tensor is going to have.

    Attributes:
        target: the element type.
        inputs: tensors that a caller passes, or may pass.
        kept: nodes, by id(), that compute as before.
        counted: nodes that compute from whole numbers alone, and are kept for this reason.
    """

    def __init__(self, index: GraphIndex, facts: Facts, target: int, keep: Collection[int], *, ports: bool) -> None:
        """`keep`: ids of nodes that the user keeps; `ports`: inputs and outputs of the model change as well."""
        self.index = index
        self.facts = facts
        self.target = target
        self.ports = ports
        self.kept = set(keep) | {id(node) for node in index.all_nodes() if self._holds_sequences(node)}
        maps = (node for node in index.all_nodes() if node.op == "SequenceMap")
        self.kept |= {id(inner) for node in maps for inner in index.inside(node)}
        self._owners = {id(t): scope.owner for scope in index.scopes if scope.owner is not None for t in scope.graph.inputs}
        initializers = index.graph.initializers if isinstance(index.graph, Graph) else ()
        self.inputs = [*index.graph.inputs, *(tensor for tensor in initializers if tensor.name in facts.overridable)]
        self._main = set(map(id, self.inputs))
        self.scopes = [scope for scope in index.scopes if not scope.is_function]
        self._concluded: dict[int, int] = {}
        self._conclude()
        self.kept |= {id(node) for node in self.nodes() if self._is_open(node)}
        self.counted = self._from_whole_numbers() if target in _NARROW else set()
        self.kept |= self.counted
        self._settle()

    # --- the types -----------------------------------------------------------------------------------------------------------

    def dtype(self, tensor: gs.Tensor) -> int | None:
        """The element type that a tensor has in the model as it is; None if it is unknown."""
        if not tensor.name:
            return None
        known = self.facts.dtype(tensor)
        return self._concluded.get(id(tensor)) if known is None else known

    def is_float(self, tensor: gs.Tensor) -> bool:
        """Whether a tensor has a floating-point type that changes if its node computes in the target type."""
        dtype = self.dtype(tensor)
        return dtype in FLOATS and dtype != self.target

    def is_input(self, tensor: gs.Tensor) -> bool:
        """Whether a caller passes a tensor, or may: an overridable initializer keeps the type that callers know."""
        return id(tensor) in self._main

    def wants(self, node: gs.Node, place: int) -> bool:
        """Whether a node reads an operand of a floating-point type in the target type."""
        return id(node) not in self.kept and can_be(node, self._version(node), self.target, result=False, place=place)

    def makes(self, tensor: gs.Tensor) -> bool:
        """Whether a tensor of a floating-point type that nodes read is of the target type."""
        maker = self.index.producer(tensor)
        if maker is not None:
            place = next(i for i, output in enumerate(maker.outputs) if output is tensor)
            return self.gives(maker, place)
        owner = self._owners.get(id(tensor))
        if owner is not None:
            return self.gives(owner, 0)
        return self.ports and self.is_input(tensor)

    def gives(self, node: gs.Node, place: int) -> bool:
        """Whether a node makes a result in the target type."""
        return id(node) not in self.kept and can_be(node, self._version(node), self.target, result=True, place=place)

    def changes(self, node: gs.Node) -> bool:
        """Whether a node reads or makes something in the target type."""
        sides = ((node.inputs, self.wants), (node.outputs, self.gives))
        return any(self.is_float(t) and has(node, place) for tensors, has in sides for place, t in enumerate(tensors))

    def hands_out(self, scope: Scope) -> bool:
        """Whether the floating-point outputs of a graph or body are of the target type."""
        return self.ports if scope.owner is None else self.gives(scope.owner, 0)

    def nodes(self) -> Iterator[gs.Node]:
        for scope in self.scopes:
            yield from self.index.members(scope)

    def _version(self, node: gs.Node) -> int:
        opsets = self.index.scope(node).opsets
        return opsets.get(schema.normal(node.domain or ""), opsets.get("", 1))

    def _conclude(self) -> None:
        """Derives unknown element types from the other operands and results of nodes, as after operators without schemas."""
        nodes = [node for node in self.nodes() if any(t.name and self.dtype(t) is None for t in (*node.inputs, *node.outputs))]
        before = -1
        while before != len(self._concluded):
            before = len(self._concluded)
            for node in (*nodes, *reversed(nodes)):
                for members in self._groups(node):
                    known = next((dtype for tensor in members if (dtype := self.dtype(tensor)) is not None), None)
                    if known is not None:
                        self._concluded.update((id(t), known) for t in members if self.dtype(t) is None)

    def _groups(self, node: gs.Node) -> list[list[gs.Tensor]]:
        """The operands and results of a node that have the same element type."""
        sides = type_groups(node.op, node.domain or "", self._version(node))
        found: dict[str, list[gs.Tensor]] = {}
        for names, tensors in zip(sides or (), (node.inputs, node.outputs), strict=False):
            for place, tensor in enumerate(tensors):
                name = names[min(place, len(names) - 1)] if names else ""
                if name and tensor.name:
                    found.setdefault(name, []).append(tensor)
        return list(found.values())

    def _is_open(self, node: gs.Node) -> bool:
        """Whether a node has an operand that may or may not change its type, next to others that do."""
        return any(
            any(self.dtype(t) is None for t in members) and any(map(self.is_float, members)) for members in self._groups(node)
        )

    # --- the kept nodes ------------------------------------------------------------------------------------------------------

    def _from_whole_numbers(self) -> set[int]:
        """Nodes that compute floating-point numbers from whole numbers only. Nodes that look weights up or mix them in are
        not among them, nor are casts that are used at once.
        """
        found: dict[int, gs.Node] = {}
        derived: set[int] = set()
        for node in self.nodes():
            results = [tensor for tensor in node.outputs if self.is_float(tensor)]
            if not results or any(True for _ in bodies(node)):
                continue
            if node.op in _NUMBERED:
                seed = all(self.dtype(t) in _WHOLE or id(t) in derived or self._constant(t) for t in node.inputs)
            else:
                floats = [t for t in node.inputs if self.is_float(t) and not self._constant(t)]
                seed = bool(floats) and all(id(t) in derived for t in floats) and not self._mixes(node)
            if seed:
                found[id(node)] = node
                derived.update(map(id, results))
        return set(found)

    def _mixes(self, node: gs.Node) -> bool:
        if node.op not in _MIXING:
            return False
        shapes = [self.facts.shape(tensor) for tensor in node.inputs if self._constant(tensor)]
        return any(shape is None or sum(dim != 1 for dim in shape) > 1 for shape in shapes)

    def _holds_sequences(self, node: gs.Node) -> bool:
        """Whether a node reads or makes something that is no tensor, or reads the bits of its operand."""
        return node.op in _OF_OTHERS or any(
            self.facts.fact(tensor).type.other for tensor in (*node.inputs, *node.outputs) if tensor.name
        )

    def _constant(self, tensor: gs.Tensor) -> bool:
        return isinstance(tensor, gs.Constant) or self.facts.is_constant(tensor)

    def _settle(self) -> None:
        """Keeps also nodes that would only be cast back and forth: casts and moves between kept nodes."""
        changed = True
        nodes = [node for node in self.nodes() if node.op in _MOVING | CASTS]
        while changed:
            changed = False
            for node in nodes:
                if id(node) not in self.kept and self._between_kept(node):
                    self.kept.add(id(node))
                    changed = True
        for node in nodes:
            if node.op in CASTS and id(node) in self.counted and self._read_in_target(node):
                self.kept.discard(id(node))
                self.counted.discard(id(node))

    def _between_kept(self, node: gs.Node) -> bool:
        results = [tensor for tensor in node.outputs if self.is_float(tensor)]
        if not results or any(self._readers_want(tensor, True) for tensor in results):
            return False
        if node.op in CASTS:
            return True
        floats = [tensor for tensor in node.inputs if self.is_float(tensor) and not self._constant(tensor)]
        return bool(floats) and not any(self.makes(tensor) for tensor in floats)

    def _read_in_target(self, node: gs.Node) -> bool:
        """Whether all readers of a node read it in the target type."""
        return all(not self._readers_want(tensor, False) for tensor in node.outputs if tensor.name)

    def _readers_want(self, tensor: gs.Tensor, target: bool) -> bool:
        """Whether a reader reads a tensor in the target type (`target`), or in the type that it had."""
        for scope in self.index.outputs.get(id(tensor), ()):
            if self.hands_out(scope) == target:
                return True
        for user in self.index.uses(tensor):
            for place, operand in enumerate(user.inputs):
                if operand is tensor and user.op not in TAKES_ALL and self.wants(user, place) == target:
                    return True
        return False
