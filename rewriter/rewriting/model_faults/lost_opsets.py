"""A model that imports no version of ONNX's own operators, though its format has imports: the version that is meant is lost.

It can be told where it cannot matter: the versions that have all nodes, with their attributes, operands and element types, and
that were there when the model's format was, all mean the same by every node.
"""

from __future__ import annotations

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.conditions.old_kernels import SETTLED
from rewriter.conditions.other_opsets import given, takes_types
from rewriter.graph.imports import newest_import
from rewriter.graph.index import operator_key
from rewriter.graph.node_text import node_name
from rewriter.language import schema
from rewriter.language.meaning import fits, keeps_meaning
from rewriter.rewriting.model_faults.old_opsets import IMPORTS
from rewriter.rewriting.opset_edits import set_opset
from rewriter.rewriting.transaction import Refused, Rewriting


def lost_opset(context: Context) -> list[str]:
    """The nodes of which nobody knows the version."""
    graph = context.index.graph
    if graph.import_domains or _format(context) < IMPORTS:
        return []
    return [node_name(node) for node in _nodes(context)]


def import_opset(rewriting: Rewriting) -> None:
    """Raises Refused where versions that fit differ in what a node means, or where none fits."""
    context, index = rewriting.context, rewriting.index
    if index.graph.functions:
        raise Refused("the functions of the model are written for its opset")
    nodes = _nodes(context)
    versions = [v for v in range(SETTLED, newest_import("", _format(context)) + 1) if all(_has(context, n, v) for n in nodes)]
    if not versions:
        raise Refused("no opset of its time has all of its nodes")
    low, high = versions[0], versions[-1]
    for node in nodes:
        if not keeps_meaning(node.op, "", node.attrs.keys(), given(node.inputs), given(node.outputs), low, high):
            raise Refused(
                f"{node.op} {node_name(node)!r} has another meaning at opset {low} than at {high}; both have all nodes"
            )
    set_opset(index, rewriting.edits, index.scopes[0], "", high)


def _format(context: Context) -> int:
    return int(getattr(context.index.graph, "ir_version", None) or 0)


def _nodes(context: Context) -> list[gs.Node]:
    """The nodes of ONNX's own operators, those aside that ONNX never had."""
    index = context.index
    nodes = (node for scope in index.scopes if not scope.is_function for node in index.nodes_of(scope))
    return [node for node in nodes if not operator_key(node)[0] and schema.history(node.op, "")]


def _has(context: Context, node: gs.Node, version: int) -> bool:
    fitting = fits(node.op, "", version, node.attrs.keys(), given(node.inputs), given(node.outputs))
    return fitting and takes_types(context, node, "", version)
