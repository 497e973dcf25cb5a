"""`rewriter fix`: repairs models."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_selection
from rewriter.app.cli.results import add_results, write_results


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "fix",
        help="repair models",
        description="Repairs models. The input is never modified, unless by --in-place; without -o, --out or --in-place the "
        "result goes to NAME.fixed.onnx beside the input, and *.fixed.onnx in folders are taken for such results and left "
        "alone. Hidden folders are not searched.",
        epilog="examples:\n  rewriter fix exported/ --out repaired/ --jobs 4\n"
        "  rewriter fix net.onnx -o fixed.onnx --verify --report audit.html --report audit.json",
    )
    add_selection(parser)
    add_results(parser)


def run(args: argparse.Namespace) -> int:
    """Repairs models; returns the exit code."""
    from rewriter.app.cli.paths import FIXED

    return write_results("fix", args, FIXED)
