"""Patterns that leave few choices, matched without a search.

Most patterns have neither operands whose order is free nor several ends. What the search of `match` would ask of them, it
would ask in an order that is known beforehand: here the questions are put into a list once, and at a root they are asked one
after the other until one fails. A commutative operator of two operands doubles the lists; what two of them begin with alike is
not asked again where it failed. What is asked before and after is told in `rewriter.core.matching`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product, takewhile
from operator import attrgetter, is_
from typing import Any, NamedTuple

import onnx_graphsurgeon as gs

from rewriter.core.graph.scopes import OpKey, operator_key
from rewriter.core.language import ast, schema
from rewriter.core.language.pattern import ANY_OPERATOR, Made, Operand, Pattern, cost, is_late, is_plain, is_run, plain_value
from rewriter.core.matching.match import Matcher

# The questions of a pattern as functions, with all that can be told of them beforehand worked out.
#
# Each takes the match that is being tried, with what it has bound so far, and answers whether it can go on. What is rarely
# asked is left to the methods of the search.

Question = Callable[[Matcher], bool]
_NAME = attrgetter("name")


def ask_node(number: int, pattern: Pattern, position: int = 0) -> Question:
    """Whether the node that is to be the pattern's node `number` fits by itself."""
    node, source = pattern.nodes[number], pattern.nodes[number].source
    label, outputs = source.label, _ask_outputs(source)
    attrs = tuple(map(_ask_attribute, source.attrs))

    def ask(match: Matcher) -> bool:
        found = match.nodes[number]
        if not match.fits(node, found):
            return False
        match.taken.add(id(found))
        if label is not None and not match.bind(label, found):
            return False
        return outputs(match, found) and (not attrs or all(has(match, found) for has in attrs))

    return ask


def ask_leaf(number: int, pattern: Pattern, position: int = 0) -> Question:
    """All of a node whose operands are plain names that stand nowhere else, and whose one output has a name: as `ask_node`,
    `ask_operands` and `ask_capture` one after the other.
    """
    node, source = pattern.nodes[number], pattern.nodes[number].source
    label, output, alone = source.label, source.outputs[0].name, len(pattern.nodes) == 1
    names = tuple(operand.name if isinstance(operand, ast.Capture) else None for operand in node.inputs)
    attrs = tuple(map(_ask_attribute, source.attrs))
    assert output is not None

    def ask(match: Matcher) -> bool:
        found = match.nodes[number]
        if not match.fits(node, found):
            return False
        if not alone:
            match.taken.add(id(found))
        if label is not None and not match.bind(label, found):
            return False
        bind, outputs = match.bound.setdefault, found.outputs
        if len(outputs) != 1:
            if not match.outputs(source, found):
                return False
        elif not outputs[0].name or (bind(output, outputs[0]) is not outputs[0] and not match.bind(output, outputs[0])):
            return False
        if attrs and not all(has(match, found) for has in attrs):
            return False
        for name, tensor in zip(names, found.inputs, strict=False):
            if not tensor.name or (name is not None and bind(name, tensor) is not tensor and not match.bind(name, tensor)):
                return False
        return True

    return ask


def is_leaf(number: int, pattern: Pattern) -> bool:
    """Whether `ask_leaf` can ask about a node."""
    node = pattern.nodes[number]
    outputs = node.source.outputs
    if len(outputs) != 1 or outputs[0].name is None or outputs[0].variadic or node.source.more_outputs:
        return False
    listed = [operand.name for other in pattern.nodes for operand in other.inputs if isinstance(operand, ast.Capture)]
    return all(
        isinstance(operand, ast.Wildcard)
        or (
            isinstance(operand, ast.Capture)
            and not (operand.const or operand.optional or operand.type is not None)
            and listed.count(operand.name) == 1
        )
        for operand in node.inputs
    )


