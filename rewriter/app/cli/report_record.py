"""From the outcomes of jobs to the record that all reports are made of, and to the files of `--report`."""

from __future__ import annotations

import argparse
import os
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rewriter.app.batch.file_records import file_records
from rewriter.app.batch.urls import is_url
from rewriter.app.batch.work import Job, Outcome
from rewriter.app.cli.paths import report_in
from rewriter.app.report.document import AnswerRecord, ModelRecord, Report, RuleRecord, SkippedRecord, Status
from rewriter.app.report.formats import ENDINGS, form_of, pieces_of
from rewriter.core.errors import RewriterError
from rewriter.core.log.records import Log, Skipped
from rewriter.core.onnxfile.write import make_folder

if TYPE_CHECKING:
    from rewriter.core.language.rule import Rule
    from rewriter.core.language.rules import RuleSet
    from rewriter.rule_tools.symptoms import Answer, Symptoms


Command = Literal["fix", "check", "optimize"]

MESSAGES = 1000
"""Of ONNX Runtime, of which the answers are remembered."""

_NUMBERS = re.compile(r"\d+")
_known: dict[tuple[tuple[str, ...], str], list[Answer]] = {}


def status(command: Command, outcome: Outcome) -> Status:
    """One word for what became of a model."""
    if outcome.error:
        return "failed"
    if (outcome.refusal if command == "check" else outcome.remaining) and not outcome.changed:
        return "refused"
    if command == "check":
        return "findings" if outcome.changed else "clean"
    return "changed" if outcome.changed else "unchanged"


def answers_to(outcome: Outcome, args: argparse.Namespace) -> list[Answer]:
    """The rules that surely answer what ONNX Runtime says against a model or a result, those that fire in it first.

    A rule about the model as a whole was asked, so one that neither fired nor was blocked is no answer; nor is one for other
    exporters than the one that wrote the model, where that is known.
    """
    said = outcome.refusal if outcome.remaining is None else outcome.remaining
    if not said or outcome.log is None:
        return []
    fires = outcome.log.counts
    stands = fires.keys() | {blocked.rule for blocked in outcome.log.blocked}
    found = [answer for answer in _nearest(tuple(args.rules or ()), said) if answer.sure]
    found = [answer for answer in found if answer.rule.code in stands or not answer.rule.ast.match.graph]
    exporter = outcome.exporter.partition(" ")[0].lower()
    meant = [answer for answer in found if answer.rule.code in stands or _is_meant(answer.rule, exporter)]
    return sorted(meant, key=lambda answer: answer.rule.code not in fires)


def _is_meant(rule: Rule, exporter: str) -> bool:
    return exporter == "unknown" or not rule.exporters or exporter in rule.exporters


def _nearest(paths: tuple[str, ...], said: str) -> list[Answer]:
    """The rules that answer a message; thousands of models are refused with one that differs in numbers, which do not count."""
    key = paths, _NUMBERS.sub("0", said)
    if key not in _known:
        if len(_known) > MESSAGES:
            _known.clear()
        _known[key] = _symptoms(paths).nearest(said)
    return _known[key]


@lru_cache(maxsize=1)
def _symptoms(paths: tuple[str, ...]) -> Symptoms:
    from rewriter.app.cli.selection import read_rules
    from rewriter.rule_tools.symptoms import Symptoms

    return Symptoms(read_rules(list(paths) or None))


def model_record(command: Command, outcome: Outcome, answers: Sequence[Answer] = ()) -> ModelRecord:
    """What became of one model; `answers` are what rules say to the refusal of ONNX Runtime."""
    log = outcome.log or Log()
    stop = None if outcome.log is None or outcome.error else next((stop.kind for stop in log.stops), "fixpoint")
    stop = "Time" if outcome.late else stop
    return ModelRecord(
        path=outcome.path,
        output=outcome.output,
        status=status(command, outcome),
        error=outcome.error or None,
        exporter=outcome.exporter or None,
        source=outcome.source,
        constant_inputs=outcome.constant_inputs,
        tidied=outcome.tidied,
        nodes=outcome.nodes,
        refusal=outcome.refusal,
        remaining=outcome.remaining,
        unjudged=tuple(outcome.unjudged),
        answers=tuple(AnswerRecord(answer.rule.code, answer.symptom, answer.score) for answer in answers),
        seconds=round(outcome.seconds, 6),
        files=tuple(file_records(outcome.stamps)),
        stop=stop,
        counts=dict(sorted(log.counts.items())),
        firings=log.firings,
        blocked=log.blocked,
        skipped=len(log.skipped),
        stops=log.stops,
        notes=log.notes,
        rolled_back=log.rolled_back,
        suppressed=log.suppressed,
        questions=log.questions,
        judged=log.judged,
        verification=log.verification,
        unfinished=outcome.unfinished,
        expectation=outcome.expectation,
    )


