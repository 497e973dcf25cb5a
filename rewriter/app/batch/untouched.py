"""Models in which no rule can fire: checked by their bytes and copied unchanged before heavy modules are imported.

Every doubtful model (unusual bytes, a file of the framework next to it, a rule that may fire) goes the ordinary way. For the
models that are done here, the ordinary way has the same results.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.core.errors import RewriterError
from rewriter.core.framework.exporter import (
    LISTING_EXPORTERS,
    SOURCE_FILES,
    Exporter,
    GuardedModel,
    identify,
    suited,
    version_bounds,
)
from rewriter.core.isolation.budget import collector_off
from rewriter.core.isolation.child import NoAnswer
from rewriter.core.language.header import Bounds
from rewriter.core.log import Log
from rewriter.core.matching.forecast import Forecast
from rewriter.core.onnxfile import files, wire
from rewriter.core.onnxfile.census import Body, Census
from rewriter.core.onnxfile.files import make_folder, transfer, write_file
from rewriter.core.onnxfile.take_census import MalformedError, take_census
from rewriter.core.onnxfile.wire import LENGTH_DELIMITED, Pieces, Source, Walk, fields
from rewriter.core.record import record, replace
from rewriter.trust.proof import judges
from rewriter.trust.source.find import find, missing_source

if TYPE_CHECKING:
    from rewriter.app.batch.work import Job, Outcome, Reading, Rewriting, Work


@record(slots=True)
class Verdict:
    """The facts about a model in which no rule can fire. The outcome has fields of the same names.

    Attributes:
        data: the bytes of the copy; None if the model is large and is copied from the file.
        found: the file as it was when it was read.
    """

    data: bytes | None
    found: os.stat_result
    log: Log
    exporter: str
    constant_inputs: bool | None
    refusal: str | None = None
    remaining: str | None = None


@record(slots=True)
class Outlook:
    """The rules that may fire in a model, by its bytes.

    Attributes:
        forecast: None if the bytes do not decide, or it is not needed.
        read: the bytes and the state of their file; None if the file is large, or the model has data in other files.
        stamp: size and time of the file that was read.
        verdict: None if a rule may fire, or it is not known.
    """

    forecast: Forecast | None = None
    read: tuple[bytes, os.stat_result] | None = None
    stamp: tuple[int, int] | None = None
    verdict: Verdict | None = None

    def check(self, path: str) -> None:
        """Forgets the forecast and the bytes if the file has changed."""
        if self.stamp is not None:
            found = os.stat(path)
            if (found.st_size, found.st_mtime_ns) != self.stamp:
                self.forecast = self.read = None


def foresee(job: Job, work: Work) -> Outlook:
    """The rules that may fire in a model, and the verdict if none can. Raises RewriterError if the model cannot be read."""
    with files.opened(job.path) as (descriptor, size):
        large = size >= files.LARGE
        data = _without_weights(descriptor, size) if large else files.all_bytes(descriptor)
        found = os.fstat(descriptor)
    with collector_off(circular=False):
        try:
            census = take_census(data)
        except MalformedError:
            return Outlook()
        whole = len(data) == found.st_size and not census.refers
        outlook = Outlook(read=(data, found) if whole else None, stamp=(found.st_size, found.st_mtime_ns))
        if not _asks_more(work):
            outlook.forecast = Forecast(census)
            if not _asks_elsewhere(job, work):
                outlook.verdict = _verdict(job, work, outlook.forecast, data, found, large=large)
    return outlook


def _asks_more(work: Work) -> bool:
    """Whether the result of a run is more than "nothing fires", or a rule fires in most models, as in `optimize`."""
    rewriting, notes = work.rewriting, work.notes
    if rewriting.rules.optimizes:
        return True
    asked = rewriting.plan is not None or notes.coverage is not None or notes.audit is not None
    return asked or bool(rewriting.tidy or work.reading.static or notes.count or notes.profile or work.checking.expect)


def copied_blindly(job: Job, work: Work, outcome: Outcome) -> bool:
    """Copies a small model that names no other file, if there is no time to examine it."""
    from rewriter.core.onnxfile.external_data import may_refer

    with files.opened(Path(job.path)) as (descriptor, size):
        if size >= files.LARGE:
            return False
        data, found = files.all_bytes(descriptor), os.fstat(descriptor)
    if may_refer(data):
        return False
    copy(job, work, outcome, data, found)
    return True


def _asks_elsewhere(job: Job, work: Work) -> bool:
    """Whether the answer depends on more than the model: on a runtime, or on the framework's own file."""
    source = work.reading.source
    if work.checking.runtime == "yes":
        return True
    return source != "none" and (source != "auto" or find(job.path) is not None)


