"""Faults of repetition: nodes that compute the same thing, and initializers that hold the same bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from hashlib import sha256
from typing import Any

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import Graph
from rewriter.core.graph.values import constant_array
from rewriter.core.language.operator_traits import BODIES, MAY_DRAW
from rewriter.core.onnxfile.tensors import count, numpy_dtype
from rewriter.core.rewriting.transaction import Rewriting

# Initializers that hold the same bytes as another one, as exporters leave them that copy a weight for each use.

LEAST = 256
"""Bytes of an initializer that is worth being shared; shapes and scalars may keep a name of their own."""


def copied_initializers(context: Context) -> Iterator[tuple[gs.Tensor, gs.Tensor]]:
    """Each copy with the first of its kind. Weights are read only if another one has the same type and shape."""
    facts = context.facts
    for group in _alike(context.index, facts):
        first: dict[bytes, gs.Tensor] = {}
        for tensor in group:
            array = facts.constant(tensor)
            if array is None or array.dtype.hasobject:
                continue
            digest = sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).digest()
            kept = first.setdefault(digest, tensor)
            if kept is not tensor:
                yield tensor, kept


def share_initializers(rewriting: Rewriting) -> None:
    for copy, first in list(copied_initializers(rewriting.context)):
        rewriting.edits.replace_uses(copy, first)


def _alike(index: GraphIndex, facts: Facts) -> list[list[gs.Tensor]]:
    """Used constants of the main graph by element type and shape, if there are at least two."""
    if not isinstance(index.graph, Graph):
        return []
    found: dict[object, list[gs.Tensor]] = defaultdict(list)
    for tensor in _initializers(index, index.graph):
        dtype, shape = facts.declared(tensor)
        known, elements = numpy_dtype(dtype or 0), count(shape)
        size = 0 if known is None or elements is None else elements * known.itemsize
        callers = getattr(tensor, "listed", False) or index.output_of(tensor)
        if facts.is_constant(tensor) and size >= LEAST and not callers and index.uses(tensor):
            found[dtype, shape].append(tensor)
    return [group for group in found.values() if len(group) > 1]


def _initializers(index: GraphIndex, graph: Graph) -> Iterable[gs.Tensor]:
    """Those that were read, and after them the constants that rules have made since, which are written as initializers."""
    constants = (tensor for node in index.members(index.scopes[0]) for tensor in node.inputs if isinstance(tensor, gs.Constant))
    return {id(tensor): tensor for tensor in (*graph.initializers, *constants)}.values()


SMALL = 1024
"""Bytes of a constant whose contents are compared; larger constants are the same only if they are one tensor."""

DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
"""In other domains, it is unknown whether a node computes the same twice."""

_NEVER = BODIES | MAY_DRAW | {"Constant", "SequenceMap"}
"""Operators that may compute a different result each time, or hold graphs; and Constant, which computes nothing."""


def equal_nodes(context: Context) -> Iterator[tuple[gs.Node, gs.Node]]:
    """Each copy with the first of its kind, in an order in which the operands of a copy are compared before the copy."""
    index, facts = context.index, context.facts
    same: dict[int, gs.Tensor] = {}
    functions = {(f.domain or "", f.name) for f in getattr(index.graph, "functions", ())}
    for scope in index.scopes:
        first: dict[Hashable, gs.Node] = {}
        for node in sorted(index.members(scope), key=index.position):
            key = None if (node.domain or "", node.op) in functions else _key(node, facts, same)
            if key is None:
                continue
            kept = first.setdefault(key, node)
            if kept is node or not _replaceable(node, kept, index):
                continue
            same.update((id(old), new) for old, new in zip(node.outputs, kept.outputs, strict=True) if old.name)
            yield node, kept


def merge_equal_nodes(rewriting: Rewriting) -> None:
    """The readers of each copy read the first node instead, and the copy goes."""
    for copy, first in list(equal_nodes(rewriting.context)):
        for old, new in zip(copy.outputs, first.outputs, strict=True):
            if old.name:
                rewriting.edits.replace_uses(old, new)
        rewriting.edits.remove(copy)


def _replaceable(copy: gs.Node, first: gs.Node, index: GraphIndex) -> bool:
    """Whether the outputs of the first can replace the outputs of the copy, none of which may be an output of its graph."""
    if len(copy.outputs) != len(first.outputs) or any(index.output_of(tensor) for tensor in copy.outputs):
        return False
    pairs = zip(copy.outputs, first.outputs, strict=True)
    return all(not old.name or (new.name and index.producer(new) is first) for old, new in pairs)


def _key(node: gs.Node, facts: Facts, same: dict[int, gs.Tensor]) -> Hashable:
    """Equal for nodes that compute the same; None for a node that must stay as it is."""
    if (node.domain or "") not in DOMAINS or node.op in _NEVER or not node.outputs:
        return None
    attributes = [(name, _attribute(value)) for name, value in sorted(node.attrs.items())]
    if any(value is None for _, value in attributes):
        return None
    operands = [_operand(tensor, facts, same) for tensor in node.inputs]
    while operands and operands[-1] is None:  # an absent operand at the end may be written or not
        operands.pop()
    return node.domain or "", node.op, tuple(attributes), tuple(operands)


def _attribute(value: Any) -> Hashable:
    """Equal for equal values; None for graphs, large tensors and all other values that are not compared."""
    if isinstance(value, list | tuple):
        items = tuple(map(_attribute, value))
        return None if None in items else ("list", items)
    if isinstance(value, gs.Constant):
        try:
            return _contents(constant_array(value))
        except RewriterError:
            return None
    if isinstance(value, int | float | str | bytes):
        return type(value).__name__, repr(value)
    return None


def _operand(tensor: gs.Tensor, facts: Facts, same: dict[int, gs.Tensor]) -> Hashable:
    """A tensor itself, or the contents of a small constant."""
    if not tensor.name:
        return None
    tensor = same.get(id(tensor), tensor)
    size = count(facts.shape(tensor)) if facts.is_constant(tensor) else None
    if size is not None and size <= SMALL:
        constant = facts.constant(tensor)
        return (None if constant is None else _contents(constant)) or id(tensor)
    return id(tensor)


def _contents(array: np.ndarray[Any, Any]) -> Hashable:
    if array.dtype.hasobject or array.nbytes > SMALL:
        return None
    return str(array.dtype), array.shape, array.tobytes()
