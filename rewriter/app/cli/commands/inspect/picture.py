"""`rewriter picture`: a part of a model, or what a rule does to it, as a picture."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rewriter.app.cli.options import add_configuration, add_limits, add_what_is_known, add_which_rules, count

if TYPE_CHECKING:
    from rewriter.core.graph.model import Model
    from rewriter.workbench.surgery.opened import Opened

ENDINGS = (".svg", ".dot", ".mmd")
WHOLE = 2000
"""Nodes of a model that is drawn as a whole."""
AROUND = 80
"""Nodes that --around draws."""


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "picture",
        help="draw what a rule does to a model, or a part of a model",
        description="Draws a part of a model: the surroundings of a firing before and after it (--firing, as `rewriter check` "
        f"numbers them), those of a node (--around), or, without either, the whole of a model of at most {WHOLE:,} nodes "
        "(`view` shows larger ones). The ending of the file says how: .svg, .dot (Graphviz) or .mmd (Mermaid).",
        epilog="examples:\n  rewriter picture net.onnx --firing 1 -o firing.svg\n"
        "  rewriter picture net.onnx --firing 2 --select MX -o firing.mmd\n"
        "  rewriter picture net.onnx --around conv1 --hops 3 -o conv1.svg",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the picture: .svg, .dot or .mmd")
    what = parser.add_argument_group("what is drawn").add_mutually_exclusive_group()
    what.add_argument("--firing", metavar="N", type=count, help="what happens in the N-th firing")
    what.add_argument("--around", metavar="NODE", help="the nodes around this one, by its name or that of an output")
    parser.add_argument("--hops", metavar="N", type=count, default=2, help="how far --around goes (default: 2)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    add_which_rules(parser)
    add_what_is_known(parser)
    add_configuration(parser)
    add_limits(parser, "the picture", whole=600)


def run(args: argparse.Namespace) -> int:
    """Writes one picture; returns 0."""
    from pathlib import Path

    from rewriter.app.cli.surgery import opened
    from rewriter.core.errors import RewriterError
    from rewriter.core.onnxfile.write import check_target, write_bytes

    ending = next((ending for ending in ENDINGS if args.output.lower().endswith(ending)), None)
    if ending is None:
        raise RewriterError(f"-o {args.output}: the ending says what a picture is; it is one of {', '.join(ENDINGS)}")
    target = Path(args.output)
    check_target(target, args.force)
    given = opened(args.model, args.source)
    text = _firing(given, args, ending) if args.firing is not None else _part(given, args, ending)
    write_bytes(target, text.encode("utf-8", "backslashreplace"), force=True)
    return 0


def _firing(given: Opened, args: argparse.Namespace, ending: str) -> str:
    from rewriter.app.batch.sources import source_of
    from rewriter.app.cli.selection import selected
    from rewriter.app.report.document import place_text
    from rewriter.core.conditions.context import Knowledge
    from rewriter.core.engine.firing_audit import FiringAudit
    from rewriter.core.engine.limits import Limits
    from rewriter.core.engine.run import Hooks
    from rewriter.core.engine.run import run as rewrite
    from rewriter.core.errors import RewriterError
    from rewriter.trust.proof.kernels import has_kernel
    from rewriter.workbench.style import counted

    model = _loaded(given, args)
    source, _ = source_of(model, str(given.file), args.source)
    log = rewrite(
        model.graph,
        selected(args),
        Knowledge(source, overridable=model.overridable, has_kernel=has_kernel),
        limits=Limits(firings=args.firing),
        keep=False,
        hooks=Hooks(audit=FiringAudit(snapshot_of=args.firing)),
    )
    if len(log.firings) < args.firing:
        there = f"there {'is' if len(log.firings) == 1 else 'are'} {counted(len(log.firings), 'firing')}"
        raise RewriterError(f"{given.name}: there is no firing {args.firing}; {there} (rewriter check tells them)")
    firing = log.firings[args.firing - 1]
    assert firing.snapshot is not None
    title, subtitle = f"{firing.rule} at {place_text(firing)}", firing.title
    if ending == ".svg":
        from rewriter.app.report.picture.svg import firing_picture

        return firing_picture(firing.snapshot, title, subtitle)
    from rewriter.app.report.picture.drawing import pair
    from rewriter.app.report.picture.text_forms import dot, mermaid

    drawings = list(zip(("before", "after"), pair(firing.snapshot), strict=True))
    return (dot if ending == ".dot" else mermaid)(drawings, f"{title}: {subtitle}")


def _part(given: Opened, args: argparse.Namespace, ending: str) -> str:
    from rewriter.core.conditions.context import Context, Knowledge
    from rewriter.core.engine.firing_audit import SnapshotTaker, Weights
    from rewriter.core.errors import RewriterError
    from rewriter.core.graph.index import GraphIndex
    from rewriter.rule_tools.explain.why_rules import named

    model = _loaded(given, args)
    index = GraphIndex(model.graph)
    context = Context(index, Knowledge(overridable=model.overridable))
    taker = SnapshotTaker(context, Weights(index).words)
    if args.around is None:
        nodes = index.members(index.scopes[0])
        if len(nodes) > WHOLE:
            raise RewriterError(
                f"{given.name}: {len(nodes):,} nodes are too many for one picture; `rewriter view` shows a model of any size, "
                "--around NODE or --firing N draws a part"
            )
        view, subtitle = taker.view(nodes, index.scopes[0]), f"{len(nodes)} nodes"
    else:
        node = named(index, args.around)[0]
        nodes = taker.near(node, args.hops, AROUND)
        view = taker.view(nodes, index.scope(node), node)
        subtitle = f"{len(nodes)} nodes around {args.around}"
    if ending == ".svg":
        from rewriter.app.report.picture.svg import view_picture

        return view_picture(view, given.name, subtitle)
    from rewriter.app.report.picture.drawing import draw
    from rewriter.app.report.picture.text_forms import dot, mermaid

    return (dot if ending == ".dot" else mermaid)([(subtitle, draw(view))], given.name)


def _loaded(given: Opened, args: argparse.Namespace) -> Model:
    model = given.read()
    model.constant_inputs = args.constant_inputs
    return model
