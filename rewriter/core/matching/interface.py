"""Matches of `match graph`, which has no root: its items are the model's inputs and outputs, each item another tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.rule_values import UNKNOWN, Symbol
from rewriter.core.language import ast
from rewriter.core.language.dtypes import DTYPES


def interface_matches(match: ast.Match, context: Context, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Bindings of the items, in the order of the interface; one empty binding for a block without items."""
    graph = context.index.graph
    waiting: list[tuple[int, dict[str, Any], frozenset[int]]] = [(0, {}, frozenset())]
    while waiting:
        number, bound, taken = waiting.pop()
        if number == len(match.items):
            yield bound
            continue
        item = match.items[number]
        fitting = []
        for tensor in graph.inputs if item.side == "input" else graph.outputs:
            more = None if id(tensor) in taken else _fits(item, tensor, context, {**given, **bound})
            if more is not None:
                fitting.append((number + 1, {**bound, **more, item.name: tensor}, taken | {id(tensor)}))
        waiting.extend(reversed(fitting))


def _fits(item: ast.GraphItem, tensor: gs.Tensor, context: Context, bound: Mapping[str, Any]) -> dict[str, Any] | None:
    """Dims that the item's type binds, or None where the declared type does not fit."""
    pattern = item.type
    if pattern is None:
        return {}
    dtype, shape = context.declared(tensor)
    if pattern.dtype is not None and dtype != DTYPES[pattern.dtype]:
        return None
    if pattern.dims is None:
        return {}
    return None if shape is UNKNOWN else _dims(list(pattern.dims), shape, bound)


def _dims(wanted: list[Any], shape: list[Any], bound: Mapping[str, Any]) -> dict[str, Any] | None:
    if Ellipsis in wanted:
        at = wanted.index(Ellipsis)
        after = len(wanted) - at - 1
        if len(shape) < at + after:
            return None
        wanted, shape = wanted[:at] + wanted[at + 1 :], shape[:at] + shape[len(shape) - after :]
    if len(wanted) != len(shape):
        return None
    found: dict[str, Any] = {}
    for want, dim in zip(wanted, shape, strict=True):
        if want is None:
            continue
        known = want if isinstance(want, int) else {**bound, **found}.get(want)
        if known is None:
            found[want] = dim
        elif dim is UNKNOWN or isinstance(dim, Symbol) != isinstance(known, str) or dim != known:
            return None
    return found
