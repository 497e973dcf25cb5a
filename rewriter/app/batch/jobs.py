"""The models of the files, folders and URLs that a call names, and the targets of their results.

The commands use this module. A file, a URL and the standard input differ only in how they are found.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.app.batch.work import STDIN, STDOUT, Job, called, is_remote, is_url
from rewriter.core.errors import RewriterError
from rewriter.core.record import record

if TYPE_CHECKING:
    from rewriter.workbench.surgery.opened import Opened

MODEL = ".onnx"
FIXED = ".fixed.onnx"
OPTIMIZED = ".optimized.onnx"


@record(frozen=True, slots=True)
class Found:
    """A model, and its place under the folder in which it was found (its name, if the call names the model itself)."""

    path: str
    place: str


def find_models(paths: Sequence[str], *, leave_out: str | None = None, skip: str = "") -> list[Found]:
    """The models named and those below the folders named, each once, folders in the order of their names.

    A model that is also reached by a symbolic link has its own name.

    Args:
        paths: files, which need not exist (they fail one by one, later), folders, URLs of either, or the standard input.
        leave_out: a folder that is not searched, since results go there.
        skip: an ending such as `.fixed.onnx`: models in folders whose names end so are left out. "" leaves out none.

    Raises:
        RewriterError: nothing is named, a URL cannot be listed, or there is no model in a folder.
    """
    if not paths:
        raise RewriterError("no model; name a file or a folder")
    found: dict[str, Found] = {}
    hidden = None if leave_out is None or is_url(leave_out) else _real(leave_out)
    for path in paths:
        for model in _models_of(path, hidden, skip):
            real = _real(model.path)
            if real not in found or (os.path.islink(found[real].path) and not os.path.islink(model.path)):
                found[real] = model
    if STDIN in found and len(found) > 1:
        raise RewriterError("- is the model on the standard input, and cannot be combined with other models")
    return list(found.values())


def _models_of(text: str, hidden: str | None, skip: str) -> list[Found]:
    if text == STDIN:
        return [Found(STDIN, "stdin.onnx")]
    if is_url(text):
        from rewriter.app.batch.remote import models_at

        return [Found(url, place) for url, place in models_at(text, skip=skip or None)]
    path = Path(text)
    if not path.is_dir():
        return [Found(str(path), path.name)]
    models = [Found(str(model), model.relative_to(path).as_posix()) for model in _below(path, hidden, skip)]
    if not models:
        raise RewriterError(f"{path}: there is no *{MODEL} in this folder")
    return models


def _below(folder: Path, hidden: str | None, skip: str) -> Iterator[Path]:
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and _real(os.path.join(here, name)) != hidden)
        for name in sorted(files):
            lower = name.lower()
            if lower.endswith(MODEL) and not name.startswith(".") and not (skip and lower.endswith(skip)):
                yield Path(here, name)


def _real(path: str) -> str:
    """The real path. A link that leads to itself is returned unchanged and fails when it is read."""
    return path if is_remote(path) else os.path.realpath(path)


def unwritten(models: Sequence[Found]) -> list[Job]:
    """Jobs that write nothing."""
    return [Job(model.path) for model in models]


def plan(models: Sequence[Found], *, output: str | None, out: str | None, in_place: bool, ending: str = FIXED) -> list[Job]:
    """The jobs, each with the target of its result.

    Args:
        models: what was found.
        output: the file for a single model.
        out: the folder that mirrors what was found.
        in_place: replace the models. Without `output`, `out` and `in_place`, results go next to the models.
        ending: of the names of results that go next to the models.

    Raises:
        RewriterError: several models have one target, or a model is its own target without `in_place`.
    """
    if output is not None and len(models) > 1:
        raise RewriterError(f"-o {output} names one file, but there are {len(models)} models; use --out")
    if output is None and any(model.path == STDIN for model in models):
        raise RewriterError("name the result of the standard input with -o; -o - is the standard output")
    if output == STDOUT:
        return [Job(model.path, STDOUT) for model in models]
    owners: dict[str, str] = {}
    jobs = []
    for model in models:
        target = model.path if in_place else _target(model, output, out, ending)
        resolved = _real(target)
        if resolved == _real(model.path) and not in_place:
            raise RewriterError(f"{target} is the input itself; use --in-place to overwrite it")
        other = owners.setdefault(resolved, model.path)
        if other != model.path:
            raise RewriterError(f"the results of {other} and {model.path} would both be {target}{_apart(other, model.path)}")
        jobs.append(Job(model.path, target))
    for model in () if in_place else models:
        owner = owners.get(_real(model.path))
        if owner is not None:
            raise RewriterError(f"the result of {owner} would overwrite the input {model.path}")
    return jobs


def _target(model: Found, output: str | None, out: str | None, ending: str) -> str:
    if output is not None:
        if not is_url(output) and os.path.isdir(output):
            raise RewriterError(f"-o {output} is a folder; use --out")
        return output if is_url(output) else str(Path(output))
    if out is not None and not is_url(out):
        return str(Path(out) / model.place)
    if out is None and not is_url(model.path):
        path = Path(model.path)
        return str(path.with_name(path.name.removesuffix(MODEL) + ending))
    from rewriter.app.batch.remote import below_url, beside, name_of

    if out is not None:
        return below_url(out, model.place)
    return beside(model.path, name_of(model.path).removesuffix(MODEL) + ending)


def _apart(one: str, other: str) -> str:
    """Advice on how to give the results of two models different targets."""
    if is_remote(one) or is_remote(other):
        return ""
    above = os.path.commonpath([os.path.abspath(one), os.path.abspath(other)])
    if os.path.dirname(above) == above:
        return "; pass a different --out for each"
    return f"; name the folder above both instead, {os.path.relpath(above)}, or pass a different --out for each"


def check_results(jobs: Sequence[Job]) -> None:
    """Raises RewriterError if several results exist. If one exists, the job itself fails with that error."""
    found = [job.target for job in jobs if has_result(job)]
    if len(found) > 1:
        raise RewriterError(
            f"{len(found):,} of {len(jobs):,} results exist, such as {found[0]}; pass --update for new and changed models, "
            "--resume for missing results, --force for all models again, or --skip-existing to keep these results"
        )


def has_result(job: Job) -> bool:
    """Whether the result of a job exists."""
    if job.target is None or job.target in (job.path, STDOUT):
        return False
    if is_url(job.target):
        from rewriter.app.batch.remote import exists

        return exists(job.target)
    return os.path.lexists(job.target)


# Single models, which a command reads itself.


def opened(text: str, source: str = "none") -> Opened:
    """The model of an argument: a file, a URL, or - for the standard input.

    Args:
        text: the argument.
        source: the value of `--source`. With "auto", the framework's own file is also downloaded.

    Raises:
        RewriterError: it cannot be read or downloaded.
    """
    from rewriter.workbench.surgery.opened import Opened

    if not is_remote(text):
        return Opened(text)
    from tempfile import TemporaryDirectory

    from rewriter.app.batch.remote import download
    from rewriter.core.isolation.budget import undisturbed

    folder = TemporaryDirectory(prefix="rewriter-")
    with undisturbed():  # limits are for the work on a model, not for its transfer
        path = download(text, Path(folder.name), source=source)
    name = "standard input" if text == STDIN else text
    called(str(path), name)
    return Opened(path, name, folder)


def all_opened(texts: Sequence[str], source: str = "none") -> list[Opened]:
    """The models of several arguments, as `opened` has them.

    Raises:
        RewriterError: one cannot be read or downloaded, or two are the standard input.
    """
    if texts.count(STDIN) > 1:
        raise RewriterError("- is the model on the standard input, and there is only one")
    return [opened(text, source) for text in texts]
