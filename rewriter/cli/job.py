"""One model from file to file: load, run, save. What a worker process does."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rewriter.engine.limits import Limits
from rewriter.engine.log import Log
from rewriter.errors import RewriterError

if TYPE_CHECKING:
    from rewriter.graph.model import Model
    from rewriter.language.rules import RuleSet
    from rewriter.source.info import SourceInfo


@dataclass(frozen=True, slots=True)
class Job:
    """One model to work on; `target` None writes nothing, `copy` writes it as it is without trying any rule."""

    path: str
    target: str | None = None
    copy: bool = False


@dataclass(frozen=True, slots=True)
class Work:
    """What all jobs of a call share.

    Attributes:
        rules: the selected ones, with their settings.
        source: "auto", "none" or a file.
        keep: False is a check: every edit is taken back.
        force: existing files may be replaced.
        tidy: also remove what was dead before any rule fired.
    """

    rules: RuleSet
    source: str = "auto"
    constant_inputs: Literal["auto", "yes", "no"] = "auto"
    limits: Limits = field(default_factory=Limits)
    keep: bool = True
    force: bool = False
    tidy: bool = False


@dataclass(slots=True)
class Outcome:
    """What became of one job.

    Attributes:
        output: the file that was written, None for none.
        log: of the run, None when there was none.
        error: why the model failed, "" otherwise; `crash` is the traceback when that was a mistake of this program.
        constant_inputs: whether initializers that are also inputs were taken as constants; None when there are none.
        tidied: how many nodes, initializers and imports were removed because nothing used them.
    """

    path: str
    output: str | None = None
    log: Log | None = None
    error: str = ""
    crash: str = ""
    exporter: str = ""
    source: str | None = None
    constant_inputs: bool | None = None
    tidied: int = 0
    seconds: float = 0.0

    @property
    def changed(self) -> bool:
        return not self.error and self.log is not None and (self.log.changed or self.tidied > 0)

    @property
    def unfinished(self) -> bool:
        """Whether something could not be repaired: a rule failed, or the run was stopped."""
        return self.log is not None and (bool(self.log.stops) or any(blocked.error for blocked in self.log.blocked))


def process(job: Job, work: Work) -> Outcome:
    """Does one job. Never raises: what goes wrong is in the outcome, and a model that could be read is written all the same."""
    started = time.monotonic()
    outcome = Outcome(job.path)
    try:
        _process(job, work, outcome)
    except RewriterError as error:
        outcome.error = str(error)
    except MemoryError:
        outcome.error = "out of memory"
    except Exception as error:
        outcome.error = f"internal error: {type(error).__name__}: {error}"
        outcome.crash = traceback.format_exc()
    if outcome.error and outcome.output is None and job.target not in (None, job.path) and not job.copy:
        with contextlib.suppress(Exception):
            _process(replace(job, copy=True), work, outcome)
    outcome.seconds = time.monotonic() - started
    return outcome


def _process(job: Job, work: Work, outcome: Outcome) -> None:
    from rewriter.graph.model import load

    in_place = job.target == job.path
    if job.target is not None and not in_place and not work.force and os.path.lexists(job.target):
        raise RewriterError(f"{job.target} exists; --force overwrites it")
    model = load(job.path)
    if not job.copy:
        _rewrite(model, work, outcome)
    if job.target is None or (in_place and not outcome.changed):
        return
    target = Path(job.target)
    _make_folder(target.parent)
    model.save(target, force=work.force or in_place)
    outcome.output = job.target


def _rewrite(model: Model, work: Work, outcome: Outcome) -> None:
    from rewriter.engine.run import run
    from rewriter.graph.exporter import detect, informed

    model.constant_inputs = work.constant_inputs
    outcome.constant_inputs = model.inputs_are_constant if model.listed else None
    source, notes = _source(model, outcome.path, work.source)
    exporter = detect(model.graph)
    if source is not None:
        outcome.source = source.path
        exporter = informed(exporter, source.framework, source.version)
    outcome.exporter = str(exporter)
    log = run(
        model.graph,
        work.rules,
        source=source,
        limits=work.limits,
        overridable=model.overridable,
        exporter=exporter,
        keep=work.keep,
    )
    log.notes[:0] = notes
    outcome.log = log
    if work.tidy:
        _tidy(model, outcome, log)


def _tidy(model: Model, outcome: Outcome, log: Log) -> None:
    from rewriter.graph.tidy import tidy

    found = tidy(model.graph)
    outcome.tidied = found.nodes + found.initializers + found.imports
    if outcome.tidied:
        log.notes.append(f"tidied: {found.nodes} nodes, {found.initializers} initializers, {found.imports} imports removed")


def _source(model: Model, path: str, choice: str) -> tuple[SourceInfo | None, list[str]]:
    """The source information to use, and what is to be said about it.

    A file that was merely found beside the model is used only if it is readable and about this model.
    """
    from rewriter.source.find import find

    if choice == "none":
        return None, []
    if choice != "auto":
        return _read_source(choice), []
    found = find(path)
    if found is None:
        return None, []
    try:
        source = _read_source(str(found))
    except RewriterError as error:
        return None, [f"source file not used: {error}"]
    if not any(source.node_for(node.name, [tensor.name for tensor in node.outputs]) for node in model.graph.nodes):
        return None, [f"source file not used: no node of the model is in {found}"]
    return source, []


@lru_cache(maxsize=4)
def _read_source(path: str) -> SourceInfo:
    from rewriter.source.find import load_source

    return load_source(path)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RewriterError(f"{folder}: the folder cannot be made: {error.strerror or error}") from None
