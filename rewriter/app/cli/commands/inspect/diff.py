"""`rewriter diff`: what differs between two models."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_format, add_limits


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "diff",
        help="show what differs between two models",
        description="Compares two models by what their nodes compute from what; names of inner tensors and the order of nodes "
        "do not count, nor whether a constant is an initializer or a node. Differences are those of nodes, attributes, "
        "operands, constants (with their ranges and the largest difference), inputs, outputs, opsets and metadata. The exit "
        "code is 1 when there are any.",
        epilog="example: rewriter diff net.onnx net.fixed.onnx",
    )
    parser.add_argument("before", metavar="A", help="a model")
    parser.add_argument("after", metavar="B", help="the model it is compared with")
    add_format(parser)
    add_limits(parser, "the comparison", whole=600)


def run(args: argparse.Namespace) -> int:
    """Compares two models; returns 1 when they differ."""
    import sys

    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.cli.surgery import all_opened
    from rewriter.app.report.comparison_lines import comparison_lines, comparison_object
    from rewriter.app.report.jsonreport import dumps
    from rewriter.trust.diff.difference import compare_files

    before, after = all_opened([args.before, args.after])
    found = compare_files(before.file, after.file)
    if args.format == "json":
        print(dumps(comparison_object(before.name, after.name, found)))
    else:
        for line in comparison_lines(before.name, after.name, found, style_of(sys.stdout)):
            tell(line)
    return 1 if found else 0
