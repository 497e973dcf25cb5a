"""From the paths on the command line to models, and from models to where their results go."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rewriter.app.batch.work import Job
from rewriter.app.cli.output import say
from rewriter.core.errors import RewriterError
from rewriter.core.record import record

MODEL = ".onnx"
FIXED = ".fixed.onnx"
OPTIMIZED = ".optimized.onnx"
STDOUT = "-"


@record(frozen=True, slots=True)
class Found:
    """A model, and its place under the folder in which it was found (its name, when it was given itself)."""

    path: Path
    place: Path


def find_models(paths: Sequence[str], *, leave_out: str | None = None, skip: str = "") -> list[Found]:
    """The models given and those below the folders given, each once, folders in the order of their names.

    Args:
        paths: files, which need not exist (they fail one by one, later), and folders.
        leave_out: a folder that is not searched, since results go there.
        skip: leave out models found in folders whose names end so, as `.fixed.onnx`; "" leaves out none.

    Raises:
        RewriterError: nothing is given, or there is no model in a folder.
    """
    if not paths:
        raise RewriterError("no model is given; name a file or a folder")
    found: dict[str, Found] = {}
    hidden = None if leave_out is None else _real(leave_out)
    for text in paths:
        path = Path(text)
        models = [Found(path, Path(path.name))]
        if path.is_dir():
            models = [Found(model, model.relative_to(path)) for model in _below(path, hidden, skip)]
            if not models:
                raise RewriterError(f"{path}: there is no *{MODEL} in this folder")
        for model in models:
            found.setdefault(_real(model.path), model)
    return list(found.values())


def _below(folder: Path, hidden: str | None, skip: str) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and _real(os.path.join(here, name)) != hidden)
        for name in sorted(files):
            lower = name.lower()
            if lower.endswith(MODEL) and not name.startswith(".") and not (skip and lower.endswith(skip)):
                yield Path(here, name)


def _real(path: str | Path) -> str:
    """Where a path leads; a link that leads to itself is left as it is, to fail when it is read."""
    return os.path.realpath(path)


def unwritten(models: Sequence[Found]) -> list[Job]:
    """Jobs that write nothing."""
    return [Job(str(model.path)) for model in models]


def plan(models: Sequence[Found], *, output: str | None, out: str | None, in_place: bool, ending: str = FIXED) -> list[Job]:
    """Where the result of each model goes.

    Args:
        models: what was found.
        output: the file for a single model.
        out: the folder that mirrors what was found.
        in_place: replace the models; with none of the three, results go beside them.
        ending: of the names of results that go beside the models.

    Raises:
        RewriterError: several models have one target, or a model is its own though `in_place` is not given.
    """
    if output is not None and len(models) > 1:
        raise RewriterError(f"-o {output} names one file, but there are {len(models)} models; use --out")
    owners: dict[str, Path] = {}
    jobs = []
    for model in models:
        target = model.path
        if output == STDOUT:
            jobs.append(Job(str(model.path), STDOUT))
            continue
        if output is not None:
            target = Path(output)
            if target.is_dir():
                raise RewriterError(f"-o {output} is a folder; use --out")
        elif out is not None:
            target = Path(out) / model.place
        elif not in_place:
            target = model.path.with_name(model.path.name.removesuffix(MODEL) + ending)
        resolved = _real(target)
        if resolved == _real(model.path) and not in_place:
            raise RewriterError(f"{target} is the input itself; use --in-place to overwrite it")
        other = owners.setdefault(resolved, model.path)
        if other != model.path:
            raise RewriterError(f"the results of {other} and {model.path} would both be {target}; {_apart(other, model.path)}")
        jobs.append(Job(str(model.path), str(target)))
    for model in () if in_place else models:
        owner = owners.get(_real(model.path))
        if owner is not None:
            raise RewriterError(f"the result of {owner} would overwrite the input {model.path}")
    return jobs


def _apart(one: Path, other: Path) -> str:
    """What to do that the results of two models do not get into each other's way."""
    above = os.path.commonpath([os.path.abspath(one), os.path.abspath(other)])
    if os.path.dirname(above) == above:
        return "give each an --out of its own"
    return f"name the folder above both instead, {os.path.relpath(above)}, or give each an --out of its own"


def unwritten_yet(jobs: Sequence[Job], *, skip: bool) -> list[Job]:
    """The jobs whose result does not exist; with one such result the job itself says so.

    Args:
        jobs: what is to be done.
        skip: leave out the others, and say how many there were.

    Raises:
        RewriterError: several results exist, and they are not to be skipped.
    """
    found = [job.target for job in jobs if job.target not in (None, job.path, STDOUT) and os.path.lexists(job.target)]
    if skip:
        if found:
            say(f"{len(found)} of {len(jobs)} results exist and were skipped")
        gone = set(found)
        return [job for job in jobs if job.target not in gone]
    if len(found) > 1:
        raise RewriterError(
            f"{len(found):,} of {len(jobs):,} results exist, {found[0]} for one; --update does only what changed, --resume "
            "what is missing, --force all again, --skip-existing leaves them as they are"
        )
    return list(jobs)


def result_in(staging: str | Path) -> Path:
    """Where a command in the sandbox leaves the result of `-o`, in a folder from which it is taken afterwards."""
    return Path(staging, "model.onnx")


def report_in(staging: str | Path, number: int) -> Path:
    """Where it leaves a report."""
    return Path(staging, f"report-{number}")
