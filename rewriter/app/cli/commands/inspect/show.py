"""`rewriter show`: what a model is made of."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rewriter.app.cli.options import add_format, add_limits, add_static, count

if TYPE_CHECKING:
    from rewriter.workbench.inspect.model_stats import ModelStats
    from rewriter.workbench.surgery.opened import Opened


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "show",
        help="show what a model is made of",
        description="Shows the exporter and what tells of it, opsets, weights, inputs and outputs, operators, subgraphs, local "
        "functions, external data and metadata. Weights are counted, not read; of external data only the size is asked. "
        "--modules adds a table of what each module of the framework costs, --stats also reads the weights.",
        epilog="example: rewriter show net.onnx --nodes",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("--nodes", action="store_true", help="also a line for each node")
    parser.add_argument(
        "--modules", action="store_true", help="also nodes, parameters, multiplications and bytes, in all and by module"
    )
    parser.add_argument("--stats", action="store_true", help="the same, and what the weights hold; with --nodes by node, too")
    parser.add_argument("--depth", metavar="N", type=count, default=2, help="how deep modules are listed (default: 2)")
    add_static(parser, "the shape of an input, for --modules and --stats")
    add_limits(parser, "the summary", whole=60)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Shows one model; returns 0."""
    import sys

    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.cli.surgery import opened
    from rewriter.app.report.jsonreport import dumps
    from rewriter.app.report.summary_lines import summary_lines, summary_object
    from rewriter.core.record import replace
    from rewriter.workbench.inspect.summary import summarise

    source = opened(args.model)
    costs = args.stats or args.modules
    found = replace(summarise(source.file, nodes=args.nodes and not costs), path=source.name)
    stats = _stats(source, args) if costs else None
    style = style_of(sys.stdout)
    if stats is not None:
        from rewriter.app.report.stats_lines import stats_lines, stats_object
    if args.format == "json":
        told = summary_object(found, nodes=args.nodes and not costs)
        print(dumps(told if stats is None else {**told, "stats": stats_object(stats, args.depth, nodes=args.nodes)}))
        return 0
    for line in summary_lines(found, style):
        tell(line, hang=11)
    if stats is not None:
        print()
        for line in stats_lines(stats, args.depth, style, nodes=args.nodes):
            print(line)
    return 0


def _stats(source: Opened, args: argparse.Namespace) -> ModelStats:
    from rewriter.workbench.inspect.model_stats import model_stats

    return model_stats(source.read(), args.static, weights=args.stats)
