"""Pictures of a part of a model, and of what one firing does to it; `rewriter picture` writes them to files."""

from __future__ import annotations

from rewriter.app.report.document import place_text
from rewriter.app.report.picture.drawing import draw, pair
from rewriter.app.report.picture.svg import dot, firing_picture, mermaid, view_picture
from rewriter.core.conditions.context import Context
from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.firing_audit import FiringAudit, SnapshotTaker, Weights
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import Hooks, run
from rewriter.core.errors import RewriterError
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.language.rules import RuleSet
from rewriter.rule_tools.explain.why_rules import named
from rewriter.trust.proof.judges import has_kernel
from rewriter.trust.source.find import source_of
from rewriter.workbench.style import counted
from rewriter.workbench.surgery.opened import Opened

ENDINGS = (".svg", ".dot", ".mmd")
AROUND = 80
"""Nodes that are drawn around one."""


def picture_of_firing(model: Model, file: Opened, rules: RuleSet, source: str, number: int, ending: str) -> str:
    """What happens in one firing, before and after it.

    Args:
        model: on which the rules run.
        file: that it was read from.
        rules: that run.
        source: what `--source` says of the framework's own file.
        number: of the firing.
        ending: how it is drawn, one of `ENDINGS`.

    Raises:
        RewriterError: there are fewer firings.
    """
    framework, _ = source_of(model, str(file.file), source)
    log = run(
        model.graph,
        rules,
        Knowledge(framework, overridable=model.overridable, has_kernel=has_kernel),
        limits=Limits(firings=number),
        keep=False,
        hooks=Hooks(audit=FiringAudit(snapshot_of=number)),
    )
    if len(log.firings) < number:
        there = f"there {'is' if len(log.firings) == 1 else 'are'} {counted(len(log.firings), 'firing')}"
        raise RewriterError(f"{file.name}: there is no firing {number}; {there}; `rewriter check` lists them")
    firing = log.firings[number - 1]
    assert firing.snapshot is not None
    title, subtitle = f"{firing.rule} at {place_text(firing)}", firing.title
    if ending == ".svg":
        return firing_picture(firing.snapshot, title, subtitle)
    drawings = list(zip(("before", "after"), pair(firing.snapshot), strict=True))
    return (dot if ending == ".dot" else mermaid)(drawings, f"{title}: {subtitle}")


def picture_of_part(model: Model, name: str, around: str | None, hops: int, ending: str, *, most: int) -> str:
    """The nodes around one, so many steps away, or the whole of a model with at most so many nodes.

    Raises:
        RewriterError: there are more nodes, or none of this name.
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
