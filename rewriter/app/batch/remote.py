"""Models that are not files of this machine: URLs, by way of fsspec, and the standard input.

Such a model is downloaded into a folder of its own, with its external data and the framework's file. It is worked on there as
any other model, and the results are uploaded to their targets. So all other modules work only with files.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rewriter.app.batch.journal import named_at_once
from rewriter.app.batch.work import STDIN, Job, Outcome, Work, is_remote, is_url, with_names
from rewriter.core.errors import RewriterError, install
from rewriter.core.record import replace
from rewriter.trust.source.find import FIXED

_NO_FOLDER = "an empty folder, because the standard input has no data files"
"""Where the data files of a model from the standard input are looked for, as messages say it."""

_WHOLE = ("http://", "https://")
"""Schemes of URLs in which the text after a `?` is no part of the path."""


def process_remote(job: Job, work: Work, process: Callable[[Job, Work], Outcome]) -> Outcome:
    """Does a job whose model, or its result, is no file of this machine. Like `process`, it never raises."""
    try:
        with TemporaryDirectory(prefix="rewriter-") as folder, named_at_once():
            return _process(job, work, process, Path(folder))
    except RewriterError as error:
        return Outcome(job.path, error=str(error))


def _process(job: Job, work: Work, process: Callable[[Job, Work], Outcome], folder: Path) -> Outcome:
    path, target, names = job.path, job.target, dict[str, str]()
    in_place = target == path != STDIN
    if target is not None and is_url(target) and not in_place and not work.writing.force and exists(target):
        raise RewriterError(f"{target} exists; --force overwrites it")
    if is_remote(path):
        (inputs := folder / "in").mkdir()
        path = str(download(job.path, inputs, source=work.reading.source))
        names = {path: job.path, **{str(one): beside(job.path, one.name) for one in inputs.iterdir() if str(one) != path}}
        names[str(inputs)] = _NO_FOLDER if job.path == STDIN else beside(job.path, "").rstrip("/")
    if target is not None and is_url(target):
        (outputs := folder / "out").mkdir()
        target = path if in_place else str(outputs / name_of(target))
        names.setdefault(target, job.target or "")
    outcome = process(replace(job, path=path, target=target), work)
    _rename(outcome, names)
    if target != job.target and outcome.output is not None:
        with _url_errors(outcome.output):
            upload(Path(target or ""), str(job.target), alone=in_place)
    return outcome


def download(url: str, folder: Path, *, source: str) -> Path:
    """Downloads a model with its data and source files. Returns its path on this machine."""
    if url == STDIN:
        with (path := folder / "stdin.onnx").open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        return path
    with _url_errors(url):
        fs, there = _filesystem(url)
        fs.get_file(there, str(path := folder / name_of(url)))
        for location in _locations(path):
            if fs.exists(other := _filesystem(beside(url, location))[1]):
                (folder / location).parent.mkdir(parents=True, exist_ok=True)
                fs.get_file(other, str(folder / location))
        for name in _sources(url, fs) if source == "auto" else []:
            fs.get_file(_filesystem(beside(url, name))[1], str(folder / name))
    return path


def _locations(path: Path) -> list[str]:
    """Files with weights in or below the folder of a model; none if the model cannot be read."""
    from rewriter.core.onnxfile import external_data
    from rewriter.core.onnxfile.model_file import read_model_file

    try:
        found = {place.location for place in external_data.references(read_model_file(path).proto)}
    except RewriterError:  # the work on it fails with the same error
        return []
    inside = [name for name in found if name and not os.path.isabs(name) and ".." not in Path(name).parts and "\0" not in name]
    return sorted(name for name in inside if len(name) < 1_000 and name != path.name)


def _sources(url: str, fs: Any) -> list[str]:
    """Files next to a model that may be the framework's own file. If a server lists nothing, the file named after the model."""
    stem = name_of(url).removesuffix(".onnx").removesuffix(FIXED)
    own = f"{stem}-symbol.json"
    try:
        names = [str(one).rstrip("/").rpartition("/")[2] for one in fs.ls(_filesystem(beside(url, ""))[1], detail=False)]
    except Exception:  # a server that cannot list raises one of many errors
        names = [own] if fs.exists(_filesystem(beside(url, own))[1]) else []
    if own in names:
        return [own]
    if {name.removesuffix(".onnx").removesuffix(FIXED) for name in names if name.endswith(".onnx")} - {stem}:
        return []
    found = [name for name in names if name == "symbol.json" or name.endswith("-symbol.json")]
    return found if len(found) <= 2 else []


