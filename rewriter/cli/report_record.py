"""From the outcomes of jobs to the record that all formats of reports are made of."""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from rewriter.batch.file_records import file_records
from rewriter.batch.work import Outcome
from rewriter.log.records import Log, Skipped
from rewriter.report.document import AnswerRecord, ModelRecord, RuleRecord, SkippedRecord, Status

if TYPE_CHECKING:
    from rewriter.language.rule import Rule
    from rewriter.language.rules import RuleSet
    from rewriter.language.symptoms import Answer, Symptoms

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
    from rewriter.cli.catalogue import read_rules
    from rewriter.language.symptoms import Symptoms

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
