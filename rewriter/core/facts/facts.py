"""The facts about every tensor: element type, shape, values if they carry shapes, and whether the tensor is constant.

Facts are found on request, node by node from the inputs on, so that one broken node leaves its neighbours alone. They are
remembered. After an edit, only tensors that the edit can reach are looked at again, as far as something really changes. Weights
are not loaded.

Declarations of graph inputs hold: a runtime rejects other inputs. A declaration of an inner tensor or an output is a claim: it
was true for the lengths that an exporter saw, and it outlives the edits that made it wrong. A claim counts only if nothing can
be inferred and nothing that varies could contradict it (`derive.uncontested`); `declared` returns the claim itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from heapq import heappop, heappush
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.facts import array_functions
from rewriter.core.facts.derive import (
    NOTHING,
    Fact,
    array_of_value,
    constant_node_array,
    constant_node_fact,
    declared_type,
    facts_of_look,
    initializer_fact,
    look,
    node_facts,
    output_facts,
    remember_look,
    uncontested,
)
from rewriter.core.facts.shape_rules import ShapeValue, join_values
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Scope, bodies
from rewriter.core.graph.values import constant_array
from rewriter.core.language.operator_traits import BODIES
from rewriter.core.onnxfile.tensors import UNKNOWN_TYPE, Dim, TensorType, join, refine

# Types that cross the border of a subgraph: from an `If`, `Loop` or `Scan` into its bodies and back.
#
# A value that a Loop carries may change its shape between iterations. So in the body, its element type and its rank are known,
# but not its lengths, and the loop's result has only the facts that the first value and the body's result share. A value that a
# Scan carries keeps its shape.

_INT64, _BOOL = 7, 9


def inner_graphs(node: gs.Node, version: int | None) -> list[gs.Graph]:
    """The bodies of an `If` (both branches), `Loop` or `Scan`; empty if they are not what these operators have.

    `version` is the opset of the default domain. The Scan of opset 8, with its batch axis, is left alone.
    """
    if node.op not in BODIES or node.domain not in (None, "", "ai.onnx") or (node.op == "Scan" and (version or 0) < 9):
        return []
    found = dict(bodies(node))
    names = ("then_branch", "else_branch") if node.op == "If" else ("body",)
    return [found[name] for name in names] if all(name in found for name in names) else []


def body_input(
    node: gs.Node, i: int, types: Sequence[TensorType], declared: TensorType, ends: Sequence[TensorType]
) -> TensorType:
    """Type of input i of the body of a Loop or Scan.

    Args:
        node: the owner, whose operands have `types`.
        i: the position of the input.
        types: see `node`.
        declared: the body's declaration of the input; `ends`: its declarations of the outputs.
    """
    if node.op == "Loop":
        if i < 2:
            return refine(declared, TensorType(_BOOL if i else _INT64, ()))
        return _carried(types[i : i + 1], declared, ends[i - 1 : i])
    states = _states(node, len(types))
    if states is None or i >= len(types):
        return TensorType(declared.dtype)
    if i < states:
        return refine(types[i], TensorType(declared.dtype))
    axis = _axis(node, "scan_input_axes", i - states)
    whole = types[i].shape
    if whole is None or axis is None or not -len(whole) <= axis < len(whole):
        return TensorType(types[i].dtype if types[i].dtype is not None else declared.dtype)
    shape = list(whole)
    del shape[axis]
    return TensorType(types[i].dtype if types[i].dtype is not None else declared.dtype, tuple(shape))


def _carried(first: Sequence[TensorType], declared: TensorType, last: Sequence[TensorType]) -> TensorType:
    """The type that a Loop's body gets from the iteration before; its rank is known if the first value and both declarations
    agree.
    """
    if not first or not last:
        return TensorType(declared.dtype)
    if first[0].other:
        return TensorType(other=first[0].other)
    shapes = (first[0].shape, declared.shape, last[0].shape)
    ranks = {None if shape is None else len(shape) for shape in shapes}
    rank = ranks.pop() if len(ranks) == 1 else None
    dtype = first[0].dtype if first[0].dtype is not None else declared.dtype
    return TensorType(dtype, None if rank is None else (None,) * rank)


def output_types(node: gs.Node, types: Sequence[TensorType], results: Sequence[Sequence[TensorType]]) -> list[TensorType]:
    """Types of the outputs of an If, Loop or Scan.

    Args:
        node: the owner.
        types: of its operands.
        results: of the outputs of each of its bodies, in the order of `inner_graphs`.
    """
    rule = {"If": _if, "Loop": _loop, "Scan": _scan}[node.op]
    found = rule(node, types, results)[: len(node.outputs)]
    return found + [UNKNOWN_TYPE] * (len(node.outputs) - len(found))


def _if(node: gs.Node, types: Sequence[TensorType], results: Sequence[Sequence[TensorType]]) -> list[TensorType]:
    return [join(a, b) for a, b in zip(*results, strict=False)]


def _loop(node: gs.Node, types: Sequence[TensorType], results: Sequence[Sequence[TensorType]]) -> list[TensorType]:
    body_types, carried = list(results[0][1:]), max(len(types) - 2, 0)
    return [_after(types[2 + i], kind) if i < carried else _stacked(kind, 0, None) for i, kind in enumerate(body_types)]


def _scan(node: gs.Node, types: Sequence[TensorType], results: Sequence[Sequence[TensorType]]) -> list[TensorType]:
    body_types, states = list(results[0]), _states(node, len(types))
    if states is None:
        return []
    length: Dim = None
    for i, kind in enumerate(types[states:]):
        axis = _axis(node, "scan_input_axes", i)
        if kind.shape is not None and axis is not None and -len(kind.shape) <= axis < len(kind.shape):
            length = length if isinstance(length, int) or kind.shape[axis] is None else kind.shape[axis]
    return [
        refine(types[i], kind) if i < states else _stacked(kind, _axis(node, "scan_output_axes", i - states), length)
        for i, kind in enumerate(body_types)
    ]


def _after(first: TensorType, last: TensorType) -> TensorType:
    """The type of a value that a loop carried, after any number of iterations."""
    both = join(first, last)
    return TensorType(last.dtype if last.dtype is not None else first.dtype, both.shape) if not both.other else both


def _stacked(kind: TensorType, axis: int | None, length: Dim) -> TensorType:
    """Type of the results of all iterations side by side."""
    if kind.shape is None or axis is None or not -len(kind.shape) - 1 <= axis <= len(kind.shape):
        return TensorType(kind.dtype)
    shape = list(kind.shape)
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, length)
    return TensorType(kind.dtype, tuple(shape))


def _states(node: gs.Node, operands: int) -> int | None:
    """How many operands of a Scan are state."""
    scanned = node.attrs.get("num_scan_inputs")
    return operands - scanned if isinstance(scanned, int) and 0 < scanned <= operands else None


def _axis(node: gs.Node, name: str, i: int) -> int | None:
    axes = node.attrs.get(name, [])
    if not isinstance(axes, list):
        return None
    axis = axes[i] if i < len(axes) else 0
    return axis if isinstance(axis, int) else None


__all__ = ["Facts", "ShapeValue"]

Array = np.ndarray[Any, Any]
_SMALL = 1 << 16  # folded arrays up to this size are kept, larger ones only while other references exist


class Facts:
    """Facts of the tensors of an indexed graph.

    All queries take a tensor of the graph; for other tensors, they return its declaration. No query raises on broken graphs.
    """

    def __init__(self, index: GraphIndex, overridable: Collection[str] = ()) -> None:
        """`overridable` are the names of initializers that a caller may replace: they have a type but are no constants."""
        self.index = index
        self.overridable = frozenset(overridable)
        self._facts: dict[int, Fact] = {}
        self._tensors: dict[int, gs.Tensor] = {}  # keeps them alive, so that no other tensor gets their id
        self._small: dict[int, tuple[int, Array]] = {}
        self._large: WeakValueDictionary[tuple[int, int], Array] = WeakValueDictionary()
        self._functions = {(f.domain, f.name) for f in getattr(index.graph, "functions", ())}
        self.owners: dict[int, dict[int, gs.Node]] = {}
        self._contents: dict[int, tuple[int, object]] = {}  # of constants: the mark, and the contents behind it
        self._marks = itertools.count()

    # --- questions ---------------------------------------------------------------------------------------------------------

    def dtype(self, tensor: gs.Tensor) -> int | None:
        """Element type as TensorProto number; None when unknown or when this is a sequence, a map or an optional."""
        return self.fact(tensor).type.dtype

    def shape(self, tensor: gs.Tensor) -> tuple[Dim, ...] | None:
        """Each dimension as length, name, or None if unknown; None instead of a list if not even the rank is known."""
        return self.fact(tensor).type.shape

    def value(self, tensor: gs.Tensor) -> ShapeValue | None:
        """The partially known items of a short tensor of rank 0 or 1; None if no item is known."""
        return self.fact(tensor).value

    def is_constant(self, tensor: gs.Tensor) -> bool:
        """Whether it is an initializer no caller overrides, a Constant node's output, or folds to a constant; loads nothing."""
        return self.fact(tensor).mark is not None

    def constant(self, tensor: gs.Tensor) -> Array | None:
        """The array of a compile-time constant. Do not write into it. None if it is no constant or its data cannot be read."""
        if self.fact(tensor).mark is None:
            return None
        return self._array(tensor)

    def computed(self, node: gs.Node) -> Array | None:
        """The first output of a node of constants, if its size is bounded; see `array_functions.computed`."""
        arrays = [self._array(t) if t.name else None for t in node.inputs]
        facts = node_facts(node, self.index.scope(node).opsets, self._operands(node, None), lambda i: arrays[i])
        return array_functions.computed(facts, arrays, self.fact(node.outputs[0]).type)

    def declared(self, tensor: gs.Tensor) -> tuple[int | None, tuple[Dim, ...] | None]:
        """Element type and shape as the file declares them; (None, None) if the value is no tensor."""
        known = declared_type(tensor)
        return known.dtype, known.shape

    def fact(self, tensor: gs.Tensor) -> Fact:
        """All that is known of a tensor."""
        found = self._facts.get(id(tensor))
        return self._find(tensor) if found is None else found

    # --- finding -----------------------------------------------------------------------------------------------------------

    @property
    def any(self) -> bool:
        """Whether anything was found so far."""
        return bool(self._facts)

    def known(self, tensor: gs.Tensor) -> Fact | None:
        """The facts that were found before, without a search."""
        return self._facts.get(id(tensor))

    def known_among(self, tensors: Iterable[gs.Tensor]) -> list[gs.Tensor]:
        """The tensors with facts that were found before."""
        known = self._facts
        return [tensor for tensor in tensors if id(tensor) in known]

    def forget(self, tensor: gs.Tensor) -> None:
        self._facts.pop(id(tensor), None)
        self._small.pop(id(tensor), None)
        self._contents.pop(id(tensor), None)
        self._tensors.pop(id(tensor), None)

    def _find(self, wanted: gs.Tensor) -> Fact:
        """Finds the facts of a tensor after the facts that they depend on; without recursion, since chains have any length."""
        if not wanted.name:
            return NOTHING
        facts, tensors, begun = self._facts, self._tensors, set[int]()
        stack = [wanted]
        while stack:
            tensor = stack[-1]
            if id(tensor) in facts:
                stack.pop()
                continue
            node = self.index.producer(tensor)
            step = id(tensor) if node is None else id(node)
            if step not in begun:  # a second visit computes, also if a cycle left an operand open
                begun.add(step)
                missing = [t for t in self._rests_on(tensor, node) if id(t) not in facts and t.name]
                if missing and (missing := [t for t in missing if self._step(t) not in begun]):
                    stack.extend(missing)
                    continue
            if node is None:
                self.store(tensor, self.of_leaf(tensor))
            else:
                for output, fact in self.of_node(node):
                    facts[id(output)] = fact
                    tensors[id(output)] = output
                if id(tensor) not in facts:
                    self.store(tensor, Fact(declared_type(tensor)))
            stack.pop()
        return facts[id(wanted)]

    def store(self, tensor: gs.Tensor, fact: Fact) -> None:
        self._facts[id(tensor)] = fact
        self._tensors[id(tensor)] = tensor

    def _step(self, tensor: gs.Tensor) -> int:
        node = self.index.producer(tensor)
        return id(tensor) if node is None else id(node)

    def _rests_on(self, tensor: gs.Tensor, node: gs.Node | None) -> Iterable[gs.Tensor]:
        if node is None:
            place = self.body_input(tensor)
            return () if place is None or place[0].owner is None else place[0].owner.inputs
        graphs = self.inner_graphs(node) if node.op in BODIES else None
        return [*node.inputs, *(output for graph in graphs for output in graph.outputs)] if graphs else node.inputs

    def inner_graphs(self, node: gs.Node) -> list[gs.Graph]:
        """Bodies whose results are the outputs of the node."""
        if node.op not in BODIES:
            return []
        return inner_graphs(node, self.index.scope(node).opsets.get(""))

    @cached_property
    def _body_inputs(self) -> dict[int, tuple[Scope, int]]:
        loops = (scope for scope in self.index.scopes if scope.owner is not None and scope.owner.op in ("Loop", "Scan"))
        return {id(tensor): (scope, i) for scope in loops for i, tensor in enumerate(scope.graph.inputs)}

    def body_input(self, tensor: gs.Tensor) -> tuple[Scope, int] | None:
        """The body of a Loop or Scan whose input this is, and which input."""
        found = self._body_inputs.get(id(tensor))
        return None if found is None or found[0].owner not in self.index or not self.inner_graphs(found[0].owner) else found

    def of_leaf(self, tensor: gs.Tensor) -> Fact:
        """Facts of a tensor that no node makes."""
        if isinstance(tensor, gs.Constant):
            return initializer_fact(tensor, self._mark(tensor, tensor._values), tensor.name in self.overridable)
        declared, place = declared_type(tensor), self.body_input(tensor)
        if place is None:
            return Fact(declared)
        scope, number = place
        types = [operand.type for operand in self._operands(scope.owner, NOTHING)]
        ends = [declared_type(t) for t in scope.graph.outputs]
        return Fact(body_input(scope.owner, number, types, declared, ends))

    def of_node(self, node: gs.Node) -> list[tuple[gs.Tensor, Fact]]:
        """Facts of the outputs that a node makes."""
        domain = node.domain or ""
        if (domain, node.op) in self._functions:
            call = node_facts(node, self.index.scope(node).opsets, self._operands(node, None), lambda _: None)
            found = [Fact(uncontested(declared_type(t), call, opaque=True)) for t in node.outputs]
        elif node.op == "Constant" and domain in ("", "ai.onnx"):
            found = [self._of_constant_node(node)]
        elif self.inner_graphs(node):
            found = self._of_control_flow(node)
        else:
            found = self._of_ordinary_node(node)
        outputs = node.outputs
        if len(outputs) == 1 and found:
            return [(outputs[0], found[0])] if outputs[0].name and self.index.producer(outputs[0]) is node else []
        pairs = zip(outputs, itertools.chain(found, itertools.repeat(NOTHING)), strict=False)
        return [(tensor, fact) for tensor, fact in pairs if tensor.name and self.index.producer(tensor) is node]

    def _operands(self, node: gs.Node, omitted: Any) -> list[Any]:
        """The facts of each operand: `omitted` if it is left out, its declaration if it is in a cycle."""
        facts = self._facts
        return [(facts.get(id(t)) or Fact(declared_type(t))) if t.name else omitted for t in node.inputs]

    def _of_constant_node(self, node: gs.Node) -> Fact:
        if not node.outputs:
            return NOTHING
        value = next(iter(node.attrs.values()), None)
        contents = value._values if isinstance(value, gs.Constant) else repr(value)
        fact = constant_node_fact(node, self._mark(node.outputs[0], contents))
        declared = declared_type(node.outputs[0])
        return fact if declared == UNKNOWN_TYPE else fact._replace(type=refine(fact.type, declared))

    def _of_control_flow(self, node: gs.Node) -> list[Fact]:
        results = []
        operands = self._operands(node, NOTHING)
        for graph in self.inner_graphs(node):
            for tensor in graph.outputs:
                self.owners.setdefault(id(tensor), {})[id(node)] = node
            results.append([self._facts.get(id(t)) or Fact(declared_type(t)) for t in graph.outputs])
        condition = operands[0].value if node.op == "If" and operands else None
        if condition is not None and len(condition.items) == 1 and isinstance(condition.items[0], int):
            results = [results[0 if condition.items[0] else 1]] * 2
        types = [operand.type for operand in operands]
        found = output_types(node, types, [[fact.type for fact in result] for result in results])
        joined = [join_values(a.value, b.value) for a, b in zip(*results, strict=False)] if node.op == "If" else []
        values = itertools.chain(joined, itertools.repeat(None))
        return [
            Fact(refine(kind, TensorType(declared_type(t).dtype)), value)
            for kind, t, value in zip(found, node.outputs, values, strict=False)
        ]

    def _of_ordinary_node(self, node: gs.Node) -> list[Fact]:
        imports: Mapping[str, int] = self.index.scope(node).opsets
        operands: list[Fact | None] = self._operands(node, None)
        view = look(node, imports, operands)
        known = None if view is None else facts_of_look(view, node)
        if known is not None:
            return known
        unseen = False  # whether anything was read that the view does not show

        def constant(i: int) -> Array | None:
            nonlocal unseen
            fact = operands[i]
            unseen = unseen or fact is None or fact.value is None or fact.value.known() is None
            return self._array(node.inputs[i])

        facts = node_facts(node, imports, operands, constant)
        found, declared = output_facts(
            facts, imports, operands, lambda: [self._array(t) if t.name else None for t in node.inputs]
        )
        if view is not None and not unseen and not declared:
            remember_look(view, found)
        return found

    def _mark(self, tensor: gs.Tensor, contents: object) -> int:
        """The mark of a constant: its earlier mark, as long as it holds the very same contents."""
        before = self._contents.get(id(tensor))
        if before is not None and (before[1] is contents or (isinstance(contents, str) and before[1] == contents)):
            return before[0]
        mark = hash((Fact, next(self._marks)))
        self._contents[id(tensor)] = mark, contents
        return mark

    def replace_constant(self, old: gs.Tensor, new: gs.Tensor, array: Array) -> None:
        """Notes that a new constant holds `array` and is read in the place of `old`. If `old` was computed from constants to
        the same values, facts that depend on it stay as they are.
        """
        fact, before = self._facts.get(id(old)), self._kept(old)
        if fact is None or fact.mark is None or before is None or not isinstance(new, gs.Constant):
            return
        if (before.dtype, before.shape) == (array.dtype, array.shape) and before.tobytes() == array.tobytes():
            self._contents[id(new)] = fact.mark, new._values

    # --- arrays ------------------------------------------------------------------------------------------------------------

    def _array(self, wanted: gs.Tensor) -> Array | None:
        """The array of a tensor known to be constant, made from its operands' arrays if it is folded."""
        arrays: dict[int, Array | None] = {}
        stack, begun = [wanted], set[int]()
        while stack:
            tensor = stack[-1]
            if id(tensor) in arrays:
                stack.pop()
                continue
            array = self._kept(tensor)
            node = self.index.producer(tensor)
            if array is None and node is not None and (node.op != "Constant" or node.domain not in (None, "", "ai.onnx")):
                missing = [t for t in node.inputs if t.name and id(t) not in arrays]
                if missing and id(tensor) not in begun:
                    begun.add(id(tensor))
                    stack.extend(missing)
                    continue
                array = self._folded(node, [arrays.get(id(t)) if t.name else None for t in node.inputs], tensor)
            elif array is None:
                array = constant_node_array(node) if node is not None else _loaded(tensor)
            arrays[id(tensor)] = self._keep(tensor, array)
            stack.pop()
        return arrays[id(wanted)]

    def _folded(self, node: gs.Node, arrays: list[Array | None], tensor: gs.Tensor) -> Array | None:
        operands = self._operands(node, None)
        facts = node_facts(node, self.index.scope(node).opsets, operands, lambda i: arrays[i])
        return array_functions.fold(facts, arrays, self.fact(tensor).type)

    def _kept(self, tensor: gs.Tensor) -> Array | None:
        fact = self._facts.get(id(tensor))
        if fact is None or fact.mark is None:
            return None
        small = self._small.get(id(tensor))
        if small is not None and small[0] == fact.mark:
            return small[1]
        found = self._large.get((id(tensor), fact.mark))
        return array_of_value(fact) if found is None else found

    def _keep(self, tensor: gs.Tensor, array: Array | None) -> Array | None:
        fact = self._facts.get(id(tensor))
        if array is None or fact is None or fact.mark is None:
            return array
        array = array.view()
        array.flags.writeable = False
        if array.size <= _SMALL:
            self._small[id(tensor)] = fact.mark, array
        else:
            self._large[id(tensor), fact.mark] = array
        return array


