"""A pattern as a program: the questions that decide whether it matches at a root, in an order that is fixed beforehand.

A depth-first search through a pattern asks its questions in an order that never depends on the answers. So the
bookkeeping of a search is known when the pattern is compiled: which question is the first to bind a name (it stores, later ones
compare), which nodes a new one must differ from, which questions have to wait until the rest is bound. Names and nodes are
numbered registers. A register that was filled on a failed way is filled again before any question reads it, so no undo is
needed.

A program is a list of parts. A part is a list of questions and, except for the last part, a choice: the operand orders of a
commutative operator, the ways to share out operands among runs, or the readers of a tensor. Most programs are one part.

A question returns None, or the reason why it fails, a word. A tracer that is passed in gets it together with the question's
place in the pattern; without a tracer a reason costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeVar

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.evaluate import Bindings, evaluate
from rewriter.core.conditions.rule_values import UNKNOWN, DType, Symbol
from rewriter.core.language import ast
from rewriter.core.language.pattern import (
    ANY_OPERATOR,
    Made,
    Operand,
    Pattern,
    PatternNode,
    asks_more,
    cost,
    is_late,
    is_plain,
    is_run,
    plain_value,
)
from rewriter.core.language.schema import DTYPES
from rewriter.core.matching import questions as ask
from rewriter.core.matching.questions import ATTEMPTS, Question, Registers, TooManyAttempts, Ways

T = TypeVar("T")
OpKey = tuple[str, str]


class EarlyReject:
    """The properties that a node must have to be the root of a pattern.

    Attributes:
        fixed, most: the least and the largest number of operands.
        makers: operators that make an operand, with its position; None if it may be anywhere.
    """

    __slots__ = ("fixed", "makers", "most")

    def __init__(self, pattern: Pattern) -> None:
        root = pattern.nodes[pattern.root]
        self.fixed, self.most = root.fixed, root.most
        runs = [position for position, operand in enumerate(root.inputs) if is_run(operand)]
        placed = 0 if ask.is_free(root) else min(runs, default=len(root.inputs))
        self.makers: list[tuple[int | None, frozenset[OpKey]]] = [
            (position if position < placed else None, pattern.nodes[operand.node].ops)
            for position, operand in enumerate(root.inputs)
            if isinstance(operand, Made) and operand.run is None and pattern.nodes[operand.node].ops is not ANY_OPERATOR
        ]

    def allows(self, count: int, used: int, makers: Sequence[OpKey | None]) -> bool:
        """False if the pattern cannot match at a node with these properties."""
        if count < self.fixed or (self.most is not None and used > self.most):
            return False
        for position, ops in self.makers:
            if position is None:
                if ops.isdisjoint(makers):
                    return False
            elif position >= len(makers) or makers[position] not in ops:
                return False
        return True


class Place(NamedTuple):
    """The place of a question.

    Attributes:
        level: the progress of the match; the larger, the nearer to the end.
        node: register of the node that is in question.
        part: the part of the node: the node of the pattern that it should be, an operand, an attribute, the outputs, its
            label, or the name of a tensor whose reader it should be.
        listed: register that lists its operands, if these are in question.
        position: the position of the operand.
        known: the number of the program's names that are bound before.
    """

    level: int
    node: int
    part: PatternNode | Operand | ast.AttrPattern | tuple[ast.Output, ...] | str
    listed: int
    position: int
    known: int


class Part(NamedTuple):
    """Questions with their places, and the choice behind them: its ways are put into a register one after the other."""

    questions: tuple[Question, ...]
    places: tuple[Place, ...]
    ways: Ways | None = None
    choice: Place | None = None
    register: int = 0


class PatternTracer(Protocol):
    """Receives the questions of a pattern that fail."""

    def fails(self, place: Place, reason: str, registers: Registers, doubts: int) -> None:
        """`doubts` is how many the context had before the question."""


class Program:
    """One compiled pattern.

    Attributes:
        names: the names that a match binds, with registers; names that are bound before the match come first.
        matched: numbers of the pattern's nodes in the order in which they are matched; a node's number is its register.
    """

    def __init__(self, pattern: Pattern, known: Iterable[str], lets: Mapping[str, ast.Expr]) -> None:
        """`known` are the names that are bound before anything is matched."""
        builder = _Builder(pattern, known, lets)
        self._parts = builder.parts()
        self._straight = self._parts[0].questions if len(self._parts) == 1 else None
        self.names = tuple(builder.slots.items())
        self.matched = tuple(builder.met)
        self._size, self._root, self._unsure = builder.size, pattern.root, tuple(builder.unsure)
        self._bound = [name for name, _ in self.names]
        self._picked = _picker([register for _, register in self.names])

    def registers(self, values: Mapping[str, Any]) -> Registers:
        """Registers with the values of the names that are known; good for one root after the other."""
        made: Registers = [None] * (self._size + 1)  # the last one holds how many attempts are left
        for name, register in self.names:
            if name in values:
                made[register] = values[name]
        return made

    def find(
        self,
        root: gs.Node,
        registers: Registers,
        context: Context,
        accept: Callable[[Registers], T | None],
        tracer: PatternTracer | None = None,
    ) -> T | None:
        """What `accept` returns for the first match for which it returns something; None if there is no such match.

        Raises:
            TooManyAttempts: this root has more choices than the limit.
            Failure: a question has no answer.
        """
        registers[self._root] = root
        if tracer is None and self._straight is not None:
            for question in self._straight:
                if question(registers, context):
                    return None
            return accept(registers)
        registers[-1] = ATTEMPTS
        return self._from(0, registers, context, accept, tracer)

    def _from(
        self,
        number: int,
        registers: Registers,
        context: Context,
        accept: Callable[[Registers], T | None],
        tracer: PatternTracer | None,
    ) -> T | None:
        questions, places, ways, choice, register = self._parts[number]
        if tracer is None:
            for question in questions:
                if question(registers, context):
                    return None
        else:
            for question, place in zip(questions, places, strict=True):
                doubts = len(context.doubts)
                if reason := question(registers, context):
                    tracer.fails(place, reason, registers, doubts)
                    return None
        if ways is None:
            return accept(registers)
        doubts, has_way = len(context.doubts), False
        for way in ways(registers, context):
            has_way = True
            registers[-1] -= 1
            if registers[-1] < 0:
                raise TooManyAttempts
            registers[register] = way
            found = self._from(number + 1, registers, context, accept, tracer)
            if found is not None:
                return found
        if not has_way and tracer is not None and choice is not None:
            tracer.fails(choice, "no way", registers, doubts)
        return None

    def bound(self, registers: Registers) -> dict[str, Any]:
        """The names of a match with their values."""
        found = dict(zip(self._bound, self._picked(registers), strict=True))
        for name in self._unsure:
            if found[name] is None:
                del found[name]
        return found

    def nodes(self, registers: Registers) -> dict[int, gs.Node]:
        """The nodes of a match by their numbers in the pattern."""
        return {number: registers[number] for number in self.matched}


def _picker(registers: Sequence[int]) -> Callable[[Registers], Sequence[Any]]:
    """A function that reads several registers at once."""
    if len(registers) > 1:
        return itemgetter(*registers)
    return lambda r: [r[register] for register in registers]


class _Builder:
    """Walks a pattern as a depth-first search does, and writes down the questions of the search.

    Attributes:
        slots: registers of names.
        unsure: names that an optional operand binds, None in their registers while it is left out.
        met: nodes of the pattern that are matched so far.
        size: number of registers.
    """

    def __init__(self, pattern: Pattern, known: Iterable[str], lets: Mapping[str, ast.Expr]) -> None:
        self._pattern, self._lets = pattern, lets
        self.size = len(pattern.nodes)
        self.slots: dict[str, int] = {}
        self.unsure: dict[str, None] = {}
        self.met: list[int] = []
        self._parts: list[Part] = []
        self._questions: list[Question] = []
        self._places: list[Place] = []
        self._late: list[Callable[[], None]] = []
        self._level = 0
        for name in known:
            self._slot(name)

    def parts(self) -> tuple[Part, ...]:
        """The whole program."""
        pattern = self._pattern
        self._level += 1
        self._node(pattern.root)
        for number, _, name in pattern.joins:
            self._level += 1
            self._choose(number, ask.readers(self.slots[name], pattern.nodes[number].ops), number, name)
            self._node(number, is_joined=True)
        for question in self._late:
            self._level += 1
            question()
        return (*self._parts, Part(tuple(self._questions), tuple(self._places)))

    # --- writing down --------------------------------------------------------------------------------------------------------

    def _ask(
        self, question: Question, number: int, part: Any, listed: int = 0, position: int = 0, *, known: int | None = None
    ) -> None:
        """A question; `known` is how many names were bound before it was made."""
        self._questions.append(question)
        self._places.append(Place(self._level, number, part, listed, position, len(self.slots) if known is None else known))

    def _choose(self, register: int, ways: Ways, number: int, part: Any) -> None:
        """Ends a part with a choice."""
        place = Place(self._level, number, part, 0, 0, len(self.slots))
        self._parts.append(Part(tuple(self._questions), tuple(self._places), ways, place, register))
        self._questions, self._places = [], []

    def _register(self) -> int:
        self.size += 1
        return self.size - 1

    def _slot(self, name: str) -> tuple[int, bool]:
        """The register of a name, and whether the name is bound here for the first time."""
        is_new = name not in self.slots
        if is_new:
            self.slots[name] = self._register()
        return self.slots[name], is_new

    def _put(self, name: str) -> ask.Put:
        """A function that binds a name, or compares it with its value."""
        register, is_new = self._slot(name)
        if is_new:
            return ask.store(register)
        return ask.store_or_compare(register) if name in self.unsure else ask.compare_with(register)

    def _names(self) -> Callable[[Registers], Bindings]:
        """A function that collects the names that are bound here, for an expression."""
        slots, lets, unsure = tuple(self.slots.items()), self._lets, frozenset(self.unsure)
        return lambda r: Bindings({name: r[slot] for name, slot in slots if r[slot] is not None or name not in unsure}, lets)

    # --- nodes ---------------------------------------------------------------------------------------------------------------

    def _node(self, number: int, *, is_joined: bool = False, of_any_operator: bool = False) -> None:
        """All questions about a node in its register: the node by itself, its attributes, its operands."""
        node = self._pattern.nodes[number]
        source = node.source
        listed = self._register()
        is_root = number == self._pattern.root
        rivals = () if is_root else tuple(other for other in self.met if _may_be_one(self._pattern.nodes[other], node))
        self.met.append(number)
        root = None if is_root else self._pattern.root
        self._ask(ask.fits(number, node, rivals, root, listed, asks_operator=of_any_operator), number, node)
        if is_joined:
            self._level += 1
        known = len(self.slots)
        if source.label in self.slots:
            self._ask(ask.is_named(number, self._put(source.label)), number, source.label, known=known)
        elif source.label is not None:
            self.slots[source.label] = number  # its own register
            known += 1
        self._ask(self._outputs(number, source), number, source.outputs, known=known)
        for attr in source.attrs:
            if not is_late(attr):
                known = len(self.slots)
                self._ask(self._attribute(number, attr), number, attr, known=known)
        for attr in reversed(source.attrs):
            if is_late(attr):
                self._late.append(lambda attr=attr: self._ask(self._attribute(number, attr), number, attr))  # type: ignore[misc]
        self._level += 1
        self._operands(number, listed)

    def _outputs(self, number: int, source: ast.NodePattern) -> Question:
        """The listed outputs are there, and no other one is used."""
        listed = len(source.outputs)
        puts = [(output.variadic, None if output.name is None else self._put(output.name)) for output in source.outputs]
        question = ask.outputs(number, puts, max(listed, 1), more=source.more_outputs)
        if listed == 1 and not source.outputs[0].variadic and not source.more_outputs:
            name = source.outputs[0].name
            register = self._register() if name is None else self.slots[name]
            if name is None or register == self.size - 1:  # it is bound here
                return ask.only_output(number, register, question)
        return question

    def _attribute(self, number: int, attr: ast.AttrPattern) -> Question:
        """An attribute is written, or is not; binds a name; or equals something."""
        if attr.mode != "equals":
            return ask.is_written(number, attr.name, is_written=attr.mode == "present")
        assert attr.value is not None
        if isinstance(attr.value, ast.Name):
            return self._named_attribute(number, attr.name, attr.value)
        if is_plain(attr.value):
            return ask.equals(number, attr.name, plain_value(attr.value), _expression(attr.value, self._names()))
        return ask.equals(number, attr.name, None, _expression(attr.value, self._names()))

    def _named_attribute(self, number: int, attribute: str, value: ast.Name) -> Question:
        """`axis=a` binds `a`, or compares with it; `to=float` compares with an element type."""
        name = value.id
        if name not in self.slots:
            if name in DTYPES:
                return ask.equals(number, attribute, int(DTYPES[name]), ask.always(DType(DTYPES[name])))
            return ask.binds(number, attribute, self._put(name))
        if name in self.unsure:
            return ask.binds(number, attribute, self._put(name))
        register = self.slots[name]
        return ask.equals(number, attribute, None, lambda r, context: r[register])

    # --- operands ------------------------------------------------------------------------------------------------------------

    def _operands(self, number: int, listed: int) -> None:
        """A choice if there is one, a look at all operands together, then one by one, makers first."""
        node = self._pattern.nodes[number]
        wanted = tuple(map(self._wanted, node.inputs))
        if node.split:
            self._choose(listed, ask.shares(number, node, wanted), number, node)
            shown = node.inputs
        else:
            runs = [position for position, operand in enumerate(node.inputs) if is_run(operand)]
            shown = node.inputs[: runs[0] + 1] if runs else node.inputs
            if ask.is_free(node):
                self._choose(listed, ask.orders(number, node), number, node)
            if shown and self._bind_all(number, shown, listed):
                return
            single = wanted[: runs[0]] if runs else wanted
            if single:
                self._ask(ask.all_there(listed, single), number, node, listed)
        for position, operand in sorted(enumerate(shown), key=lambda item: cost(item[1])):
            self._level += 1
            self._operand(number, operand, listed, position, to_end=not node.split)

    def _wanted(self, operand: Operand) -> ask.Wanted:
        """Whether an operand may be left out, and which operators may make it."""
        ops = self._pattern.nodes[operand.node].ops if isinstance(operand, Made) else None
        return isinstance(operand, ast.Capture) and operand.optional, ops

    def _bind_all(self, number: int, operands: Sequence[Operand], listed: int) -> bool:
        """If all operands are just new names, they are bound all at once."""
        names = [operand.name for operand in operands if isinstance(operand, ast.Capture) and not asks_more(operand)]
        plain = len(names) + sum(isinstance(operand, ast.Wildcard) for operand in operands)
        if plain < len(operands) or len({*names}) < len(names) or not self.slots.keys().isdisjoint(names):
            return False
        registers = [
            self._slot(operand.name)[0] if isinstance(operand, ast.Capture) else self._register() for operand in operands
        ]
        self._ask(
            ask.store_all(listed, registers), number, self._pattern.nodes[number], listed, known=len(self.slots) - len(names)
        )
        self._level += len(operands)
        return True

    def _operand(self, number: int, operand: Operand, listed: int, position: int, *, to_end: bool) -> None:
        known = len(self.slots)
        if isinstance(operand, ast.Variadic):
            self._ask(
                ask.run(listed, position, self._put(operand.name), to_end=to_end),
                number,
                operand,
                listed,
                position,
                known=known,
            )
        elif isinstance(operand, Made):
            self._made(number, operand, listed, position, to_end=to_end)
        elif isinstance(operand, ast.ConstPattern):
            if is_plain(operand.value):
                self._constant(number, operand, listed, position)
            else:
                self._late.append(lambda: self._constant(number, operand, listed, position))
        elif isinstance(operand, ast.Capture):
            self._ask(self._capture(operand, listed, position), number, operand, listed, position, known=known)

    def _made(self, number: int, operand: Made, listed: int, position: int, *, to_end: bool) -> None:
        inner = operand.node
        is_known = inner in self.met
        register = self._register() if is_known else inner
        if operand.run is None:
            self._ask(ask.maker(listed, position, operand.output, register), number, operand, listed, position)
        else:
            self._ask(ask.maker_of_run(listed, position, register, to_end=to_end), number, operand, listed, position)
        self._level += 1
        if is_known:
            self._ask(ask.is_same_node(register, inner), register, self._pattern.nodes[inner])
        else:
            self._node(inner, of_any_operator=operand.run is not None)

    def _constant(self, number: int, operand: ast.ConstPattern, listed: int, position: int) -> None:
        """An operand is a constant of a value."""
        dtype = None if operand.dtype is None else DTYPES[operand.dtype]
        value = _expression(operand.value, self._names())
        if is_plain(operand.value):
            value = ask.once(value)
        self._ask(ask.constant(listed, position, dtype, value), number, operand, listed, position)

    def _capture(self, operand: ast.Capture, listed: int, position: int) -> Question:
        """An operand is the value of its name."""
        before = set(self.slots)
        put = self._put(operand.name)
        if not asks_more(operand):
            register = self.slots[operand.name]
            return ask.plain(listed, position, put) if operand.name in before else ask.store_one(listed, position, register)
        own = {*before, operand.name}
        typed = None if operand.type is None else self._typed(operand.type)
        new = [name for name in self.slots if name not in own]
        if operand.optional:
            self.unsure |= dict.fromkeys(new)
        fresh = tuple(self.slots[name] for name in new)
        return ask.capture(listed, position, put, typed, fresh, const=operand.const, optional=operand.optional)

    def _typed(self, pattern: ast.TypePattern) -> ask.Typed:
        """A tensor has an element type and a shape."""
        dtype = None if pattern.dtype is None else DTYPES[pattern.dtype]
        if pattern.dims is None:
            return ask.typed(dtype, None, None)
        gap = pattern.dims.index(Ellipsis) if Ellipsis in pattern.dims else None
        dims = [dim for dim in pattern.dims if dim is not Ellipsis]
        return ask.typed(dtype, [self._put(dim) if isinstance(dim, str) else dim for dim in dims], gap)


def _may_be_one(node: PatternNode, other: PatternNode) -> bool:
    """Whether a node of the model could stand for both."""
    return node.ops is ANY_OPERATOR or other.ops is ANY_OPERATOR or not node.ops.isdisjoint(other.ops)


def _expression(expr: ast.Expr, names: Callable[[Registers], Bindings]) -> ask.Value:
    return lambda r, context: evaluate(expr, names(r), context)


# Matches of `match graph`, which has no root: its items are the model's inputs and outputs, each item another tensor.


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
    """Dims that the item's type binds, or None if the declared type does not match."""
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
