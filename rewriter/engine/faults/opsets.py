"""Nodes that the imported opset does not have yet: operators, or element types of operators, that came later.

Such a model says an older opset than it was written for. It is raised to the first opset that has all of these nodes, and only
when no other node means something else there.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

import onnx
import onnx_graphsurgeon as gs

from rewriter.engine.context import Context
from rewriter.engine.faults.names import node_label
from rewriter.engine.rewriting.opsets import set_opset
from rewriter.graph.index import GraphIndex, operator_key
from rewriter.graph.values import elem_type
from rewriter.language import schema
from rewriter.language.dtypes import DTYPES
from rewriter.language.meaning import fits, keeps_meaning, takes

if TYPE_CHECKING:
    from rewriter.engine.rewriting.transaction import Rewriting

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
    return [node_label(node) for node, _ in _early(context)]


def raise_opset(rewriting: Rewriting) -> None:
    """Raises Refused where that would change what the model computes, or where nobody can tell."""
    from rewriter.engine.rewriting.transaction import Refused  # which itself needs what finds faults

    index = rewriting.index
    version = max(first for _, first in _early(rewriting.context))
    why = obstacle(rewriting.context, "", version)
    if why:
        raise Refused(why)
    set_opset(index, rewriting.edits, index.scopes[0], "", version)


def obstacle(context: Context, domain: str, version: int) -> str:
    """What speaks against importing another version of a domain for the model as it stands; "" when nothing does."""
    index = context.index
    was = index.scopes[0].opsets.get(domain, version)
    if index.graph.functions:
        return "the functions of the model are written for its opset"
    for scope in index.scopes:
        for node in index.nodes_of(scope) if was != version else ():
            if operator_key(node)[0] == domain and _changes(context, node, domain, was, version):
                what = f"{domain or 'opset'} {was} to {version}"
                return f"from {what}, {node.op} {node_label(node)!r} would mean something else"
    return ""


def _changes(context: Context, node: gs.Node, domain: str, was: int, version: int) -> bool:
    """Whether a node that the model's version has would be another one, or none, in the other version."""
    if schema.schema(node.op, domain, was) is None:
        return False
    kept = keeps_meaning(node.op, domain, node.attrs.keys(), given(node.inputs), given(node.outputs), was, version)
    return not kept or (bool(schema.history(node.op, domain)) and not takes_types(context, node, domain, version))


def takes_types(
    context: Context, node: gs.Node, domain: str, version: int, among: Container[int] = frozenset(DTYPES.values())
) -> bool:
    """Whether a version has the operator for those element types of this node that are known and among the given ones."""
    return all(
        dtype not in among or takes(node.op, domain, version, made, position, dtype)
        for made, tensors in ((False, node.inputs), (True, node.outputs))
        for position, tensor in enumerate(tensors)
        if tensor.name and (dtype := context.facts.dtype(tensor)) is not None
    )


def given(tensors: list[gs.Tensor]) -> int:
    return max((position for position, tensor in enumerate(tensors, 1) if tensor.name), default=0)


def _early(context: Context) -> Iterator[tuple[gs.Node, int]]:
    """Nodes of ONNX's own operators that the model's opset lacks, each with the first opset that has it."""
    index = context.index
    now = index.scopes[0].opsets.get("")
    if now is None:
        return
    late = _has_late_types(context)
    if not late and all(domain or schema.schema(op, "", now) for domain, op in index.kinds.keys):
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
    if any(node.attrs.get("to") in _LATE for key in index.kinds.keys if key[1] == "Cast" for node in index.kinds.of(key)):
        return True
    context.absent["late types"] = index.novelty
    return False


def _typed(index: GraphIndex) -> Iterator[gs.Tensor]:
    """Tensors that say their element type themselves."""
    yield from index.kinds.constants(index.novelty)
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
