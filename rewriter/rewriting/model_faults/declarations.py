"""Declared types and shapes that contradict what the nodes give.

Inner tensors lose nothing by being declared as they are. The declarations of outputs belong to what callers see; they may also
call a dimension otherwise than the input that it comes from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.facts.refresh import refresh
from rewriter.onnxfile.tensor_types import Dim
from rewriter.onnxfile.tensors import gs_dtype
from rewriter.rewriting.stale_types import agrees, declares_inner
from rewriter.rewriting.transaction import Rewriting

Shape = tuple[Dim, ...]


def misdeclared_tensors(context: Context) -> list[str]:
    return [tensor.name for tensor in _inner(context)]


def declare_inner(rewriting: Rewriting) -> None:
    facts = rewriting.context.facts
    for tensor in list(_inner(rewriting.context)):
        dtype, shape = facts.dtype(tensor), facts.shape(tensor)
        rewriting.edits.correct_type(tensor, gs_dtype(dtype) if dtype else None, None if shape is None else list(shape))


def _inner(context: Context) -> Iterator[gs.Tensor]:
    index, facts = context.index, context.facts
    if not declares_inner(index):
        return
    for scope in index.scopes:
        for node in index.nodes_of(scope):
            for tensor in node.outputs:
                dtype, shape = facts.declared(tensor)
                if (dtype is None and shape is None) or index.output_of(tensor):
                    continue
                if not agrees(dtype, shape, facts.dtype(tensor), facts.shape(tensor)):
                    yield tensor


def misdeclared_outputs(context: Context) -> list[str]:
    return [tensor.name for tensor, _ in _outputs(context)]


def declare_outputs(rewriting: Rewriting) -> None:
    for tensor, shape in list(_outputs(rewriting.context)):
        rewriting.edits.correct_type(tensor, tensor.dtype, list(shape))


def _outputs(context: Context) -> Iterator[tuple[gs.Tensor, Shape]]:
    """Outputs of the model with the shape that they should declare; names are only changed to names that others bear."""
    for tensor in context.index.graph.outputs:
        if context.index.producer(tensor) is None or not isinstance(tensor, gs.Variable):
            continue
        declared, found = context.facts.declared(tensor)[1], _without_declaration(context, tensor)
        if declared is None or found is None:
            continue
        if len(declared) != len(found):
            yield tensor, found
            continue
        wanted = tuple(is_now if is_now is not None else was for was, is_now in zip(declared, found, strict=True))
        if wanted != declared:
            yield tensor, wanted


def _without_declaration(context: Context, tensor: gs.Variable) -> Any:
    """The shape of a tensor as its node gives it, whatever it declares itself."""
    dtype, shape = tensor.dtype, tensor.shape
    try:
        tensor.dtype, tensor.shape = None, None
        refresh(context.facts, [tensor])
        return context.facts.shape(tensor)
    finally:
        tensor.dtype, tensor.shape = dtype, shape
        refresh(context.facts, [tensor])