def _loaded(tensor: gs.Tensor) -> Array | None:
    try:
        return constant_array(tensor) if isinstance(tensor, gs.Constant) else None
    except RewriterError:
        return None


# How facts follow the edits of a graph.
#
# From the tensors that an edit touched, in execution order, each node that depends on a change is derived again, and the nodes
# behind it only if the facts of its outputs really differ. A body comes before the node that owns it, and the body's inputs
# before the body.

_MOST_VISITS = 16  # of one node in one refresh; more come only from a graph with cycles, whose facts need not settle

Key = tuple[int, ...]


def refresh(facts: Facts, tensors: Iterable[gs.Tensor]) -> list[gs.Tensor]:
    """Brings facts up to date after edits, and returns the tensors whose facts changed.

    Args:
        tensors: tensors whose producer changed, or the operator, attributes or operands of the producer; tensors whose
            declaration or contents changed; new and removed tensors.
    """
    stale = facts.known_among(tensors)
    return _Refresh(facts).run(stale) if stale else []


class _Refresh:
    """One refresh of facts."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.index = facts.index
        self._waiting: list[tuple[Key, int]] = []
        self._steps: dict[int, gs.Node | gs.Tensor] = {}
        self._visits: dict[int, int] = {}
        self._changed: dict[int, gs.Tensor] = {}

    def run(self, tensors: Iterable[gs.Tensor]) -> list[gs.Tensor]:
        """The tensors whose facts changed; see `refresh`."""
        for tensor in tensors:
            self._start(tensor)
        while self._waiting:
            _, at = heappop(self._waiting)
            step = self._steps.pop(at)
            self._visits[at] = self._visits.get(at, 0) + 1
            if isinstance(step, gs.Node):
                self._visit_node(step)
            else:
                self._visit_leaf(step)
        return list(self._changed.values())

    def _start(self, tensor: gs.Tensor) -> None:
        node = self.index.producer(tensor)
        if node is not None:
            self._push_node(node)
        elif isinstance(tensor, gs.Constant) or self.index.input_of(tensor) or self.index.is_used(tensor):
            self._push_leaf(tensor)
        else:
            self.facts.forget(tensor)

    def _visit_node(self, node: gs.Node) -> None:
        for graph in self.facts.inner_graphs(node):
            for tensor in graph.outputs:
                self.facts.fact(tensor)
        for tensor in node.inputs:
            self.facts.fact(tensor)
        for tensor, fact in self.facts.of_node(node):
            before = self.facts.known(tensor)
            if before != fact:
                self.facts.store(tensor, fact)
                if before is not None:
                    self._spread(tensor)

    def _visit_leaf(self, tensor: gs.Tensor) -> None:
        before = self.facts.known(tensor)
        place = self.facts.body_input(tensor)
        for operand in place[0].owner.inputs if place is not None and place[0].owner is not None else ():
            self.facts.fact(operand)
        fact = self.facts.of_leaf(tensor)
        if before != fact:
            self.facts.store(tensor, fact)
            self._spread(tensor)

    def _spread(self, tensor: gs.Tensor) -> None:
        self._changed[id(tensor)] = tensor
        for node in self.index.users(tensor).values():
            self._push_node(node)
            for graph in self.facts.inner_graphs(node):
                for inner in graph.inputs:
                    if self.facts.known(inner) is not None:
                        self._push_leaf(inner)
        for node in self.facts.owners.get(id(tensor), {}).values():
            if node in self.index:
                self._push_node(node)

    def _push_node(self, node: gs.Node) -> None:
        if any(self.facts.known(tensor) is not None for tensor in node.outputs):
            self._push((*self._key(node), 2), node)

    def _push_leaf(self, tensor: gs.Tensor) -> None:
        place = self.facts.body_input(tensor)
        owner = None if place is None else place[0].owner
        self._push((-1,) if owner is None else (*self._key(owner), 0), tensor)

    def _push(self, key: Key, step: gs.Node | gs.Tensor) -> None:
        if id(step) not in self._steps and self._visits.get(id(step), 0) < _MOST_VISITS:
            self._steps[id(step)] = step
            heappush(self._waiting, (key, id(step)))

    def _key(self, node: gs.Node) -> Key:
        """Sorts a node behind its operands' makers and the nodes in its bodies (together with a last 0, 1 or 2)."""
        key: Key = ()
        while True:
            number, place = self.index.position(node)
            scope = self.index.scope(node)
            if scope.owner is None or scope.owner not in self.index:
                return (number, place, *key)
            key = (1, number, place, *key)
            node = scope.owner
