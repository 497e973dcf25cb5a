"""The values that made a condition false or unknown: the values of the parts that decided it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.evaluate import Bindings, evaluate, holds
from rewriter.core.conditions.recorded_graph import label
from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, Failure, Symbol
from rewriter.core.errors import printable
from rewriter.core.language import ast
from rewriter.core.language.ast import walk
from rewriter.core.language.rules import Rule
from rewriter.core.language.schema import DTYPES, qualified
from rewriter.core.record import record

# The texts for tensors and values in explanations: a tensor with its producer, a value with its relevant part.

LONGEST = 120
SHOWN = 8  # elements of an array, items of a list


def node_words(node: gs.Node) -> str:
    """`Relu 'act1'`, or, if the node has no name, `the Relu that makes 'h'`."""
    if node.name:
        return f"{_op(node)} {node.name!r}"
    output_name = next((tensor.name for tensor in node.outputs if tensor.name), "")
    return f"the {_op(node)} that makes {output_name!r}" if output_name else _op(node)


def _op(node: gs.Node) -> str:
    return qualified(node.op, node.domain or "")


def tensor_words(context: Context, tensor: gs.Tensor | None) -> str:
    """`'h', made by Relu 'act1'`, `'x', an input of the graph`, ..., or that the operand is left out."""
    if tensor is None or not tensor.name:
        return "left out"
    maker = context.index.producer(tensor)
    if maker is not None:
        at = next((i for i, output in enumerate(maker.outputs) if output is tensor), 0)
        which = f"output {at} of" if len(maker.outputs) > 1 else "made by"
        return f"{tensor.name!r}, {which} {_op(maker)}" + (f" {maker.name!r}" if maker.name else "")
    if isinstance(tensor, gs.Constant):
        if not context.facts.is_constant(tensor):
            return f"{tensor.name!r}, an initializer that is also an input, so that a caller may override it"
        return f"{tensor.name!r}, an initializer"
    if context.index.input_of(tensor):
        return f"{tensor.name!r}, an input of the graph"
    return f"{tensor.name!r}, made by nothing"


def value_words(value: Any) -> str:
    """Short text of a value of an expression."""
    if value is UNKNOWN or value is ABSENT:
        return "unknown" if value is UNKNOWN else "absent"
    if isinstance(value, gs.Tensor):
        return f"tensor {value.name!r}" if value.name else "absent"
    if isinstance(value, gs.Node):
        return label(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, np.ndarray):
        return _array_words(value)
    if isinstance(value, list):
        shown = [value_words(item) for item in value[:SHOWN]]
        return "[" + ", ".join(shown + ([f"... {len(value)} items"] if len(value) > SHOWN else [])) + "]"
    if isinstance(value, Symbol):
        return printable(value)
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def _array_words(array: np.ndarray[Any, Any]) -> str:
    if array.size <= SHOWN:
        return str(array.tolist())
    head = f"{array.dtype}[{','.join(map(str, array.shape))}]"
    if array.dtype.kind not in "fiub":
        return head
    low, high = array.min(), array.max()
    return f"{head}, all {low}" if low == high else f"{head} from {low:g} to {high:g}"


MOST = 6  # parts that are shown


@record(eq=False, slots=True)
class Witnessed:
    """The values in one condition under one match. Asking leaves no doubts behind in the context."""

    _condition: ast.Expr
    _names: Bindings
    _context: Context
    _rule: Rule

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
        """An argument: a comparison of arrays is shown by its sides, anything else by its value."""
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
            return  # from a cell of a table or a define: its span is the whole condition
        try:
            value = evaluate(expr, self._names, self._context)
        except Failure as failure:
            yield f"{self._rule.words(expr.span)} fails: {failure}"
            return
        yield f"{self._rule.words(expr.span)} is {value_words(self._worth(value))}"

    def _worth(self, value: Any) -> Any:
        """The value to show; for a captured constant, its values."""
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
