"""Turns firings into entries of the log."""

from __future__ import annotations

import onnx_graphsurgeon as gs

from rewriter.engine.context import Context
from rewriter.engine.fire import Fired, node_name
from rewriter.engine.log import Change, Firing, Log
from rewriter.graph.node_text import node_text

SHOWN = 64  # changes whose text is kept, of one firing


class Recorder:
    """Writes the log of one run; remembers which firing made or edited which node, so that firings know their parents."""

    def __init__(self, log: Log, context: Context, *, detail: bool) -> None:
        self._log = log
        self._context = context
        self._detail = detail
        self._author: dict[int, int] = {}

    def record(self, fired: Fired) -> None:
        edits, rule = fired.edits, fired.compiled.rule
        number = len(self._log.firings) + 1
        parents = sorted({self._author[id(node)] for node in fired.nodes.values() if id(node) in self._author})
        self._log.firings.append(
            Firing(
                number=number,
                rule=rule.code,
                title=rule.title,
                kind=rule.kind.name,
                phase=rule.phase,
                place=fired.scope.path,
                root=fired.names[0] if fired.names else "",
                op=fired.op,
                matched=fired.names,
                changes=self._changes(fired) if self._detail else (),
                conditions=fired.conditions,
                parents=tuple(parents),
                microseconds=fired.seconds * 1e6,
            )
        )
        for part in (*edits.added, *edits.edited):
            self._author[part] = number

    def _changes(self, fired: Fired) -> tuple[Change, ...]:
        edits = fired.edits
        changes: list[Change] = []
        for key, node in edits.removed.items():
            changes.append(Change(node_name(node), edits.before[key][1], None))
        for key, node in edits.edited.items():
            if key in edits.before and node in self._context.index and len(changes) < SHOWN:
                changes.append(Change(node_name(node), edits.before[key][1], node_text(node)))
        for node in edits.added.values():
            changes.append(Change(node_name(node), None, node_text(node)))
        for tensor in edits.retyped.values():
            changes.append(Change(tensor.name, None, _type_text(tensor)))
        return tuple(changes[:SHOWN])


def _type_text(tensor: gs.Tensor) -> str:
    return f"{tensor.name}: {tensor.dtype} {tensor.shape}"
