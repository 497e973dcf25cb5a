"""`rewriter check`: says what `fix` would do."""

from __future__ import annotations

import argparse
import os
from typing import Any

from rewriter.app.cli.options import add_runtime, add_selection
from rewriter.core.errors import RewriterError


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "check",
        help="report which rules would fire, and where",
        description="Reports which rules would fire and where, and what an unknown fact keeps from being decided, with what "
        "would make it known. Nothing is written. The exit code is 1 when a rule would fire, when ONNX Runtime refuses a model "
        "or when a small model fails on all made-up inputs and they cannot be at fault.",
        epilog="examples:\n  rewriter check net.onnx --source net-symbol.json\n"
        "  rewriter check exported/ --format github --report findings.sarif",
    )
    add_selection(parser)
    add_runtime(
        parser,
        "loads the models too, to print its refusal and the rules that answer it; auto: where it is installed; of several "
        "models those up to 256 MB",
    )
    parser.add_argument(
        "--expect",
        metavar="FILE",
        help="an .npz file with inputs and the outputs that the framework gave for them; {dir} stands for the folder of each "
        "model, {name} for its name: they decide whether the model is right, where it begins to differ, and which rules, or "
        "questions of rules, repair it",
    )


def run(args: argparse.Namespace) -> int:
    """Checks models; returns the exit code."""
    from rewriter.app.batch.urls import is_remote
    from rewriter.app.cli.batch import run_batch
    from rewriter.app.cli.options import runtime_choice
    from rewriter.app.cli.paths import find_models, unwritten

    if args.expect is not None and "{" not in args.expect and not os.path.isfile(args.expect):
        raise RewriterError(f"--expect {args.expect}: no such file")
    if any(map(is_remote, args.paths)):
        from rewriter.app.batch.work import Job
        from rewriter.app.cli.remote_jobs import found_remote

        jobs = [Job(path) for path, _ in found_remote(args.paths)]
    else:
        jobs = unwritten(find_models(args.paths))
    args.ask_runtime = runtime_choice(args.runtime)
    args.moderate = len(jobs) > 1
    return run_batch("check", jobs, args)
