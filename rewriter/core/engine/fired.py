"""A firing until the log has it: what was matched, what was edited, and how to take it back."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from rewriter.core.engine.compile import CompiledRule
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.scopes import Scope
from rewriter.core.log import Condition
from rewriter.core.record import field, record


@record(slots=True)
class Noted:
    """What was seen before a rewrite: what each condition found, and the types of tensors when a snapshot is wanted."""

    found: tuple[str, ...]
    types: dict[int, str] = field(default_factory=dict)
    snapshot: bool = False


@record(slots=True)
class Fired:
    """A rewrite that stands in the graph and can still be taken back."""

    compiled: CompiledRule
    root: gs.Node | None
    nodes: dict[int, gs.Node]
    edits: Edits
    conditions: tuple[Condition, ...]
    seconds: float
    scope: Scope
    names: tuple[str, ...]
    op: str
    mark: tuple[int, int]
    noted: Noted | None = None
