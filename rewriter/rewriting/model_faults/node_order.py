"""Nodes that stand before what they need. The order in which they can run is known since the model was indexed."""

from __future__ import annotations

from rewriter.conditions.context import Context
from rewriter.graph.node_text import node_name
from rewriter.rewriting.transaction import Rewriting


def unsorted_nodes(context: Context) -> list[str]:
    index = context.index
    return [node_name(node) for scope in index.scopes for node in index.misplaced(scope)]


def sort_nodes(rewriting: Rewriting) -> None:
    index = rewriting.index
    for scope in index.scopes:
        for node in index.misplaced(scope):
            rewriting.edits.declare("order", node_name(node), None, f"{node_name(node)} behind what it reads")
        if index.misplaced(scope):
            rewriting.edits.reorder(scope)
