"""Matching one rule at one node: a depth-first search over the few choices that a pattern leaves, with everything undone on
the way back.

Choices are the operand orders of commutative operators and, for patterns with several ends, which consumer of a tensor to
take. A pattern without them is one straight walk. The number of attempts at one root is capped, so that no pattern can take a
graph hostage.

`match graph` has no root: its items are the model's inputs and outputs, each item another tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from operator import is_
from typing import Any, NamedTuple

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions import fields
from rewriter.core.conditions.context import Context
from rewriter.core.conditions.evaluate import Bindings, evaluate
from rewriter.core.conditions.recorded_graph import label
from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, Symbol, compare
from rewriter.core.graph.index import operator_key
from rewriter.core.graph.scopes import Scope
from rewriter.core.language import ast, schema
from rewriter.core.language.dtypes import DTYPES
from rewriter.core.language.pattern import Made, Operand, Pattern, PatternNode, cost, is_late, is_plain, is_run

# The ways to share a node's operands out among runs, and the operands that a pattern names between them.

Share = tuple[Operand, Any]
"""What the search is to look at: a run and its tensors, or an operand and its tensor."""


def shares(
    pattern: PatternNode, operands: Sequence[gs.Tensor], fits: Callable[[Operand, gs.Tensor], bool]
) -> Iterator[list[Share]]:
    """Each way, short first runs first; `fits` says at a glance whether an operand can be a tensor, and may raise to end it."""
    return _from(pattern, operands, fits, 0, 0)


def _from(
    pattern: PatternNode, operands: Sequence[gs.Tensor], fits: Callable[[Operand, gs.Tensor], bool], at: int, position: int
) -> Iterator[list[Share]]:
    """The ways from one operand of the pattern, and one of the node, on."""
    if at == len(pattern.inputs):
        if position == len(operands) or pattern.source.more_inputs:
            yield []
        return
    operand = pattern.inputs[at]
    if is_run(operand):
        last = at == len(pattern.inputs) - 1 and not pattern.source.more_inputs
        for end in range(len(operands) if last else position, len(operands) + 1):
            for rest in _from(pattern, operands, fits, at + 1, end):
                yield [(operand, list(operands[position:end])), *rest]
    elif position < len(operands) and fits(operand, operands[position]):
        for rest in _from(pattern, operands, fits, at + 1, position + 1):
            yield [(operand, operands[position]), *rest]


def operand_count(node: gs.Node) -> int:
    """Number of operands without trailing omitted ones."""
    count = len(node.inputs)
    while count and not node.inputs[count - 1].name:
        count -= 1
    return count


ATTEMPTS = 4096
ORDERED_ABOVE = 4  # commutative operators with more operands are matched in the written order only


class Goal(NamedTuple):
    """Something that the search has still to find: `reach(subject, at)` gives the ways, each a (possibly empty) list of further
    goals. What is `late` is asked when everything else fits.
    """

    reach: Callable[[Any, Any], Iterator[Sequence[Goal]]]
    subject: Any
    at: Any
    late: bool = False


Goals = tuple[Goal, ...]


class TooManyAttempts(Exception):
    """The choices of a pattern at one root exceed `ATTEMPTS`."""


class Matcher:
    """All matches of one pattern at one root after another.

    Attributes:
        parameter_values: names that are bound before anything is matched.
        bound: names of captures, labels, dims and attributes while a match is held.
        nodes: matched node by pattern number.
    """

    def __init__(
        self, pattern: Pattern, context: Context, parameter_values: dict[str, Any], lets: Mapping[str, ast.Expr]
    ) -> None:
        self._pattern = pattern
        self.context = context
        self.parameter_values = parameter_values
        self._lets = lets
        self.bound: dict[str, Any]
        self.nodes: dict[int, gs.Node]
        self.taken: set[int]
        self._trail: list[tuple[str, Any]] = []
        self._scope: Scope
        self._attempts = 0

    def matches(self, root: gs.Node) -> Iterable[None]:
        """Yields once for each way in which the pattern stands at `root`; `bound` and `nodes` hold until the next step.

        Raises TooManyAttempts.
        """
        self._start(root)
        self._trail, self._attempts = [], 0
        joins = (Goal(self._join, number, name) for number, _, name in self._pattern.joins)
        return self._solve((Goal(self._node, self._pattern.nodes[self._pattern.root], root), *joins))

    def _start(self, root: gs.Node) -> None:
        self.bound, self.nodes, self.taken = self.parameter_values.copy(), {}, set()
        self._scope = root._scope

    def snapshot(self) -> tuple[dict[str, Any], dict[int, gs.Node]]:
        """`bound` and `nodes` of the match that is held, for good."""
        return dict(self.bound), dict(self.nodes)

    # --- search ------------------------------------------------------------------------------------------------------------

    def _solve(self, goals: Goals) -> Iterator[None]:
        if not goals:
            yield
            return
        goal, *rest = goals
        mark = len(self._trail)
        for more in goal.reach(goal.subject, goal.at):  # what a way binds is undone here
            self._count()
            late = [item for item in reversed(more) if item.late]
            yield from self._solve((*(item for item in more if not item.late), *rest, *late))
            self._undo(mark)
        self._undo(mark)

    def _count(self) -> None:
        self._attempts += 1
        if self._attempts > ATTEMPTS:
            raise TooManyAttempts

    def _undo(self, mark: int) -> None:
        while len(self._trail) > mark:
            kind, key = self._trail.pop()
            if kind == "name":
                del self.bound[key]
            else:
                self.taken.discard(id(self.nodes.pop(key)))

    def bind(self, name: str, value: Any) -> bool:
        """Binds a name, or tells whether it was bound to the same before."""
        if name in self.bound:
            return self.same(self.bound[name], value)
        self.bound[name] = value
        self._trail.append(("name", name))
        return True

    def same(self, one: Any, other: Any) -> bool:
        if one is other:
            return True
        if isinstance(one, gs.Tensor) and isinstance(other, gs.Tensor):
            if not (self.context.is_constant(one) and self.context.is_constant(other)):
                return False
            return _equal_arrays(self.context.array(one), self.context.array(other))
        if isinstance(one, gs.Tensor) or isinstance(other, gs.Tensor):
            return False
        return _true(compare("==", one, other))

    # --- nodes -------------------------------------------------------------------------------------------------------------

    def _node(self, pattern: PatternNode, node: gs.Node) -> Iterator[Sequence[Goal]]:
        if pattern.number in self.nodes:
            if self.nodes[pattern.number] is node:
                yield ()
            return
        if self._takes(pattern, node):
            attrs = pattern.source.attrs
            late = (Goal(self._late, attr, node, late=True) for attr in attrs if is_late(attr))
            yield (Goal(self._orders, pattern, node), *late)

    def _takes(self, pattern: PatternNode, node: gs.Node) -> bool:
        """Whether a node fits by itself: operator, number of operands, outputs, attributes; it is taken then."""
        if not self.fits(pattern, node):
            return False
        self.nodes[pattern.number] = node
        self.taken.add(id(node))
        self._trail.append(("node", pattern.number))
        source = pattern.source
        if source.label is not None and not self.bind(source.label, node):
            return False
        return self.outputs(source, node) and all(self.has(attr, node) for attr in source.attrs)

    def fits(self, pattern: PatternNode, node: gs.Node) -> bool:
        """The cheap questions: operator, arity, scope, not taken by another pattern node."""
        if operator_key(node) not in pattern.ops or id(node) in self.taken:
            return False
        count, most = len(node.inputs), pattern.most
        if count < pattern.fixed or (most is not None and count > most and operand_count(node) > most):
            return False
        return node._scope is self._scope

    def outputs(self, source: ast.NodePattern, node: gs.Node) -> bool:
        outputs = list(node.outputs)
        for position, output in enumerate(source.outputs):
            if output.variadic:
                assert output.name is not None
                return self.bind(output.name, outputs[position:])
            if position >= len(outputs) or not outputs[position].name:
                return False
            if output.name is not None and not self.bind(output.name, outputs[position]):
                return False
        if source.more_outputs:
            return True
        named = max(len(source.outputs), 1)
        for tensor in outputs[named:]:
            self.context.count(tensor, 0)
            if self.context.index.is_used(tensor):
                return False
        return True

    def has(self, attr: ast.AttrPattern, node: gs.Node) -> bool:
        if attr.mode != "equals":
            return (attr.name in node.attrs) == (attr.mode == "present")
        value = attr.value
        if isinstance(value, ast.Name) and value.id not in self.bound and value.id not in DTYPES:
            found = fields.effective(self.context, node, attr.name)
            return found is not UNKNOWN and found is not ABSENT and self.bind(value.id, found)
        return is_late(attr) or self.equals(attr, node)

    def equals(self, attr: ast.AttrPattern, node: gs.Node) -> bool:
        found = fields.effective(self.context, node, attr.name)
        assert attr.value is not None
        wanted = evaluate(attr.value, Bindings(self.bound, self._lets), self.context)
        if found is ABSENT or found is UNKNOWN or wanted is UNKNOWN:
            return False
        if isinstance(found, float) and isinstance(wanted, float | int):
            return bool(np.float32(found) == np.float32(wanted))
        return _true(compare("==", found, wanted))

    def _late(self, question: ast.AttrPattern | ast.ConstPattern, subject: Any) -> Iterator[Sequence[Goal]]:
        """A comparison with something that the whole match binds, asked when everything else fits."""
        if self.equals(question, subject) if isinstance(question, ast.AttrPattern) else self.constant(question, subject):
            yield ()

    # --- operands ----------------------------------------------------------------------------------------------------------

    def _orders(self, pattern: PatternNode, node: gs.Node) -> Iterator[Sequence[Goal]]:
        operands = list(node.inputs)
        if pattern.split:
            for share in self.shares(pattern, operands[: operand_count(node)]):
                yield sorted((self._goal(operand, found) for operand, found in share), key=_cost)
            return
        free = pattern.orders and not pattern.source.ordered and 1 < len(operands) <= ORDERED_ABOVE
        free = free and schema.is_commutative(node.op, node.domain or "")
        for order in self._distinct(operands) if free else (operands,):
            goals = self._assign(pattern, order)
            if goals is not None:
                yield goals

    def shares(self, pattern: PatternNode, operands: Sequence[gs.Tensor]) -> Iterator[list[Share]]:
        """The ways to share operands out among those of the pattern."""
        return shares(pattern, operands, self._counted)

    def _counted(self, operand: Operand, tensor: gs.Tensor) -> bool:
        if not self._possible(operand, tensor):
            return False
        self._count()
        return True

    @staticmethod
    def _distinct(operands: list[gs.Tensor]) -> Iterator[Sequence[gs.Tensor]]:
        seen: set[tuple[int, ...]] = set()
        for order in permutations(operands):
            key = tuple(id(tensor) for tensor in order)
            if key not in seen:
                seen.add(key)
                yield order

    def _assign(self, pattern: PatternNode, operands: Sequence[gs.Tensor]) -> list[Goal] | None:
        """Goals that pair the pattern's operands with these, makers first; None when a cheap look shows that they cannot
        fit.
        """
        goals: list[Goal] = []
        for position, operand in enumerate(pattern.inputs):
            if is_run(operand):
                goals.append(self._goal(operand, list(operands[position:])))
                break
            tensor = operands[position] if position < len(operands) else None
            if not self._possible(operand, tensor):
                return None
            goals.append(self._goal(operand, tensor))
        return sorted(goals, key=_cost)

    def _goal(self, operand: Operand, found: Any) -> Goal:
        """What pairs an operand of the pattern with a tensor, or a run of operands with tensors."""
        return Goal(self._run if is_run(operand) else self._operand, operand, found)

    def _possible(self, operand: Operand, tensor: gs.Tensor | None) -> bool:
        there = tensor is not None and bool(tensor.name)
        if isinstance(operand, Made):
            maker = self.context.producer(tensor) if there else None
            return maker is not None and operator_key(maker) in self._pattern.nodes[operand.node].ops
        return there or (isinstance(operand, ast.Capture) and operand.optional)

    def _operand(self, operand: Operand, tensor: gs.Tensor | None) -> Iterator[Sequence[Goal]]:
        if isinstance(operand, ast.Wildcard):
            yield ()
        elif isinstance(operand, Made):
            assert tensor is not None
            maker = self.maker(operand, tensor)
            if maker is not None:
                yield (Goal(self._node, self._pattern.nodes[operand.node], maker),)
        elif isinstance(operand, ast.ConstPattern):
            if not is_plain(operand.value):
                yield (Goal(self._late, operand, tensor, late=True),)
            elif tensor is not None and self.constant(operand, tensor):
                yield ()
        elif isinstance(operand, ast.Capture) and self.capture(operand, tensor):
            yield ()

    def _run(self, operand: Operand, tensors: list[gs.Tensor]) -> Iterator[Sequence[Goal]]:
        if isinstance(operand, ast.Variadic):
            if self.bind(operand.name, tensors):
                yield ()
            return
        assert isinstance(operand, Made)
        maker = self.maker_of_run(tensors)
        if maker is not None:
            yield (Goal(self._node, self._pattern.nodes[operand.node], maker),)

    def maker(self, operand: Made, tensor: gs.Tensor) -> gs.Node | None:
        """The node of which the tensor is the output that the pattern says."""
        maker = self.context.producer(tensor)
        if maker is None or operand.output >= len(maker.outputs) or maker.outputs[operand.output] is not tensor:
            return None
        return maker

    def maker_of_run(self, tensors: Sequence[gs.Tensor]) -> gs.Node | None:
        """The node of which the tensors are all outputs, in their order."""
        maker = self.context.producer(tensors[0]) if tensors else None
        if maker is None or len(maker.outputs) != len(tensors) or not all(map(is_, maker.outputs, tensors)):
            return None
        return maker

    def capture(self, operand: ast.Capture, tensor: gs.Tensor | None) -> bool:
        if tensor is None or not tensor.name:
            return operand.optional and self.bind(operand.name, ABSENT)
        if operand.const and not self.context.is_constant(tensor):
            return False
        return self.bind(operand.name, tensor) and (operand.type is None or self._typed(operand.type, tensor))

    def _typed(self, pattern: ast.TypePattern, tensor: gs.Tensor) -> bool:
        if pattern.dtype is not None:
            found = self.context.dtype(tensor)
            if found is UNKNOWN or found != DTYPES[pattern.dtype]:
                return False
        if pattern.dims is None:
            return True
        shape = self.context.shape(tensor)
        return shape is not UNKNOWN and self._dims(pattern.dims, shape, tensor)

    def _dims(self, wanted: Sequence[Any], shape: list[Any], tensor: gs.Tensor) -> bool:
        if Ellipsis in wanted:
            at = wanted.index(Ellipsis)
            after = len(wanted) - at - 1
            if len(shape) < at + after:
                return False
            wanted = [*wanted[:at], *wanted[at + 1 :]]
            shape = [*shape[:at], *shape[len(shape) - after :]]
        return len(wanted) == len(shape) and all(self._dim(want, dim, tensor) for want, dim in zip(wanted, shape, strict=True))

    def _dim(self, wanted: Any, dim: Any, tensor: gs.Tensor) -> bool:
        if wanted is None:
            return True
        if isinstance(wanted, int) and (dim is UNKNOWN or isinstance(dim, Symbol)):
            self.context.doubt(f"a dimension of {label(tensor)} is unknown")
            return False
        return bool(dim == wanted) if isinstance(wanted, int) else self.bind(wanted, dim)

    def constant(self, operand: ast.ConstPattern, tensor: gs.Tensor) -> bool:
        if not self.context.is_constant(tensor):
            return False
        if operand.dtype is not None and self.context.dtype(tensor) != DTYPES[operand.dtype]:
            return False
        wanted = evaluate(operand.value, Bindings(self.bound, self._lets), self.context)
        shape = self.context.shape(tensor)
        if shape is not UNKNOWN and np.size(wanted) != 1 and list(np.shape(wanted)) != shape:
            return False
        found = self.context.array(tensor)
        return found.size == np.size(wanted) and _true(compare("==", found, wanted))

    # --- several ends --------------------------------------------------------------------------------------------------------

    def _join(self, number: int, name: str) -> Iterator[Sequence[Goal]]:
        tensor = self.bound.get(name)
        if not isinstance(tensor, gs.Tensor):
            return
        pattern = self._pattern.nodes[number]
        self.context.count(tensor)
        for user in self.context.index.users_with(tensor, pattern.ops):
            if self.fits(pattern, user):
                yield (Goal(self._node, pattern, user),)


def _cost(goal: Goal) -> Any:
    return cost(goal.subject)


def _true(answer: Any) -> bool:
    if isinstance(answer, np.ndarray):
        return bool(answer.all())
    if isinstance(answer, list):
        return all(item is True for item in answer)
    return answer is True


def _equal_arrays(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def interface_matches(match: ast.Match, context: Context, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Bindings of the items, in the order of the interface; one empty binding for a block without items."""
    graph = context.index.graph
    waiting: list[tuple[int, dict[str, Any], frozenset[int]]] = [(0, {}, frozenset())]
    while waiting:
        number, bound, taken = waiting.pop()
        if number == len(match.items):
            yield bound
            continue
        item = match.items[number]
        fitting = []
        for tensor in graph.inputs if item.side == "input" else graph.outputs:
            more = None if id(tensor) in taken else _fits(item, tensor, context, {**given, **bound})
            if more is not None:
                fitting.append((number + 1, {**bound, **more, item.name: tensor}, taken | {id(tensor)}))
        waiting.extend(reversed(fitting))


