"""`rewriter convert`: another floating-point type, or another layout of inputs and outputs."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.surgery import add_result


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "convert",
        help="have a model compute in another floating-point type, or take other layouts",
        description="Has a model compute in another floating-point type, weights and bodies included. Nodes whose operators do "
        "not have the type compute as before; casts are put where types meet, as few as possible. Weights that lose values are "
        "named. Or has images given and handed out with their channels last or first (--layout): a Transpose is put at each "
        "input and output of four dimensions, and goes where the model undoes it. Inside, ONNX's operators keep theirs.",
        epilog="examples:\n  rewriter convert net.onnx --dtype float16 -o half.onnx\n"
        "  rewriter convert net.onnx --dtype float16 --keep op:Softmax --keep a..b --io convert -o half.onnx\n"
        "  rewriter convert net.onnx --layout nhwc -o last.onnx",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--dtype", choices=("float16", "bfloat16", "float32", "double"), help="the type")
    what.add_argument("--layout", choices=("nhwc", "nchw"), help="the layout that inputs and outputs are to have")
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
    parser.add_argument(
        "--ports",
        metavar="NAMES",
        action="append",
        default=[],
        help="with --layout: these inputs and outputs, of three to five dimensions (default: all of four); may be repeated",
    )
    add_result(parser)


def run(args: argparse.Namespace) -> int:
    """Converts a model; returns 0."""
    from rewriter.app.cli.surgery import one_result
    from rewriter.core.errors import RewriterError
    from rewriter.workbench.surgery.port_layout import in_layout
    from rewriter.workbench.surgery.precision.float_type import in_type

    if args.layout and (args.keep or args.io != "keep"):
        raise RewriterError("--keep and --io belong to --dtype; --layout has --ports")
    if args.dtype and args.ports:
        raise RewriterError("--ports belongs to --layout; --dtype has --io")
    if args.layout:
        return one_result(args, lambda source, checks: in_layout(source, args.layout, args.ports, checks))
    return one_result(args, lambda source, checks: in_type(source, args.dtype, args.keep, args.io, checks))
