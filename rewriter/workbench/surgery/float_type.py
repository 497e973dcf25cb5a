"""Models that compute in another floating-point type: `rewriter convert --dtype`. A plan of the nodes that change, its
execution, and the comparison of the result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs
from ml_dtypes import finfo
from onnx import helper

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.run import Hooks, run
from rewriter.core.errors import RewriterError, counted
from rewriter.core.facts.facts import Facts
from rewriter.core.facts.single_node import single_node
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import Graph, Scope, bodies, new_constant, new_node, new_variable
from rewriter.core.graph.values import Constant, Variable, constant_array
from rewriter.core.language import schema
from rewriter.core.language.meaning import takes, type_variables
from rewriter.core.language.operator_traits import CASTS_BY_NUMBER, FLOAT_WITHOUT, TYPED, having, of_form, of_type
from rewriter.core.language.schema import DTYPE_NAMES, DTYPES, FLOATS
from rewriter.core.onnxfile.tensors import gs_dtype, numpy_dtype
from rewriter.core.record import record
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.proof.judges import SAYS_AT_RUN, has_kernel
from rewriter.trust.proof.output_agreement import Bound
from rewriter.trust.proof.validity import Candidate
from rewriter.workbench.surgery.finish import Checks, Surgery, command_text, finish, size_of_runs
from rewriter.workbench.surgery.opened import Opened
from rewriter.workbench.surgery.ports import Parts, names_in, reached
from rewriter.workbench.surgery.same_numbers import Step, agreement

# The nodes of a model that are to compute in another floating-point type, and the tensors that then have it.
#
# A kept node, or a node whose operator lacks the type, computes as before. If the new type is narrower, so does every node that
# computes from whole numbers alone: positions, masks and sizes would lose their places. Casts connect the two kinds of nodes. A
# node that only moves data between kept nodes is kept as well, so that there are few casts.

# The operands and results of a node that may have another floating-point type, according to the schema of its operator.

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
        between: casts and moves, by id(), that are kept because they stand between kept nodes.
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
        self.between = set[int]()
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
                    self.between.add(id(node))
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


Array = Any


@record(frozen=True, slots=True)
class Loss:
    """The loss of a weight: values too large for the type, which became its largest number, and values that became zero."""

    name: str
    values: int
    overflowed: int
    flushed: int

    def __str__(self) -> str:
        lost = []
        if self.overflowed:
            lost.append(f"{self.overflowed:,} too large, now the largest value")
        if self.flushed:
            lost.append(f"{self.flushed:,} flushed to zero" if self.values > 1 else "too small, now the smallest value")
        return f"{self.name}: of {self.values:,} values {', '.join(lost)}"


class FloatChange:
    """One conversion.

    Attributes:
        casts: how many were added, less those that became needless.
        listed: how many changed weights are listed among the inputs.
        losses: losses of weights.
    """

    def __init__(self, plan: FloatPlan) -> None:
        self.plan = plan
        self.index: GraphIndex = plan.index
        self.casts = 0
        self.listed = 0
        self.losses: list[Loss] = []
        self._constants: dict[int, tuple[gs.Tensor, Constant]] = {}
        self._cast: dict[tuple[int, int], gs.Tensor] = {}
        self._first: dict[int, list[gs.Node]] = {}  # casts at the beginning of a scope, by its number
        self._behind: dict[int, list[gs.Node]] = {}  # casts after a node, by its id()
        self._clamped: dict[int, gs.Tensor] = {}
        self._named: set[int] = set()  # tensors that have the name of an output now, by id()

    def carry_out(self) -> None:
        """Changes the model."""
        plan, index = self.plan, self.index
        all_tensors = chain(
            plan.inputs, *(s.graph.inputs for s in plan.scopes), *((*n.inputs, *n.outputs) for n in plan.nodes())
        )
        moved = {id(tensor): tensor for tensor in all_tensors if plan.is_float(tensor)}
        changing = {number for number, tensor in moved.items() if not self._is_constant(tensor) and plan.makes(tensor)}
        outputs = [(scope, i) for scope in plan.scopes for i, t in enumerate(scope.graph.outputs) if plan.is_float(t)]
        operands = [
            (node, place, self._replaced(tensor, plan.wants(node, place), changing, node))
            for node in plan.nodes()
            for place, tensor in enumerate(node.inputs)
            if plan.is_float(tensor)
        ]
        replaced_outputs = [
            (scope, i, self._replaced(scope.graph.outputs[i], plan.hands_out(scope), changing)) for scope, i in outputs
        ]
        attributes = [(node, self._attributes(node)) for node in plan.nodes()]
        needless = [node for node in plan.nodes() if node.op in CASTS and self._is_needless(node, changing)]
        index.finish()
        for node, changed in attributes:
            if changed:
                node.attrs = {**node.attrs, **changed}
        for number in changing:
            self._declare(moved[number])
        for node, place, other in operands:
            if other is not None:
                node.inputs[place] = other
        for scope, i, tensor in replaced_outputs:
            if tensor is not None:
                self._hand_out(scope, i, tensor)
        for scope in plan.scopes:
            self._place(scope)
        output_ids = {id(tensor) for scope in plan.scopes for tensor in scope.graph.outputs}
        self._drop_needless(needless)
        self._take_names(output_ids)

    def _declare(self, tensor: gs.Tensor) -> None:
        """Makes a tensor that declares a type declare the new one; an overridable tensor also stores its numbers in it."""
        if isinstance(tensor, Variable) and tensor.dtype is not None:
            tensor.dtype = gs_dtype(self.plan.target)
        elif isinstance(tensor, Constant):
            tensor._values = new_constant(tensor.name, self._rounded(tensor.name, self._values(tensor)))._values

    # --- operands ----------------------------------------------------------------------------------------------------------

    def _replaced(self, tensor: gs.Tensor, target: bool, changing: set[int], reader: gs.Node | None = None) -> gs.Tensor | None:
        """The tensor that a node reads or a graph returns in place of a tensor, in the target type or not; None if it stays."""
        if self._is_constant(tensor):
            if target:
                return self._constant(tensor)
            return self._within(tensor) if id(reader) in self.plan.counted else None
        if target == (id(tensor) in changing) or (reader is not None and reader.op in TAKES_ALL):
            return None
        return self._casted(tensor, target)

    def _is_constant(self, tensor: gs.Tensor) -> bool:
        if self.plan.is_input(tensor):
            return False
        maker = self.index.producer(tensor)
        return isinstance(tensor, gs.Constant) or (maker is not None and maker.op == "Constant")

    def _constant(self, tensor: gs.Tensor) -> gs.Tensor:
        """The constant in the target type."""
        found = self._constants.get(id(tensor))
        if found is None:
            name = self.index.names.fresh(f"{tensor.name}_{DTYPE_NAMES[self.plan.target]}")
            found = tensor, new_constant(name, self._rounded(tensor.name, self._values(tensor)))
            self._constants[id(tensor)] = found
        return found[1]

    def _values(self, tensor: gs.Tensor) -> Array:
        array = constant_array(tensor) if isinstance(tensor, gs.Constant) else self.plan.facts.constant(tensor)
        if array is None:
            raise RewriterError(f"the values of the constant {tensor.name!r} cannot be read")
        return np.asarray(array)

    def _within(self, tensor: gs.Tensor) -> gs.Tensor | None:
        """A constant that keeps its type, without the numbers that would make a cast of its results impossible."""
        found = self._clamped.get(id(tensor))
        if found is None:
            array, largest = self._values(tensor), self._limits()[0]
            if not (np.isfinite(array) & (np.abs(array) > largest)).any():
                return None
            name = self.index.names.fresh(f"{tensor.name}_clipped")
            kept = np.where(np.isfinite(array), np.clip(array, -largest, largest), array).astype(array.dtype)
            self._clamped[id(tensor)] = found = new_constant(name, kept)
        return found

    def _limits(self) -> tuple[float, float]:
        """The largest number of the target type, and the smallest above zero."""
        found = finfo(numpy_dtype(self.plan.target))  # type: ignore[no-untyped-call]
        return float(found.max), float(found.smallest_subnormal)

    def _rounded(self, name: str, array: Array) -> Array:
        dtype = numpy_dtype(self.plan.target)
        assert dtype is not None
        largest, least = self._limits()
        wide = array.astype(np.float64) if array.dtype.itemsize < 4 else array
        with np.errstate(over="ignore", under="ignore"):
            over = np.isfinite(wide) & (np.abs(wide) > largest)
            if over.any():
                wide = np.where(over, np.sign(wide) * largest, wide)
            narrow = wide.astype(dtype)
        lost = (narrow == 0) & (wide != 0)
        if lost.any() and array.size == 1:  # mostly a number that keeps a divisor from zero
            narrow = (np.sign(wide) * least).astype(dtype)
        if over.any() or lost.any():
            self.losses.append(Loss(name, int(array.size), int(over.sum()), int(lost.sum())))
        return narrow.reshape(array.shape)

    # --- casts -------------------------------------------------------------------------------------------------------------

    def _casted(self, tensor: gs.Tensor, target: bool) -> gs.Tensor:
        """A tensor in the target type, or in the type that it had before; all readers share one cast."""
        number = self.plan.target if target else self.plan.dtype(tensor)
        assert number is not None
        found = self._cast.get((id(tensor), number))
        if found is None:
            shape = self.plan.facts.declared(tensor)[1]
            name = self.index.names.fresh(f"{tensor.name}_{DTYPE_NAMES[number]}")
            found = new_variable(name) if shape is None else new_variable(name, gs_dtype(number), list(shape))
            cast = new_node("Cast", None, self.index.node_names.fresh(name), {"to": number}, [tensor], [found])
            self._cast[id(tensor), number] = found
            self.casts += 1
            maker = self.index.producer(tensor)
            if maker is not None:
                self._behind.setdefault(id(maker), []).append(cast)
            else:
                scope = next((s for s in self.plan.scopes if any(t is tensor for t in s.graph.inputs)), self.plan.scopes[0])
                self._first.setdefault(scope.number, []).append(cast)
        return found

    def _hand_out(self, scope: Scope, place: int, tensor: gs.Tensor) -> None:
        """Makes a graph return another tensor; the outputs of the model keep their names."""
        old = scope.graph.outputs[place]
        renamed = id(tensor) in self._named  # the model returns it several times
        if scope.owner is None and not renamed and not any(t is old for t in scope.graph.inputs):
            old.name, tensor.name = tensor.name, old.name
            self._named.add(id(tensor))
        if isinstance(old, Variable) and isinstance(tensor, Variable):
            _copy_type(old, tensor, self.plan.target if self.plan.hands_out(scope) else self.plan.dtype(old))
        scope.graph.outputs[place] = tensor

    def _place(self, scope: Scope) -> None:
        """Puts the new nodes of a scope where they can run."""
        placed = list(self._first.get(scope.number, ()))
        for node in scope.graph.nodes:
            placed.append(node)
            placed += self._behind.get(id(node), ())
        if len(placed) != len(scope.graph.nodes):
            scope.graph.nodes[:] = placed

    def _is_needless(self, node: gs.Node, changing: set[int]) -> bool:
        """Whether a cast of the model casts to the type that its operand now has."""
        operand, result = node.inputs[0], node.outputs[0]
        types = [self.plan.target if id(t) in changing else self.plan.dtype(t) for t in (operand, result)]
        return types[0] == types[1] == self.plan.target and not self._is_constant(operand)

    def _drop_needless(self, casts: Sequence[gs.Node]) -> None:
        """Removes casts that do not change the type, and constants that no node reads and no graph returns."""
        index = GraphIndex(self.index.graph)
        edits = Edits(index)
        for node in casts:
            if not index.output_of(node.outputs[0]):
                edits.replace_uses(node.outputs[0], node.inputs[0])
                edits.remove(node)
                self.casts -= 1
        unread = {number for number, (old, _) in self._constants.items() if not index.is_used(old)}
        for old, _ in self._constants.values():
            maker = index.producer(old)
            if maker is not None and id(old) in unread:
                edits.remove(maker)
        index.finish()
        for scope in self.plan.scopes:
            if isinstance(scope.graph, Graph):
                scope.graph.initializers = [tensor for tensor in scope.graph.initializers if id(tensor) not in unread]

    def _take_names(self, output_ids: set[int]) -> None:
        """Gives constants the names of the constants that they replaced, also among the inputs of the model."""
        listed: dict[int, gs.Tensor] = {}
        for old, new in self._constants.values():
            if old.outputs or id(old) in output_ids:
                continue
            if id(new) not in self._named:
                old.name, new.name = new.name, old.name
            if isinstance(old, Constant) and old.listed:
                new.listed = True
                listed[id(old)] = new
        graph = self.index.graph
        if listed and isinstance(graph, Graph):
            graph.origin.inputs = [listed.get(id(tensor), tensor) for tensor in graph.origin.inputs]
            self.listed = len(listed)

    # --- attributes --------------------------------------------------------------------------------------------------------

    def _attributes(self, node: gs.Node) -> dict[str, Any]:
        """The attributes that set the type of a result that changes."""
        floats = [i for i, tensor in enumerate(node.outputs) if self.plan.is_float(tensor)]
        if not floats or not self.plan.gives(node, floats[0]) or node.op == "Constant":
            return {}
        found: dict[str, Any] = {name: self.plan.target for name in TYPED if node.attrs.get(name) in FLOATS}
        telling = FLOAT_WITHOUT.get(node.op)
        if telling == "value":
            value = node.attrs.get("value")
            array = np.zeros(1, np.float32) if value is None else np.asarray(constant_array(value))
            found["value"] = new_constant("value", self._rounded(node.outputs[0].name, array))
        elif telling is not None:
            found[telling] = self.plan.target
        return found


def _copy_type(old: Variable, new: Variable, number: int | None) -> None:
    """Makes an output declare the same as the one before, except for its element type."""
    if number is not None:
        new.dtype, new.shape, new.type = gs_dtype(number), old.shape, old.type


# `rewriter convert`: a model that computes in another floating-point type.

TYPES = ("float16", "bfloat16", "float32", "double")
IO = ("keep", "convert")
CLOSE = 1e-2
"""Largest difference, relative and absolute, between results before and after that gives no note."""

_MAY_LACK = ("bfloat16", "double")
"""Types for which ONNX Runtime lacks many kernels, and adds no casts. For float16 it adds casts before nodes that read
floating-point numbers."""

_RANGE = ".."
_SHOWN = 8  # weights that are named
_INLINE = "HYG032"
_NEEDLESS = "GEN033"
"""Removes casts that do not change the type; such a cast would otherwise fix a type that the other nodes no longer have."""


def in_type(source: Opened, dtype: str, keep: Sequence[str] = (), io: str = "keep", checks: Checks | None = None) -> Surgery:
    """A model that computes in another floating-point type as far as it can, checked and recorded.

    Args:
        dtype: one of `TYPES`.
        keep: nodes that compute as before: names, patterns, `op:TYPE`, and `A..B` for all between two of them.
        io: "convert", to change the types of inputs and outputs as well.

    Raises:
        RewriterError: there is no such type or node, or the result is less valid than the model was.
    """
    if dtype not in TYPES or io not in IO:
        raise RewriterError(f"the element type is one of {', '.join(TYPES)}, and io one of {', '.join(IO)}")
    checks = checks or Checks()
    model = source.read()
    asks = checks.runtime != "no"
    did = _convert(model, dtype, keep, ports=io == "convert", asks=asks)
    options = [("--dtype", [dtype]), ("--keep", keep), ("--io", [io] if io != "keep" else [])]
    done = finish(model, [source], command_text("convert", options), did, [], checks)
    if asks and not done.notes:
        compared = model
        if io == "convert":
            compared = source.read()
            _convert(compared, dtype, keep, ports=False, asks=asks)
        _compare(source, Candidate(compared), done, size_of_runs(checks))
    return done


def _convert(model: Model, dtype: str, keep: Sequence[str], *, ports: bool, asks: bool) -> list[str]:
    """Changes a model; what was done, a line each. `asks`: nodes for which ONNX Runtime lacks a kernel stay."""
    target = DTYPES["float" if dtype == "float32" else dtype]
    did = []
    if model.graph.functions:
        before = len(model.graph.functions)
        run(model.graph, load_rules().select([_INLINE]), Knowledge(overridable=model.overridable))
        if len(model.graph.functions) < before:
            did.append(f"{counted(before - len(model.graph.functions), 'function')} written out where they are called")
    index = GraphIndex(model.graph)
    kept = set(map(id, _kept(index, keep)))
    if any(node.op in CASTS for node in index.all_nodes()):  # rules take time and memory to load
        only = Hooks(permit=lambda fired: id(fired.root) not in kept)
        log = run(model.graph, load_rules().select([_NEEDLESS]), Knowledge(overridable=model.overridable), hooks=only)
        if log.firings:
            did.append(f"{counted(len(log.firings), 'cast')} to the same type removed")
        index = GraphIndex(model.graph)
    facts = Facts(index, model.overridable)
    plan = FloatPlan(index, facts, target, kept, ports=ports)
    lacking = set[int]()
    if asks and dtype != "float32":
        doubtful = [node for node in plan.nodes() if plan.changes(node) and _may_lack(node, dtype, plan)]
        lacking = {id(node) for node in doubtful if _lacks_kernel(node, plan)}
        if lacking:
            plan = FloatPlan(index, facts, target, kept | lacking, ports=ports)
    changing = [node for node in plan.nodes() if any(plan.is_float(t) for t in (*node.inputs, *node.outputs))]
    same = [node for node in changing if not plan.changes(node)]
    did += _reasons(plan, [node for node in same if id(node) not in kept], lacking, dtype, model.graph.opset)
    change = FloatChange(plan)
    change.carry_out()
    if change.casts and (version := model.graph.opset) < CASTS_BY_NUMBER:
        reason = f"{counted(change.casts, 'cast')} would be needed, which opset {version} writes otherwise"
        raise RewriterError(f"{reason}: convert the model to opset {CASTS_BY_NUMBER} or newer first, with `rewriter opset`")
    computing = counted(len(changing) - len(same), "node")
    did.append(f"{computing} in {dtype}, {len(same):,} as before, {counted(change.casts, 'cast')} more")
    if change.listed and not ports:
        did.append(f"{counted(change.listed, 'weight')} in the list of inputs, now as {dtype}")
    worst = sorted(change.losses, key=lambda loss: (-loss.overflowed, -loss.flushed / loss.values))
    did += [f"weight  {loss}" for loss in worst[:_SHOWN]]
    if len(change.losses) > _SHOWN:
        did.append(f"weight  and {counted(len(change.losses) - _SHOWN, 'other')} that lost values")
    return did


def _reasons(plan: FloatPlan, nodes: Iterable[gs.Node], lacking: set[int], dtype: str, opset: int) -> list[str]:
    """Why nodes compute as before, a line for each reason."""
    runtime = f"ONNX Runtime has no {dtype} for {{ops}} (--runtime no converts them)"
    operator_set = f"opset {opset} has no {dtype} for {{ops}}"
    whole, other = "{ops}, computed from integers alone", "{ops}, of sequences or unknown types"
    between = "{ops}, between such nodes"
    found: dict[str, list[gs.Node]] = {reason: [] for reason in (runtime, operator_set, whole, other, between)}
    for node in nodes:
        if id(node) in lacking:
            reason = runtime
        elif id(node) not in plan.kept:
            reason = operator_set
        else:
            reason = whole if id(node) in plan.counted else between if id(node) in plan.between else other
        found[reason].append(node)
    return [
        f"{counted(len(same), 'node')} as before: {reason.format(ops=', '.join(sorted({node.op for node in same})))}"
        for reason, same in found.items()
        if same
    ]


def _may_lack(node: gs.Node, dtype: str, plan: FloatPlan) -> bool:
    """Whether to look for a kernel: casts that ONNX Runtime adds do not help if the kernel exists and fails when it runs."""
    return dtype in _MAY_LACK or node.op in SAYS_AT_RUN or not any(map(plan.is_float, node.inputs))


def _lacks_kernel(node: gs.Node, plan: FloatPlan) -> bool:
    """Whether the installed ONNX Runtime reports that it has no kernel for a node in its new type."""
    model = single_node(node, plan.facts, plan.index.scope(node))
    if model is None or any(True for _ in bodies(node)):
        return False
    one = model.graph.node[0]
    places = {name: place for place, name in enumerate(one.input) if name}
    for info in model.graph.input:
        tensor = node.inputs[places[info.name]]
        if plan.is_float(tensor) and plan.wants(node, places[info.name]):
            info.type.tensor_type.elem_type = plan.target
    for attribute in one.attribute:
        if attribute.name in TYPED and attribute.i in FLOATS:
            attribute.i = plan.target
    telling = FLOAT_WITHOUT.get(node.op, "value")
    if telling != "value" and all(attribute.name != telling for attribute in one.attribute):
        one.attribute.append(helper.make_attribute(telling, plan.target))  # a missing attribute means float
    return has_kernel(model) is False


def _kept(index: GraphIndex, texts: Iterable[str]) -> list[gs.Node]:
    """The nodes that texts name, with all nodes in their bodies. Raises RewriterError for a text that names none."""
    parts = Parts(index)
    found: dict[int, gs.Node] = {}
    for text in names_in(texts, lambda name: name in parts.nodes or name in parts.tensors):
        first, dots, last = text.partition(_RANGE)
        if not dots or text in parts.nodes or text in parts.tensors:
            nodes = parts.nodes_of([text])
        else:
            nodes = _between(index, parts.nodes_of([first]), parts.nodes_of([last]))
            if not nodes:
                raise RewriterError(f"--keep {text}: no path leads from {first!r} to {last!r}")
        for node in nodes:
            found.update((id(inner), inner) for inner in (node, *index.inside(node)))
    return list(found.values())


def _between(index: GraphIndex, first: Sequence[gs.Node], last: Sequence[gs.Node]) -> list[gs.Node]:
    """The nodes on the paths from some nodes to others, these included."""
    behind, before = reached(first, index.followers), reached(last, index.before)
    return [node for number, node in behind.items() if number in before]


def _compare(source: Opened, result: Candidate, done: Surgery, most: int) -> None:
    """Runs the model before and after, and notes how close the results are. Raises RewriterError if only the first runs."""
    before = Candidate(source.read())
    wanted = [output.name for output in before.proto.graph.output]
    bound = Bound(rtol=CLOSE, atol=CLOSE)
    found = agreement(before, [Step(before)], [Step(result)], wanted, most=most, bound=bound)
    if not found.ran:
        done.notes.append(f"the outputs were not compared: {found.reason}")
    elif found.refused:
        advice = "leave nodes as they are with --keep, or do not run the result with --runtime no"
        raise RewriterError(f"no file was written, because {found.difference}; {advice}")
    elif found.difference:
        done.same = False
        done.notes.append(f"the outputs differ: {found.difference}. --keep leaves nodes in the type that they have")
    else:
        done.did.append(f"runs, and computes the same within {CLOSE}")
