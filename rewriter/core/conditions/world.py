"""The facts of a model that conditions can use: a model with the graph of a run, or one whose bytes only were read.

`evaluate` has values and logic. It gets all facts about a model from a world; a fact that the world does not have is UNKNOWN.
There are two worlds: `context.Context` uses a graph and the facts about its tensors. `coarse_world.CoarseWorld` knows a node by
its kind and a tensor by a set of element types and a rank. So a condition means the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from rewriter.core.conditions.rule_values import (
    ABSENT,
    LIST_LIMIT,
    UNKNOWN,
    Failure,
    Symbol,
    as_array,
    dtype_of,
    has_unknown,
    is_array,
    of_library,
    truth,
)
from rewriter.core.language.functions import OF_ABSENT, OF_LENGTHS, ExpressionFunction

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


def _range(world: World, *bounds: int) -> list[int]:
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
    "range": _range,
    "rank": _rank,
    "shape": _shape,
}
"""Functions that need no graph."""
