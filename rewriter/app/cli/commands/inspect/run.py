"""`rewriter run`: what a model gives."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_format, add_limits, add_static


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "run",
        help="run a model and show or keep what it gives",
        description="Runs a model once, in ONNX Runtime on one thread without its optimizations, and shows what its outputs "
        "are. -o keeps inputs and outputs by their names, so that --inputs of this and other commands reads them again. "
        "Inputs are made up, always the same, where no file gives them.",
        epilog="examples:\n  rewriter run net.onnx\n  rewriter run net.onnx --inputs sample.npz --dump 'op:Conv' -o out.npz",
    )
    parser.add_argument("model", metavar="MODEL", help="the model")
    parser.add_argument("--inputs", metavar="FILE", help=".npz file with the inputs by their names (default: made-up ones)")
    add_static(parser, "the shape of a made-up input")
    parser.add_argument("-o", "--output", metavar="FILE", help="an .npz file for inputs and outputs")
    parser.add_argument(
        "--dump", metavar="T,...", action="append", default=[], help="also these tensors, what nodes make, or op:TYPE makes"
    )
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
    add_limits(parser, "the whole command", "600")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Runs one model; returns 0."""
    import sys
    from pathlib import Path

    import numpy as np

    from rewriter.app.batch.deadline import within_limits
    from rewriter.app.batch.urls import is_remote
    from rewriter.app.cli.options import limits_of
    from rewriter.app.cli.output import say, style_of, tell
    from rewriter.app.cli.surgery import SECONDS, opened
    from rewriter.app.report.jsonreport import dumps
    from rewriter.app.report.run_lines import run_lines, run_object
    from rewriter.core.errors import RewriterError
    from rewriter.core.graph.tidy import fix_shapes
    from rewriter.core.onnxfile.write import check_target
    from rewriter.trust.proof.models.benchmark import single_run
    from rewriter.trust.proof.models.model_inputs import write_arrays
    from rewriter.trust.proof.models.validity import Candidate
    from rewriter.workbench.surgery.parts import with_outputs

    target = None if args.output is None else Path(args.output)
    if target is not None:
        if is_remote(args.output):
            raise RewriterError("-o names a file of this machine")
        check_target(target, args.force)
    source = opened(args.model)
    with within_limits(**limits_of(args, SECONDS)):
        model, drawn = source.read(), source.read()
        with_outputs(model, args.dump)
        fix_shapes(drawn.graph, args.static)
        found = single_run(Candidate(model), args.inputs, Candidate(drawn))
        if target is not None:
            values = {**found.feed, **found.outputs}
            arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
            write_arrays(target, arrays, force=args.force)
            for name in values.keys() - arrays.keys():
                say(f"note: {name!r} is no tensor, and not in {args.output}")
        if args.format == "json":
            print(dumps(run_object(source.name, found, args.output)))
        else:
            for line in run_lines(source.name, found, args.output, style_of(sys.stdout)):
                tell(line, hang=11)
    return 0
