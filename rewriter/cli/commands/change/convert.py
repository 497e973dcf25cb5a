"""`rewriter convert`: another floating-point type."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.cli.options import Help
from rewriter.cli.surgery import add_result


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "convert",
        parents=[common],
        help="have a model compute in another floating-point type",
        description="Has a model compute in another floating-point type, weights and bodies included. Nodes whose operators do "
        "not have the type compute as before; casts are put where types meet, as few as possible. Weights that lose values are "
        "named.",
        epilog="examples:\n  rewriter convert net.onnx --dtype float16 -o half.onnx\n"
        "  rewriter convert net.onnx --dtype float16 --keep op:Softmax --keep a..b --io convert -o half.onnx",
        formatter_class=Help,
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("--dtype", required=True, choices=("float16", "bfloat16", "float32", "double"), help="the type")
    parser.add_argument(
        "--keep",
        metavar="NODES",
        action="append",
        default=[],
        help="nodes that compute as before: names, patterns, op:TYPE, or A..B for all between two; may be repeated",
    )
    parser.add_argument(
        "--io",
        choices=("keep", "convert"),
        default="keep",
        help="what happens to the types of inputs and outputs (default: keep)",
    )
    add_result(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Converts a model; returns 0."""
    from rewriter.cli.surgery import one_result
    from rewriter.surgery.precision.float_type import in_type

    return one_result(args, lambda source, checks: in_type(source, args.dtype, args.keep, args.io, checks))
