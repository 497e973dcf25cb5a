"""Turns firings into entries of the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.engine.attempt import Fired
from rewriter.core.errors import printable
from rewriter.core.graph.edits import Edits, NodeState
from rewriter.core.graph.model_text import node_name, node_text, type_words
from rewriter.core.graph.objects import Node
from rewriter.core.log import Change, Firing, Log
from rewriter.core.onnxfile.tensors import clean, dtype_number

if TYPE_CHECKING:
    from rewriter.core.engine.firing_audit import Auditor


# The rules behind a node: the rules that made or changed it, and the rules that made the nodes it replaced.


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


SHOWN = 64  # changes whose text is kept, of one firing
SHOWN_TO_AUDITORS = 4096


class Recorder:
    """Writes the log of one run. Remembers the firings that made or edited each node, to name the parents of later firings."""

    def __init__(self, log: Log, context: Context, *, detail: bool, auditor: Auditor | None = None) -> None:
        self._log = log
        self._context = context
        self._detail = detail
        self._auditor = auditor
        self._author: dict[int, int] = {}

    def record(self, fired: Fired) -> None:
        """Books a firing that is kept."""
        edits, rule, author, firings = fired.edits, fired.compiled, self._author, self._log.firings
        number = len(firings) + 1
        parents = set(map(author.get, map(id, fired.nodes.values())))  # None: as it was read
        firing = Firing(
            number,
            rule.code,
            rule.title,
            rule.kind,
            rule.phase,
            fired.scope.path,
            fired.names[0] if fired.names else "",
            fired.op,
            fired.names,
            (),
            fired.conditions,
            tuple(sorted(filter(None, parents))) if any(parents) else (),
            fired.seconds * 1e6,
        )
        if self._detail:
            self._tell_changes(firing, fired)
        firings.append(firing)
        for part in edits.edited:
            author[part] = number
        for part in edits.added:
            author[part] = number

    def _tell_changes(self, firing: Firing, fired: Fired) -> None:
        most = SHOWN if self._auditor is None else SHOWN_TO_AUDITORS
        changes = firing.changes = tuple(islice(self._changes(fired), most))
        if len(changes) == most:
            firing.omitted = sum(1 for _ in self._changed(fired)) + len(fired.edits.declared) - len(changes)
        if self._auditor is not None and fired.noted is not None:
            firing.weights = self._auditor.weights(fired.edits)
            self._auditor.count(fired.compiled.code, fired.noted)

    def depict(self, fired: Fired) -> None:
        """Adds the surroundings of the last booked firing, if they are wanted, once its facts are up to date."""
        if self._auditor is not None and fired.noted is not None and fired.noted.snapshot:
            self._log.firings[-1].snapshot = self._auditor.snapshot(list(fired.nodes.values()), fired.edits, fired.noted)

    # --- changes -----------------------------------------------------------------------------------------------------------

    def _changes(self, fired: Fired) -> Iterator[Change]:
        """The changes; for nodes, first the removed ones, then the edited ones, then the added ones."""
        edits = fired.edits
        for node, kept in self._changed(fired):
            before = self._text(edits.before[id(node)]) if id(node) not in edits.added else None
            yield Change(node_name(node), before, self._text(node) if kept else None)
        for (what, name), (before, after) in edits.declared.items():
            yield _declaration(what, name, before, after)

    def _changed(self, fired: Fired) -> Iterator[tuple[gs.Node, bool]]:
        """Each node that was changed, and whether it is still there."""
        edits = fired.edits
        yield from ((node, False) for node in edits.removed.values())
        for key, node in edits.edited.items():
            if key in edits.before and node in self._context.index:
                yield node, True
        yield from ((node, True) for node in edits.added.values())

    def _text(self, node: gs.Node | NodeState) -> str:
        return node_text(node) if self._auditor is None else self._auditor.text(node)


def _declaration(what: str, name: str, before: Any, after: Any) -> Change:
    """A declaration of the model: `x: float[1,3]`, `model.ir_version = 8`, `model.opset["ai.onnx"] = 13`."""
    shown = printable(name)
    if what in ("type", "input", "output"):
        prefix = f"{shown}: " if what == "type" else f"{what} {shown}: "
        texts = [value and prefix + type_words(dtype_number(value[0]), clean(value[1])) for value in (before, after)]
        return Change(shown, texts[0], texts[1])
    if what == "text":
        texts = [f"{shown} = {_worth(value)}" if value else None for value in (before, after)]
        return Change(shown, texts[0], texts[1])
    if what in ("node", "tensor", "initializer", "function", "order"):
        texts = [None if value is None else f"{what} {_worth(value)}" for value in (before, after)]
        return Change(shown, texts[0], texts[1])
    place = f'model.opset["{shown}"]' if what == "opset" else f"model.{shown}"
    texts = [None if value is None else f"{place} = {_worth(value)}" for value in (before, after)]
    return Change("model", texts[0], texts[1])


def _worth(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_worth, value))}]"
    return f'"{printable(value)}"' if isinstance(value, str) else str(value)
