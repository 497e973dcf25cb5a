"""The evaluator of expressions, a closed one, with a fixed table of functions, three truth values and bounded results; and the
worlds that it evaluates in.

An expression becomes a function once, and every match calls that function. No expression can loop, call out, or grow without
bound: nesting is capped by the parser, lists and arrays by `rule_values`, integers by 64 bits. A value that depends on an
unknown fact of the world is UNKNOWN, and a graph has noted why.

All facts about a model come from a world; a fact that the world does not have is UNKNOWN. There are two worlds:
`context.Context` uses a graph and the facts about its tensors. `coarse_world.CoarseWorld` knows a node by its kind and a tensor
by a set of element types and a rank. So a condition means the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from rewriter.core.conditions.rule_values import (
    ABSENT,
    BYTES_LIMIT,
    LIST_LIMIT,
    MISTAKES,
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
    dtype_of,
    has_unknown,
    is_array,
    negative,
    of_library,
    plain,
    show,
    truth,
)
from rewriter.core.language import ast
from rewriter.core.language.functions import OF_ABSENT, OF_LENGTHS, ExpressionFunction
from rewriter.core.language.schema import DTYPES

Implementation = Callable[..., Any]


class World(Protocol):
    """A model in which conditions are evaluated.

    Attributes:
        functions: the functions that a condition may call here, by name.
        tensor_class, node_class: the types of captures and labels.
        is_coarse: whether an unknown fact can be known, or an error, in the graph.
    """

    @property
    def functions(self) -> Mapping[str, Implementation]: ...
    @property
    def tensor_class(self) -> type: ...
    @property
    def node_class(self) -> type: ...
    @property
    def is_coarse(self) -> bool: ...

    def without(self, function: str) -> Any:
        """The answer to a call of a function that is not among `functions`."""

    def dtype(self, tensor: Any) -> Any: ...
    def shape(self, tensor: Any) -> Any: ...
    def opset(self, node: Any, domain: str = "") -> Any: ...

    def array(self, tensor: Any) -> Any:
        """The values of a constant. Raises Failure for other tensors."""

    def use_count(self, tensor: Any, most: int) -> Any: ...
    def is_same(self, one: Any, other: Any) -> Any:
        """Whether two names mean one tensor."""

    def tensor_name(self, tensor: Any) -> Any: ...
    def node_field(self, node: Any, name: str) -> Any: ...
    def model_field(self, name: str) -> Any: ...


def prepared(function: ExpressionFunction, body: Implementation) -> Implementation:
    """A function as expressions call it, with its arguments converted to their declared types.

    For an array argument, a captured constant is read, and a list of known numbers becomes an array. An unknown argument, or a
    dimension in place of a number that is known by name only, makes the result unknown without a call.
    """
    if function.name in OF_ABSENT:
        return body
    least, most = function.minimum, function.maximum
    kinds = [frozenset(function.argument(position).split("|")) for position in range(len(function.args))]
    takes_tensor = ["tensor" in kind or "any" in kind for kind in kinds]
    takes_number = [not kind.isdisjoint(("int", "number")) for kind in kinds]
    last = len(kinds) - 1

    def call(world: World, *values: Any) -> Any:
        if len(values) == 1 and takes_tensor[0] and least <= 1 and isinstance(values[0], world.tensor_class):
            return body(world, values[0])  # most calls
        if len(values) < least or (most is not None and len(values) > most):
            raise Failure(f"{function.signature} takes other arguments")
        arguments, tensor = [], world.tensor_class
        for number, value in enumerate(values):
            if value is UNKNOWN:
                return UNKNOWN
            position = number if number < last else last
            if type(value) is Symbol and takes_number[position]:
                return value if function.name in OF_LENGTHS else UNKNOWN
            if not (takes_tensor[position] and isinstance(value, tensor)):  # most arguments are tensors
                value = _argument(kinds[position], number, value, world)
                if value is UNKNOWN:
                    return UNKNOWN
            arguments.append(value)
        return body(world, *arguments)

    return call


def _argument(kinds: frozenset[str], position: int, value: Any, world: World) -> Any:
    """An argument as its declared types want it; UNKNOWN when it is, or holds something that is."""
    if value is ABSENT and "any" not in kinds:
        raise Failure(f"argument {position + 1} is an operand or attribute that is not there")
    if isinstance(value, world.tensor_class):
        return value if "tensor" in kinds or "any" in kinds else world.array(value)
    if isinstance(value, list) and "list" not in kinds and "array" in kinds:
        return UNKNOWN if has_unknown(value) else as_array(value)
    if "any" not in kinds and of_library(value, "onnx_graphsurgeon", "Graph"):  # NumPy would ask it for an array, in vain
        raise Failure(f"argument {position + 1} is a graph")
    return value


def _shape(world: World, part: Any) -> Any:
    return world.shape(part) if isinstance(part, world.tensor_class) else list(getattr(part, "shape", ()))


def _rank(world: World, part: Any) -> Any:
    found = _shape(world, part)
    return found if found is UNKNOWN else len(found)


def _axis(world: World, axis: int, part: Any) -> Any:
    rank = _rank(world, part)
    if rank is UNKNOWN:
        return rank
    if not -max(rank, 1) <= axis < max(rank, 1):
        raise Failure(f"axis {axis} does not exist at rank {rank}")
    return axis % rank if rank else 0


def _dtype(world: World, part: Any) -> Any:
    if isinstance(part, world.tensor_class):
        return world.dtype(part)
    return dtype_of(part)


def _all(world: World, value: Any) -> Any:
    if is_array(value):
        return bool(value.all())
    if not isinstance(value, list):
        return truth(value)
    answers = [_element(item) for item in value]
    return False if False in answers else UNKNOWN if UNKNOWN in answers else True


def _any(world: World, value: Any) -> Any:
    if is_array(value):
        return bool(value.any())
    if not isinstance(value, list):
        return truth(value)
    answers = [_element(item) for item in value]
    return True if True in answers else UNKNOWN if UNKNOWN in answers else False


def _element(item: Any) -> Any:
    """An element of a list counts as the same element of an array does: a number is true unless it is 0."""
    return item != 0 if isinstance(item, int | float) else truth(item)


def _range_items(world: World, *bounds: int) -> list[int]:
    numbers = range(*bounds)
    if len(numbers) > LIST_LIMIT:
        raise Failure(f"a list of more than {LIST_LIMIT} items")
    return list(numbers)


BODIES: Mapping[str, Implementation] = {
    "all": _all,
    "any": _any,
    "axis": _axis,
    "dtype": _dtype,
    "len": lambda world, items: len(items),
    "opset": lambda world, domain="": world.opset(None, domain),
    "range": _range_items,
    "rank": _rank,
    "shape": _shape,
}
"""Functions that need no graph."""


_ELEMENT_TYPES = {name: DType(number) for name, number in DTYPES.items()}


class Bindings:
    """The names of one match: captures and labels, parameters, and `let` values, which are computed when first used."""

    def __init__(self, bound: Mapping[str, Any], lets: Mapping[str, ast.Expr]) -> None:
        self.bound = bound
        self._lets = lets
        self._values: dict[str, Any] = {}
        self._bytes = [0]  # of all values; inner names share the counter

    def within(self, name: str, value: Any) -> Bindings:
        """The same names and one more."""
        return self.among({**self.bound, name: value})

    def among(self, bound: Mapping[str, Any]) -> Bindings:
        """Other captures with the same `let` lines; values that were computed are shared."""
        inner = type(self)(bound, self._lets)
        inner._values, inner._bytes = self._values, self._bytes
        return inner

    def get(self, name: str, world: World) -> Any:
        """Raises Failure for an unbound name."""
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
        """The value of a `let` line. All values are kept until the match is finished, so their sum is also bounded."""
        value = meaning(self._lets[name])(self, world)
        if is_array(value) and value.base is None:
            self._bytes[0] += value.nbytes
            if self._bytes[0] > BYTES_LIMIT:
                raise Failure(f"the `let` lines of one match make constants of more than {BYTES_LIMIT} bytes")
        self._values[name] = value
        return value


Meaning = Callable[[Bindings, World], Any]


def evaluate(expr: ast.Expr, names: Bindings, world: World) -> Any:
    """The value of an expression. Raises Failure when it has none."""
    return meaning(expr)(names, world)


def holds(condition: ast.Expr, names: Bindings, world: World) -> Any:
    """True, False or UNKNOWN."""
    value = meaning(condition)(names, world)
    return value if value is True or value is False else truth(value)


def meaning(expr: ast.Expr) -> Meaning:
    """The function that computes an expression from the names of a match and a world. It is made once and kept with the
    expression, since a condition is evaluated at thousands of nodes, and most of these evaluations take a few steps.
    """
    try:
        return expr.meaning
    except AttributeError:
        found = MEANINGS[type(expr)](expr)
        object.__setattr__(expr, "meaning", found)
        return found


def _literal(expr: ast.Literal) -> Meaning:
    value = ABSENT if expr.value is None else expr.value
    return lambda names, world: value


def _name(expr: ast.Name) -> Meaning:
    name = expr.id
    return lambda names, world: names.get(name, world)


def _field(expr: ast.Field) -> Meaning:
    name, base, of_tensor = expr.name, meaning(expr.value), _TENSOR_FIELDS.get(expr.name)
    is_model = isinstance(expr.value, ast.Name) and expr.value.id == "model"

    def field(names: Bindings, world: World) -> Any:
        if is_model and "model" not in names.bound:
            return world.model_field(name)
        value = base(names, world)
        if isinstance(value, world.node_class):
            return world.node_field(value, name)
        if of_tensor is not None and isinstance(value, world.tensor_class):
            return of_tensor(world, value)
        if value is UNKNOWN or value is ABSENT:
            return value
        raise Failure(f"`{name}` is not a field of this value")

    return field


_TENSOR_FIELDS: Mapping[str, Callable[[World, Any], Any]] = {
    "dtype": lambda world, tensor: world.dtype(tensor),
    "name": lambda world, tensor: world.tensor_name(tensor),
    "shape": lambda world, tensor: world.shape(tensor),
}


def _range(expr: ast.Range) -> Meaning:
    """A range occurs only in place of a position. Its value is a slice with its stop excluded."""
    first, last = (None if bound is None else meaning(bound) for bound in (expr.start, expr.stop))

    def positions(names: Bindings, world: World) -> Any:
        start = None if first is None else first(names, world)
        stop = None if last is None else last(names, world)
        if has_unknown([start, stop]):
            return UNKNOWN
        return slice(start, None if stop is None or stop == -1 else stop + 1)

    return positions


def _index(expr: ast.Index) -> Meaning:
    value, position = meaning(expr.value), meaning(expr.index)

    def element(names: Bindings, world: World) -> Any:
        base, at = value(names, world), position(names, world)
        if isinstance(base, world.tensor_class):
            base = world.array(base)
        if base is UNKNOWN or has_unknown([at]):
            return UNKNOWN
        if not isinstance(base, list | str) and not is_array(base):
            raise Failure("only lists, texts and constants have elements")
        try:
            return plain(base[at])
        except (IndexError, TypeError) as error:
            raise Failure(f"there is no element {at} in {show(base)}") from error

    return element


def _list(expr: ast.ListOf) -> Meaning:
    parts = [meaning(item) for item in expr.items]

    def listed(names: Bindings, world: World) -> Any:
        items = [part(names, world) for part in parts]
        if world.is_coarse and any(item is UNKNOWN for item in items):
            return UNKNOWN  # the graph may find an error there, and one item that fails spoils the list
        return bounded(items)

    return listed


def _call(expr: ast.Call) -> Meaning:
    name = expr.function
    read = _elements if name in ("all", "any") else meaning
    arguments = [read(item) for item in expr.args]
    only = arguments[0] if len(arguments) == 1 else None

    def called(names: Bindings, world: World) -> Any:
        function = world.functions.get(name)
        if function is None:
            return world.without(name)
        values = [argument(names, world) for argument in arguments] if only is None else (only(names, world),)
        try:
            result = function(world, *values)
            kind = type(result)
            if kind is bool or kind is DType or result is UNKNOWN:
                return result
            result = plain(result)
        except MISTAKES as error:
            raise Failure(f"`{name}`: {error}") from error
        return checked(result) if isinstance(result, int) else bounded(result)

    return called


def _elements(expr: ast.Expr) -> Meaning:
    """An argument of `all` or `any`: two tensors are compared by their elements there, not by their identity."""
    whole = meaning(expr)
    if not isinstance(expr, ast.Compare) or expr.op not in ("==", "!="):
        return whole
    op, left, right = expr.op, meaning(expr.left), meaning(expr.right)

    def compared(names: Bindings, world: World) -> Any:
        one, other = left(names, world), right(names, world)
        if isinstance(one, world.tensor_class) and isinstance(other, world.tensor_class):
            return compare(op, world.array(one), world.array(other))
        return whole(names, world)

    return compared


def _unary(expr: ast.Unary) -> Meaning:
    operand = meaning(expr.operand)
    return _negation(operand) if expr.op == "not" else lambda names, world: negative(_settled(operand(names, world), world))


def _negation(operand: Meaning) -> Meaning:
    def negated(names: Bindings, world: World) -> Any:
        known = truth(operand(names, world))
        return UNKNOWN if known is UNKNOWN else not known

    return negated


def _binary(expr: ast.Binary) -> Meaning:
    op, left, right = expr.op, meaning(expr.left), meaning(expr.right)

    def computed(names: Bindings, world: World) -> Any:
        one, other = left(names, world), right(names, world)
        return bounded(arithmetic(op, _settled(one, world), _settled(other, world)))

    return computed


def _compare(expr: ast.Compare) -> Meaning:
    op, left, right = expr.op, meaning(expr.left), meaning(expr.right)
    if isinstance(expr.right, ast.Literal) and isinstance(expr.left, ast.Call) and expr.left.function == "uses":
        return _compare_uses(expr.left, op, expr.right.value)
    if op in ("in", "not in"):
        return _membership(op == "in", left, right)
    asks_identity, is_equal = op in ("==", "!="), op == "=="

    def compared(names: Bindings, world: World) -> Any:
        one, other = left(names, world), right(names, world)
        tensor = world.tensor_class
        if isinstance(one, tensor):
            if asks_identity and isinstance(other, tensor):
                same = world.is_same(one, other)
                return same if same is UNKNOWN or is_equal else not same
            one = world.array(one)
        return compare(op, one, world.array(other) if isinstance(other, tensor) else other)

    return compared


def _membership(is_positive: bool, left: Meaning, right: Meaning) -> Meaning:
    def contained(names: Bindings, world: World) -> Any:
        item = left(names, world)
        found = contains(item, _settled(right(names, world), world))
        return found if found is UNKNOWN or is_positive else not found

    return contained


def _compare_uses(call: ast.Call, op: str, number: Any) -> Meaning:
    """`uses(x) == 1` counts only as many readers as it needs, so the answer stays if one of thousands of readers is removed."""
    value, uses = meaning(call.args[0]) if len(call.args) == 1 and type(number) is int else None, meaning(call)

    def counted(names: Bindings, world: World) -> Any:
        tensor = None if value is None else value(names, world)
        found = world.use_count(tensor, number) if isinstance(tensor, world.tensor_class) else uses(names, world)
        return compare(op, found, number)

    return counted


def _settled(value: Any, world: World) -> Any:
    """The value for arithmetic and comparisons: a captured tensor is replaced by its constant values."""
    return world.array(value) if isinstance(value, world.tensor_class) else value


def _logic(expr: ast.Logic) -> Meaning:
    operands, decisive = [meaning(operand) for operand in expr.operands], expr.op == "or"
    return lambda names, world: _decide(((operand, names) for operand in operands), world, decisive)


def _decide(questions: Iterable[tuple[Meaning, Bindings]], world: World, decisive: bool) -> Any:
    """Kleene's strong logic: one decisive answer settles the result, at any position. Otherwise a failing answer wins over an
    unknown one.
    """
    unknown = False
    failed: Failure | None = None
    for question, names in questions:
        try:
            value = question(names, world)
            if value is not True and value is not False:
                value = truth(value)
        except Failure as failure:
            failed = failed or failure
            continue
        if value is decisive:
            return decisive
        unknown = unknown or value is UNKNOWN
    if failed is not None:
        raise failed
    return UNKNOWN if unknown else not decisive


def _choice(expr: ast.Choice) -> Meaning:
    test, then, other = meaning(expr.test), meaning(expr.then), meaning(expr.other)

    def chosen(names: Bindings, world: World) -> Any:
        answer = truth(test(names, world))
        if answer is UNKNOWN:
            return UNKNOWN
        return then(names, world) if answer else other(names, world)

    return chosen


def _quantified(expr: ast.Quantified) -> Meaning:
    """`any` is an `or` over all items, `all` an `and`; absent operands are left out."""
    over, condition, name, quantifier = meaning(expr.over), meaning(expr.condition), expr.name, expr.quantifier

    def over_items(names: Bindings, world: World) -> Any:
        items = over(names, world)
        if items is UNKNOWN:
            return UNKNOWN
        if not isinstance(items, list):
            raise Failure("only lists and runs of tensors have items")
        questions = one_by_one(items, names, world)
        if quantifier != "count":
            return _decide(questions, world, quantifier == "any")
        answers = [truth(question(inner, world)) for question, inner in questions]
        return UNKNOWN if UNKNOWN in answers else answers.count(True)

    def one_by_one(items: list[Any], names: Bindings, world: World) -> Iterator[tuple[Meaning, Bindings]]:
        """The condition with the same bindings for each item: it is evaluated before the next item is bound."""
        bound = {**names.bound}
        inner = names.among(bound)
        for item in items:
            if item is not ABSENT and not is_nameless(item, world):
                bound[name] = item
                yield condition, inner

    return over_items


def is_nameless(item: Any, world: World) -> bool:
    """Whether the item is an absent operand in a run `*xs`, which is a tensor without a name in a graph."""
    return isinstance(item, world.tensor_class) and not getattr(item, "name", True)


MEANINGS: dict[type, Callable[..., Meaning]] = {
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