def _ask_attribute(attr: ast.AttrPattern) -> Callable[[Matcher, gs.Node], bool]:
    """Whether a node has an attribute as the pattern wants it; `axis=1` is settled at once where the node says a number."""
    if attr.mode != "equals" or not is_plain(attr.value):
        return lambda match, node: match.has(attr, node)
    assert attr.value is not None
    name, wanted = attr.name, plain_value(attr.value)
    kind = type(wanted)

    def has(match: Matcher, node: gs.Node) -> bool:
        found = node.attrs.get(name)
        if type(found) is kind and kind in _COMPARED_AT_ONCE:
            return bool(found == wanted)
        return match.equals(attr, node)

    return has


_COMPARED_AT_ONCE = frozenset((int, str, list))
"""Kinds of attribute values that are equal in the language where Python says so."""


def _ask_outputs(source: ast.NodePattern) -> Callable[..., bool]:
    if source.more_outputs or any(output.variadic for output in source.outputs):
        return lambda match, node: match.outputs(source, node)
    names = tuple(output.name for output in source.outputs)
    width = max(len(names), 1)
    if len(names) == 1 and names[0] is not None:
        only = names[0]

        def ask_only(match: Matcher, node: gs.Node) -> bool:
            outputs = node.outputs
            if len(outputs) != 1:
                return match.outputs(source, node)
            return bool(outputs[0].name) and match.bind(only, outputs[0])

        return ask_only

    def ask(match: Matcher, node: gs.Node) -> bool:
        outputs = node.outputs
        if len(outputs) > width:
            return match.outputs(source, node)
        if len(outputs) < len(names):
            return False
        for name, tensor in zip(names, outputs, strict=False):
            if not tensor.name or (name is not None and not match.bind(name, tensor)):
                return False
        return True

    return ask


def ask_operands(number: int, pattern: Pattern, count: int) -> Question:
    """A first look at the first operands of a node: whether they are there, and made by the right operators."""
    wanted = _wanted(pattern, number, count)
    if any(optional or ops is not None for optional, ops in wanted):
        return lambda match: _all_there(match, match.nodes[number].inputs, wanted)

    def ask_plain(match: Matcher) -> bool:
        inputs = match.nodes[number].inputs
        if len(inputs) < count:
            return False
        return all(map(_NAME, inputs[:count]))

    return ask_plain


def ask_swapped_operands(number: int, pattern: Pattern, count: int) -> Question:
    """The same of two operands that stand the other way round; they must be two, or nothing is different."""
    wanted = _wanted(pattern, number, count)

    def ask(match: Matcher) -> bool:
        inputs = match.nodes[number].inputs
        return len(inputs) > 1 and inputs[0] is not inputs[1] and _all_there(match, (inputs[1], inputs[0]), wanted)

    return ask


Wanted = tuple[tuple[bool, frozenset[OpKey] | None], ...]
"""Of each operand whether it may be missing, and which operators may make it."""


def _wanted(pattern: Pattern, number: int, count: int) -> Wanted:
    return tuple(
        (
            isinstance(operand, ast.Capture) and operand.optional,
            pattern.nodes[operand.node].ops if isinstance(operand, Made) else None,
        )
        for operand in pattern.nodes[number].inputs[:count]
    )


def _all_there(match: Matcher, inputs: Sequence[gs.Tensor], wanted: Wanted) -> bool:
    count = len(inputs)
    for position, (optional, ops) in enumerate(wanted):
        if position >= count or not inputs[position].name:
            if not optional:
                return False
        elif ops is not None:
            maker = match.context.producer(inputs[position])
            if maker is None or operator_key(maker) not in ops:
                return False
    return True


def ask_maker(number: int, operand: Made, position: int) -> Question:
    """Whether an operand comes from the right output of the node that the pattern says."""
    inner, run = operand.node, operand.run

    def ask(match: Matcher) -> bool:
        inputs = match.nodes[number].inputs
        maker = match.maker_of_run(inputs[position:]) if run else match.maker(operand, inputs[position])
        return maker is not None and match.nodes.setdefault(inner, maker) is maker

    return ask


