"""Totals of a call, taken as models are finished: nothing of a model is held but what it adds to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rewriter import __version__
from rewriter.batch.spool import Spool
from rewriter.batch.work import Outcome, Work
from rewriter.cli.report_record import Command, answers_to, model_record, rule_records, skipped_records
from rewriter.report.document import SCHEMA, ModelRecord, Report, RuleSetRecord, Summary
from rewriter.report.fleet import Fleet

if TYPE_CHECKING:
    import argparse

    from rewriter.language.rule import Rule
    from rewriter.log.records import Skipped

OK, FINDINGS, BAD_INPUT, INTERNAL = 0, 1, 2, 3


class Totals:
    """What became of the models of a call.

    Args:
        keeps: whether the record of each model is kept, on the disk, for a report.
    """

    def __init__(self, command: Command, args: argparse.Namespace, *, keeps: bool) -> None:
        self._command = command
        self._args = args
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
        """A model is finished; `number` is its place among all."""
        answers = answers_to(outcome, self._args) if self.records is not None else []
        self._answering.update({answer.rule.code: answer.rule for answer in answers})
        if self.records is not None and outcome.log is not None:
            self._skipped[tuple(outcome.log.skipped)] += 1
        if outcome.crash:
            self._worst = INTERNAL
        self.add_record(number, model_record(self._command, outcome, answers))

    def add_record(self, number: int, one: ModelRecord) -> None:
        """The same for what an earlier run did."""
        self.models += 1
        self._statuses[one.status] += 1
        refused = bool(one.refusal if self._command == "check" else one.remaining)
        self._numbers["refused"] += refused
        self._numbers["unfinished"] += one.unfinished
        self._numbers["unjudged"] += bool(one.unjudged)
        self._numbers["rolled back"] += len(one.rolled_back)
        found = one.unfinished or one.unjudged or refused or one.status == "findings"
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

    @property
    def code(self) -> int:
        """3 when this program made a mistake, 2 when a model failed, 1 for findings or something unrepaired, 0 otherwise."""
        return OK if self._worst == FINDINGS and getattr(self._args, "exit_zero", False) else self._worst

    def summary(self, seconds: float) -> Summary:
        """The totals."""
        return Summary(
            models=self.models,
            statuses=dict(sorted(self._statuses.items())),
            refused=self._numbers["refused"],
            unfinished=self._numbers["unfinished"],
            unjudged=self._numbers["unjudged"],
            rolled_back=self._numbers["rolled back"],
            firings=dict(sorted(self._firings.items())),
            seconds=round(seconds, 3),
            fleet=self.fleet.record(),
        )

    def report(self, work: Work, seconds: float, code: int) -> Report:
        """The record of the call."""
        rules = work.rules
        settings = tuple(f"{code}.{name}={value}" for (code, name), value in sorted(rules.settings.items()))
        return Report(
            SCHEMA,
            self._command,
            __version__,
            code,
            self.summary(seconds),
            RuleSetRecord(rules.digest, len(rules), settings),
            tuple(rule_records([rules, *(one.rules for one in work.variants)], self._answering, self._named)),
            _Records(self.records),
            tuple(skipped_records(self._skipped)),
        )


class _Records:
    """The records of all models, read from the disk as they are asked for."""

    def __init__(self, spool: Spool[ModelRecord] | None) -> None:
        self._spool = spool

    def __len__(self) -> int:
        return 0 if self._spool is None else len(self._spool)

    def __iter__(self) -> Iterator[ModelRecord]:
        return iter(self._spool or ())

    def __contains__(self, one: object) -> bool:
        return any(found == one for found in self)


def exit_code(command: Command, outcome: Outcome, args: argparse.Namespace) -> int:
    """The exit code that belongs to a single model."""
    totals = Totals(command, args, keeps=False)
    totals.add(0, outcome)
    return totals.code
