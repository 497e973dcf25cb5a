"""`rewriter extract`: a part of a model as a model of its own."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.surgery import add_result


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "extract",
        help="cut a part out of a model",
        description="Writes the part of a model that leads to some tensors: its nodes, and of weights, functions and operator "
        "sets what they need. What bodies of If, Loop and Scan read counts as read. Types of new inputs and outputs are those "
        "that the model declares or that follow from it.",
        epilog="examples:\n  rewriter extract net.onnx --to features -o backbone.onnx\n"
        "  rewriter extract net.onnx --from features --to 'scores,boxes' -o head.onnx\n"
        "  rewriter extract net.onnx --to op:Softmax --dry-run",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    what = parser.add_argument_group("what is cut out")
    what.add_argument(
        "--to",
        metavar="T,...",
        action="append",
        default=[],
        help="what the part gives: tensors, nodes (all that they make), patterns with *, or op:TYPE (default: the outputs)",
    )
    what.add_argument(
        "--from",
        dest="start",
        metavar="T,...",
        action="append",
        help="what the part is given; of a node, what it reads (default: the inputs of the model, as far as needed)",
    )
    what.add_argument("--auto-inputs", action="store_true", help="whatever is needed besides --from becomes an input, too")
    what.add_argument(
        "--type",
        metavar="NAME:TYPE",
        action="append",
        default=[],
        help="the type of a new input or output, as 'x:float[1,3,N]'; may be repeated",
    )
    add_result(parser)


def run(args: argparse.Namespace) -> int:
    """Cuts a part out of a model; returns 0."""
    from rewriter.app.cli.surgery import one_result
    from rewriter.core.errors import RewriterError
    from rewriter.workbench.surgery.cut.extract import extracted

    if not args.to and args.start is None:
        raise RewriterError("say what is cut out with --to, --from or both")
    wanted = args.to, args.start, args.type
    return one_result(args, lambda source, checks: extracted(source, *wanted, auto_inputs=args.auto_inputs, checks=checks))
