"""A plain search for a pattern, as one would write it down: what programs are compared with.

A state is what has been bound so far, and is never changed. A goal yields states that reach it, each with the goals that follow
at once, and those that wait until everything else is bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.evaluate import Bindings, evaluate
from rewriter.core.conditions.recorded_graph import effective
from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, Symbol, compare
from rewriter.core.graph.objects import operator_key
from rewriter.core.language import ast, schema
from rewriter.core.language.pattern import Made, Operand, Pattern, PatternNode, cost, is_late, is_plain, is_run
from rewriter.core.language.schema import DTYPES


class State(NamedTuple):
    """Names with their values, and nodes of the model by the numbers of the pattern's."""

    bound: dict[str, Any]
    nodes: dict[int, gs.Node]


Way = tuple[State, Sequence["Goal"], Sequence["Goal"]]
Goal = Callable[[State], Iterator[Way]]


def reached(state: State | None) -> Iterator[Way]:
    if state is not None:
        yield state, (), ()


class PlainSearch:
    """All matches of one pattern at one root after another."""

    def __init__(self, pattern: Pattern, context: Context, known: Mapping[str, Any], lets: Mapping[str, ast.Expr]) -> None:
        self.pattern, self.context, self.known, self.lets = pattern, context, known, lets

    def matches(self, root: gs.Node) -> Iterator[State]:
        self.scope = root._scope
        joins = [self.join(number, name) for number, _, name in self.pattern.joins]
        return self.solve((self.node(self.pattern.nodes[self.pattern.root], root), *joins), State({**self.known}, {}))

    def solve(self, goals: Sequence[Goal], state: State) -> Iterator[State]:
        if not goals:
            yield state
            return
        goal, *rest = goals
        for reached, now, late in goal(state):
            yield from self.solve((*now, *rest, *late), reached)

    # --- names ----------------------------------------------------------------------------------------------------------------

    def bind(self, state: State, name: str | None, value: Any) -> State | None:
        if name is None:
            return state
        if name in state.bound:
            return state if self.same(state.bound[name], value) else None
        return state._replace(bound={**state.bound, name: value})

    def same(self, one: Any, other: Any) -> bool:
        if one is other:
            return True
        if isinstance(one, gs.Tensor) and isinstance(other, gs.Tensor):
            if not (self.context.is_constant(one) and self.context.is_constant(other)):
                return False
            a, b = self.context.array(one), self.context.array(other)
            return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        return not isinstance(one, gs.Tensor) and not isinstance(other, gs.Tensor) and true(compare("==", one, other))

    def value(self, state: State, expr: ast.Expr) -> Any:
        return evaluate(expr, Bindings(state.bound, self.lets), self.context)

    # --- nodes ----------------------------------------------------------------------------------------------------------------

    def node(self, pattern: PatternNode, node: gs.Node) -> Goal:
        def goal(state: State) -> Iterator[Way]:
            if pattern.number in state.nodes:
                yield from reached(state if state.nodes[pattern.number] is node else None)
                return
            found = self.take(pattern, node, state) if self.fits(pattern, node, state) else None
            if found is not None:
                late = [self.late_attribute(node, attr) for attr in reversed(pattern.source.attrs) if is_late(attr)]
                yield found, (self.operands(pattern, node),), late

        return goal

    def fits(self, pattern: PatternNode, node: gs.Node, state: State) -> bool:
        count = len(node.inputs)
        while pattern.most is not None and count > pattern.most and not node.inputs[count - 1].name:
            count -= 1
        right_count = len(node.inputs) >= pattern.fixed and (pattern.most is None or count <= pattern.most)
        is_taken = any(other is node for other in state.nodes.values())
        return operator_key(node) in pattern.ops and not is_taken and right_count and node._scope is self.scope

    def take(self, pattern: PatternNode, node: gs.Node, state: State) -> State | None:
        source = pattern.source
        found = self.bind(state._replace(nodes={**state.nodes, pattern.number: node}), source.label, node)
        found = None if found is None else self.outputs(source, node, found)
        for attr in source.attrs:
            if found is not None and not is_late(attr):
                found = self.attribute(node, attr, found)
        return found

    def outputs(self, source: ast.NodePattern, node: gs.Node, state: State | None) -> State | None:
        for position, output in enumerate(source.outputs):
            if state is None or output.variadic:
                return None if state is None else self.bind(state, output.name, list(node.outputs[position:]))
            if position >= len(node.outputs) or not node.outputs[position].name:
                return None
            state = self.bind(state, output.name, node.outputs[position])
        for tensor in () if state is None or source.more_outputs else node.outputs[max(len(source.outputs), 1) :]:
            self.context.count(tensor, 0)
            if self.context.index.is_used(tensor):
                return None
        return state

    def attribute(self, node: gs.Node, attr: ast.AttrPattern, state: State) -> State | None:
        if attr.mode != "equals":
            return state if (attr.name in node.attrs) == (attr.mode == "present") else None
        assert attr.value is not None
        found = effective(self.context, node, attr.name)
        if isinstance(attr.value, ast.Name) and attr.value.id not in state.bound and attr.value.id not in DTYPES:
            return None if found is UNKNOWN or found is ABSENT else self.bind(state, attr.value.id, found)
        wanted = self.value(state, attr.value)
        if found is ABSENT or found is UNKNOWN or wanted is UNKNOWN:
            return None
        if isinstance(found, float) and isinstance(wanted, float | int):
            return state if np.float32(found) == np.float32(wanted) else None
        return state if true(compare("==", found, wanted)) else None

    def late_attribute(self, node: gs.Node, attr: ast.AttrPattern) -> Goal:
        return lambda state: reached(self.attribute(node, attr, state))

    def join(self, number: int, name: str) -> Goal:
        pattern = self.pattern.nodes[number]

        def goal(state: State) -> Iterator[Way]:
            tensor = state.bound[name]
            if isinstance(tensor, gs.Tensor):
                self.context.count(tensor)
                for reader in self.context.index.users_with(tensor, pattern.ops):
                    yield state, (self.node(pattern, reader),), ()

        return goal

    # --- operands -------------------------------------------------------------------------------------------------------------

    def operands(self, pattern: PatternNode, node: gs.Node) -> Goal:
        def goal(state: State) -> Iterator[Way]:
            for share in self.shares(pattern, list(node.inputs)) if pattern.split else self.orders(pattern, node):
                pairs = sorted(share, key=lambda pair: cost(pair[0]))
                yield state, [self.operand(operand, found) for operand, found in pairs], ()

        return goal

    def orders(self, pattern: PatternNode, node: gs.Node) -> Iterator[list[tuple[Operand, Any]]]:
        operands, seen = list(node.inputs), set[tuple[int, ...]]()
        is_free = pattern.orders and not pattern.source.ordered and 1 < len(operands) <= 4
        is_free = is_free and schema.is_commutative(node.op, node.domain or "")
        for order in permutations(operands) if is_free else (operands,):
            key = tuple(map(id, order))
            share = None if key in seen else self.share(pattern, order)
            seen.add(key)
            if share is not None:
                yield share

    def share(self, pattern: PatternNode, operands: Sequence[gs.Tensor]) -> list[tuple[Operand, Any]] | None:
        found: list[tuple[Operand, Any]] = []
        for position, operand in enumerate(pattern.inputs):
            if is_run(operand):
                return [*found, (operand, list(operands[position:]))]
            tensor = operands[position] if position < len(operands) else None
            if not self.can_be(operand, tensor):
                return None
            found.append((operand, tensor))
        return found

    def shares(
        self, pattern: PatternNode, operands: list[gs.Tensor], at: int = 0, start: int = 0
    ) -> Iterator[list[tuple[Operand, Any]]]:
        while operands and not operands[-1].name:
            operands = operands[:-1]
        if at == len(pattern.inputs):
            yield from [[]] if start == len(operands) or pattern.source.more_inputs else []
            return
        operand = pattern.inputs[at]
        if is_run(operand):
            is_last = at == len(pattern.inputs) - 1 and not pattern.source.more_inputs
            for end in range(len(operands) if is_last else start, len(operands) + 1):
                yield from ([(operand, operands[start:end]), *rest] for rest in self.shares(pattern, operands, at + 1, end))
        elif start < len(operands) and self.can_be(operand, operands[start]):
            yield from ([(operand, operands[start]), *rest] for rest in self.shares(pattern, operands, at + 1, start + 1))

    def can_be(self, operand: Operand, tensor: gs.Tensor | None) -> bool:
        is_there = tensor is not None and bool(tensor.name)
        if isinstance(operand, Made):
            maker = self.context.producer(tensor) if is_there else None
            return maker is not None and operator_key(maker) in self.pattern.nodes[operand.node].ops
        return is_there or (isinstance(operand, ast.Capture) and operand.optional)

    def operand(self, operand: Operand, found: Any) -> Goal:
        if isinstance(operand, Made):
            return lambda state: self.maker(operand, found, state)
        if isinstance(operand, ast.Variadic):
            return lambda state: reached(self.bind(state, operand.name, found))
        if isinstance(operand, ast.Capture):
            return lambda state: reached(self.capture(operand, found, state))
        if isinstance(operand, ast.ConstPattern):
            question: Goal = lambda state: reached(state if self.constant(operand, found, state) else None)  # noqa: E731
            return question if is_plain(operand.value) else lambda state: iter([(state, (), (question,))])
        return reached

    def maker(self, operand: Made, found: Any, state: State) -> Iterator[Way]:
        first = found if operand.run is None else found[0] if found else None
        maker = None if first is None else self.context.producer(first)
        if maker is not None:
            made = list(maker.outputs) if operand.run else maker.outputs[operand.output : operand.output + 1]
            wanted = found if operand.run else [found]
            if len(made) == len(wanted) and all(one is other for one, other in zip(made, wanted, strict=True)):
                yield state, (self.node(self.pattern.nodes[operand.node], maker),), ()

    def capture(self, operand: ast.Capture, tensor: gs.Tensor | None, state: State) -> State | None:
        if tensor is None or not tensor.name:
            return self.bind(state, operand.name, ABSENT) if operand.optional else None
        if operand.const and not self.context.is_constant(tensor):
            return None
        found = self.bind(state, operand.name, tensor)
        if operand.type is None or found is None:
            return found
        if operand.type.dtype is not None:
            dtype = self.context.dtype(tensor)
            if dtype is UNKNOWN or dtype != DTYPES[operand.type.dtype]:
                return None
        shape = UNKNOWN if operand.type.dims is None else self.context.shape(tensor)
        if operand.type.dims is None or shape is UNKNOWN:
            return found if operand.type.dims is None else None
        return self.dims(list(operand.type.dims), shape, tensor, found)

    def dims(self, wanted: list[Any], shape: list[Any], tensor: gs.Tensor, state: State | None) -> State | None:
        if Ellipsis in wanted and len(shape) >= len(wanted) - 1:
            at = wanted.index(Ellipsis)
            wanted[at : at + 1] = [None] * (len(shape) - len(wanted) + 1)
        if len(wanted) != len(shape) or Ellipsis in wanted:
            return None
        for want, dim in zip(wanted, shape, strict=True):
            if isinstance(want, int) and (dim is UNKNOWN or isinstance(dim, Symbol)):
                self.context.doubt(f"a dimension of tensor {tensor.name!r} is unknown")
                return None
            if isinstance(want, str) and state is not None:
                state = self.bind(state, want, dim)
            if state is None or (isinstance(want, int) and dim != want):
                return None
        return state

    def constant(self, operand: ast.ConstPattern, tensor: gs.Tensor, state: State) -> bool:
        if not self.context.is_constant(tensor):
            return False
        if operand.dtype is not None and self.context.dtype(tensor) != DTYPES[operand.dtype]:
            return False
        wanted, shape = self.value(state, operand.value), self.context.shape(tensor)
        if shape is not UNKNOWN and np.size(wanted) != 1 and list(np.shape(wanted)) != shape:
            return False
        found = self.context.array(tensor)
        return found.size == np.size(wanted) and true(compare("==", found, wanted))


def true(answer: Any) -> bool:
    if isinstance(answer, np.ndarray):
        return bool(answer.all())
    return all(item is True for item in answer) if isinstance(answer, list) else answer is True
