"""`rewriter opset`: another version of ONNX's operators."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import count
from rewriter.app.cli.surgery import add_result


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "opset",
        help="convert a model to another operator set version, up or down",
        description="Converts a model to another version of ONNX's operators, up or down, with its subgraphs and local "
        "functions. A model with nodes that cannot be said in that version is refused, and the nodes are named with the "
        "reason. The IR version is raised where the version needs it.",
        epilog="example: rewriter opset net.onnx 18 -o net18.onnx",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("version", metavar="N", type=count, help="the version of ONNX's own operators")
    parser.add_argument("--ir", metavar="K", type=count, help="the IR version")
    parser.add_argument("--restamp", action="store_true", help="only where no node has to be converted")
    add_result(parser)


def run(args: argparse.Namespace) -> int:
    """Gives a model another version; returns 0."""
    from rewriter.app.cli.surgery import one_result
    from rewriter.workbench.surgery.versions.opset_conversion import reversioned

    return one_result(
        args, lambda source, checks: reversioned(source, args.version, args.ir, restamp=args.restamp, checks=checks)
    )
