"""What an audit wants to know of a firing beyond its text: what its conditions saw, which weights it touched, how its
surroundings looked. All of it is found only when an audit is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.conditions.evaluate import Bindings
from rewriter.conditions.rule_text import Text
from rewriter.conditions.witnessed import Witnessed
from rewriter.engine.compile import CompiledRule
from rewriter.engine.take_snapshot import SnapshotTaker
from rewriter.engine.weight_digests import Weights
from rewriter.graph.edits import Edits
from rewriter.graph.node_state import NodeState
from rewriter.graph.node_text import node_text, printable
from rewriter.log.records import Weight
from rewriter.log.snapshot import Snapshot
from rewriter.record import field, record


@record(frozen=True, slots=True)
class FiringAudit:
    """What is wanted besides conditions and weights.

    Attributes:
        snapshots: of the first so many firings of each rule, the surroundings.
        snapshot_of: of the firing of this number, too.
    """

    snapshots: int = 0
    snapshot_of: int = 0


@record(slots=True)
class Noted:
    """What was seen before a rewrite: what each condition found, and the types of tensors when a snapshot is wanted."""

    found: tuple[str, ...]
    types: dict[int, str] = field(default_factory=dict)
    snapshot: bool = False


class Auditor:
    """Looks closely at the firings of one run."""

    def __init__(self, context: Context, audit: FiringAudit) -> None:
        self._audit = audit
        self._context = context
        self._weights = Weights(context.index)
        self._taker = SnapshotTaker(context, self._weights.words)
        self._taken: Counter[str] = Counter()
        self._number = 0

    # --- before the rewrite ------------------------------------------------------------------------------------------------

    def note(self, compiled: CompiledRule, names: Bindings, nodes: Mapping[int, gs.Node]) -> Noted:
        """To be asked when all conditions hold, before anything is edited."""
        text = Text(compiled.rule)
        found = tuple(Witnessed(where.condition, names, self._context, text).found() for where in compiled.rule.ast.wheres)
        wanted = self._taken[compiled.code] < self._audit.snapshots or self._number + 1 == self._audit.snapshot_of
        return Noted(found, self._taker.types(nodes.values()) if wanted else {}, wanted)

    # --- after the rewrite -------------------------------------------------------------------------------------------------

    def weights(self, edits: Edits) -> tuple[Weight, ...]:
        """The constants that the changed nodes read before and after, each once."""
        before = [tensor for state in edits.before.values() for tensor in state.inputs]
        now = [*edits.added.values(), *(node for node in edits.edited.values() if node in self._context.index)]
        after = [tensor for node in now for tensor in node.inputs]
        used = {id(tensor) for tensor in before}, {id(tensor) for tensor in after}
        found = []
        for tensor in {id(tensor): tensor for tensor in (*before, *after)}.values():
            facts = self._weights.find(tensor)
            if facts is not None:
                when = "both" if id(tensor) in used[0] & used[1] else "before" if id(tensor) in used[0] else "after"
                found.append(Weight(printable(tensor.name), *facts, when))
        return tuple(found)

    def count(self, code: str, noted: Noted) -> None:
        """The firing stands."""
        self._number += 1
        self._taken[code] += noted.snapshot

    def snapshot(self, nodes: Sequence[gs.Node], edits: Edits, noted: Noted) -> Snapshot:
        """The surroundings of a firing, to be asked when the facts are those after it."""
        return self._taker.snapshot(nodes, edits, noted.types)

    def text(self, node: gs.Node | NodeState) -> str:
        """A node as ONNX text, tensor attributes with their hashes."""
        return node_text(node, self._weights.words)