def _rename(outcome: Outcome, names: dict[str, str]) -> None:
    """Replaces, in an outcome, the files of this machine by the names that users know."""
    by_name = partial(with_names, names=names)
    outcome.path = by_name(outcome.path)
    outcome.output = outcome.output and by_name(outcome.output)
    outcome.source = outcome.source and by_name(outcome.source)
    outcome.error, outcome.crash = by_name(outcome.error), by_name(outcome.crash)
    outcome.unjudged = list(map(by_name, outcome.unjudged))
    outcome.stamps = [replace(stamp, path=by_name(stamp.path)) for stamp in outcome.stamps]
    if outcome.log is not None:
        outcome.log.notes = list(map(by_name, outcome.log.notes))


def upload(path: Path, url: str, *, alone: bool) -> None:
    """Uploads a result to its URL. Its weights are uploaded first, so that an uploaded model can always be read."""
    others = [] if alone else [one for one in sorted(path.parent.rglob("*")) if one.is_file() and one != path]
    for one in others:
        _put(one, beside(url, one.relative_to(path.parent).as_posix()))
    _put(path, url)


def _put(path: Path, url: str) -> None:
    fs, there = _filesystem(url)
    fs.makedirs(fs._parent(there), exist_ok=True)
    fs.put_file(str(path), there)


def put_bytes(url: str, data: bytes) -> None:
    """Writes a file in one step. Raises RewriterError if it cannot be written."""
    with _url_errors(url):
        fs, there = _filesystem(url)
        fs.makedirs(fs._parent(there), exist_ok=True)
        fs.pipe_file(there, data)


def exists(url: str) -> bool:
    """Whether a URL exists. Raises RewriterError if that is unknown."""
    with _url_errors(url):
        fs, there = _filesystem(url)
        return bool(fs.exists(there))


def models_at(url: str, *, skip: str | None = None) -> list[tuple[str, str]]:
    """The model of a URL, or the models below it if it is a folder: the URL of each and its place under the folder.

    Args:
        url: of a model or a folder.
        skip: an ending of models in folders that are left out.

    Raises:
        RewriterError: it cannot be listed, or there is no model in the folder.
    """
    with _url_errors(url):
        fs, there = _filesystem(url)
        if name_of(url).lower().endswith(".onnx") or not fs.isdir(there):
            return [(url, name_of(url))]
        below = str(there).rstrip("/")
        places = [str(one)[len(below) :].lstrip("/") for one in sorted(fs.find(there))]
    models = [one for one in places if one.lower().endswith(".onnx") and not any(p.startswith(".") for p in one.split("/"))]
    if not models:
        raise RewriterError(f"{url}: there is no *.onnx in this folder")
    return [(below_url(url, one), one) for one in models if skip is None or not one.lower().endswith(skip)]


def name_of(url: str) -> str:
    """The name of a file, by its URL."""
    head = url.partition("::")[0]
    return (head.partition("?")[0] if head.startswith(_WHOLE) else head).rstrip("/").rpartition("/")[2] or "model.onnx"


def beside(url: str, name: str) -> str:
    """The URL of another name in the folder of a URL; for "", the URL of the folder."""
    if not is_url(url):
        return str(Path(url).with_name(name))
    head, more, rest = url.partition("::")
    head = head.partition("?")[0] if head.startswith(_WHOLE) else head
    start, _, path = head.partition("://")
    folder = path.rpartition("/")[0]
    return f"{start}://{folder}{'/' if folder and name else ''}{name}{more}{rest}"


def below_url(url: str, place: str) -> str:
    """The URL of a place below a folder."""
    head, more, rest = url.partition("::")
    return f"{head.rstrip('/')}/{place}{more}{rest}" if not head.endswith("://") else f"{head}{place}{more}{rest}"


def _filesystem(url: str) -> tuple[Any, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise RewriterError(f"{url}: URLs need fsspec; install it with: {install('remote')}") from None
    fs, path = url_to_fs(url)
    return fs, str(path)


@contextmanager
def _url_errors(url: str) -> Iterator[None]:
    """Turns every error of a file system into one line."""
    try:
        yield
    except RewriterError:
        raise
    except FileNotFoundError:
        raise RewriterError(f"{url}: no such file or directory") from None
    except ImportError as error:
        raise RewriterError(f"{url}: {error}; {install('remote')} brings what s3, gs, abfs and http need") from None
    except Exception as error:  # each file system has errors of its own
        words = " ".join(str(error).split())[:300]
        raise RewriterError(f"{url}: {words or type(error).__name__}") from None
