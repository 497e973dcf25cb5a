"""The questions that a pattern asks, and its choices, as closures over numbered registers: the parts of programs.

The pattern is evaluated when a question is made. Facts are read through the context, which notes them, so that a root is tried
again when a fact changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import permutations
from operator import is_
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.recorded_graph import effective, label
from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, Symbol, compare
from rewriter.core.graph.objects import OpKey, operator_key
from rewriter.core.graph.values import used_count
from rewriter.core.language import schema
from rewriter.core.language.pattern import ANY_OPERATOR, ORDERED_ABOVE, PatternNode, is_run

ATTEMPTS = 4096
"""Ways of choices, and looks at operands between runs, at one root: no pattern can take a graph hostage."""

Registers = list[Any]
Question = Callable[[Registers, Context], "str | None"]
"""None, or the reason why it fails."""
Ways = Callable[[Registers, Context], Iterable[Any]]
Put = Callable[[Registers, Context, Any], bool]
"""Binds a name to a value, or returns whether the name has that value."""
Value = Callable[[Registers, Context], Any]
Typed = Callable[[Registers, Context, gs.Tensor], "str | None"]
Wanted = tuple[bool, "frozenset[OpKey] | None"]
"""Of an operand whether it may be left out, and which operators may make it."""


class TooManyAttempts(Exception):
    """The choices of a pattern at one root exceed `ATTEMPTS`."""


# --- names -----------------------------------------------------------------------------------------------------------------


def store(register: int) -> Put:
    """The first use of a name."""

    def put(r: Registers, context: Context, value: Any) -> bool:
        r[register] = value
        return True

    return put


def compare_with(register: int) -> Put:
    """A later use."""
    return lambda r, context, value: r[register] is value or is_same(context, r[register], value)


def store_or_compare(register: int) -> Put:
    """A use that is the first one if an optional operand was left out before."""

    def put(r: Registers, context: Context, value: Any) -> bool:
        if r[register] is None:
            r[register] = value
            return True
        return r[register] is value or is_same(context, r[register], value)

    return put


def is_same(context: Context, one: Any, other: Any) -> bool:
    """Whether a name may stand for both: one tensor, equal constants, equal values."""
    if one is other:
        return True
    if isinstance(one, gs.Tensor) and isinstance(other, gs.Tensor):
        if not (context.is_constant(one) and context.is_constant(other)):
            return False
        a, b = context.array(one), context.array(other)
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(one, gs.Tensor) or isinstance(other, gs.Tensor):
        return False
    return _is_true(compare("==", one, other))


def _is_true(answer: Any) -> bool:
    if isinstance(answer, np.ndarray):
        return bool(answer.all())
    if isinstance(answer, list):
        return all(item is True for item in answer)
    return answer is True


def always(value: Any) -> Value:
    """A value that is known beforehand."""
    return lambda r, context: value


def once(value: Value) -> Value:
    """A value that does not depend on the match, computed when it is first needed."""
    found: list[Any] = []

    def get(r: Registers, context: Context) -> Any:
        if not found:
            found.append(value(r, context))
        return found[0]

    return get


# --- nodes -----------------------------------------------------------------------------------------------------------------


def fits(
    number: int, node: PatternNode, rivals: Collection[int], root: int | None, listed: int, *, asks_operator: bool
) -> Question:
    """Whether a node by itself can be the pattern's; its operands are listed in a register.

    Args:
        rivals: nodes of the pattern that could be the same one.
        root: the root's register; None for the root itself, which was found by its operator.
        asks_operator: the node was found without a look at its operator.
    """
    ops, least, most = node.ops, node.fixed, node.most

    def by_itself(r: Registers, context: Context) -> str | None:
        operands = r[listed] = r[number].inputs
        count = len(operands)
        if count < least or (most is not None and count > most and used_count(operands) > most):
            return "operands"
        return None

    if root is None:
        return by_itself

    def among_others(r: Registers, context: Context) -> str | None:
        found = r[number]
        if asks_operator and operator_key(found) not in ops:
            return "operator"
        for other in rivals:
            if r[other] is found:
                return "distinct"
        if found._scope is not r[root]._scope:
            return "scope"
        operands = r[listed] = found.inputs
        count = len(operands)
        if count < least or (most is not None and count > most and used_count(operands) > most):
            return "operands"
        return None

    return among_others


def is_named(number: int, put: Put) -> Question:
    """Whether a node is the value of its label."""
    return lambda r, context: None if put(r, context, r[number]) else "same"


def is_same_node(register: int, number: int) -> Question:
    """Whether a maker is a node that was matched before."""
    return lambda r, context: None if r[register] is r[number] else "same node"


def outputs(number: int, puts: Sequence[tuple[bool, Put | None]], width: int, *, more: bool) -> Question:
    """Whether a node makes the outputs that a pattern lists, each (variadic, what binds it), and no other one is used."""

    def question(r: Registers, context: Context) -> str | None:
        made = r[number].outputs
        for position, (variadic, put) in enumerate(puts):
            if variadic:
                return None if put is None or put(r, context, list(made[position:])) else "same"
            if position >= len(made) or not made[position].name:
                return "outputs"
            if put is not None and not put(r, context, made[position]):
                return "same"
        for tensor in () if more else made[width:]:
            context.count(tensor, 0)
            if context.index.is_used(tensor):
                return "unused output"
        return None

    return question


def only_output(number: int, register: int, several: Question) -> Question:
    """The same for one new name, and mostly one output."""

    def question(r: Registers, context: Context) -> str | None:
        made = r[number].outputs
        if len(made) != 1:
            return several(r, context)
        tensor = r[register] = made[0]
        return None if tensor.name else "outputs"

    return question


def is_written(number: int, name: str, *, is_written: bool) -> Question:
    """Whether an attribute is written, or is not."""
    return lambda r, context: None if (name in r[number].attrs) is is_written else "attribute"


def binds(number: int, name: str, put: Put) -> Question:
    """Whether an attribute has a value that a name may stand for."""

    def question(r: Registers, context: Context) -> str | None:
        found = effective(context, r[number], name)
        return "attribute" if found is UNKNOWN or found is ABSENT or not put(r, context, found) else None

    return question


def equals(number: int, name: str, plain: Any, value: Value) -> Question:
    """Whether an attribute has a value; `plain` is the same as a plain number, text or list, None for no such."""
    kind = type(plain) if type(plain) in (int, str, list) else None

    def question(r: Registers, context: Context) -> str | None:
        node = r[number]
        if kind is not None:
            written = node.attrs.get(name)
            if type(written) is kind:
                return None if written == plain else "attribute"
        found = effective(context, node, name)
        wanted = value(r, context)
        if found is ABSENT or found is UNKNOWN or wanted is UNKNOWN:
            return "attribute"
        if isinstance(found, float) and isinstance(wanted, float | int):
            return None if np.float32(found) == np.float32(wanted) else "attribute"
        return None if _is_true(compare("==", found, wanted)) else "attribute"

    return question


# --- operands --------------------------------------------------------------------------------------------------------------


def all_there(listed: int, wanted: Sequence[Wanted]) -> Question:
    """A cheap look at all operands before any of them is followed: whether they are there, and made by the right operators."""

    def question(r: Registers, context: Context) -> str | None:
        operands = r[listed]
        count = len(operands)
        for position, (optional, ops) in enumerate(wanted):
            if position >= count or not operands[position].name:
                if not optional:
                    return "operand"
            elif ops is not None:
                maker = context.producer(operands[position])
                if maker is None or operator_key(maker) not in ops:
                    return "operand"
        return None

    return question


def store_all(listed: int, registers: Sequence[int]) -> Question:
    """Binds all operands; whether they are there is the only question."""

    def question(r: Registers, context: Context) -> str | None:
        for register, tensor in zip(registers, r[listed], strict=False):
            if not tensor.name:
                return "operand"
            r[register] = tensor
        return None

    return question


def store_one(listed: int, position: int, register: int) -> Question:
    """Binds an operand that is present."""

    def question(r: Registers, context: Context) -> str | None:
        r[register] = r[listed][position]
        return None

    return question


def plain(listed: int, position: int, put: Put) -> Question:
    """Whether an operand that is surely present is the value of its name."""
    return lambda r, context: None if put(r, context, r[listed][position]) else "same"


def capture(
    listed: int, position: int, put: Put, typed: Typed | None, fresh: Sequence[int], *, const: bool, optional: bool
) -> Question:
    """Whether an operand is the value of its name, a constant, of a type. Its dimensions go into `fresh`."""

    def question(r: Registers, context: Context) -> str | None:
        operands = r[listed]
        tensor = operands[position] if position < len(operands) else None
        if tensor is None or not tensor.name:
            for register in fresh:
                r[register] = None
            return None if optional and put(r, context, ABSENT) else "operand"
        if const and not context.is_constant(tensor):
            return "constant"
        if not put(r, context, tensor):
            return "same"
        return None if typed is None else typed(r, context, tensor)

    return question


def typed(dtype: int | None, dims: Sequence[Put | int | None] | None, gap: int | None) -> Typed:
    """Whether a tensor has an element type and dimensions. The gap matches any number of dimensions."""

    def question(r: Registers, context: Context, tensor: gs.Tensor) -> str | None:
        if dtype is not None:
            found = context.dtype(tensor)
            if found is UNKNOWN or found != dtype:
                return "type"
        if dims is None:
            return None
        shape = context.shape(tensor)
        if shape is UNKNOWN:
            return "rank"
        if gap is not None:
            if len(shape) < len(dims):
                return "rank"
            shape = [*shape[:gap], *shape[len(shape) - len(dims) + gap :]]
        elif len(shape) != len(dims):
            return "rank"
        for wanted, dim in zip(dims, shape, strict=True):
            if wanted is None:
                continue
            is_known = dim is not UNKNOWN and not isinstance(dim, Symbol)
            if isinstance(wanted, int):
                if not is_known:
                    context.doubt(f"a dimension of {label(tensor)} is unknown")
                if not is_known or dim != wanted:
                    return "dimension"
            elif not wanted(r, context, dim):
                return "dimension" if is_known else "unknown dimension"
        return None

    return question


def constant(listed: int, position: int, dtype: int | None, value: Value) -> Question:
    """Whether an operand is a constant of this value."""

    def question(r: Registers, context: Context) -> str | None:
        tensor = r[listed][position]
        if not context.is_constant(tensor):
            return "constant"
        if dtype is not None and context.dtype(tensor) != dtype:
            return "type"
        wanted = value(r, context)
        shape = context.shape(tensor)
        if shape is not UNKNOWN and np.size(wanted) != 1 and list(np.shape(wanted)) != shape:
            return "value"
        found = context.array(tensor)
        return None if found.size == np.size(wanted) and _is_true(compare("==", found, wanted)) else "value"

    return question


def run(listed: int, position: int, put: Put, *, to_end: bool) -> Question:
    """Binds a run of operands, or compares it."""

    def question(r: Registers, context: Context) -> str | None:
        tensors = list(r[listed][position:]) if to_end else r[listed][position]
        return None if put(r, context, tensors) else "same"

    return question


def maker(listed: int, position: int, output: int, register: int) -> Question:
    """Whether an operand is the right output of its maker, which goes into a register."""

    def question(r: Registers, context: Context) -> str | None:
        tensor = r[listed][position]
        found = r[register] = context.producer(tensor)
        if found is None or output >= len(found.outputs) or found.outputs[output] is not tensor:
            return "made by"
        return None

    return question


def maker_of_run(listed: int, position: int, register: int, *, to_end: bool) -> Question:
    """Whether a run of operands is all outputs of one node, in their order."""

    def question(r: Registers, context: Context) -> str | None:
        tensors = r[listed][position:] if to_end else r[listed][position]
        found = r[register] = context.producer(tensors[0]) if tensors else None
        if found is None or len(found.outputs) != len(tensors) or not all(map(is_, found.outputs, tensors)):
            return "run"
        return None

    return question


# --- choices ---------------------------------------------------------------------------------------------------------------


def is_free(node: PatternNode) -> bool:
    """Whether a node of the pattern may read its operands in several orders."""
    if not node.orders or node.source.ordered or (len(node.inputs) < 2 and node.most is not None):
        return False
    return node.ops is ANY_OPERATOR or any(schema.is_commutative(op, domain) for domain, op in node.ops)


def orders(number: int, node: PatternNode) -> Ways:
    """The orders of a node's operands that differ."""
    always_free = node.ops is not ANY_OPERATOR and all(schema.is_commutative(op, domain) for domain, op in node.ops)

    def ways(r: Registers, context: Context) -> Iterable[Sequence[gs.Tensor]]:
        found = r[number]
        operands = found.inputs
        count = len(operands)
        if not 1 < count <= ORDERED_ABOVE or not (always_free or schema.is_commutative(found.op, found.domain or "")):
            return (operands,)
        if count == 2:
            one, other = operands
            return (operands,) if one is other else (operands, (other, one))
        return {tuple(map(id, order)): order for order in permutations(operands)}.values()

    return ways