def _fits(item: ast.GraphItem, tensor: gs.Tensor, context: Context, bound: Mapping[str, Any]) -> dict[str, Any] | None:
    """Dims that the item's type binds, or None where the declared type does not fit."""
    pattern = item.type
    if pattern is None:
        return {}
    dtype, shape = context.declared(tensor)
    if pattern.dtype is not None and dtype != DTYPES[pattern.dtype]:
        return None
    if pattern.dims is None:
        return {}
    return None if shape is UNKNOWN else _dims(list(pattern.dims), shape, bound)


def _dims(wanted: list[Any], shape: list[Any], bound: Mapping[str, Any]) -> dict[str, Any] | None:
    if Ellipsis in wanted:
        at = wanted.index(Ellipsis)
        after = len(wanted) - at - 1
        if len(shape) < at + after:
            return None
        wanted, shape = wanted[:at] + wanted[at + 1 :], shape[:at] + shape[len(shape) - after :]
    if len(wanted) != len(shape):
        return None
    found: dict[str, Any] = {}
    for want, dim in zip(wanted, shape, strict=True):
        if want is None:
            continue
        known = want if isinstance(want, int) else {**bound, **found}.get(want)
        if known is None:
            found[want] = dim
        elif dim is UNKNOWN or isinstance(dim, Symbol) != isinstance(known, str) or dim != known:
            return None
    return found
