"""Which rules a node goes back to: those that made or changed it, and those that had made what it took the place of."""

from __future__ import annotations

from collections.abc import Iterable

from rewriter.graph.edits import Edits
from rewriter.graph.objects import Node


def note_lineage(firings: Iterable[tuple[str, Edits]]) -> None:
    """Writes into `rules` of every node that firings, in their order, made or changed.

    Nodes that are removed again pass theirs on, so that a result of two repairs names both.
    """
    for code, edits in firings:
        if edits.added:
            inherited = [rule for node in edits.removed.values() if isinstance(node, Node) for rule in node.rules]
            for node in edits.added.values():
                if isinstance(node, Node):
                    node.rules = tuple(dict.fromkeys([*inherited, *node.rules, code]))
        alone = (code,)
        for node in edits.edited.values():
            if isinstance(node, Node) and code not in (before := node.rules):
                node.rules = (*before, code) if before else alone
