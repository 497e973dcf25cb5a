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

from rewriter.engine.context import Context
from rewriter.engine.expressions import (
    array_functions,
    contents_functions,
    einsum,
    fact_functions,
    list_functions,
    source_functions,
)
from rewriter.engine.expressions.values import ABSENT, UNKNOWN, Failure, Symbol
from rewriter.language.functions import FUNCTIONS as DECLARED
from rewriter.language.functions import Function

Implementation = Callable[..., Any]

_LENIENT = frozenset({"known", "known_but_one", "maybe", "default", "present"})
"""Functions that look at unknown or absent arguments themselves."""


def _prepare(function: Function, context: Context, values: tuple[Any, ...]) -> list[Any] | None:
    """The arguments as their declared types want them; None when one of them is unknown."""
    prepared: list[Any] = []
    for position, value in enumerate(values):
        kinds = function.argument(position).split("|")
        if value is UNKNOWN:
            return None
        if value is ABSENT and "any" not in kinds:
            raise Failure(f"argument {position + 1} is an operand or attribute that is not there")
        if isinstance(value, gs.Tensor) and "tensor" not in kinds and "any" not in kinds:
            value = context.array(value)
        if isinstance(value, list) and "list" not in kinds and "array" in kinds:
            if any(item is UNKNOWN or isinstance(item, Symbol) for item in value):
                return None
            value = np.asarray(value)
        prepared.append(value)
    return prepared


def _bind(function: Function, body: Implementation) -> Implementation:
    if function.name in _LENIENT:
        return body

    def call(context: Context, *values: Any) -> Any:
        if len(values) < function.minimum or (function.maximum is not None and len(values) > function.maximum):
            raise Failure(f"{function.signature} takes other arguments")
        prepared = _prepare(function, context, values)
        return UNKNOWN if prepared is None else body(context, *prepared)

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