def ask_capture(number: int, operand: ast.Capture, position: int) -> Question:
    """Whether an operand is what its name stands for."""
    name = operand.name
    if not (operand.const or operand.type is not None or operand.optional):

        def ask_plain(match: Matcher) -> bool:
            return match.bind(name, match.nodes[number].inputs[position])

        return ask_plain

    def ask(match: Matcher) -> bool:
        inputs = match.nodes[number].inputs
        return match.capture(operand, inputs[position] if position < len(inputs) else None)

    return ask


def ask_run(number: int, operand: ast.Variadic, position: int) -> Question:
    """Binds the rest of the operands."""
    return lambda match: match.bind(operand.name, list(match.nodes[number].inputs[position:]))


def ask_constant(number: int, operand: ast.ConstPattern, position: int) -> Question:
    """Whether an operand is a constant of this value."""
    return lambda match: match.constant(operand, match.nodes[number].inputs[position])


def ask_attribute(number: int, attr: ast.AttrPattern, position: int = 0) -> Question:
    """Whether an attribute equals what the whole match binds."""
    return lambda match: match.equals(attr, match.nodes[number])


MOST_SWAPS = 3  # commutative nodes of a pattern that is matched so; each doubles the lists


_ONCE = (None,)


class Arrangement(NamedTuple):
    """The questions of a pattern for one order of the operands of its commutative nodes, and how many of them, from the first,
    are those of the way before.
    """

    questions: tuple[Question, ...]
    alike: int


