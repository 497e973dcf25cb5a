"""`rewriter infer`: types and shapes written into a model."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.surgery import add_result


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "infer",
        help="write types and shapes of inner tensors into a model",
        description="Has inner tensors declare their types and shapes, as far as they follow from the inputs; values that "
        "carry shapes are followed. What is declared already stays, and models of any size will do.",
        epilog="example: rewriter infer net.onnx -o net.typed.onnx",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    add_result(parser)


def run(args: argparse.Namespace) -> int:
    """Infers types; returns 0."""
    from rewriter.app.cli.surgery import one_result
    from rewriter.workbench.surgery.quantize_prep import inferred

    return one_result(args, inferred)
