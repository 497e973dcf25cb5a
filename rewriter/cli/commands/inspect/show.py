"""`rewriter show`: what a model is made of."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.cli.options import add_format, add_limits


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "show",
        parents=[common],
        help="show what a model is made of",
        description="Shows the exporter and what tells of it, opsets, weights, inputs and outputs, operators, subgraphs, local "
        "functions, external data and metadata. Weights are counted, not read; of external data only the size is asked.",
        epilog="example: rewriter show net.onnx --nodes",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("--nodes", action="store_true", help="also a line for each node")
    add_limits(parser, "the summary", whole=60)
    add_format(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Shows one model; returns 0."""
    import sys
    from pathlib import Path

    from rewriter.cli.output import style_of, tell
    from rewriter.inspect.summary import summarise
    from rewriter.report.jsonreport import dumps
    from rewriter.report.summary_lines import summary_lines, summary_object

    found = summarise(Path(args.model), nodes=args.nodes)
    if args.format == "json":
        print(dumps(summary_object(found, nodes=args.nodes)))
    else:
        for line in summary_lines(found, style_of(sys.stdout)):
            tell(line, hang=11)
    return 0
