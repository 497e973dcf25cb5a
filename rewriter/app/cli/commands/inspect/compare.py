"""`rewriter compare`: whether two models compute the same, and where they part."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_format, add_limits, size


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "compare",
        help="run two models side by side and find the first tensor that differs",
        description="Runs two models on the same inputs and compares their outputs. Where these differ, or one model does not "
        "run, it goes through the tensors between, in the order of computation, and names the first that differs, or the node "
        "that is refused. Tensors are paired by structure, not by names. Tensors may be apart by --atol "
        "plus --rtol times the largest magnitude of the tensor, plus 16 units in the last place of the coarsest type; NaN "
        "equals NaN at the same place and nothing else. The exit code is 1 when something differs.",
        epilog="example: rewriter compare net.onnx net.fixed.onnx --inputs sample.npz --layers",
    )
    parser.add_argument("before", metavar="A", help="a model")
    parser.add_argument("after", metavar="B", help="the model it is compared with")
    parser.add_argument(
        "--inputs", metavar="FILE", help=".npz file with A's inputs (default: random ones and edge values, always the same)"
    )
    parser.add_argument("--layers", action="store_true", help="list every tensor that has a counterpart")
    parser.add_argument("--rtol", metavar="X", type=tolerance, default=1e-4, help="relative tolerance (default: 1e-4)")
    parser.add_argument("--atol", metavar="X", type=tolerance, default=1e-6, help="absolute tolerance (default: 1e-6)")
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=size,
        default=256 << 20,
        help="for tensors looked at together, as 64M or 2G (default: 256M)",
    )
    add_limits(parser, "the comparison", whole=60)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Compares two models; returns 1 when they differ or one does not run."""
    import sys

    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.cli.surgery import all_opened
    from rewriter.app.report.comparison_lines import layers_lines, layers_object
    from rewriter.app.report.jsonreport import dumps
    from rewriter.trust.proof.layers.comparison import compare_models

    before, after = all_opened([args.before, args.after])
    found = compare_models(
        before.file,
        after.file,
        inputs=args.inputs,
        rtol=args.rtol,
        atol=args.atol,
        memory=args.memory,
        layers=args.layers,
    )
    if args.format == "json":
        print(dumps(layers_object(before.name, after.name, found)))
    else:
        for line in layers_lines(before.name, after.name, found, style_of(sys.stdout)):
            tell(line)
    return 0 if found.same else 1


def tolerance(text: str) -> float:
    """A number that is not negative."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a tolerance, as 1e-4")
    return number
