"""`rewriter optimize`: makes models smaller and faster without changing what they compute."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_selection, add_static
from rewriter.app.cli.results import add_results, write_results

LEVELS = {"basic": "BASIC", "all": "OPTIMIZE"}
"""The selector of each level."""


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "optimize",
        help="make models smaller and faster",
        description="Folds what is known before a model runs, merges equal nodes, shares equal weights, fuses operators and "
        "removes dead code, until nothing is left to do. Repairs do not run; that is what `fix` is for. Results are judged and "
        "recorded as those of `fix`. Without -o, --out or --in-place the result goes to NAME.optimized.onnx beside the input, "
        "and *.optimized.onnx in folders are left alone.",
        epilog="examples:\n  rewriter optimize net.onnx -o small.onnx\n"
        "  rewriter optimize exported/ --out small/ --level basic --jobs 4\n"
        "  rewriter optimize net.onnx --static image:1,3,224,224 --target tensorrt --verify",
    )
    add_selection(parser)
    parser.add_argument(
        "--level",
        choices=tuple(LEVELS),
        default="all",
        help="basic: only rules that keep the numbers to the last places; all: also fusions that keep them within the bound "
        "that each rule states (default)",
    )
    add_static(parser, "give an input a fixed shape first")
    add_results(parser)


def run(args: argparse.Namespace) -> int:
    """Optimizes models; returns the exit code."""
    from rewriter.app.cli.paths import OPTIMIZED

    if not args.origins["select"].startswith("--"):  # what a configuration selects, it selects for repairs
        args.select, args.origins["select"] = [LEVELS[args.level]], "--level"
    if not args.origins["tidy"].startswith("--"):
        args.tidy = True
    return write_results("optimize", args, OPTIMIZED)
