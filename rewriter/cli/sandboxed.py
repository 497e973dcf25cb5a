"""`--sandbox`: which files a call may still open once it begins to work on models."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from rewriter.batch.sandbox import enter
from rewriter.batch.urls import is_remote
from rewriter.batch.work import Job
from rewriter.cli.paths import STDOUT
from rewriter.errors import RewriterError


def confine(jobs: Sequence[Job], args: argparse.Namespace) -> None:
    """Gives up the network and all files but these: folders of models, of results and of reports, and the files that are named.

    Rules, configuration and journal are open or read already.

    Raises:
        RewriterError: the call needs the network, or this system has no sandbox.
    """
    if args.scheduler is not None:
        raise RewriterError("--sandbox is for work on this machine, which --scheduler is not")
    if any(is_remote(path) for job in jobs for path in (job.path, job.target if job.target != STDOUT else None)):
        raise RewriterError("--sandbox has no network and no standard input; name files of this machine")
    named = [args.source, getattr(args, "inputs", None), getattr(args, "expect", None), *(args.rules or ())]
    models = {_folder(path) for job in jobs for path in (job.path, os.path.realpath(job.path))}
    results = {args.out} if getattr(args, "out", None) else {_folder(job.target) for job in jobs if job.target is not None}
    reports = {_folder(path) for path in args.report if path != STDOUT}
    readable = [*_highest(models), *(one for one in named if one and os.path.exists(one))]
    enter(readable, [*sorted(results), *sorted(reports)])


def _folder(path: str) -> str:
    return os.path.dirname(os.path.abspath(path))


def _highest(folders: set[str]) -> list[str]:
    """Those that are below none of the others: one of thousands may do for all."""
    found: list[str] = []
    for folder in sorted(folders):
        if not found or not folder.startswith(f"{found[-1]}{os.sep}"):
            found.append(folder)
    return found
