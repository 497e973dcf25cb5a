"""Pictures of a part of a model, and of what one firing does to it; `rewriter picture` writes them to files."""

from __future__ import annotations

from rewriter.app.report.document import place_text
from rewriter.app.report.picture.drawing import draw, pair
from rewriter.app.report.picture.svg import dot, firing_picture, mermaid, view_picture
from rewriter.core.conditions.context import Context
from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.firing_audit import SnapshotTaker, Weights
from rewriter.core.errors import RewriterError
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.log import Firing
from rewriter.rule_tools.explain.why_rules import named

ENDINGS = (".svg", ".dot", ".mmd")
AROUND = 80
"""Nodes that are drawn around one."""


def picture_of_firing(firing: Firing, ending: str) -> str:
    """The nodes around a firing with a snapshot, before and after it; `ending` is one of `ENDINGS`."""
    assert firing.snapshot is not None
    title, subtitle = f"{firing.rule} at {place_text(firing)}", firing.title
    if ending == ".svg":
        return firing_picture(firing.snapshot, title, subtitle)
    drawings = list(zip(("before", "after"), pair(firing.snapshot), strict=True))
    return (dot if ending == ".dot" else mermaid)(drawings, f"{title}: {subtitle}")


def picture_of_part(model: Model, name: str, around: str | None, hops: int, ending: str, *, most: int) -> str:
    """The nodes at most `hops` steps away from one node, or a whole model with at most `most` nodes.

    Raises:
        RewriterError: there are more nodes, or no node has this name.
    """
    index = GraphIndex(model.graph)
    context = Context(index, Knowledge(overridable=model.overridable))
    taker = SnapshotTaker(context, Weights(index).words)
    if around is None:
        nodes = index.members(index.scopes[0])
        if len(nodes) > most:
            raise RewriterError(
                f"{name}: {len(nodes):,} nodes are too many for one picture; `rewriter view` shows a model of any size, "
                "--around NODE or --firing N draws a part"
            )
        part, subtitle = taker.view(nodes, index.scopes[0]), f"{len(nodes)} nodes"
    else:
        node = named(index, around)[0]
        nodes = taker.near(node, hops, AROUND)
        part = taker.view(nodes, index.scope(node), node)
        subtitle = f"{len(nodes)} nodes around {around}"
    if ending == ".svg":
        return view_picture(part, name, subtitle)
    return (dot if ending == ".dot" else mermaid)([(subtitle, draw(part))], name)
