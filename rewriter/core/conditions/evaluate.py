"""The evaluator of expressions: a closed one, with a fixed table of functions, three truth values and bounded results.

No expression can loop, call out, or grow without bound: nesting is capped by the parser, lists and arrays by `values`,
integers by 64 bits. What depends on something that the graph does not tell is UNKNOWN, and the context has noted why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions import graph_functions as contents_functions
from rewriter.core.conditions import graph_functions as einsum
from rewriter.core.conditions import graph_functions as fact_functions
from rewriter.core.conditions import graph_functions as source_functions
from rewriter.core.conditions import value_functions as array_functions
from rewriter.core.conditions import value_functions as list_functions
from rewriter.core.conditions.context import Context
from rewriter.core.conditions.effective_attributes import effective
from rewriter.core.conditions.model_fields import MODEL_TEXTS, find, least_ir_version
from rewriter.core.conditions.rule_values import (
    ABSENT,
    BYTES_LIMIT,
    UNKNOWN,
    DType,
    Failure,
    Symbol,
    arithmetic,
    as_array,
    bounded,
    checked,
    compare,
    contains,
    plain,
    show,
    truth,
)
from rewriter.core.graph.metadata import node_texts
from rewriter.core.language import ast
from rewriter.core.language.dtypes import DTYPES
from rewriter.core.language.functions import FAULTS, OF_ABSENT, ExpressionFunction
from rewriter.core.language.functions import FUNCTIONS as DECLARED

# The functions that expressions may call: the table of `language.functions`, implemented, with unknown and absent handled
# alike.
#
# Each implementation is called with the context and its arguments already prepared by their declared type: where an array is
# due, a captured constant is read and a list of known numbers becomes one; an unknown argument makes the result unknown without
# a call.

Implementation = Callable[..., Any]

_COMPUTING = frozenset({*array_functions.ARRAY_BODIES, *contents_functions.CONTENTS_BODIES, *list_functions.LIST_BODIES})
"""Functions in which NumPy may divide by zero or overflow, of which it is not to warn."""


def _prepare(kinds: frozenset[str], position: int, value: Any, context: Context) -> Any:
    """An argument as its declared types want it; UNKNOWN when it is, or holds something that is."""
    if value is ABSENT and "any" not in kinds:
        raise Failure(f"argument {position + 1} is an operand or attribute that is not there")
    if isinstance(value, gs.Tensor) and "tensor" not in kinds and "any" not in kinds:
        return context.array(value)
    if isinstance(value, gs.Graph) and "any" not in kinds:  # NumPy would ask it for an array, of which graphsurgeon complains
        raise Failure(f"argument {position + 1} is a graph")
    if isinstance(value, list) and "list" not in kinds and "array" in kinds:
        if any(item is UNKNOWN or isinstance(item, Symbol) for item in value):
            return UNKNOWN
        return as_array(value)
    return value


def _bind(function: ExpressionFunction, body: Implementation) -> Implementation:
    if function.name in OF_ABSENT:
        return body
    least, most = function.minimum, function.maximum
    kinds = [frozenset(function.argument(position).split("|")) for position in range(len(function.args))]
    last = len(kinds) - 1
    if function.name in _COMPUTING:
        body = np.errstate(all="ignore")(body)

    def call(context: Context, *values: Any) -> Any:
        if len(values) < least or (most is not None and len(values) > most):
            raise Failure(f"{function.signature} takes other arguments")
        prepared = []
        for position, value in enumerate(values):
            found = value if value is UNKNOWN else _prepare(kinds[min(position, last)], position, value, context)
            if found is UNKNOWN:
                return UNKNOWN
            prepared.append(found)
        return body(context, *prepared)

    return call


def _table() -> Mapping[str, Implementation]:
    bodies: dict[str, Implementation] = {
        **fact_functions.FACT_BODIES,
        **contents_functions.CONTENTS_BODIES,
        **source_functions.SOURCE_BODIES,
        **list_functions.LIST_BODIES,
        **array_functions.ARRAY_BODIES,
        **einsum.EINSUM_BODIES,
    }
    return {name: _bind(function, bodies[name]) for name, function in DECLARED.items()}


FUNCTIONS: Mapping[str, Implementation] = _table()


_ELEMENT_TYPES = {name: DType(number) for name, number in DTYPES.items()}


class Bindings:
    """The names of one match: captures and labels, parameters, and `let` values, which are computed when first used."""

    def __init__(self, bound: Mapping[str, Any], lets: Mapping[str, ast.Expr]) -> None:
        self.bound = bound
        self._lets = lets
        self._values: dict[str, Any] = {}
        self._bytes = [0]  # of all values; inner names share the counter

    def within(self, name: str, value: Any) -> Bindings:
        """The same names and one more; values that were computed are shared."""
        inner = Bindings({**self.bound, name: value}, self._lets)
        inner._values, inner._bytes = self._values, self._bytes
        return inner

    def get(self, name: str, context: Context) -> Any:
        """Raises Failure for a name that nothing binds."""
        if name in self.bound:
            return self.bound[name]
        if name in self._values:
            return self._values[name]
        if name in self._lets:
            return self._compute(name, context)
        if name in _ELEMENT_TYPES:
            return _ELEMENT_TYPES[name]
        raise Failure(f"name `{name}` is not bound")

    def _compute(self, name: str, context: Context) -> Any:
        """The value of a `let` line. All of them are kept until the match is done with, so that their sum is bounded, too."""
        value = evaluate(self._lets[name], self, context)
        if isinstance(value, np.ndarray) and value.base is None:
            self._bytes[0] += value.nbytes
            if self._bytes[0] > BYTES_LIMIT:
                raise Failure(f"the `let` lines of one match make constants of more than {BYTES_LIMIT} bytes")
        self._values[name] = value
        return value


def evaluate(expr: ast.Expr, names: Bindings, context: Context) -> Any:
    """The value of an expression. Raises Failure when it has none."""
    return _EVALUATORS[type(expr)](expr, names, context)


def holds(condition: ast.Expr, names: Bindings, context: Context) -> Any:
    """True, False or UNKNOWN."""
    return truth(evaluate(condition, names, context))


def _literal(expr: ast.Literal, names: Bindings, context: Context) -> Any:
    return ABSENT if expr.value is None else expr.value


def _name(expr: ast.Name, names: Bindings, context: Context) -> Any:
    return names.get(expr.id, context)


def _field(expr: ast.Field, names: Bindings, context: Context) -> Any:
    if isinstance(expr.value, ast.Name) and expr.value.id == "model" and "model" not in names.bound:
        return _model_field(expr.name, context)
    base = evaluate(expr.value, names, context)
    if isinstance(base, gs.Node):
        return _node_field(base, expr.name, context)
    if isinstance(base, gs.Tensor) and expr.name in ("shape", "dtype", "name"):
        return base.name if expr.name == "name" else context.shape(base) if expr.name == "shape" else context.dtype(base)
    if base is UNKNOWN or base is ABSENT:
        return base
    raise Failure(f"`{expr.name}` is not a field of this value")


def _node_field(node: gs.Node, name: str, context: Context) -> Any:
    if name == "inputs":
        return [tensor if tensor.name else ABSENT for tensor in node.inputs]
    if name == "outputs":
        return list(node.outputs)
    if name == "op":
        return node.op
    if name == "doc_string":
        return node_texts(node).doc_string
    return effective(context, node, name)


def _model_field(name: str, context: Context) -> Any:
    if name == "ir_version":
        return context.ir_version
    if name == "opset":
        return context.opset(None)
    if name == "outputs":
        return [tensor.name for tensor in context.index.graph.outputs]
    if name in FAULTS:
        return find(name, context)
    if name == "least_ir_version":
        return least_ir_version(context)
    found = getattr(context.index.graph, MODEL_TEXTS.get(name, name), None)
    return found if isinstance(found, str) else context.doubt(f"model.{name} is not known")


def _range(expr: ast.Range, names: Bindings, context: Context) -> Any:
    """A range stands only where a position does; as a value it is a slice with its stop excluded."""
    start = None if expr.start is None else evaluate(expr.start, names, context)
    stop = None if expr.stop is None else evaluate(expr.stop, names, context)
    if UNKNOWN in (start, stop):
        return UNKNOWN
    return slice(start, None if stop is None or stop == -1 else stop + 1)


def _index(expr: ast.Index, names: Bindings, context: Context) -> Any:
    base = evaluate(expr.value, names, context)
    at = evaluate(expr.index, names, context)
    if isinstance(base, gs.Tensor):
        base = context.array(base)
    if base is UNKNOWN or at is UNKNOWN:
        return UNKNOWN
    if not isinstance(base, list | str | np.ndarray):
        raise Failure("only lists, texts and constants have elements")
    try:
        return plain(base[at])
    except (IndexError, TypeError) as error:
        raise Failure(f"there is no element {at} in {show(base)}") from error


def _list(expr: ast.ListOf, names: Bindings, context: Context) -> Any:
    return bounded([evaluate(item, names, context) for item in expr.items])


def _call(expr: ast.Call, names: Bindings, context: Context) -> Any:
    function = FUNCTIONS.get(expr.function)
    if function is None:
        raise Failure(f"unknown function `{expr.function}`")
    read = _elements if expr.function in ("all", "any") else evaluate
    values = [read(item, names, context) for item in expr.args]
    try:
        result = plain(function(context, *values))
    except (
        TypeError,
        ValueError,
        IndexError,
        KeyError,
        OverflowError,
        ZeroDivisionError,
        AttributeError,
        MemoryError,
    ) as error:
        raise Failure(f"`{expr.function}`: {error}") from error
    if isinstance(result, int) and not isinstance(result, bool | DType):
        return checked(result)
    return bounded(result)


def _elements(expr: ast.Expr, names: Bindings, context: Context) -> Any:
    """Of what `all` and `any` ask: two tensors are compared by their elements there, and not asked whether they are one."""
    if isinstance(expr, ast.Compare) and expr.op in ("==", "!="):
        left, right = evaluate(expr.left, names, context), evaluate(expr.right, names, context)
        if isinstance(left, gs.Tensor) and isinstance(right, gs.Tensor):
            return compare(expr.op, _settled(left, context), _settled(right, context))
    return evaluate(expr, names, context)


def _unary(expr: ast.Unary, names: Bindings, context: Context) -> Any:
    value = evaluate(expr.operand, names, context)
    if expr.op == "not":
        known = truth(value)
        return UNKNOWN if known is UNKNOWN else not known
    if isinstance(value, gs.Tensor):
        value = context.array(value)
    if value is UNKNOWN:
        return UNKNOWN
    if isinstance(value, list):
        return [UNKNOWN if item is UNKNOWN else -item for item in value]
    if isinstance(value, int | float | np.ndarray) and not isinstance(value, bool):
        return checked(-value) if isinstance(value, int) else -value
    raise Failure("only numbers have a negative")


def _binary(expr: ast.Binary, names: Bindings, context: Context) -> Any:
    left, right = evaluate(expr.left, names, context), evaluate(expr.right, names, context)
    return bounded(arithmetic(expr.op, _settled(left, context), _settled(right, context)))


def _compare(expr: ast.Compare, names: Bindings, context: Context) -> Any:
    if isinstance(expr.right, ast.Literal) and isinstance(expr.left, ast.Call) and expr.left.function == "uses":
        return _compare_uses(expr, expr.left, expr.right.value, names, context)
    left, right = evaluate(expr.left, names, context), evaluate(expr.right, names, context)
    if expr.op in ("in", "not in"):
        found = contains(left, _settled(right, context))
        return found if found is UNKNOWN or expr.op == "in" else not found
    if isinstance(left, gs.Tensor) and isinstance(right, gs.Tensor) and expr.op in ("==", "!="):
        same = left is right
        return same if expr.op == "==" else not same
    return compare(expr.op, _settled(left, context), _settled(right, context))


def _compare_uses(expr: ast.Compare, call: ast.Call, number: Any, names: Bindings, context: Context) -> Any:
    """`uses(x) == 1` asks for no more readers than that: a tensor with thousands may lose some, and the answer stays."""
    tensor = evaluate(call.args[0], names, context) if len(call.args) == 1 and type(number) is int else None
    found = context.use_count(tensor, number) if isinstance(tensor, gs.Tensor) else _call(call, names, context)
    return compare(expr.op, found, number)


def _settled(value: Any, context: Context) -> Any:
    """A captured tensor in arithmetic or a comparison stands for its constant values."""
    return context.array(value) if isinstance(value, gs.Tensor) else value


def _logic(expr: ast.Logic, names: Bindings, context: Context) -> Any:
    decisive = expr.op == "or"
    return _settle((partial(holds, operand, names, context) for operand in expr.operands), decisive)


def _settle(questions: Iterable[Callable[[], Any]], decisive: bool) -> Any:
    """Kleene's strong logic: one decisive answer settles the result, wherever it stands; else one that fails wins over one
    that is unknown.
    """
    unknown = False
    failed: Failure | None = None
    for question in questions:
        try:
            value = question()
        except Failure as failure:
            failed = failed or failure
            continue
        if value is UNKNOWN:
            unknown = True
        elif value is decisive:
            return decisive
    if failed is not None:
        raise failed
    return UNKNOWN if unknown else not decisive


def _choice(expr: ast.Choice, names: Bindings, context: Context) -> Any:
    test = holds(expr.test, names, context)
    if test is UNKNOWN:
        return UNKNOWN
    return evaluate(expr.then if test else expr.other, names, context)


def _quantified(expr: ast.Quantified, names: Bindings, context: Context) -> Any:
    """`any` is an `or` over all items, `all` an `and`; absent operands are left out."""
    items = evaluate(expr.over, names, context)
    if items is UNKNOWN:
        return UNKNOWN
    if not isinstance(items, list):
        raise Failure("only lists and runs of tensors have items")
    inner = (names.within(expr.name, item) for item in items if item is not ABSENT)
    questions = (partial(holds, expr.condition, one, context) for one in inner)
    if expr.quantifier != "count":
        return _settle(questions, expr.quantifier == "any")
    answers = [question() for question in questions]
    return UNKNOWN if UNKNOWN in answers else answers.count(True)


_EVALUATORS: dict[type, Callable[..., Any]] = {
    ast.Literal: _literal,
    ast.Name: _name,
    ast.Field: _field,
    ast.Range: _range,
    ast.Index: _index,
    ast.ListOf: _list,
    ast.Call: _call,
    ast.Unary: _unary,
    ast.Binary: _binary,
    ast.Compare: _compare,
    ast.Logic: _logic,
    ast.Choice: _choice,
    ast.Quantified: _quantified,
}
