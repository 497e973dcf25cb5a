"""Whether rewriting goes round in a circle: what firings change, as numbers whose sum is 0 where nothing was changed in all.

Most runs have nothing to do with circles, and hashing every node that is touched takes longer than rewriting it. So numbers are
worked out only once a firing is suspicious; those of the firings before it follow from what their edits kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_graphsurgeon as gs

from rewriter.graph.edits import Edits
from rewriter.graph.node_state import NodeState
from rewriter.graph.signature import signature


def deltas(done: Sequence[Edits]) -> list[int]:
    """By how much each transaction changed the sum of the signatures of all nodes; the graph is as the last one left it."""
    after: dict[int, int] = {}  # signatures that nodes had after the transaction looked at, of those touched later
    found = []
    for edits in reversed(done):
        delta = 0
        for number, node in (*edits.added.items(), *_kept(edits)):
            known = after.get(number)
            delta += signature(node) if known is None else known
        for number in edits.added:
            after.pop(number, None)
        for number, state in edits.before.items():
            after[number] = signature(state)
            delta -= after[number]
        found.append(delta)
    return found[::-1]


def changes_nothing(edits: Edits) -> bool:
    """Whether a transaction that touched nodes left them, or others in their places, as they were."""
    if len(edits.added) != len(edits.removed) or not edits.touched or edits.retyped:
        return False
    now = [*edits.added.values(), *(node for _, node in _kept(edits))]
    if sorted(map(_kind, edits.before.values())) != sorted(map(_kind, now)):
        return False
    return deltas([edits]) == [0]


def _kept(edits: Edits) -> list[tuple[int, gs.Node]]:
    """The nodes that were edited and are still there."""
    return [(n, node) for n, node in edits.edited.items() if n in edits.before and n not in edits.removed]


def _kind(node: gs.Node | NodeState) -> tuple[str, str, int, int]:
    return node.op, node.domain or "", len(node.inputs), len(node.outputs)
