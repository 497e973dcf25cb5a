"""The functions that expressions may call: the table of `language.functions`, implemented, with unknown and absent handled
alike.

Each implementation is called with the context and its arguments already prepared by their declared type: where an array is
due, a captured constant is read and a list of known numbers becomes one; an unknown argument makes the result unknown without
a call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.conditions import array_functions, contents_functions, einsum, fact_functions, list_functions, source_functions
from rewriter.conditions.context import Context
from rewriter.conditions.rule_values import ABSENT, UNKNOWN, Failure, Symbol, as_array
from rewriter.language.functions import FUNCTIONS as DECLARED
from rewriter.language.functions import OF_ABSENT, ExpressionFunction

Implementation = Callable[..., Any]

_COMPUTING = frozenset({*array_functions.BODIES, *contents_functions.BODIES, *list_functions.BODIES})
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
        **fact_functions.BODIES,
        **contents_functions.BODIES,
        **source_functions.BODIES,
        **list_functions.BODIES,
        **array_functions.BODIES,
        **einsum.BODIES,
    }
    return {name: _bind(function, bodies[name]) for name, function in DECLARED.items()}


FUNCTIONS: Mapping[str, Implementation] = _table()
