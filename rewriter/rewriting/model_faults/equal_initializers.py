"""Initializers that hold the same bytes as another one, as exporters leave them that copy a weight for each use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from hashlib import sha256

import numpy as np
import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.facts.facts import Facts
from rewriter.graph.index import GraphIndex
from rewriter.graph.objects import Graph
from rewriter.onnxfile.tensor_types import count, numpy_dtype
from rewriter.rewriting.transaction import Rewriting

LEAST = 256
"""Bytes of an initializer that is worth being shared; shapes and scalars may keep a name of their own."""

Pair = tuple[gs.Tensor, gs.Tensor]


def copied_initializers(context: Context) -> list[str]:
    return [copy.name for copy, _ in _copies(context.index, context.facts)]


def share_initializers(rewriting: Rewriting) -> None:
    for copy, first in list(_copies(rewriting.index, rewriting.context.facts)):
        rewriting.edits.replace_uses(copy, first)


def _copies(index: GraphIndex, facts: Facts) -> Iterator[Pair]:
    """Each copy with the first of its kind. Weights are read only where another one has the same type and shape."""
    for group in _alike(index, facts):
        first: dict[bytes, gs.Tensor] = {}
        for tensor in group:
            array = facts.constant(tensor)
            if array is None or array.dtype.hasobject:
                continue
            digest = sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).digest()
            kept = first.setdefault(digest, tensor)
            if kept is not tensor:
                yield tensor, kept


def _alike(index: GraphIndex, facts: Facts) -> list[list[gs.Tensor]]:
    """Used constants of the main graph by element type and shape, where there are two at least."""
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
    made = (tensor for node in index.members(index.scopes[0]) for tensor in node.inputs if isinstance(tensor, gs.Constant))
    return {id(tensor): tensor for tensor in (*graph.initializers, *made)}.values()
