"""Nodes that the imported opset does not have yet: operators, or element types of operators, that came later.

Such a model says an older opset than it was written for. It is raised to the first opset that has all of these nodes, and only
when no other node means something else there.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.conditions.other_opsets import given, obstacle, takes_types
from rewriter.graph.index import GraphIndex, operator_key
from rewriter.graph.node_text import node_name
from rewriter.graph.values import elem_type
from rewriter.language import schema
from rewriter.language.meaning import fits
from rewriter.rewriting.opset_edits import set_opset
from rewriter.rewriting.transaction import Refused, Rewriting

_LATE = frozenset(
    getattr(onnx.TensorProto, name)
    for name in (
        "BFLOAT16", "FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4", "INT4", "FLOAT4E2M1",
        "FLOAT8E8M0", "UINT2", "INT2",
    )
    if hasattr(onnx.TensorProto, name)
)  # fmt: skip
"""Element types that the operators were given one after the other; the others they have had from the beginning."""


def early_nodes(context: Context) -> list[str]:
    return [node_name(node) for node, _ in _early(context)]


def raise_opset(rewriting: Rewriting) -> None:
    """Raises Refused where that would change what the model computes, or where nobody can tell."""
    index = rewriting.index
    version = max(first for _, first in _early(rewriting.context))
    why = obstacle(rewriting.context, "", version)
    if why:
        raise Refused(why)
    set_opset(index, rewriting.edits, index.scopes[0], "", version)


def _early(context: Context) -> Iterator[tuple[gs.Node, int]]:
    """Nodes of ONNX's own operators that the model's opset lacks, each with the first opset that has it."""
    index = context.index
    now = index.scopes[0].opsets.get("")
    if now is None:
        return
    late = _has_late_types(context)
    if not late and all(domain or schema.schema(op, "", now) for domain, op in index.by_operator.keys):
        return
    for scope in index.scopes:
        if scope.is_function:
            continue
        for node in index.nodes_of(scope):
            domain, op = operator_key(node)
            found = None if domain else schema.schema(op, "", now)
            if domain or (found and (found.deprecated or not late or takes_types(context, node, "", now, _LATE))):
                continue  # a deprecated operator is one that this opset has: a later one of its name means something else
            first = _first(context, node, now)
            if first is not None and first > now:
                yield node, first


def _has_late_types(context: Context) -> bool:
    """Whether such an element type stands anywhere; asked again only after something new came."""
    index = context.index
    if context.absent.get("late types") == index.novelty:
        return False
    if any(elem_type(tensor) in _LATE for tensor in _typed(index)):
        return True
    casts = (node for key in index.by_operator.keys if key[1] == "Cast" for node in index.by_operator.of(key))
    if any(node.attrs.get("to") in _LATE for node in casts):
        return True
    context.absent["late types"] = index.novelty
    return False


def _typed(index: GraphIndex) -> Iterator[gs.Tensor]:
    """Tensors that say their element type themselves."""
    yield from index.by_operator.constants(index.novelty)
    for scope in index.scopes:
        yield from scope.graph.inputs
        yield from scope.graph.outputs


def _first(context: Context, node: gs.Node, now: int) -> int | None:
    """The first opset from the model's on that has the operator with the element types it is used with; None without one."""
    versions = [max(since, now) for since in schema.versions(node.op) if since > now or schema.exists(node.op, "", now)]
    for version in dict.fromkeys(versions):
        fitting = fits(node.op, "", version, node.attrs.keys(), given(node.inputs), given(node.outputs))
        if fitting and takes_types(context, node, "", version):
            return version
    return None
