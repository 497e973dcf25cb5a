"""`rewriter check`: says what `fix` would do."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.cli.options import add_selection


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "check",
        parents=[common],
        help="say which rules would fire, and where",
        description="Says which rules would fire and where, and what an unknown fact keeps from being decided, with what would "
        "make it known. Nothing is written. The exit code is 1 when a rule would fire.",
        epilog="example: rewriter check net.onnx --source net-symbol.json",
    )
    add_selection(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Checks models; returns the exit code."""
    from rewriter.cli.batch import run_batch
    from rewriter.cli.paths import find_models, unwritten

    return run_batch("check", unwritten(find_models(args.paths)), args)
