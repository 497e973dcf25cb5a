"""Jobs of which a model or a result is a URL, or the model comes from the standard input."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from rewriter.app.batch.remote import below_url, beside, exists, models_at, name_of
from rewriter.app.batch.urls import STDIN, is_url
from rewriter.app.batch.work import Job
from rewriter.app.cli.output import say
from rewriter.app.cli.paths import MODEL, STDOUT, find_models
from rewriter.core.errors import RewriterError


def found_remote(paths: Sequence[str], *, leave_out: str | None = None, skip: str = "") -> list[tuple[str, str]]:
    """Models, each with its place under the folder in which it was found.

    Raises:
        RewriterError: a URL cannot be listed, or there is no model in a folder.
    """
    found: dict[str, str] = {}
    for path in paths:
        if path == STDIN:
            found.setdefault(path, "stdin.onnx")
        elif is_url(path):
            found.update(models_at(path, skip=skip or None))
        else:
            models = find_models([path], leave_out=leave_out, skip=skip)
            found.update((str(model.path), model.place.as_posix()) for model in models)
    if STDIN in found and len(found) > 1:
        raise RewriterError("- is the model on the standard input, and stands alone")
    return list(found.items())


def planned_remote(
    paths: Sequence[str], ending: str, *, output: str | None, out: str | None, in_place: bool, force: bool, skip: bool
) -> list[Job]:
    """The jobs of a repair, as `paths.plan` has them for files; names of results beside the models have the ending.

    Raises:
        RewriterError: several models have one target, or one would be overwritten.
    """
    local = None if out is None or is_url(out) else out
    models = found_remote(paths, leave_out=local, skip="" if output or out or in_place else ending)
    if output is not None and len(models) > 1:
        raise RewriterError(f"-o {output} names one file, but there are {len(models)} models; use --out")
    if (STDIN, "stdin.onnx") in models and output is None:
        raise RewriterError("say with -o where the result of the standard input goes; -o - is the standard output")
    jobs = [Job(path, _target(path, place, output, out, ending, in_place=in_place)) for path, place in models]
    owners: dict[str | None, str] = {}
    for job in jobs:
        if job.target == job.path != STDIN and not in_place:
            raise RewriterError(f"{job.target} is the input itself; use --in-place to overwrite it")
        other = owners.setdefault(job.target, job.path)
        if other != job.path:
            raise RewriterError(f"the results of {other} and {job.path} would both be {job.target}")
    if skip and not force:
        left = [job for job in jobs if not _is_there(job)]
        if len(left) < len(jobs):
            say(f"{len(jobs) - len(left)} of {len(jobs)} results exist and were skipped")
        return left
    return jobs


def _target(path: str, place: str, output: str | None, out: str | None, ending: str, *, in_place: bool) -> str:
    if in_place:
        return path
    if output is not None:
        return output
    if out is not None:
        return below_url(out, place) if is_url(out) else str(Path(out) / place)
    return beside(path, name_of(path).removesuffix(MODEL) + ending)


def _is_there(job: Job) -> bool:
    if job.target is None or job.target in (STDOUT, job.path):
        return False
    return exists(job.target) if is_url(job.target) else os.path.lexists(job.target)