def skipped_records(found: Mapping[tuple[Skipped, ...], int]) -> Iterator[SkippedRecord]:
    """Which rules were not tried and why, of how many models: models of one exporter and opset skip the same ones."""
    models: Counter[tuple[str, str]] = Counter()
    for skipped, count in found.items():
        for one in skipped:
            models[one.rule, one.reason.replace(f" {one.rule} ", " a rule ")] += count
    rules: dict[tuple[str, int], list[str]] = {}
    for (rule, reason), count in sorted(models.items()):
        rules.setdefault((reason, count), []).append(rule)
    yield from (SkippedRecord(reason, count, tuple(codes)) for (reason, count), codes in sorted(rules.items()))


def rule_records(sets: Iterable[RuleSet], answering: Mapping[str, Rule], named: Container[str]) -> Iterator[RuleRecord]:
    """The rules that did something, or answer a refusal, in the order of their codes."""
    known = {**answering, **{rule.code: rule for rules in sets for rule in (*rules, *rules.questions)}}
    yield from (_rule(rule) for code, rule in sorted(known.items()) if code in named)


def _rule(rule: Rule) -> RuleRecord:
    return RuleRecord(
        rule.code,
        rule.slug,
        rule.title,
        rule.kind.name,
        rule.severity,
        rule.phase,
        rule.path,
        rule.digest,
        rule.exporters,
        rule.versions,
        rule.issues,
        rule.header.symptoms,
        rule.doc.partition("\n")[2].strip(),
    )


# `--report` and `--format`: from the record of a call to files and to what is printed.

SCENES = 3
"""Firings of each rule in each model that an HTML report shows as pictures."""

MANY = 40
"""Models from which on there is one picture for each rule and model; from ten times as many, there is none."""


def check_reports(paths: Sequence[str], jobs: Sequence[Job], args: argparse.Namespace) -> None:
    """Refuses, before any work is done, what could not be written or would overwrite something else.

    Raises:
        RewriterError: an ending names no format, a file is named twice, is read or written by this call, or cannot be written.
    """
    if not paths:
        return
    from rewriter.core.onnxfile.write import check_target

    taken: dict[str, str] = {os.path.realpath(path): path for path in _used(jobs, args)}
    for path in paths:
        if form_of(path) is None:
            raise RewriterError(f"--report {path}: the ending says what a report is; it is one of {', '.join(ENDINGS)}")
        if (real := os.path.realpath(path)) in taken:
            raise RewriterError(f"--report {path} would overwrite {taken[real]}, which this call uses itself")
        taken[real] = path
        if Path(path).parent.exists():  # `--out` makes its folder when the first model is written
            check_target(Path(path), force=True)


def snapshots(paths: Sequence[str], models: int) -> int:
    """How many firings of each rule in each model are pictured; pictures are for HTML alone."""
    if not any(form_of(path) == "html" for path in paths) or models >= 10 * MANY:
        return 0
    return SCENES if models < MANY else 1


def printed(report: Report, form: str) -> Iterator[str]:
    """The record as `--format` wants it on stdout, piece by piece."""
    return pieces_of(report, form)


def write_reports(report: Report, paths: Sequence[str], staging: str | None = None) -> None:
    """Writes each report at once and completely; with a staging folder by its number there, to be put into its place later.

    Raises:
        RewriterError: one cannot be written; those before it are there.
    """
    from rewriter.core.onnxfile.write import write_file

    sources = {os.path.realpath(model.source) for model in report.models if model.source is not None}
    for number, path in enumerate(paths):
        if os.path.realpath(path) in sources:  # found beside a model, and therefore not known before
            raise RewriterError(f"--report {path} would overwrite the framework's own file; nothing was written to it")
        if is_url(path):
            from rewriter.app.batch.remote import put_bytes

            put_bytes(path, "".join(pieces_of(report, form_of(path) or "")).encode("utf-8", "backslashreplace"))
            continue
        place = Path(path) if staging is None else report_in(staging, number)
        make_folder(place.parent)
        write_file(place, partial(_fill, report, form_of(path) or ""), force=True)


def _fill(report: Report, form: str, descriptor: int) -> None:
    with open(descriptor, "wb", buffering=1 << 16, closefd=False) as file:
        for piece in pieces_of(report, form):
            file.write(piece.encode("utf-8", "backslashreplace"))


def _used(jobs: Sequence[Job], args: argparse.Namespace) -> Iterator[str]:
    """Files that the call reads or writes."""
    for job in jobs:
        yield job.path
        if job.target is not None:
            yield job.target
    if args.source not in ("auto", "none"):
        yield args.source
    for name in ("inputs", "output"):
        if getattr(args, name, None):
            yield getattr(args, name)
