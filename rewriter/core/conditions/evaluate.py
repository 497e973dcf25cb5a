"""The evaluator of expressions: a closed one, with a fixed table of functions, three truth values and bounded results.

No expression can loop, call out, or grow without bound: nesting is capped by the parser, lists and arrays by `values`,
integers by 64 bits. What depends on something that the world does not tell is UNKNOWN, and a graph has noted why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from rewriter.core.conditions.rule_values import (
    ABSENT,
    BYTES_LIMIT,
    UNKNOWN,
    DType,
    Failure,
    SomeOf,
    arithmetic,
    bounded,
    checked,
    compare,
    contains,
    is_array,
    plain,
    show,
    truth,
)
from rewriter.core.conditions.world import World
from rewriter.core.language import ast
from rewriter.core.language.dtypes import DTYPES

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
        inner = type(self)({**self.bound, name: value}, self._lets)
        inner._values, inner._bytes = self._values, self._bytes
        return inner

    def get(self, name: str, world: World) -> Any:
        """Raises Failure for a name that nothing binds."""
        if name in self.bound:
            return self.bound[name]
        if name in self._values:
            return self._values[name]
        if name in self._lets:
            return self._compute(name, world)
        if name in _ELEMENT_TYPES:
            return _ELEMENT_TYPES[name]
        raise Failure(f"name `{name}` is not bound")

    def _compute(self, name: str, world: World) -> Any:
        """The value of a `let` line. All of them are kept until the match is done with, so that their sum is bounded, too."""
        value = evaluate(self._lets[name], self, world)
        if is_array(value) and value.base is None:
            self._bytes[0] += value.nbytes
            if self._bytes[0] > BYTES_LIMIT:
                raise Failure(f"the `let` lines of one match make constants of more than {BYTES_LIMIT} bytes")
        self._values[name] = value
        return value


def evaluate(expr: ast.Expr, names: Bindings, world: World) -> Any:
    """The value of an expression. Raises Failure when it has none."""
    return _EVALUATORS[type(expr)](expr, names, world)


def holds(condition: ast.Expr, names: Bindings, world: World) -> Any:
    """True, False or UNKNOWN."""
    return truth(evaluate(condition, names, world))


def _literal(expr: ast.Literal, names: Bindings, world: World) -> Any:
    return ABSENT if expr.value is None else expr.value


def _name(expr: ast.Name, names: Bindings, world: World) -> Any:
    return names.get(expr.id, world)


def _field(expr: ast.Field, names: Bindings, world: World) -> Any:
    if isinstance(expr.value, ast.Name) and expr.value.id == "model" and "model" not in names.bound:
        return world.model_field(expr.name)
    base = evaluate(expr.value, names, world)
    if isinstance(base, world.node_class):
        return world.node_field(base, expr.name)
    if isinstance(base, world.tensor_class) and expr.name in _TENSOR_FIELDS:
        return _TENSOR_FIELDS[expr.name](world, base)
    if base is UNKNOWN or base is ABSENT:
        return base
    raise Failure(f"`{expr.name}` is not a field of this value")


_TENSOR_FIELDS: Mapping[str, Callable[[World, Any], Any]] = {
    "dtype": lambda world, tensor: world.dtype(tensor),
    "name": lambda world, tensor: world.tensor_name(tensor),
    "shape": lambda world, tensor: world.shape(tensor),
}


def _range(expr: ast.Range, names: Bindings, world: World) -> Any:
    """A range stands only where a position does; as a value it is a slice with its stop excluded."""
    start = None if expr.start is None else evaluate(expr.start, names, world)
    stop = None if expr.stop is None else evaluate(expr.stop, names, world)
    if UNKNOWN in (start, stop):
        return UNKNOWN
    return slice(start, None if stop is None or stop == -1 else stop + 1)


def _index(expr: ast.Index, names: Bindings, world: World) -> Any:
    base = evaluate(expr.value, names, world)
    at = evaluate(expr.index, names, world)
    if isinstance(base, world.tensor_class):
        base = world.array(base)
    if base is UNKNOWN or at is UNKNOWN:
        return UNKNOWN
    if not isinstance(base, list | str) and not is_array(base):
        raise Failure("only lists, texts and constants have elements")
    try:
        return plain(base[at])
    except (IndexError, TypeError) as error:
        raise Failure(f"there is no element {at} in {show(base)}") from error


def _list(expr: ast.ListOf, names: Bindings, world: World) -> Any:
    items = [evaluate(item, names, world) for item in expr.items]
    if world.is_coarse and any(item is UNKNOWN for item in items):
        return UNKNOWN  # the graph may find an error there, and one item that fails spoils the list
    return bounded(items)


def _call(expr: ast.Call, names: Bindings, world: World) -> Any:
    function = world.functions.get(expr.function)
    if function is None:
        return world.without(expr.function)
    read = _elements if expr.function in ("all", "any") else evaluate
    values = [read(item, names, world) for item in expr.args]
    try:
        result = plain(function(world, *values))
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
    kind = type(result)
    if kind is bool or kind is DType or result is UNKNOWN:
        return result
    return checked(result) if isinstance(result, int) else bounded(result)


def _elements(expr: ast.Expr, names: Bindings, world: World) -> Any:
    """Of what `all` and `any` ask: two tensors are compared by their elements there, and not asked whether they are one."""
    if isinstance(expr, ast.Compare) and expr.op in ("==", "!="):
        left, right = evaluate(expr.left, names, world), evaluate(expr.right, names, world)
        if isinstance(left, world.tensor_class) and isinstance(right, world.tensor_class):
            return compare(expr.op, _settled(left, world), _settled(right, world))
    return evaluate(expr, names, world)


def _unary(expr: ast.Unary, names: Bindings, world: World) -> Any:
    value = evaluate(expr.operand, names, world)
    if expr.op == "not":
        known = truth(value)
        return UNKNOWN if known is UNKNOWN else not known
    value = _settled(value, world)
    if value is UNKNOWN:
        return UNKNOWN
    if isinstance(value, list):
        return [UNKNOWN if item is UNKNOWN else -item for item in value]
    if is_array(value) or (isinstance(value, int | float) and not isinstance(value, bool)):
        return checked(-value) if isinstance(value, int) else -value
    raise Failure("only numbers have a negative")


def _binary(expr: ast.Binary, names: Bindings, world: World) -> Any:
    left, right = evaluate(expr.left, names, world), evaluate(expr.right, names, world)
    return bounded(arithmetic(expr.op, _settled(left, world), _settled(right, world)))


def _compare(expr: ast.Compare, names: Bindings, world: World) -> Any:
    if isinstance(expr.right, ast.Literal) and isinstance(expr.left, ast.Call) and expr.left.function == "uses":
        return _compare_uses(expr, expr.left, expr.right.value, names, world)
    left, right = evaluate(expr.left, names, world), evaluate(expr.right, names, world)
    if expr.op in ("in", "not in"):
        found = contains(left, _settled(right, world))
        return found if found is UNKNOWN or expr.op == "in" else not found
    if isinstance(left, world.tensor_class) and isinstance(right, world.tensor_class) and expr.op in ("==", "!="):
        same = world.is_same(left, right)
        return same if same is UNKNOWN or expr.op == "==" else not same
    return compare(expr.op, _settled(left, world), _settled(right, world))


def _compare_uses(expr: ast.Compare, call: ast.Call, number: Any, names: Bindings, world: World) -> Any:
    """`uses(x) == 1` asks for no more readers than that: a tensor with thousands may lose some, and the answer stays."""
    tensor = evaluate(call.args[0], names, world) if len(call.args) == 1 and type(number) is int else None
    found = world.use_count(tensor, number) if isinstance(tensor, world.tensor_class) else _call(call, names, world)
    return compare(expr.op, found, number)


def _settled(value: Any, world: World) -> Any:
    """A captured tensor in arithmetic or a comparison stands for its constant values."""
    return world.array(value) if isinstance(value, world.tensor_class) else value


def _logic(expr: ast.Logic, names: Bindings, world: World) -> Any:
    decisive = expr.op == "or"
    return _settle((partial(holds, operand, names, world) for operand in expr.operands), decisive)


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


def _choice(expr: ast.Choice, names: Bindings, world: World) -> Any:
    test = holds(expr.test, names, world)
    if test is UNKNOWN:
        return UNKNOWN
    return evaluate(expr.then if test else expr.other, names, world)


def _quantified(expr: ast.Quantified, names: Bindings, world: World) -> Any:
    """`any` is an `or` over all items, `all` an `and`; absent operands are left out."""
    items = evaluate(expr.over, names, world)
    if items is UNKNOWN:
        return UNKNOWN
    if isinstance(items, SomeOf):
        return _quantified_over_some(expr, items, names, world)
    if not isinstance(items, list):
        raise Failure("only lists and runs of tensors have items")
    inner = (names.within(expr.name, item) for item in items if item is not ABSENT)
    questions = (partial(holds, expr.condition, one, world) for one in inner)
    if expr.quantifier != "count":
        return _settle(questions, expr.quantifier == "any")
    answers = [question() for question in questions]
    return UNKNOWN if UNKNOWN in answers else answers.count(True)


def _quantified_over_some(expr: ast.Quantified, some: SomeOf, names: Bindings, world: World) -> Any:
    """Where it is not known which items there are: what is true of none of them is true of none that there are."""
    if expr.quantifier != "any":
        return UNKNOWN
    answers = [holds(expr.condition, names.within(expr.name, item), world) for item in some.items]
    return UNKNOWN if any(answer is not False for answer in answers) else False


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
