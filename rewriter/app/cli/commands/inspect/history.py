"""`rewriter history`: the record that earlier runs left in a model."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_format, add_limits


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "history",
        help="list the rules that made a model what it is",
        description="Prints the record that `fix` leaves in models that it changes: for each run the rules that fired, their "
        "number and digests, and the SHA-256 of the file that was rewritten; then the nodes that rules made or changed.",
        epilog="example: rewriter history net.fixed.onnx",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    add_format(parser)
    add_limits(parser, "the command", whole=600)


def run(args: argparse.Namespace) -> int:
    """Prints the record; returns 0."""
    import sys

    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.cli.surgery import opened
    from rewriter.app.report.jsonreport import dumps
    from rewriter.app.report.run_lines import history_lines, history_object
    from rewriter.core.errors import RewriterError
    from rewriter.core.onnxfile.read import read_model_file
    from rewriter.core.onnxfile.tensors import text
    from rewriter.trust.provenance.check_record import marks
    from rewriter.trust.provenance.stamp import Unreadable, history

    source = opened(args.model)
    model = read_model_file(source.file).proto
    try:
        runs = history({text(entry.key): text(entry.value) for entry in model.metadata_props})
    except Unreadable as error:
        raise RewriterError(f"{source.name}: the record in it cannot be read: {error}") from None
    if args.format == "json":
        print(dumps(history_object(source.name, runs, marks(model))))
    else:
        for line in history_lines(source.name, runs, marks(model), style_of(sys.stdout)):
            tell(line)
    return 0