class LinearMatcher(Matcher):
    """The matches of a pattern with few ways to stand: one for each way at most."""

    def __init__(self, arrangements: tuple[Arrangement, ...], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._arrangements = arrangements
        self._root = self._pattern.root

    def matches(self, root: gs.Node) -> Iterable[None]:
        """As in `Matcher`; most patterns have one way to stand, and need no generator."""
        if len(self._arrangements) > 1:
            return self._several(root)
        self._start(root)
        self.nodes[self._root] = root
        for question in self._arrangements[0].questions:
            if not question(self):
                return ()
        return _ONCE

    def _several(self, root: gs.Node) -> Iterator[None]:
        self._start(root)
        number, failed = self._root, None
        for questions, alike in self._arrangements:
            if failed is not None:
                if alike > failed:
                    continue  # it would fail where the one before did
                self._start(root)
            self.nodes[number] = root
            for place, question in enumerate(questions):
                if not question(self):
                    failed = place
                    break
            else:
                yield
                failed = len(questions)

    def bind(self, name: str, value: Any) -> bool:
        """As in `Matcher`; nothing is ever taken back."""
        if name in self.bound:
            return self.same(self.bound[name], value)
        self.bound[name] = value
        return True

    def snapshot(self) -> tuple[dict[str, Any], dict[int, gs.Node]]:
        """As in `Matcher`; each match has its own."""
        return self.bound, self.nodes


def linear_arrangements(pattern: Pattern) -> tuple[Arrangement, ...] | None:
    """The ways in which a pattern may stand; None when there are many, or they depend on what stands there."""
    if pattern.joins or any(node.split or node.ops is ANY_OPERATOR for node in pattern.nodes):
        return None
    free = [number for number in range(len(pattern.nodes)) if _is_free(pattern, number)]
    if len(free) > MOST_SWAPS or not all(_has_two_operands(pattern, number) for number in free):
        return None
    listing = _Listing(pattern)
    listing.questions(frozenset())
    swappable = [number for number in listing.operand_order if number in free]  # the first one changes last, as in the search
    arrangements: list[Arrangement] = []
    for swaps in product((False, True), repeat=len(swappable)):
        questions = listing.questions(frozenset(number for number, swapped in zip(swappable, swaps, strict=True) if swapped))
        before = arrangements[-1].questions if arrangements else ()
        arrangements.append(Arrangement(questions, sum(1 for _ in takewhile(bool, map(is_, before, questions)))))
    return tuple(arrangements)


def _is_free(pattern: Pattern, number: int) -> bool:
    """Whether a node of the pattern may read its operands in several orders."""
    node = pattern.nodes[number]
    several = len(node.inputs) > 1 or node.most is None
    return node.orders and not node.source.ordered and several and any(schema.is_commutative(op, d) for d, op in node.ops)


def _has_two_operands(pattern: Pattern, number: int) -> bool:
    """Whether it reads two operands, in any order, whichever of its operators it is."""
    node = pattern.nodes[number]
    alone = all(isinstance(operand, _SINGLE) or (isinstance(operand, Made) and not operand.run) for operand in node.inputs)
    return alone and node.fixed == node.most == 2 and all(schema.is_commutative(op, domain) for domain, op in node.ops)


_SINGLE = (ast.Capture, ast.Wildcard, ast.ConstPattern)

Step = tuple[Callable[..., Question], int, Any, int]
"""What makes a question, the pattern node it is about, its operand or attribute, and the operand's position."""


class _Listing:
    """Makes lists of questions; the same question about the same thing is one object.

    Attributes:
        operand_order: pattern nodes in the order in which their operands are asked for.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.operand_order: list[int] = []
        self._pattern = pattern
        numbers = range(len(pattern.nodes))
        self._leaves = frozenset(number for number in numbers if not _is_free(pattern, number) and is_leaf(number, pattern))
        self._question_cache: dict[tuple[Any, ...], Question] = {}

    def questions(self, swapped: frozenset[int]) -> tuple[Question, ...]:
        """In the order in which the search asks them; the operands of some nodes stand the other way round."""
        steps: list[Step] = []
        late: list[Step] = []
        self.operand_order = []
        waiting: list[Step] = [(ask_node, self._pattern.root, self._pattern, 0)]
        while waiting:
            step = waiting.pop()
            kind, number, subject, _ = step
            if isinstance(subject, ast.ConstPattern) and not is_plain(subject.value):
                late.append(step)
                continue
            if kind is ask_node and number in self._leaves:
                step = ask_leaf, number, subject, 0
            steps.append(step)
            if kind is ask_maker and subject.node not in self.operand_order:
                waiting.append((ask_node, subject.node, self._pattern, 0))
            elif kind is ask_node:
                self.operand_order.append(number)
                attrs = reversed(self._pattern.nodes[number].source.attrs)
                late += [(ask_attribute, number, attr, 0) for attr in attrs if is_late(attr)]
                waiting += () if number in self._leaves else self._operands(number, number in swapped)
        return tuple(map(self._once, (*steps, *late)))

    def _operands(self, number: int, swapped: bool) -> list[Step]:
        """The questions about the operands of a node, the last one first: all together, then one by one, makers first."""
        operands = self._pattern.nodes[number].inputs
        runs = [i for i, operand in enumerate(operands) if is_run(operand)]
        shown = operands[: runs[0] + 1] if runs else operands
        order = sorted(enumerate(shown), key=lambda item: cost(item[1]))
        found = [_question(number, operand, 1 - place if swapped else place) for place, operand in order]
        together = (
            (ask_swapped_operands if swapped else ask_operands),
            number,
            self._pattern,
            runs[0] if runs else len(operands),
        )
        return [*(step for step in reversed(found) if step is not None), together]

    def _once(self, step: Step) -> Question:
        kind, number, subject, position = step
        key = kind, number, id(subject), position
        if key not in self._question_cache:
            self._question_cache[key] = kind(number, subject, position)
        return self._question_cache[key]


def _question(number: int, operand: Operand, position: int) -> Step | None:
    if isinstance(operand, ast.Wildcard):
        return None
    if isinstance(operand, ast.Variadic):
        return ask_run, number, operand, position
    if isinstance(operand, Made):
        return ask_maker, number, operand, position
    if isinstance(operand, ast.ConstPattern):
        return ask_constant, number, operand, position
    return ask_capture, number, operand, position
