"""Nodes that stand before what they need. The order in which they can run is known since the model was indexed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rewriter.engine.context import Context
from rewriter.engine.faults.names import node_label

if TYPE_CHECKING:
    from rewriter.engine.rewriting.transaction import Rewriting


def unsorted_nodes(context: Context) -> list[str]:
    index = context.index
    return [node_label(node) for scope in index.scopes for node in index.misplaced(scope)]


def sort_nodes(rewriting: Rewriting) -> None:
    index = rewriting.index
    for scope in index.scopes:
        for node in index.misplaced(scope):
            rewriting.edits.declare("order", node_label(node), None, f"{node_label(node)} behind what it reads")
        if index.misplaced(scope):
            rewriting.edits.reorder(scope)
