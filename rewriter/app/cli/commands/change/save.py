"""`rewriter save`: a model with its weights beside it, or in it."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import size
from rewriter.app.cli.surgery import add_result


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "save",
        help="move weights into a file beside a model, or into the model",
        description="Writes a model with its weights in one file beside it (--external), or all in one file (--inline). The "
        "bytes are copied by the system and not loaded; in a data file they begin at multiples of 4096.",
        epilog="example: rewriter save net.onnx --external -o net.external.onnx",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--external", action="store_true", help="weights go into a file beside the model")
    which.add_argument("--inline", action="store_true", help="weights go into the model")
    parser.add_argument("--location", metavar="NAME", help="the data file, relative to the result (default: FILE.data)")
    parser.add_argument(
        "--threshold",
        metavar="SIZE",
        type=lambda text: 0 if text == "0" else size(text),
        default=1024,
        help="bytes of the weights that go there (1K)",
    )
    add_result(parser, stamp=False)


def run(args: argparse.Namespace) -> int:
    """Moves weights; returns 0."""
    from rewriter.app.cli.surgery import one_result
    from rewriter.workbench.surgery.moved_weights import apart, inside

    if args.inline:
        return one_result(args, inside)
    return one_result(args, lambda source, checks: apart(source, least=args.threshold, location=args.location, checks=checks))
