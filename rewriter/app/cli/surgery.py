"""What the commands that cut, join and edit models share: where results go, and what is told of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rewriter.app.batch.urls import STDOUT, is_url
from rewriter.app.cli.options import LONG, limits_of
from rewriter.core.errors import RewriterError
from rewriter.workbench.style import clean

if TYPE_CHECKING:
    from rewriter.core.graph.model import Model
    from rewriter.workbench.surgery.finish import Checks, Surgery
    from rewriter.workbench.surgery.opened import Opened


@contextmanager
def limited(args: argparse.Namespace) -> Iterator[None]:
    """The limits of a command: of time mostly for copying, which large weights take; judges have their usual time.

    Raises:
        RewriterError: it was not done within them.
    """
    from rewriter.app.batch.deadline import within_limits
    from rewriter.trust.proof.judges.child import SECONDS as OF_JUDGES
    from rewriter.trust.proof.judges.child import Budget, budgeted

    limits = limits_of(args, LONG)
    with within_limits(**limits), budgeted(Budget(min(limits["seconds"], OF_JUDGES), limits["memory"])):
        yield


def checks_of(args: argparse.Namespace) -> Checks:
    """What the options say of checks."""
    from rewriter.app.cli.options import runtime_choice
    from rewriter.workbench.surgery.finish import Checks

    return Checks(runtime=runtime_choice(args.runtime), stamp=args.stamp)  # type: ignore[arg-type]


def targets(args: argparse.Namespace, sources: Sequence[Opened], files: Sequence[str]) -> None:
    """Refuses, before anything is done, what cannot be written.

    Raises:
        RewriterError: a result exists already, or is one of the inputs.
    """
    import os
    from pathlib import Path

    from rewriter.app.cli.output import check_stdout
    from rewriter.core.onnxfile.write import check_target

    if args.dry_run:
        return
    if args.output is None:
        raise RewriterError("say where the result goes with -o FILE, or try with --dry-run")
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
    """Runs a command that makes one model of the one in `args.model`; returns 0."""
    from rewriter.app.batch.jobs import opened

    source = opened(args.model)
    targets(args, [source], [args.output])
    with limited(args):
        return deliver(args, source, make(source, checks_of(args)))


def deliver(args: argparse.Namespace, source: Opened, done: Surgery) -> int:
    """Writes one result and tells of it; returns 0."""
    import sys

    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.report.comparison_lines import comparison_lines

    differences = _differences(source, done.model) if args.diff else []
    if args.dry_run and done.write is not None:
        _to_nowhere(done)
    written = [] if args.dry_run else _write(args, done, str(args.output))
    if args.format == "json" and args.output != STDOUT:
        print(_as_json(args.command, source, done, written))
        return 0
    stream = sys.stderr if args.output == STDOUT and not args.dry_run else sys.stdout
    style = style_of(stream)
    lines = list(_lines(source, done, written, args, style))
    if args.diff:
        lines += comparison_lines(source.name, str(args.output or "the result"), differences, style)
    for line in lines:
        if stream is sys.stdout:
            tell(line)
        else:
            print(line, file=stream)
    return 0


def _lines(source: Opened, done: Surgery, written: Sequence[str], args: argparse.Namespace, style: Any) -> list[str]:

    where = f" -> {clean(written[0])}" if written else " (dry run)" if args.dry_run else ""
    lines = [f"{style.paint('bold', clean(source.name))}{where}", *(f"  {clean(line)}" for line in done.did)]
    if done.same:
        lines.append("  runs, and computes the same")
    return lines + [f"  {style.paint('dim', 'note')}: {clean(note)}" for note in done.notes]


def _as_json(command: str, source: Opened, done: Surgery, written: Sequence[str]) -> str:
    from rewriter.app.report.jsonreport import dumps

    return dumps(
        {
            "schema": 1,
            "command": command,
            "input": source.name,
            "output": list(written),
            "did": done.did,
            "notes": done.notes,
            "same": done.same,
        }
    )


def _write(args: argparse.Namespace, done: Surgery, file: str) -> list[str]:
    from pathlib import Path

    if args.output == STDOUT:
        return _to_stdout(done)
    if is_url(file):
        return _to_url(done, file)
    return [str(path) for path in done.save(Path(file), force=args.force)]


def _to_nowhere(done: Surgery) -> None:
    """What is judged only when it is written."""
    from rewriter.core.onnxfile.temporary import temporary_folder

    with temporary_folder() as folder:
        done.save(folder / "model.onnx")


def _to_stdout(done: Surgery) -> list[str]:
    from rewriter.app.cli.output import model_to_stdout
    from rewriter.core.onnxfile.temporary import temporary_folder

    with temporary_folder() as folder:
        done.save(folder / "model.onnx")
        model_to_stdout(folder)
    return [STDOUT]


def _to_url(done: Surgery, url: str) -> list[str]:
    from rewriter.app.batch.remote import name_of, upload
    from rewriter.core.onnxfile.temporary import temporary_folder

    with temporary_folder() as folder:
        path = folder / name_of(url)
        done.save(path)
        upload(path, url, alone=False)
    return [url]


def _differences(source: Opened, after: Model) -> list[Any]:
    from rewriter.trust.diff.difference import compare

    before = source.read()
    return list(compare(before.sketch(), after.sketch(), before.folder, after.folder))
