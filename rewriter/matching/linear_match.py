"""Patterns that leave few choices, matched without a search.

Most patterns have neither operands whose order is free nor several ends. What the search of `match` would ask of them, it
would ask in an order that is known beforehand: here the questions are put into a list once, and at a root they are asked one
after the other until one fails. A commutative operator of two operands doubles the lists; what two of them begin with alike is
not asked again where it failed. What is asked before and after is told in `rewriter.matching`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product, takewhile
from operator import is_
from typing import Any, NamedTuple

import onnx_graphsurgeon as gs

from rewriter.language import ast, schema
from rewriter.language.pattern import ANY_OPERATOR, Made, Operand, Pattern, is_run
from rewriter.language.pattern_order import cost, is_late, is_plain
from rewriter.matching import ask
from rewriter.matching.ask import Question
from rewriter.matching.match import Matcher

MOST_SWAPS = 3  # commutative nodes of a pattern that is matched so; each doubles the lists


_ONCE = (None,)


class Way(NamedTuple):
    """The questions of a pattern for one order of the operands of its commutative nodes, and how many of them, from the first,
    are those of the way before.
    """

    questions: tuple[Question, ...]
    alike: int


class LinearMatcher(Matcher):
    """The matches of a pattern with few ways to stand: one for each way at most."""

    def __init__(self, ways: tuple[Way, ...], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._ways = ways
        self._root = self._pattern.root

    def matches(self, root: gs.Node) -> Iterable[None]:
        """As in `Matcher`; most patterns have one way to stand, and need no generator."""
        if len(self._ways) > 1:
            return self._several(root)
        self._start(root)
        self.nodes[self._root] = root
        for question in self._ways[0].questions:
            if not question(self):
                return ()
        return _ONCE

    def _several(self, root: gs.Node) -> Iterator[None]:
        self._start(root)
        number, failed = self._root, None
        for questions, alike in self._ways:
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

    def held(self) -> tuple[dict[str, Any], dict[int, gs.Node]]:
        """As in `Matcher`; each match has its own."""
        return self.bound, self.nodes


def linear_ways(pattern: Pattern) -> tuple[Way, ...] | None:
    """The ways in which a pattern may stand; None when there are many, or they depend on what stands there."""
    if pattern.joins or any(node.split or node.ops is ANY_OPERATOR for node in pattern.nodes):
        return None
    free = [number for number in range(len(pattern.nodes)) if _is_free(pattern, number)]
    if len(free) > MOST_SWAPS or not all(_has_two_operands(pattern, number) for number in free):
        return None
    listing = _Listing(pattern)
    listing.questions(frozenset())
    met = [number for number in listing.met if number in free]  # the first one changes last, as in the search
    ways: list[Way] = []
    for swaps in product((False, True), repeat=len(met)):
        questions = listing.questions(frozenset(number for number, swapped in zip(met, swaps, strict=True) if swapped))
        before = ways[-1].questions if ways else ()
        ways.append(Way(questions, sum(1 for _ in takewhile(bool, map(is_, before, questions)))))
    return tuple(ways)


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
        met: pattern nodes in the order in which their operands are asked for.
    """

    def __init__(self, pattern: Pattern) -> None:
        self.met: list[int] = []
        self._pattern = pattern
        numbers = range(len(pattern.nodes))
        self._leaves = frozenset(number for number in numbers if not _is_free(pattern, number) and ask.is_leaf(number, pattern))
        self._made: dict[tuple[Any, ...], Question] = {}

    def questions(self, swapped: frozenset[int]) -> tuple[Question, ...]:
        """In the order in which the search asks them; the operands of some nodes stand the other way round."""
        steps: list[Step] = []
        late: list[Step] = []
        self.met = []
        waiting: list[Step] = [(ask.ask_node, self._pattern.root, self._pattern, 0)]
        while waiting:
            step = waiting.pop()
            kind, number, subject, _ = step
            if isinstance(subject, ast.ConstPattern) and not is_plain(subject.value):
                late.append(step)
                continue
            if kind is ask.ask_node and number in self._leaves:
                step = ask.ask_leaf, number, subject, 0
            steps.append(step)
            if kind is ask.ask_maker and subject.node not in self.met:
                waiting.append((ask.ask_node, subject.node, self._pattern, 0))
            elif kind is ask.ask_node:
                self.met.append(number)
                attrs = reversed(self._pattern.nodes[number].source.attrs)
                late += [(ask.ask_attribute, number, attr, 0) for attr in attrs if is_late(attr)]
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
            (ask.ask_swapped_operands if swapped else ask.ask_operands),
            number,
            self._pattern,
            runs[0] if runs else len(operands),
        )
        return [*(step for step in reversed(found) if step is not None), together]

    def _once(self, step: Step) -> Question:
        kind, number, subject, position = step
        key = kind, number, id(subject), position
        if key not in self._made:
            self._made[key] = kind(number, subject, position)
        return self._made[key]


def _question(number: int, operand: Operand, position: int) -> Step | None:
    if isinstance(operand, ast.Wildcard):
        return None
    if isinstance(operand, ast.Variadic):
        return ask.ask_run, number, operand, position
    if isinstance(operand, Made):
        return ask.ask_maker, number, operand, position
    if isinstance(operand, ast.ConstPattern):
        return ask.ask_constant, number, operand, position
    return ask.ask_capture, number, operand, position
