"""Whether the nodes of a model would mean the same if it imported another version of a domain."""

from __future__ import annotations

from collections.abc import Container

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.graph.index import operator_key
from rewriter.graph.node_text import node_name
from rewriter.language import schema
from rewriter.language.dtypes import DTYPES
from rewriter.language.meaning import keeps_meaning, takes


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
                return f"from {what}, {node.op} {node_name(node)!r} would mean something else"
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