def shares(number: int, node: PatternNode, wanted: Sequence[Wanted]) -> Ways:
    """The ways to share out a node's operands among runs and the operands between them; short first runs come first."""
    inputs, more = node.inputs, node.source.more_inputs
    last = len(inputs) - 1

    def ways(r: Registers, context: Context) -> Iterator[list[Any]]:
        operands = list(r[number].inputs[: used_count(r[number].inputs)])
        count = len(operands)

        def can_be(at: int, tensor: gs.Tensor) -> bool:
            optional, ops = wanted[at]
            maker = None if ops is None or not tensor.name else context.producer(tensor)
            if not (tensor.name or optional) or (ops is not None and (maker is None or operator_key(maker) not in ops)):
                return False
            r[-1] -= 1
            if r[-1] < 0:
                raise TooManyAttempts
            return True

        def ways_from(at: int, position: int) -> Iterator[list[Any]]:
            if at > last:
                if position == count or more:
                    yield []
            elif is_run(inputs[at]):
                for end in range(count if at == last and not more else position, count + 1):
                    for rest in ways_from(at + 1, end):
                        yield [operands[position:end], *rest]
            elif position < count and can_be(at, operands[position]):
                for rest in ways_from(at + 1, position + 1):
                    yield [operands[position], *rest]

        return ways_from(0, 0)

    return ways


def readers(register: int, ops: frozenset[OpKey]) -> Ways:
    """The readers of a tensor that have one of some operators."""

    def ways(r: Registers, context: Context) -> Iterable[gs.Node]:
        tensor = r[register]
        if not isinstance(tensor, gs.Tensor):
            return ()
        context.count(tensor)
        return context.index.users_with(tensor, ops)

    return ways
