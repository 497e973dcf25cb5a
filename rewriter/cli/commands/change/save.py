"""`rewriter save`: a model with its weights beside it, or in it."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.cli.options import add_limits, size


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
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the result")
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
    parser.add_argument("--force", action="store_true", help="overwrite existing files")
    add_limits(parser, "the whole command", whole=600)


def run(args: argparse.Namespace) -> int:
    """Moves weights; returns 0."""
    from pathlib import Path

    from rewriter.batch.urls import is_remote
    from rewriter.cli.output import tell
    from rewriter.cli.surgery import opened
    from rewriter.errors import RewriterError
    from rewriter.report.style import clean
    from rewriter.surgery.moved_weights import move_in, move_out

    if is_remote(args.output):
        raise RewriterError("-o names a file of this machine")
    source, target = opened(args.model), Path(args.output)
    if target.exists() and target.samefile(source.file):
        raise RewriterError(f"{args.output} is the input itself; write the result elsewhere")
    model = source.read()
    if args.inline:
        files = move_in(model, target, force=args.force)
    else:
        files = move_out(model, target, least=args.threshold, location=args.location, force=args.force)
    tell(f"{clean(source.name)} -> {', '.join(clean(str(file)) for file in files)}")
    return 0
