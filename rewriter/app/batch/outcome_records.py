"""From the outcomes of jobs to the records that all reports are made of: one for each model, and the totals of a call."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from rewriter import __version__
from rewriter.app.batch.journal import Entry, file_records, stamps_in
from rewriter.app.batch.processes import Spool
from rewriter.app.batch.work import Job, Outcome, Work
from rewriter.app.report.document import (
    SCHEMA,
    AnswerRecord,
    Fleet,
    ModelRecord,
    Report,
    RuleRecord,
    RuleSetRecord,
    SkippedRecord,
    Status,
    Summary,
)
from rewriter.core.log import Log, RolledBack, Skipped, Verification
from rewriter.core.record import names

if TYPE_CHECKING:
    from rewriter.core.language.rules import Rule, RuleSet
    from rewriter.rule_tools.symptoms import Answer, Symptoms

Command = Literal["fix", "check", "optimize"]

MESSAGES = 1000
"""Messages of ONNX Runtime for which the matching rules are cached."""

_NUMBERS = re.compile(r"\d+")
_OPERATOR = re.compile(r"\bOp(?:type)? \((\w+)\)|\boperator \((\w+)\)|\b(\w+)\(-?\d+\) is not a registered")
"""The places in a message of ONNX Runtime that name the operator of the rejected node."""

_FIELDS = frozenset(names(ModelRecord) or ())

_known: dict[tuple[tuple[str, ...], str], list[Answer]] = {}


def status(command: Command, outcome: Outcome) -> Status:
    """The status of a model, one word."""
    if outcome.error:
        return "failed"
    if (outcome.refusal if command == "check" else outcome.remaining) and not outcome.changed:
        return "refused"
    if command == "check":
        if any(not verdict.accepts for verdict in outcome.asked):
            return "refused"
        differs = outcome.expectation is not None and bool(outcome.expectation.before)
        return "findings" if outcome.changed or differs else "clean"
    return "changed" if outcome.changed else "unchanged"


def answers_to(outcome: Outcome, paths: Sequence[str] | None) -> list[Answer]:
    """The rules of some paths that surely repair ONNX Runtime's error message for a model or a result; rules that fire first.

    A rule about the whole model was tried, so it is no answer if it neither fired nor was blocked. Rules for other exporters
    than the exporter of the model, if it is known, and rules without the operator in the message are no answers either.
    """
    said = outcome.refusal if outcome.remaining is None else outcome.remaining
    if not said or outcome.log is None:
        return []
    fires = outcome.log.counts
    stands = fires.keys() | {blocked.rule for blocked in outcome.log.blocked}
    found = [answer for answer in _nearest(tuple(paths or ()), said) if answer.sure]
    found = [answer for answer in found if answer.rule.code in stands or not answer.rule.ast.match.graph]
    exporter = outcome.exporter.partition(" ")[0].lower()
    operators = {name for groups in _OPERATOR.findall(said) for name in groups if name}
    meant = [
        answer
        for answer in found
        if answer.rule.code in stands or (_is_meant(answer.rule, exporter) and _is_about(answer.rule, operators))
    ]
    return sorted(meant, key=lambda answer: answer.rule.code not in fires)


def _is_meant(rule: Rule, exporter: str) -> bool:
    return exporter == "unknown" or not rule.exporters or exporter in rule.exporters


def _is_about(rule: Rule, operators: Collection[str]) -> bool:
    """Whether a pattern has one of these operators, or any. True if no operator is named, and for rules about the model."""
    from rewriter.core.language.ast import pattern_nodes

    nodes = [node for form in rule.variants for node in pattern_nodes(form.ast.match)]
    return not operators or not nodes or any(op.param or op.is_any or op.name in operators for node in nodes for op in node.ops)


def _nearest(paths: tuple[str, ...], said: str) -> list[Answer]:
    """The rules that repair a message, numbers aside: thousands of models may have messages that differ only in numbers."""
    key = paths, _NUMBERS.sub("0", said)
    if key not in _known:
        if len(_known) > MESSAGES:
            _known.clear()
        _known[key] = _symptoms(paths).nearest(said)
    return _known[key]


@lru_cache(maxsize=1)
def _symptoms(paths: tuple[str, ...]) -> Symptoms:
    from rewriter.app.configuration import rule_paths
    from rewriter.rule_tools.load_rules import read_rules
    from rewriter.rule_tools.symptoms import Symptoms

    return Symptoms(read_rules(rule_paths(paths)))


def model_record(command: Command, outcome: Outcome, answers: Sequence[Answer] = ()) -> ModelRecord:
    """The record of one model; `answers` are the rules that repair the error message of ONNX Runtime."""
    log = outcome.log or Log()
    stop = None if outcome.log is None or outcome.error else next((stop.kind for stop in log.stops), "fixpoint")
    stop = "Time" if outcome.late else stop
    parts: tuple[Any, ...] = outcome, log
    same = {name: getattr(one, name) for one in parts for name in names(type(one)) or () if name in _FIELDS}
    other = {
        "status": status(command, outcome),
        "error": outcome.error or None,
        "exporter": outcome.exporter or None,
        "unjudged": tuple(outcome.unjudged),
        "answers": tuple(AnswerRecord(answer.rule.code, answer.symptom, answer.score) for answer in answers),
        "seconds": round(outcome.seconds, 6),
        "files": tuple(file_records(outcome.stamps)),
        "stop": stop,
        "counts": dict(sorted(log.counts.items())),
        "skipped": len(log.skipped),
        "unfinished": outcome.unfinished,
    }
    return ModelRecord(**{**same, **other})


def earlier_record(job: Job, entry: Entry) -> ModelRecord:
    """The record of a model from an earlier run, as far as its journal has it."""
    numbers = entry.get("numbers")
    return ModelRecord(
        path=job.path,
        output=job.target,
        status=entry.get("verdict", "unchanged"),
        error=entry.get("error"),
        exporter=entry.get("exporter"),
        source=next((stamp.path for stamp in stamps_in(entry, "source")), None),
        refusal=entry.get("refusal"),
        remaining=entry.get("remaining"),
        unjudged=tuple(entry.get("unjudged", ())),
        seconds=entry.get("seconds", 0.0),
        files=tuple(file_records(stamps_in(entry, "input", "input data", "source", "output", "output data"))),
        stop=None if entry.get("error") else "fixpoint",
        counts=entry.get("counts", {}),
        rolled_back=[RolledBack(rule, "", "", "", "", "", why) for rule, why in entry.get("rolled back", ())],
        verification=None if not numbers else Verification(numbers),
        unfinished=bool(entry.get("unfinished")),
        earlier=True,
    )


def skipped_records(counts: Mapping[tuple[Skipped, ...], int]) -> Iterator[SkippedRecord]:
    """The rules that were not tried, why, and on how many models: models of one exporter and opset skip the same rules."""
    models: Counter[tuple[str, str]] = Counter()
    for skipped, count in counts.items():
        for one in skipped:
            models[one.rule, one.reason.replace(f" {one.rule} ", " a rule ")] += count
    rules: dict[tuple[str, int], list[str]] = {}
    for (rule, reason), count in sorted(models.items()):
        rules.setdefault((reason, count), []).append(rule)
    yield from (SkippedRecord(reason, count, tuple(codes)) for (reason, count), codes in sorted(rules.items()))


def rule_records(sets: Iterable[RuleSet], answering: Mapping[str, Rule], named: Container[str]) -> Iterator[RuleRecord]:
    """The rules that did something, or repair an error message, in the order of their codes."""
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


# Totals of a call, counted as models are finished: only the counts of a model are kept.

OK, FINDINGS, BAD_INPUT, INTERNAL = 0, 1, 2, 3


class Totals:
    """The counts and records of the models of a call.

    Args:
        rules: the paths of `--rules`, in which rules for error messages are looked for.
        sets: the rules of the call.
        keeps: whether the record of each model is kept on the disk for a report.
    """

    def __init__(
        self, command: Command, rules: Sequence[str] | None = None, sets: Sequence[RuleSet] = (), *, keeps: bool = False
    ) -> None:
        self._command = command
        self._sets = sets
        self._rules = rules
        self._worst = OK
        self._statuses: Counter[str] = Counter()
        self._firings: Counter[str] = Counter()
        self._numbers: Counter[str] = Counter()
        self._named: set[str] = set()
        self._skipped: Counter[tuple[Skipped, ...]] = Counter()
        self._answering: dict[str, Rule] = {}
        self.fleet = Fleet()
        self.models = 0
        self.failed = False
        self.records: Spool[ModelRecord] | None = Spool() if keeps else None

    def add(self, number: int, outcome: Outcome) -> None:
        """Adds a finished model; `number` is its place among all."""
        answers = answers_to(outcome, self._rules) if self.records is not None else []
        self._answering.update({answer.rule.code: answer.rule for answer in answers})
        if self.records is not None and outcome.log is not None:
            self._skipped[tuple(outcome.log.skipped)] += 1
        if outcome.crash:
            self._worst = INTERNAL
        self.add_record(number, model_record(self._command, outcome, answers))

    def add_record(self, number: int, one: ModelRecord) -> None:
        """Adds a model from an earlier run."""
        self.models += 1
        self._statuses[one.status] += 1
        refused = bool(one.refusal if self._command == "check" else one.remaining)
        self._numbers["refused"] += refused and not one.error
        self._numbers["mismatched"] += one.expectation is not None and bool(one.expectation.before) and not refused
        self._numbers["repaired"] += one.status == "changed" and not refused and self._is_repaired(one)
        self._numbers["unfinished"] += one.unfinished and not one.error
        self._numbers["unjudged"] += bool(one.unjudged) and not one.error
        self._numbers["rolled back"] += len(one.rolled_back)
        found = one.unfinished or one.unjudged or refused or one.status == "findings"
        found = found or any(not verdict.accepts for verdict in one.asked_after or one.asked)
        late = bool(one.error) and one.stop == "Time"
        found = found or (one.expectation is not None and one.expectation.wrong)
        self._worst = max(self._worst, BAD_INPUT if one.error and not late else FINDINGS if found or late else OK)
        if one.error:
            self.failed = True
        else:
            self._firings.update(one.counts)
        self.fleet.add(one)
        if self.records is not None:
            for entries in (one.firings, one.blocked, one.rolled_back, one.suppressed, one.questions, one.answers):
                self._named.update(entry.rule for entry in entries)
            self._named.update(one.counts)
            self.records.put(number, one)

    def _is_repaired(self, one: ModelRecord) -> bool:
        """Whether a rule of kind repair fired, or all who were asked accept the result, and one of them rejected the model."""
        fired = (rule for rules in self._sets for code in one.counts if (rule := rules.get(code)) is not None)
        before, after = ([verdict.accepts for verdict in asked] for asked in (one.asked, one.asked_after))
        accepted = bool(one.refusal) or (bool(after) and all(after) and not all(before))
        return accepted or any(rule.kind.name == "repair" for rule in fired)

    @property
    def code(self) -> int:
        """3 after an error of this program, 2 if a model failed, 1 for findings or something unrepaired, 0 otherwise."""
        return self._worst

    def summary(self, seconds: float) -> Summary:
        """The totals."""
        return Summary(
            models=self.models,
            statuses=dict(sorted(self._statuses.items())),
            refused=self._numbers["refused"],
            repaired=self._numbers["repaired"],
            unfinished=self._numbers["unfinished"],
            mismatched=self._numbers["mismatched"],
            unjudged=self._numbers["unjudged"],
            rolled_back=self._numbers["rolled back"],
            firings=dict(sorted(self._firings.items())),
            seconds=round(seconds, 3),
            fleet=self.fleet.record(),
        )

    def report(self, work: Work, seconds: float, code: int) -> Report:
        """The record of the call."""
        rules = work.rewriting.rules
        settings = tuple(f"{code}.{name}={value}" for (code, name), value in sorted(rules.settings.items()))
        return Report(
            SCHEMA,
            self._command,
            __version__,
            code,
            self.summary(seconds),
            RuleSetRecord(rules.digest, len(rules), settings),
            tuple(rule_records([rules, *(one.rewriting.rules for one in work.variants)], self._answering, self._named)),
            _Records(self.records),
            tuple(skipped_records(self._skipped)),
        )


class _Records:
    """The records of all models, read from the disk one by one."""

    def __init__(self, spool: Spool[ModelRecord] | None) -> None:
        self._spool = spool

    def __len__(self) -> int:
        return 0 if self._spool is None else len(self._spool)

    def __iter__(self) -> Iterator[ModelRecord]:
        return iter(self._spool or ())

    def __contains__(self, one: object) -> bool:
        return any(found == one for found in self)


def exit_code(command: Command, outcome: Outcome) -> int:
    """The exit code that belongs to a single model."""
    totals = Totals(command)
    totals.add(0, outcome)
    return totals.code
