"""`rewriter quantize-prep`: what is done to a model before it is quantized."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.surgery import add_result


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "quantize-prep",
        help="optimize a model and write its types for a quantizer",
        description="Does what onnxruntime.quantization.preprocess does before a model is quantized: converts older operators "
        "to opset 13, folds constants, normalizations and padding into the nodes that are quantized, and has inner tensors "
        "declare their types and shapes, named dimensions included. Nothing of ONNX Runtime's own is put in, and a step that "
        "cannot be done is an error.",
        epilog="example: rewriter quantize-prep net.onnx -o net.prepared.onnx",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    add_result(parser)


def run(args: argparse.Namespace) -> int:
    """Prepares a model; returns 0."""
    from rewriter.app.cli.surgery import one_result
    from rewriter.workbench.surgery.quantize_prep import prepared

    return one_result(args, prepared)
