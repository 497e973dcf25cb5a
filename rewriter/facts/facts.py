"""What is known of every tensor: element type, shape, values of those that carry shapes, and which ones are constant.

Facts are found when they are asked for, node by node from the inputs on, so that one broken node leaves its neighbours alone;
they are remembered, and after an edit only what the edit can reach is looked at again, as far as something really changes.
Weights are not loaded.

What the file declares of graph inputs holds: a runtime refuses others. What it declares of inner tensors and outputs is a
claim: it was true for the lengths that an exporter saw, and it outlives the edits that made it wrong. A claim counts only where
nothing can be inferred and nothing that varies could contradict it (`derive.uncontested`); `declared` gives the claim itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.errors import RewriterError
from rewriter.facts import constant_folding, control_flow
from rewriter.facts.derive import (
    NOTHING,
    Fact,
    array_of_value,
    constant_node_array,
    constant_node_fact,
    declared_type,
    initializer_fact,
    node_facts,
    output_facts,
    uncontested,
)
from rewriter.facts.dtype_walk import DtypeWalk
from rewriter.facts.repeats import Repeats, look
from rewriter.facts.shape_values import ShapeValue, join_values
from rewriter.graph.index import GraphIndex
from rewriter.graph.scopes import Scope
from rewriter.graph.values import constant_array
from rewriter.onnxfile.tensor_types import UNKNOWN, Dim, TensorType, refine

__all__ = ["Facts", "ShapeValue"]

Array = np.ndarray[Any, Any]
_SMALL = 1 << 16  # folded arrays up to this size are kept, larger ones only while somebody else holds them


class Facts:
    """Facts of the tensors of an indexed graph.

    All questions take a tensor of the graph; of one that the graph does not know, they answer what it declares. Nothing raises
    on broken graphs.
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
        self._body_inputs: dict[int, tuple[Scope, int]] = {}
        self._scopes_seen = 0
        self.owners: dict[int, dict[int, gs.Node]] = {}
        self._contents: dict[int, tuple[int, object]] = {}  # of constants: mark, and what it stands for
        self._marks = itertools.count()
        self._repeats = Repeats()
        self._walk: DtypeWalk | None = None

    # --- questions ---------------------------------------------------------------------------------------------------------

    def dtype(self, tensor: gs.Tensor) -> int | None:
        """Element type as TensorProto number; None when unknown or when this is a sequence, a map or an optional."""
        walked = None if self._walk is None else self._walk.dtype(tensor)
        return self.fact(tensor).type.dtype if walked is None else walked

    def shape(self, tensor: gs.Tensor) -> tuple[Dim, ...] | None:
        """Each dimension as length, name, or None for unknown; None as a whole when not even the rank is known."""
        return self.fact(tensor).type.shape

    def value(self, tensor: gs.Tensor) -> ShapeValue | None:
        """The partially known items of a short tensor of rank 0 or 1; None when nothing is known of them."""
        return self.fact(tensor).value

    def is_constant(self, tensor: gs.Tensor) -> bool:
        """Whether it is an initializer no caller overrides, a Constant node's output, or folds to a constant; loads nothing."""
        if self._walk is not None and isinstance(tensor, gs.Constant) and self.index.producer(tensor) is None:
            return tensor.name not in self.overridable
        return self.fact(tensor).mark is not None

    def constant(self, tensor: gs.Tensor) -> Array | None:
        """The array of a compile-time constant, not to be written to; None when it is none or its data cannot be read."""
        if self.fact(tensor).mark is None:
            return None
        return self._array(tensor)

    def computed(self, node: gs.Node) -> Array | None:
        """What a node of constants gives as its first output, where that is bounded; see `rounded_folding`."""
        from rewriter.facts import rounded_folding

        arrays = [self._array(t) if t.name else None for t in node.inputs]
        facts = node_facts(node, self.index.scope(node).opsets, self._operands(node, None), lambda i: arrays[i])
        return rounded_folding.computed(facts, arrays, self.fact(node.outputs[0]).type)

    def declared(self, tensor: gs.Tensor) -> tuple[int | None, tuple[Dim, ...] | None]:
        """Element type and shape as the file says them; (None, None) for what is no tensor."""
        known = declared_type(tensor)
        return known.dtype, known.shape

    def fact(self, tensor: gs.Tensor) -> Fact:
        """All that is known of a tensor."""
        found = self._facts.get(id(tensor))
        return self._find(tensor) if found is None else found

    @contextmanager
    def unedited(self) -> Iterator[None]:
        """Nobody edits the graph meanwhile, so that not all that is found needs to be kept."""
        self._walk = DtypeWalk(self.index, self._known_dtype, self._leaf_dtype, self._functions)
        try:
            yield
        finally:
            self._walk = None

    def _known_dtype(self, tensor: gs.Tensor) -> int | None:
        found = self._facts.get(id(tensor))
        return None if found is None else found.type.dtype

    def _leaf_dtype(self, tensor: gs.Tensor) -> int | None:
        if self.index.producer(tensor) is not None:
            return self.fact(tensor).type.dtype  # a Constant, which rests on nothing
        return declared_type(tensor).dtype if isinstance(tensor, gs.Constant) or self.body_input(tensor) is None else None

    # --- finding -----------------------------------------------------------------------------------------------------------

    @property
    def any(self) -> bool:
        """Whether anything was found so far."""
        return bool(self._facts)

    def known(self, tensor: gs.Tensor) -> Fact | None:
        """What was found before; nothing is looked for."""
        return self._facts.get(id(tensor))

    def known_among(self, tensors: Iterable[gs.Tensor]) -> list[gs.Tensor]:
        """Those of which something was found before."""
        known = self._facts
        return [tensor for tensor in tensors if id(tensor) in known]

    def forget(self, tensor: gs.Tensor) -> None:
        self._facts.pop(id(tensor), None)
        self._small.pop(id(tensor), None)
        self._contents.pop(id(tensor), None)
        self._tensors.pop(id(tensor), None)

    def _find(self, wanted: gs.Tensor) -> Fact:
        """Finds the facts of a tensor after those that it rests on; without recursion, since chains have any length."""
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
            if step not in begun:  # a second visit computes, also where a cycle left an operand open
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
        graphs = self.inner_graphs(node) if node.op in control_flow.KINDS else None
        return [*node.inputs, *(output for graph in graphs for output in graph.outputs)] if graphs else node.inputs

    def inner_graphs(self, node: gs.Node) -> list[gs.Graph]:
        """Bodies whose results are the outputs of the node."""
        if node.op not in control_flow.KINDS:
            return []
        return control_flow.inner_graphs(node, self.index.scope(node).opsets.get(""))

    def body_input(self, tensor: gs.Tensor) -> tuple[Scope, int] | None:
        """The body of a Loop or Scan whose input this is, and which input."""
        if self._scopes_seen != len(self.index.scopes):
            for scope in self.index.scopes[self._scopes_seen :]:
                if scope.owner is not None and scope.owner.op in ("Loop", "Scan"):
                    self._body_inputs.update((id(t), (scope, i)) for i, t in enumerate(scope.graph.inputs))
            self._scopes_seen = len(self.index.scopes)
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
        return Fact(control_flow.body_input(scope.owner, number, types, declared, ends))

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
        """The facts of each operand, `omitted` for those left out; of one that stands in a cycle, what it declares."""
        facts = self._facts
        return [(facts.get(id(t)) or self._open(t)) if t.name else omitted for t in node.inputs]

    def _open(self, tensor: gs.Tensor) -> Fact:
        return Fact(declared_type(tensor))

    def _of_constant_node(self, node: gs.Node) -> Fact:
        if not node.outputs:
            return NOTHING
        value = next(iter(node.attrs.values()), None)
        contents = value._values if isinstance(value, gs.Constant) else repr(value)
        fact = constant_node_fact(node, self._mark(node.outputs[0], contents))
        declared = declared_type(node.outputs[0])
        return fact if declared == UNKNOWN else fact._replace(type=refine(fact.type, declared))

    def _of_control_flow(self, node: gs.Node) -> list[Fact]:
        results = []
        operands = self._operands(node, NOTHING)
        for graph in self.inner_graphs(node):
            for tensor in graph.outputs:
                self.owners.setdefault(id(tensor), {})[id(node)] = node
            results.append([self._facts.get(id(t)) or self._open(t) for t in graph.outputs])
        condition = operands[0].value if node.op == "If" and operands else None
        if condition is not None and len(condition.items) == 1 and isinstance(condition.items[0], int):
            results = [results[0 if condition.items[0] else 1]] * 2
        types = [operand.type for operand in operands]
        found = control_flow.output_types(node, types, [[fact.type for fact in result] for result in results])
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
        known = None if view is None else self._repeats.known(view, node)
        if known is not None:
            return known
        unseen = False  # whether anything was looked at that the view does not show

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
            self._repeats.remember(view, found)
        return found

    def _mark(self, tensor: gs.Tensor, contents: object) -> int:
        """The mark of a constant: the one it had, as long as it holds the very same contents."""
        before = self._contents.get(id(tensor))
        if before is not None and (before[1] is contents or (isinstance(contents, str) and before[1] == contents)):
            return before[0]
        mark = hash((Fact, next(self._marks)))
        self._contents[id(tensor)] = mark, contents
        return mark

    def replace_constant(self, old: gs.Tensor, new: gs.Tensor, array: Array) -> None:
        """Notes that a new constant holds `array` and is read in the place of `old`. Where `old` was computed from constants to
        the same values, facts that rest on them stay as they are.
        """
        fact, before = self._facts.get(id(old)), self._kept(old)
        if fact is None or fact.mark is None or before is None or not isinstance(new, gs.Constant):
            return
        if (before.dtype, before.shape) == (array.dtype, array.shape) and before.tobytes() == array.tobytes():
            self._contents[id(new)] = fact.mark, new._values

    # --- arrays ------------------------------------------------------------------------------------------------------------

    def _array(self, wanted: gs.Tensor) -> Array | None:
        """The array of a tensor known to be constant, made from its operands' arrays where it is folded."""
        made: dict[int, Array | None] = {}
        stack, begun = [wanted], set[int]()
        while stack:
            tensor = stack[-1]
            if id(tensor) in made:
                stack.pop()
                continue
            array = self._kept(tensor)
            node = self.index.producer(tensor)
            if array is None and node is not None and (node.op != "Constant" or node.domain not in (None, "", "ai.onnx")):
                missing = [t for t in node.inputs if t.name and id(t) not in made]
                if missing and id(tensor) not in begun:
                    begun.add(id(tensor))
                    stack.extend(missing)
                    continue
                array = self._folded(node, [made.get(id(t)) if t.name else None for t in node.inputs], tensor)
            elif array is None:
                array = constant_node_array(node) if node is not None else _loaded(tensor)
            made[id(tensor)] = self._keep(tensor, array)
            stack.pop()
        return made[id(wanted)]

    def _folded(self, node: gs.Node, arrays: list[Array | None], tensor: gs.Tensor) -> Array | None:
        operands = self._operands(node, None)
        facts = node_facts(node, self.index.scope(node).opsets, operands, lambda i: arrays[i])
        return constant_folding.fold(facts, arrays, self.fact(tensor).type)

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
