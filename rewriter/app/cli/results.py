"""What commands that write models share: where results go, how they are judged and recorded, and the course of a call."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rewriter.app.cli.options import Switch, add_runtime

if TYPE_CHECKING:
    from rewriter.app.batch.work import Job
    from rewriter.app.cli.report_record import Command


def add_results(parser: argparse.ArgumentParser) -> None:
    """Everything that says what becomes of the results of `fix` and `optimize`."""
    target = parser.add_argument_group("where results go").add_mutually_exclusive_group()
    target.add_argument("-o", "--output", metavar="FILE", help="the result of a single model; - is standard output")
    target.add_argument(
        "--out", metavar="DIR", help="folder that mirrors the searched ones; every model is written, changed or not"
    )
    target.add_argument("--in-place", action="store_true", help="overwrite models that change")
    existing = parser.add_mutually_exclusive_group()
    existing.add_argument("--force", action="store_true", help="overwrite existing files")
    existing.add_argument("--skip-existing", action="store_true", help="leave out models whose result exists")
    existing.add_argument(
        "--resume", action="store_true", help="go on with what an earlier run with the same --out did not come to"
    )
    existing.add_argument(
        "--update",
        action="store_true",
        help="do only what is new in --out, or changed: the model, its source file, rules, options, version; results whose "
        "model is gone are removed",
    )
    parser.add_argument(
        "--journal",
        metavar="FILE",
        help="where it is noted what became of each model, for --resume and --update (default: DIR.journal.jsonl beside --out)",
    )
    parser.add_argument(
        "--keep-partial",
        action="store_true",
        help="when time ends the run, write what the rules did by then, with their number in the record",
    )
    parser.add_argument("--tidy", action=Switch, help="also remove nodes, initializers and imports that nothing uses")
    parser.add_argument(
        "--verify",
        action=Switch,
        help="also run each model before and after, and roll back what changes numbers that its rule promises to keep",
    )
    add_runtime(
        parser,
        "is asked which results it still refuses; auto: where it is installed, of models that change, and of others up to "
        "256 MB",
    )
    parser.add_argument(
        "--inputs",
        metavar="FILE",
        help="inputs for --verify (.npz, by name; default: random ones and edge values); if the file also holds outputs, by "
        "name or as out_0, out_1..., the result must give them",
    )
    parser.add_argument(
        "--stamp", action=Switch, help="leave a record in models that change, for `history` and `audit` (default: yes)"
    )
    parser.add_argument(
        "--record",
        choices=("short", "full"),
        default="short",
        help="full: the record also keeps what is gone from the model, so that `undo` needs nothing but the result",
    )
    parser.add_argument("--diff", action="store_true", help="also print how the result differs, as `rewriter diff` does")
    parser.add_argument("--profile", action="store_true", help="also print where the time went: by stage and by rule")


def write_results(command: Command, args: argparse.Namespace, ending: str) -> int:
    """Rewrites models; returns the exit code.

    Args:
        command: whose options these are.
        args: the options.
        ending: of the names of results that go beside the models.

    Raises:
        RewriterError: options that contradict each other, bad rules, or a target that cannot be.
    """
    from contextlib import nullcontext

    from rewriter.app.batch.urls import is_url
    from rewriter.app.cli.batch import run_batch
    from rewriter.app.cli.options import runtime_choice
    from rewriter.app.cli.paths import result_in, unwritten_yet
    from rewriter.core.errors import RewriterError
    from rewriter.core.onnxfile.write import sole_run
    from rewriter.core.record import replace

    if args.inputs is not None and not args.verify:
        raise RewriterError("--inputs says what --verify runs the models on; give both")
    args.ask_runtime = runtime_choice(args.runtime)
    for name in ("resume", "update", "journal"):
        if getattr(args, name) and (not args.out or is_url(args.out)):
            raise RewriterError(f"--{name} is about a folder of results on this machine; give it with --out")
    if args.inputs is not None:
        from rewriter.app.batch.deadline import within_limits
        from rewriter.app.cli.options import limits_of
        from rewriter.trust.proof.models.model_inputs import read_inputs

        with within_limits(**limits_of(args)):
            read_inputs(args.inputs)  # a bad file is one error, before any work is done
    jobs = _planned(args, ending)
    with nullcontext() if args.out is None or is_url(args.out) else sole_run(args.out):
        if not (args.force or args.resume or args.update or _is_remote(args)):
            jobs = unwritten_yet(jobs, skip=args.skip_existing)
        if args.staging is not None and args.output not in (None, "-"):
            jobs = [replace(job, target=str(result_in(args.staging))) for job in jobs]
        return _run_to_stdout(command, jobs, args) if args.output == "-" else run_batch(command, jobs, args)


def _is_remote(args: argparse.Namespace) -> bool:
    from rewriter.app.batch.urls import is_remote, is_url

    return any(map(is_remote, args.paths)) or is_url(args.output) or is_url(args.out)


def _planned(args: argparse.Namespace, ending: str) -> list[Job]:
    """The models, and where the result of each goes."""
    targets = {"output": args.output, "out": args.out, "in_place": args.in_place}
    if _is_remote(args):
        from rewriter.app.cli.remote_jobs import planned_remote

        return planned_remote(args.paths, ending, **targets, force=args.force, skip=args.skip_existing)
    from rewriter.app.cli.paths import find_models, plan

    found = find_models(args.paths, leave_out=args.out, skip="" if any(targets.values()) else ending)
    return plan(found, **targets, ending=ending)


def _run_to_stdout(command: Command, jobs: Sequence[Job], args: argparse.Namespace) -> int:
    """`-o -`: the result of a single model goes to standard output, and everything that is said about it to stderr.

    Raises:
        RewriterError: that is a terminal or busy, or the result does not fit into one file.
    """
    import contextlib
    import tempfile
    from pathlib import Path

    from rewriter.app.cli.batch import run_batch
    from rewriter.app.cli.output import check_stdout, model_to_stdout
    from rewriter.core.errors import RewriterError
    from rewriter.core.record import replace

    check_stdout()
    if args.format != "text":
        raise RewriterError(f"-o - and --format {args.format} would both write to standard output; use --report")
    with tempfile.TemporaryDirectory() as folder:
        name = Path(folder) / "model.onnx"
        with contextlib.redirect_stdout(sys.stderr):
            code = run_batch(command, [replace(job, target=str(name)) for job in jobs], args)
        model_to_stdout(Path(folder))
    return code
