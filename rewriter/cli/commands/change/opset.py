"""`rewriter opset`: another version of ONNX's operators."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.cli.options import count
from rewriter.cli.surgery import add_result


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "opset",
        parents=[common],
        help="give a model another operator set version, where nothing changes its meaning",
        description="Gives a model another version of ONNX's operators. A model with nodes that mean something else in that "
        "version is refused, and the nodes are named. The IR version is raised where the version needs it.",
        epilog="example: rewriter opset net.onnx 18 -o net18.onnx",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("version", metavar="N", type=count, help="the version of ONNX's own operators")
    parser.add_argument("--ir", metavar="K", type=count, help="the IR version")
    add_result(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Gives a model another version; returns 0."""
    from rewriter.cli.surgery import checks_of, deliver, limited, opened, targets
    from rewriter.surgery.restamp import restamped

    source = opened(args.model)
    targets(args, [source], [args.output])
    with limited(args):
        return deliver(args, "opset", source, restamped(source, args.version, args.ir, checks_of(args)), args.output)
