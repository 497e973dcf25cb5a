"""What a condition that does not hold saw: the values of those of its parts that decided it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.conditions.evaluate import Bindings, evaluate, holds
from rewriter.conditions.found_words import tensor_words, value_words
from rewriter.conditions.rule_text import Text
from rewriter.conditions.rule_values import Failure
from rewriter.language import ast
from rewriter.language.dtypes import DTYPES
from rewriter.language.walk import walk

MOST = 6  # parts that are shown


class Witnessed:
    """The values in one condition under one match. Asking leaves no doubts behind in the context."""

    def __init__(self, condition: ast.Expr, names: Bindings, context: Context, text: Text) -> None:
        self._names = names
        self._context = context
        self._text = text
        self._condition = condition

    def found(self) -> str:
        """`rank(x) is 2; x is 'data', an input of the graph`."""
        mark = len(self._context.doubts)
        parts = list(dict.fromkeys([*self._decisive(self._condition), *self._captures()]))[:MOST]
        del self._context.doubts[mark:]
        return "; ".join(parts)

    def _decisive(self, expr: ast.Expr) -> Iterator[str]:
        if isinstance(expr, ast.Unary) and expr.op == "not":
            yield from self._decisive(expr.operand)
        elif isinstance(expr, ast.Logic):
            answer = self._holds(expr)
            for operand in expr.operands:
                if self._holds(operand) is answer:
                    yield from self._decisive(operand)
        elif isinstance(expr, ast.Compare):
            for side in (expr.left, expr.right):
                yield from self._value(side)
        elif isinstance(expr, ast.Choice):
            yield from self._decisive(expr.test)
            yield from self._decisive(expr.then if self._holds(expr.test) is True else expr.other)
        elif isinstance(expr, ast.Call) and expr.function == "maybe":
            yield from self._decisive(expr.args[0])
        elif isinstance(expr, ast.Call):
            yield from self._value(expr)
            for part in expr.args:
                if not isinstance(part, ast.Name) or part.id not in self._names.bound:
                    yield from self._inside(part)
                elif not isinstance(self._names.bound[part.id], gs.Tensor | gs.Node):
                    yield from self._value(part)
        else:
            yield from self._value(expr)

    def _inside(self, part: ast.Expr) -> Iterator[str]:
        """An argument: a comparison of arrays is told by its sides, anything else by its value."""
        if isinstance(part, ast.Compare):
            yield from self._decisive(part)
        else:
            yield from self._value(part)

    def _value(self, expr: ast.Expr) -> Iterator[str]:
        if isinstance(expr, ast.Literal | ast.Range) or (isinstance(expr, ast.Name) and expr.id in DTYPES):
            return
        if isinstance(expr, ast.Unary) and isinstance(expr.operand, ast.Literal):
            return
        if isinstance(expr, ast.ListOf) and all(isinstance(item, ast.Literal) for item in expr.items):
            return
        if expr is not self._condition and expr.span == self._condition.span:
            return  # from a cell of a table or a define: the text at hand is that of the whole condition
        try:
            value = evaluate(expr, self._names, self._context)
        except Failure as failure:
            yield f"{self._text.at(expr.span)} fails: {failure}"
            return
        yield f"{self._text.at(expr.span)} is {value_words(self._worth(value))}"

    def _worth(self, value: Any) -> Any:
        """A captured constant is told by its values."""
        if isinstance(value, gs.Tensor) and value.name and self._context.is_constant(value):
            return self._context.array(value)
        return value

    def _holds(self, expr: ast.Expr) -> Any:
        try:
            return holds(expr, self._names, self._context)
        except Failure:
            return None

    def _captures(self) -> Iterator[str]:
        """The tensors and nodes that the condition speaks of."""
        for part in walk(self._condition):
            if not isinstance(part, ast.Name):
                continue
            value = self._names.bound.get(part.id)
            if isinstance(value, gs.Tensor) and value.name:
                yield f"{part.id} is {tensor_words(self._context, value)}"
