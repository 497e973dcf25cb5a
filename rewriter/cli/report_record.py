"""From the outcomes of jobs to the record that all formats of reports are made of."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from rewriter import __version__
from rewriter.batch.work import Outcome, Work
from rewriter.log.records import Log
from rewriter.report.document import (
    SCHEMA,
    AnswerRecord,
    ModelRecord,
    Report,
    RuleRecord,
    RuleSetRecord,
    Status,
    Summary,
)

if TYPE_CHECKING:
    from rewriter.language.rule import Rule
    from rewriter.language.rules import RuleSet
    from rewriter.language.symptoms import Answer

Command = Literal["fix", "check"]


def make_report(command: Command, outcomes: Sequence[Outcome], work: Work, args: argparse.Namespace, seconds: float) -> Report:
    """The record of a call."""
    rules = work.rules
    answers = [answers_to(outcome, args) for outcome in outcomes]
    models = tuple(model_record(command, outcome, found) for outcome, found in zip(outcomes, answers, strict=True))
    answering = {answer.rule.code: answer.rule for found in answers for answer in found}
    settings = tuple(f"{code}.{name}={value}" for (code, name), value in sorted(rules.settings.items()))
    return Report(
        SCHEMA,
        command,
        __version__,
        exit_code(command, outcomes),
        summarize(command, outcomes, seconds),
        RuleSetRecord(rules.digest, len(rules), settings),
        tuple(_rules(models, [rules, *(variant.rules for variant in work.variants)], answering)),
        models,
    )


def exit_code(command: Command, outcomes: Sequence[Outcome]) -> int:
    """3 when this program made a mistake, 2 when a model failed, 1 for findings or something unrepaired, 0 otherwise."""
    if any(outcome.crash for outcome in outcomes):
        return 3
    if any(outcome.error for outcome in outcomes):
        return 2
    findings = any(
        outcome.unfinished or outcome.unjudged or _refused(command, outcome) or (command == "check" and outcome.changed)
        for outcome in outcomes
    )
    return 1 if findings else 0


def summarize(command: Command, outcomes: Sequence[Outcome], seconds: float) -> Summary:
    """Totals of a call."""
    statuses = Counter(status(command, outcome) for outcome in outcomes)
    counts: Counter[str] = Counter()
    for outcome in outcomes:
        if outcome.log is not None and not outcome.error:
            counts.update(outcome.log.counts)
    return Summary(
        models=len(outcomes),
        statuses=dict(sorted(statuses.items())),
        refused=sum(_refused(command, outcome) for outcome in outcomes),
        unfinished=sum(outcome.unfinished for outcome in outcomes),
        unjudged=sum(bool(outcome.unjudged) for outcome in outcomes),
        rolled_back=sum(len(outcome.log.rolled_back) for outcome in outcomes if outcome.log is not None),
        firings=dict(sorted(counts.items())),
        seconds=round(seconds, 3),
    )


def status(command: Command, outcome: Outcome) -> Status:
    """One word for what became of a model."""
    if outcome.error:
        return "failed"
    if _refused(command, outcome) and not outcome.changed:
        return "refused"
    if command == "fix":
        return "changed" if outcome.changed else "unchanged"
    return "findings" if outcome.changed else "clean"


def _refused(command: Command, outcome: Outcome) -> bool:
    """Whether ONNX Runtime refuses what a check found, or what a repair left."""
    return bool(outcome.refusal if command == "check" else outcome.remaining)


def answers_to(outcome: Outcome, args: argparse.Namespace) -> list[Answer]:
    """The rules that surely answer what ONNX Runtime says against a model or a result, those that fire in it first.

    A rule about the model as a whole was asked, so one that neither fired nor was blocked is no answer.
    """
    said = outcome.remaining or outcome.refusal
    if not said or outcome.log is None:
        return []
    from rewriter.cli.catalogue import read_rules
    from rewriter.language.symptoms import find_answers

    fires = outcome.log.counts
    stands = fires.keys() | {blocked.rule for blocked in outcome.log.blocked}
    found = [answer for answer in find_answers(read_rules(args.rules), said) if answer.sure]
    found = [answer for answer in found if answer.rule.code in stands or not answer.rule.ast.match.graph]
    return sorted(found, key=lambda answer: answer.rule.code not in fires)


def model_record(command: Command, outcome: Outcome, answers: Sequence[Answer] = ()) -> ModelRecord:
    """What became of one model; `answers` are what rules say to the refusal of ONNX Runtime."""
    log = outcome.log or Log()
    stop = None if outcome.log is None or outcome.error else next((stop.kind for stop in log.stops), "fixpoint")
    return ModelRecord(
        path=outcome.path,
        output=outcome.output,
        status=status(command, outcome),
        error=outcome.error or None,
        exporter=outcome.exporter or None,
        source=outcome.source,
        constant_inputs=outcome.constant_inputs,
        tidied=outcome.tidied,
        refusal=outcome.refusal,
        remaining=outcome.remaining,
        unjudged=tuple(outcome.unjudged),
        answers=tuple(AnswerRecord(answer.rule.code, answer.symptom, answer.score) for answer in answers),
        seconds=round(outcome.seconds, 6),
        files=tuple(outcome.files),
        stop=stop,
        counts=dict(sorted(log.counts.items())),
        firings=log.firings,
        blocked=log.blocked,
        skipped=log.skipped,
        stops=log.stops,
        notes=log.notes,
        rolled_back=log.rolled_back,
        suppressed=log.suppressed,
        questions=log.questions,
        judged=log.judged,
        verification=log.verification,
    )


def _rules(models: Iterable[ModelRecord], sets: Iterable[RuleSet], answering: dict[str, Rule]) -> Iterator[RuleRecord]:
    """The rules that did something, or answer a refusal, in the order of the rule set."""
    named: set[str] = set()
    for model in models:
        for entries in (model.firings, model.blocked, model.rolled_back, model.suppressed, model.questions, model.answers):
            named.update(entry.rule for entry in entries)
    known = {**answering, **{rule.code: rule for rules in sets for rule in (*rules, *rules.questions)}}
    yield from (_rule(rule) for _, rule in sorted(known.items()) if rule.code in named)


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
    )
