"""Patterns that leave no choice, matched without a search.

Most patterns have neither operands whose order is free nor several ends. What the search of `match` would ask of them, it
would ask in an order that is known beforehand: here the questions are put into a list once, and at a root they are asked one
after the other until one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.engine.matching.match import Matcher
from rewriter.engine.matching.questions import cost, is_late, is_plain
from rewriter.language import ast, schema
from rewriter.language.pattern import Made, Operand, Pattern

Step = tuple[Callable[..., bool], int, Any, int]
"""A question, the pattern node it is about, its operand or attribute, and the operand's position."""


class StraightMatcher(Matcher):
    """The match of a pattern without choices; there is one at most."""

    def __init__(self, steps: tuple[Step, ...], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._steps = steps

    def matches(self, root: gs.Node) -> Iterator[None]:
        """As in `Matcher`."""
        self._start(root)
        self.nodes[self._pattern.root] = root
        for ask, number, subject, position in self._steps:
            if not ask(self, number, subject, position):
                return
        yield

    # --- questions about the node that is to be the pattern's node `number` ------------------------------------------------

    def ask_node(self, number: int, subject: None, position: int) -> bool:
        return self._takes(self._pattern.nodes[number], self.nodes[number])

    def ask_operands(self, number: int, operands: tuple[Operand, ...], position: int) -> bool:
        inputs = self.nodes[number].inputs
        count = len(inputs)
        return all(self._possible(operand, inputs[i] if i < count else None) for i, operand in enumerate(operands))

    def ask_maker(self, number: int, operand: Made, position: int) -> bool:
        inputs = self.nodes[number].inputs
        maker = self._maker_of_run(inputs[position:]) if operand.run else self._maker(operand, inputs[position])
        return maker is not None and self.nodes.setdefault(operand.node, maker) is maker

    def ask_run(self, number: int, operand: ast.Variadic, position: int) -> bool:
        return self._bind(operand.name, list(self.nodes[number].inputs[position:]))

    def ask_capture(self, number: int, operand: ast.Capture, position: int) -> bool:
        inputs = self.nodes[number].inputs
        return self._capture(operand, inputs[position] if position < len(inputs) else None)

    def ask_constant(self, number: int, operand: ast.ConstPattern, position: int) -> bool:
        return self._constant(operand, self.nodes[number].inputs[position])

    def ask_attribute(self, number: int, attr: ast.AttrPattern, position: int) -> bool:
        return self._equals(attr, self.nodes[number])


def straight(pattern: Pattern) -> tuple[Step, ...] | None:
    """The questions of a pattern in their order; None when it leaves a choice."""
    if pattern.joins or any(_is_free(pattern, number) for number in range(len(pattern.nodes))):
        return None
    steps: list[Step] = []
    late: list[Step] = []
    seen: set[int] = set()
    waiting: list[Step] = [(StraightMatcher.ask_node, pattern.root, None, 0)]
    while waiting:
        step = waiting.pop()
        ask, number, subject, _ = step
        if isinstance(subject, ast.ConstPattern) and not is_plain(subject.value):
            late.append(step)
            continue
        steps.append(step)
        if ask is StraightMatcher.ask_maker and subject.node not in seen:
            waiting.append((StraightMatcher.ask_node, subject.node, None, 0))
        elif ask is StraightMatcher.ask_node:
            seen.add(number)
            attrs = reversed(pattern.nodes[number].source.attrs)
            late += [(StraightMatcher.ask_attribute, number, attr, 0) for attr in attrs if is_late(attr)]
            waiting += _operand_steps(pattern, number)
    return (*steps, *late)


def _is_free(pattern: Pattern, number: int) -> bool:
    """Whether a node of the pattern may read its operands in several orders."""
    node = pattern.nodes[number]
    several = len(node.inputs) > 1 or node.most is None
    return node.orders and not node.source.ordered and several and any(schema.is_commutative(op, d) for d, op in node.ops)


def _operand_steps(pattern: Pattern, number: int) -> list[Step]:
    """The questions about the operands of a node, the last one first: all at a glance, then one by one, makers first."""
    operands = pattern.nodes[number].inputs
    runs = [i for i, operand in enumerate(operands) if isinstance(operand, ast.Variadic) or _is_run(operand)]
    single = operands[: runs[0]] if runs else operands
    shown = operands[: runs[0] + 1] if runs else operands
    order = sorted(enumerate(shown), key=lambda item: cost(item[1]))
    found = [step for position, operand in order if (step := _question(number, operand, position)) is not None]
    return [*reversed(found), (StraightMatcher.ask_operands, number, single, 0)]


def _is_run(operand: Operand) -> bool:
    return isinstance(operand, Made) and operand.run is not None


def _question(number: int, operand: Operand, position: int) -> Step | None:
    if isinstance(operand, ast.Wildcard):
        return None
    if isinstance(operand, ast.Variadic):
        return StraightMatcher.ask_run, number, operand, position
    if isinstance(operand, Made):
        return StraightMatcher.ask_maker, number, operand, position
    if isinstance(operand, ast.ConstPattern):
        return StraightMatcher.ask_constant, number, operand, position
    return StraightMatcher.ask_capture, number, operand, position
