"""Functions that the commands that cut, join and edit models share: they write results and print notes on them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.app.batch.urls import STDOUT, is_url
from rewriter.app.cli.options import LONG, limits_of, runtime_choice
from rewriter.app.cli.output import answer_json, check_stdout, model_to_stdout, print_line, style_of
from rewriter.core.errors import RewriterError
from rewriter.workbench.style import Style, clean

if TYPE_CHECKING:
    from rewriter.core.graph.model import Model
    from rewriter.workbench.surgery.finish import Checks, Surgery
    from rewriter.workbench.surgery.opened import Opened


@contextmanager
def limited(args: argparse.Namespace) -> Iterator[None]:
    """The limits of a command. Its time is mostly for copying large weights; checks have their usual time.

    Raises:
        RewriterError: the command exceeded a limit.
    """
    from rewriter.core.isolation.budget import SECONDS as OF_CHECKS
    from rewriter.core.isolation.budget import Budget, budgeted, within_limits

    limits = limits_of(args, LONG)
    with within_limits(**limits), budgeted(Budget(min(limits["seconds"], OF_CHECKS), limits["memory"])):
        yield


def checks_of(args: argparse.Namespace) -> Checks:
    """The checks that the options select."""
    from rewriter.workbench.surgery.finish import Checks

    return Checks(runtime=runtime_choice(args.runtime), stamp=args.stamp)  # type: ignore[arg-type]


def targets(args: argparse.Namespace, sources: Sequence[Opened], files: Sequence[str]) -> None:
    """Checks, before any work, that the results can be written.

    Raises:
        RewriterError: a result exists already, or is one of the inputs.
    """
    from rewriter.core.onnxfile.write import check_target

    if args.dry_run:
        return
    if args.output is None:
        raise RewriterError("name the result with -o FILE, or pass --dry-run")
    if args.output == STDOUT:
        check_stdout()
        return
    if is_url(args.output):
        from rewriter.app.batch.remote import exists

        if not args.force and exists(args.output):
            raise RewriterError(f"{args.output} exists; --force overwrites it")
        return
    own = {os.path.realpath(source.path) for source in sources if source.path is not None}
    for file in files:
        if os.path.realpath(file) in own and not args.force:
            raise RewriterError(f"{file} is the input itself; --force overwrites it")
        if check_target(Path(file), force=True) is not None and not args.force:
            raise RewriterError(f"{file} exists; --force overwrites it")


def one_result(args: argparse.Namespace, make: Callable[[Opened, Checks], Surgery]) -> int:
    """Runs a command that makes one model of the model in `args.model`; returns 0."""
    from rewriter.app.batch.jobs import opened

    source = opened(args.model)
    targets(args, [source], [args.output])
    with limited(args):
        return deliver(args, source, make(source, checks_of(args)))


def deliver(args: argparse.Namespace, source: Opened, done: Surgery) -> int:
    """Writes one result and prints the changes; returns 0."""
    from rewriter.app.report.comparison_lines import comparison_lines

    differences = _differences(source, done.model) if args.diff else []
    written = _written(args, done)
    if args.format == "json" and args.output != STDOUT:
        found = {"did": done.did, "notes": done.notes, "same": done.same}
        answer_json(args, {"input": source.name, "output": written, **found})
        return 0
    to_stderr = args.output == STDOUT and not args.dry_run
    style = style_of(sys.stderr if to_stderr else sys.stdout)
    lines = list(_lines(source, done, written, style, is_dry=args.dry_run))
    if args.diff:
        lines += comparison_lines(source.name, str(args.output or "the result"), differences, style)
    for line in lines:
        if to_stderr:
            print(line, file=sys.stderr)
        else:
            print_line(line)
    return 0


def _lines(source: Opened, done: Surgery, written: Sequence[str], style: Style, *, is_dry: bool) -> Iterator[str]:
    where = f" -> {clean(written[0])}" if written else " (dry run)" if is_dry else ""
    yield f"{style.paint('bold', clean(source.name))}{where}"
    yield from (f"  {clean(line)}" for line in done.did)
    if done.same:
        yield "  runs, and computes the same"
    yield from (f"  {style.paint('dim', 'note')}: {clean(note)}" for note in done.notes)


def _written(args: argparse.Namespace, done: Surgery) -> list[str]:
    """The names of the written files, or the URL. A dry run writes to a temporary folder, because some checks need the file."""
    if not (args.dry_run or args.output == STDOUT or is_url(args.output)):
        return [str(path) for path in done.save(Path(args.output), force=args.force)]
    if args.dry_run and done.write is None:
        return []
    from rewriter.app.batch.remote import name_of, upload
    from rewriter.core.onnxfile.write import temporary_folder

    with temporary_folder() as folder:
        path = folder / (name_of(args.output) if is_url(args.output) else "model.onnx")
        done.save(path)
        if args.dry_run:
            return []
        if args.output == STDOUT:
            model_to_stdout(folder)
        else:
            upload(path, args.output, alone=False)
    return [args.output]


def _differences(source: Opened, after: Model) -> list[Any]:
    from rewriter.trust.difference import compare

    before = source.read()
    return list(compare(before.sketch(), after.sketch(), before.folder, after.folder))