def _verdict(job: Job, work: Work, forecast: Forecast, data: bytes, status: os.stat_result, *, large: bool) -> Verdict | None:
    census = forecast.census
    exporter = _exporter(census)
    if exporter.name == "mxnet" and exporter.evidence == "graph name" and census.graph.columns is not None:
        return None  # its version follows from names, and the names of a large graph are not listed
    subject = GuardedModel(exporter, census.ir_version, census.versions, has_source=False)
    log = _quiet(forecast, work.rewriting, subject)
    if log is None:
        return None
    if exporter.name in SOURCE_FILES and work.reading.source != "none":
        operators = {kind.op for kind in census.graph.kinds}
        log.notes += missing_source(work.rewriting.rules, subject, operators, job.path, is_of_another=False)
    constant = _constant_inputs(census, exporter, work.reading)
    verdict = Verdict(None if large else data, status, log, str(exporter), constant)
    if work.checking.runtime == "auto" and not _is_checked(work, verdict, census, data, status.st_size):
        return None  # a runtime may reject it although no rule fires
    writes = job.target is not None and job.target != job.path
    if writes and census.refers and (work.notes.journal or not _beside(job)):
        return None
    return verdict


def _constant_inputs(census: Census, exporter: Exporter, reading: Reading) -> bool | None:
    """Whether initializers that are also inputs are taken as constants; None when there are none."""
    constants = {name for name, _ in census.graph.constants}
    listed = {name for name, _ in census.graph.inputs} & constants
    if not listed:
        return None
    if reading.constant_inputs != "auto":
        return reading.constant_inputs == "yes"
    return listed >= constants or 0 < (census.ir_version or 0) < 4 or exporter.name in LISTING_EXPORTERS


def _is_checked(work: Work, verdict: Verdict, census: Census, data: bytes, size: int) -> bool:
    """Whether ONNX Runtime loads the model, or need not load it because it is large. Also False if the ordinary way has to
    prepare the model before ONNX Runtime can load it.
    """
    if census.refers:
        return False
    if size >= files.LARGE:
        return work.checking.moderate and size > judges.MODERATE
    if census.functions and _expands(census):
        return False
    try:
        session = judges.Session(data, None)
    except (judges.RefusedError, NoAnswer):
        return False
    if work.runs_models and _fails(session, data):
        return False
    verdict.refusal = "" if work.asks_before else None
    verdict.remaining = "" if work.rewriting.keep else None
    return True


def _fails(session: judges.Session, data: bytes) -> bool:
    """Whether a small model fails on generated inputs. The ordinary way then finds the reason."""
    import onnx

    from rewriter.trust.proof.validity import run_failure

    return run_failure(session, onnx.ModelProto.FromString(data)) is not None


def _expands(census: Census) -> bool:
    """Whether its functions expand to too many nodes for a check."""
    bodies = {key: list(_operators(body)) for key, body in census.functions.items()}
    from rewriter.core.onnxfile.part import MOST, expanded

    return expanded(bodies, _operators(census.graph)) > MOST


def _operators(body: Body) -> Iterator[tuple[str, str]]:
    waiting = [body]
    while waiting:
        for kind, _, _ in (inner := waiting.pop()).nodes:
            yield kind.domain, kind.op
        waiting.extend(inner.inner)


