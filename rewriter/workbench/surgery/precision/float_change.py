"""Carries out a plan: other weights, other attributes, casts where types meet, and what tensors declare."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Graph, new_constant, new_node, new_variable
from rewriter.core.graph.scopes import Scope
from rewriter.core.graph.values import Constant, Variable, constant_array
from rewriter.core.language.dtypes import DTYPE_NAMES
from rewriter.core.language.operator_traits import FLOAT_WITHOUT, TYPED
from rewriter.core.onnxfile.tensors import gs_dtype, numpy_dtype
from rewriter.core.record import record
from rewriter.workbench.surgery.precision.float_plan import CASTS, FLOATS, TAKES_ALL, FloatPlan

Array = Any
_LIMITS = {
    1: (3.4028234663852886e38, 1.401298464324817e-45),
    10: (65504.0, 5.960464477539063e-08),
    11: (1.7976931348623157e308, 5e-324),
    16: (3.3895313892515355e38, 9.183549615799121e-41),
}
"""By element type, the largest number and the smallest above zero."""


@record(frozen=True, slots=True)
class Loss:
    """What a weight lost: values too large for the type, which became its largest number, and values that became zero."""

    name: str
    values: int
    overflowed: int
    flushed: int

    def __str__(self) -> str:
        lost = []
        if self.overflowed:
            lost.append(f"{self.overflowed:,} too large, now the largest number")
        if self.flushed:
            lost.append(f"{self.flushed:,} flushed to zero" if self.values > 1 else "too small, now the smallest number")
        return f"{self.name}: of {self.values:,} values {', '.join(lost)}"


class FloatChange:
    """One conversion.

    Attributes:
        casts: how many were put in, less those that became needless.
        listed: how many weights changed that are listed among the inputs.
        losses: of weights, where there are any.
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
        self._named: set[int] = set()  # what has the name of an output now, by id()

    def carry_out(self) -> None:
        """Changes the model."""
        plan, index = self.plan, self.index
        held = chain(plan.inputs, *(s.graph.inputs for s in plan.scopes), *((*n.inputs, *n.outputs) for n in plan.nodes()))
        moved = {id(tensor): tensor for tensor in held if plan.is_float(tensor)}
        changing = {number for number, tensor in moved.items() if not self._is_constant(tensor) and plan.makes(tensor)}
        outputs = [(scope, i) for scope in plan.scopes for i, t in enumerate(scope.graph.outputs) if plan.is_float(t)]
        asked = [self._asked(node, place, changing) for node in plan.nodes() for place in range(len(node.inputs))]
        operands = [one for one in asked if one is not None]
        handed = [(scope, i, self._handed(scope, i, changing)) for scope, i in outputs]
        attributes = [(node, self._attributes(node)) for node in plan.nodes()]
        needless = [node for node in plan.nodes() if node.op in CASTS and self._is_needless(node, changing)]
        index.finish()
        for node, changed in attributes:
            if changed:
                node.attrs = {**node.attrs, **changed}
        for number in changing:
            self._declare(moved[number])
        for node, place, tensor in operands:
            node.inputs[place] = tensor
        for scope, i, tensor in handed:
            if tensor is not None:
                self._hand_out(scope, i, tensor)
        for scope in plan.scopes:
            self._place(scope)
        given = {id(tensor) for scope in plan.scopes for tensor in scope.graph.outputs}
        self._drop_needless(set(map(id, needless)), given)
        self._take_names(given)

    def _declare(self, tensor: gs.Tensor) -> None:
        """Has a tensor that says a type say the new one; what a caller may override holds its numbers in it as well."""
        if isinstance(tensor, Variable) and tensor.dtype is not None:
            tensor.dtype = gs_dtype(self.plan.target)
        elif isinstance(tensor, Constant):
            tensor._values = new_constant(tensor.name, self._rounded(tensor.name, self._values(tensor)))._values

    # --- operands ----------------------------------------------------------------------------------------------------------

    def _asked(self, node: gs.Node, place: int, changing: set[int]) -> tuple[gs.Node, int, gs.Tensor] | None:
        """The tensor that an operand is to be instead of the one that it is."""
        tensor = node.inputs[place]
        if not self.plan.is_float(tensor):
            return None
        target = self.plan.wants(node, place)
        if self._is_constant(tensor):
            other = self._constant(tensor) if target else self._within(tensor) if id(node) in self.plan.counted else None
            return None if other is None else (node, place, other)
        if node.op in TAKES_ALL:
            return None
        if target == (id(tensor) in changing):
            return None
        return node, place, self._casted(tensor, target)

    def _handed(self, scope: Scope, place: int, changing: set[int]) -> gs.Tensor | None:
        tensor = scope.graph.outputs[place]
        target = self.plan.hands_out(scope)
        if self._is_constant(tensor):
            return self._constant(tensor) if target else None
        return self._casted(tensor, target) if target != (id(tensor) in changing) else None

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
        """A constant that is to stay as it is, without the numbers that what is computed from it could not be cast with."""
        found = self._clamped.get(id(tensor))
        if found is None:
            array, largest = self._values(tensor), _LIMITS[self.plan.target][0]
            if not (np.isfinite(array) & (np.abs(array) > largest)).any():
                return None
            name = self.index.names.fresh(f"{tensor.name}_clipped")
            kept = np.where(np.isfinite(array), np.clip(array, -largest, largest), array).astype(array.dtype)
            self._clamped[id(tensor)] = found = new_constant(name, kept)
        return found

    def _rounded(self, name: str, array: Array) -> Array:
        dtype = numpy_dtype(self.plan.target)
        assert dtype is not None
        largest, least = _LIMITS[self.plan.target]
        wide = array.astype(np.float64) if array.dtype.itemsize < 4 else array
        with np.errstate(over="ignore", under="ignore"):
            over = np.isfinite(wide) & (np.abs(wide) > largest)
            if over.any():
                wide = np.where(over, np.sign(wide) * largest, wide)
            made = wide.astype(dtype)
        lost = (made == 0) & (wide != 0)
        if lost.any() and array.size == 1:  # mostly what keeps a divisor from zero
            made = (np.sign(wide) * least).astype(dtype)
        if over.any() or lost.any():
            self.losses.append(Loss(name, int(array.size), int(over.sum()), int(lost.sum())))
        return made.reshape(array.shape)

    # --- casts -------------------------------------------------------------------------------------------------------------

    def _casted(self, tensor: gs.Tensor, target: bool) -> gs.Tensor:
        """A tensor in the target type, or in the type that it had before; one cast does for all who ask."""
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
        """Has a graph give out another tensor; the outputs of the model keep their names."""
        old = scope.graph.outputs[place]
        renamed = id(tensor) in self._named  # the model gives it out several times
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
        """Whether a cast of the model casts to the type that its operand has now."""
        operand, result = node.inputs[0], node.outputs[0]
        types = [self.plan.target if id(t) in changing else self.plan.dtype(t) for t in (operand, result)]
        return types[0] == types[1] == self.plan.target and not self._is_constant(operand)

    def _drop_needless(self, casts: set[int], given: set[int]) -> None:
        """Takes out casts to what is there already, and constants that nobody reads now and no graph gives out."""
        for scope in self.plan.scopes:
            graph = scope.graph
            dead = set()
            for node in graph.nodes:
                made = node.outputs[0] if node.outputs else None
                if made is None or id(made) in given:
                    continue
                if id(node) in casts:
                    for user in list(made.outputs):
                        for place, operand in enumerate(user.inputs):
                            if operand is made:
                                user.inputs[place] = node.inputs[0]
                    self.casts -= 1
                if id(node) in casts or (id(made) in self._constants and not made.outputs):
                    dead.add(id(node))
                    node.inputs.clear()
            if dead:
                graph.nodes[:] = [node for node in graph.nodes if id(node) not in dead]
            unread = {id(old) for old, _ in self._constants.values() if not old.outputs and id(old) not in given}
            if isinstance(graph, Graph):
                graph.initializers = [tensor for tensor in graph.initializers if id(tensor) not in unread]

    def _take_names(self, given: set[int]) -> None:
        """Constants get the names of those that they took the places of, also among the inputs of the model."""
        listed: dict[int, gs.Tensor] = {}
        for old, new in self._constants.values():
            if old.outputs or id(old) in given:
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
        """The attributes that tell the type of a result, where it changes."""
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
    """An output declares what the one before did, but for its element type."""
    if number is not None:
        new.dtype, new.shape, new.type = gs_dtype(number), old.shape, old.type