def _quiet(forecast: Forecast, rewriting: Rewriting, subject: GuardedModel) -> Log | None:
    """The log of a run in which no rule fires; None if one may fire."""
    rules = rewriting.rules
    meant, skipped = suited(rules, subject)
    if not rewriting.keep and rules.questions:  # a check also asks about these
        meant = [*meant, *suited(replace(rules, rules=rules.questions), subject)[0]]
    return None if forecast.possible(meant) else Log(skipped=skipped)


def _exporter(census: Census) -> Exporter:
    graph = census.graph

    def mxnet() -> Bounds:
        names = chain(graph.names, (name for name, _ in graph.constants))
        return version_bounds(census.imports, graph.naming, (str(name, "utf-8", "replace") for name in names))

    return identify(census.producer_name, census.producer_version, graph.name, census.imports, mxnet)


def _without_weights(descriptor: int, size: int) -> bytes:
    """The bytes of a large model without its weights; empty if the model is malformed."""
    try:
        return without_weights(Source(size, lambda place, count: os.pread(descriptor, min(count, size - place), place)))
    except MalformedError:
        return b""


def _beside(job: Job) -> bool:
    """Whether the copy is in the folder of the model."""
    assert job.target is not None
    return os.path.realpath(os.path.dirname(job.path) or ".") == os.path.realpath(os.path.dirname(job.target) or ".")


def copy(job: Job, work: Work, outcome: Outcome, data: bytes | None, status: os.stat_result) -> None:
    """Writes the model to its target, and notes both files if the work requires it.

    Args:
        job: has a target.
        work: whether the target may be replaced.
        outcome: gets the output and the notes.
        data: the bytes that were read; None if the model is large and is copied from the file.
        status: the file as it was when it was read.

    Raises:
        RewriterError: the target may not be replaced or written, or the file was changed meanwhile.
    """
    from rewriter.app.batch.journal import copied_stamp, file_stamp, read_stamp

    assert job.target is not None
    if data is not None:
        from rewriter.app.batch.journal import write_result

        if work.notes.stamped and not outcome.stamps:
            outcome.stamps.append(read_stamp(job.path, data, status))
        write_result(job, work, outcome, data)
        return
    _copy_large(Path(job.path), Path(job.target), status, force=work.writing.replaces(job))
    outcome.output = job.target
    if work.notes.stamped:
        read = file_stamp("input", job.path)
        outcome.stamps += [read, copied_stamp(read, job.target)]


def _copy_large(source: Path, target: Path, status: os.stat_result, *, force: bool) -> None:
    make_folder(target.parent)
    opened = os.open(source, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:

        def fill(descriptor: int) -> None:
            transfer(opened, 0, status.st_size, descriptor)
            now = os.fstat(opened)
            if (now.st_size, now.st_mtime_ns) != (status.st_size, status.st_mtime_ns):
                raise RewriterError(f"{source} changed while rewriter was working on it; run the command again")

        write_file(target, fill, force)
    finally:
        os.close(opened)


# A large model without the data of its tensors, for questions about its structure.

_DATA = frozenset((4, 5, 6, 7, 9, 10, 11))  # fields of a tensor that hold its items
_LEAST = 1 << 12


def without_weights(source: Source) -> bytes:
    """The bytes of a model, its tensors without their large fields. Raises MalformedError if the file is no model."""

    def tensor(start: int, stop: int) -> Pieces:
        pieces, done = Pieces(), start
        for number, kind, at, value, end in fields(source, start, stop):
            if number in _DATA and kind == LENGTH_DELIMITED and end - value >= _LEAST:
                pieces.copy_range(done, at)
                done = end
        pieces.copy_range(done, stop)
        return pieces

    pieces = Walk(source, wire.LAZY, lambda start, stop: stop - start >= _LEAST, tensor).rewritten(wire.MODEL)
    if pieces is None:
        return source.bytes(0, source.size)
    return b"".join(piece if isinstance(piece, bytes) else source.bytes(*piece) for piece in pieces)
