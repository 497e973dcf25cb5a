"""The record of one call of `fix` or `check`: everything it did and found, as data.

All formats of reports are made of this record alone. The JSON report has the fields of this module and of `core.log`; its
schema is made of these types (`docs/report_schema.py`). The number of the schema rises when a field is removed or changes its
meaning, not when one is added.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from rewriter.app.style import clean
from rewriter.core.errors import counted
from rewriter.core.log import Blocked, Change, Firing, Judged, Question, RolledBack, Stop, Suppressed, Verification
from rewriter.core.record import field, record

if TYPE_CHECKING:
    from rewriter.trust.consumers.consumer_verdict import Verdict

SCHEMA = 2

Status = Literal["changed", "unchanged", "findings", "clean", "refused", "failed"]
FileRole = Literal["input", "input data", "source", "output", "output data"]


@record(frozen=True, slots=True)
class FileRecord:
    """A file that was read or written.

    Attributes:
        role: "input" and "output" are the model before and after, "input data" and "output data" the files next to it with its
            weights, "source" is the framework's own file.
        path: as in the call; of data, as the model refers to it.
        sha256: of its bytes, in hexadecimal; null when it cannot be read.
        bytes: its size; null when it cannot be read.
    """

    role: FileRole
    path: str
    sha256: str | None
    bytes: int | None


@record(frozen=True, slots=True)
class RuleRecord:
    """A rule that fired, was blocked, was rolled back or repairs a rejected model.

    Attributes:
        title: the first line of its doc comment.
        kind: what it promises: "exact", "approx", "repair", "lossy" or "interface".
        severity: "error", "warning" or "info".
        path: the file that it stands in.
        sha256: SHA-256 of its meaning; layout and comments do not change it.
        exporters: whose models it is for; empty for any.
        versions: of the exporter, as comparisons, or null.
        issues: upstream threads.
        symptoms: error messages with which a tool rejects such a model.
        description: its doc comment after the title.
    """

    code: str
    slug: str
    title: str
    kind: str
    severity: str
    phase: str
    path: str
    sha256: str
    exporters: tuple[str, ...] = ()
    versions: str | None = None
    issues: tuple[str, ...] = ()
    symptoms: tuple[str, ...] = ()
    description: str = ""


@record(frozen=True, slots=True)
class RuleSetRecord:
    """The rules that were selected.

    Attributes:
        sha256: over the rules and the settings of their parameters.
        rules: how many there are.
        settings: of parameters, "CODE.name=value".
    """

    sha256: str
    rules: int
    settings: tuple[str, ...] = ()


@record(frozen=True, slots=True)
class SkippedRecord:
    """Selected rules that were not tried, all for the same reason.

    Attributes:
        models: on how many models.
        rules: their codes.
    """

    reason: str
    models: int
    rules: tuple[str, ...]


@record(frozen=True, slots=True)
class AnswerRecord:
    """A rule whose symptom matches the error message of ONNX Runtime; `score` is the similarity, at most 1."""

    rule: str
    symptom: str
    score: float


@record(frozen=True, slots=True)
class ExpectationRecord:
    """The comparison of a model with the framework's own outputs (`check --expect`).

    Attributes:
        data: the file with these outputs.
        before: how the outputs of the model differ, or why it does not run; "" if they are equal.
        after: the same after the rules that run by default.
        first: the first node whose result differs from the result in a correct model.
        rules: those that are needed to repair it; of a model that was correct, those that make it wrong.
        questions: guesses, each of which repairs it.
        outputs: how many outputs were compared.
        is_foreign: an input or output has another shape or type than the recorded one, with every rule: the file may be from
            another model.
    """

    data: str
    before: str
    after: str
    first: str = ""
    rules: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    outputs: int = 0
    is_foreign: bool = False

    @property
    def wrong(self) -> bool:
        """Whether the outputs differ, as the model is or after the rules."""
        return bool(self.before or self.after)


@record(slots=True)
class ModelRecord:
    """What became of one model.

    Attributes:
        path: the file read.
        output: the file written, or null.
        status: of fix "changed", "unchanged", "refused" (not changed, and ONNX Runtime rejects it) or "failed"; of check
            "findings", "clean", "refused" (also if a consumer of --ask rejects it) or "failed".
        error: why it failed, or null.
        exporter: who wrote the model as far as is known, or null.
        source: the framework's own file that was used, or null.
        constant_inputs: whether initializers that are also inputs were taken as constants; null when there are none.
        tidied: how many unused nodes, initializers and imports were removed.
        nodes: of the model and of the result of `optimize`, bodies counted and Constant nodes not; null for other commands.
        refusal: why ONNX Runtime does not load the model as it is; "" when it does, null when it was not asked.
        remaining: of fix, why ONNX Runtime does not load the result; "" when it does, null when it was not asked.
        unjudged: checks that gave no verdict on the model or the result, a sentence for each with the reason.
        answers: rules that repair the error of ONNX Runtime.
        seconds: time for the whole model.
        files: what was read and written, with hashes; "source" and data only where there are any.
        stop: why the run of the rules ended: "fixpoint" when nothing fires any more, else the kind of the first of `stops`;
            null when the model failed.
        counts: firings by rule.
        firings: in their order.
        blocked: what an unknown fact, or an error, kept from being decided.
        skipped: how many of the selected rules were not tried on this model; `skipped` of the report says which, and why.
        stops: everything that was stopped.
        notes: further remarks.
        rolled_back: firings that were rolled back because they made the model worse.
        suppressed: firings that a configuration forbids.
        questions: places of repairs that only the author of the model can decide about.
        judged: the verdicts of the checks on the result; empty if the model was not changed or written.
        verification: the comparison of outputs before and after, or null without --verify.
        unfinished: whether something is left: a rule failed, the run was stopped, a rewrite was rolled back, or the outputs
            differ from the outputs of the framework.
        expectation: the comparison with the framework's own outputs; null without --expect.
        asked: the results of consumers (--ask) for the model as it is; `asked_after`: for the result of a repair.
        steps: of a recipe, that the result needed.
        earlier: whether an earlier run did this, and its journal is all that is known of it.
    """

    path: str
    output: str | None = None
    status: Status = "unchanged"
    error: str | None = None
    exporter: str | None = None
    source: str | None = None
    constant_inputs: bool | None = None
    tidied: int = 0
    nodes: tuple[int, ...] | None = None
    refusal: str | None = None
    remaining: str | None = None
    unjudged: tuple[str, ...] = ()
    answers: tuple[AnswerRecord, ...] = ()
    seconds: float = 0.0
    files: tuple[FileRecord, ...] = ()
    stop: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    firings: list[Firing] = field(default_factory=list)
    blocked: list[Blocked] = field(default_factory=list)
    skipped: int = 0
    stops: list[Stop] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rolled_back: list[RolledBack] = field(default_factory=list)
    suppressed: list[Suppressed] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    verification: Verification | None = None
    unfinished: bool = False
    expectation: ExpectationRecord | None = None
    asked: tuple[Verdict, ...] = ()
    asked_after: tuple[Verdict, ...] = ()
    steps: tuple[str, ...] = ()
    earlier: bool = False

    @property
    def refused(self) -> str:
        """The error message of ONNX Runtime for the result of a repair, or for the model of a check; "" if it loads."""
        return (self.refusal if self.remaining is None else self.remaining) or ""

    @property
    def repair(self) -> tuple[str, Sequence[str]]:
        """Words and codes of the rules for that error message: those that would fire, otherwise those that have the symptom."""
        of_message = [answer.rule for answer in self.answers]
        if self.remaining is None and self.counts:
            firing = [rule for rule in of_message if rule in self.counts]
            return ("repaired by", firing) if firing else ("perhaps repaired by", sorted(self.counts))
        idle = [rule for rule in of_message if rule not in self.counts]
        return ("not repaired; this message is a symptom of", idle) if idle else ("repaired by no rule", ())

    def file(self, role: FileRole) -> FileRecord | None:
        """The first file of a role."""
        return next((file for file in self.files if file.role == role), None)


@record(frozen=True, slots=True)
class TotalsRecord:
    """Models of a call, or of a part of it. Each is changed, unchanged or failed. One that was rejected before loads now, is
    still rejected, or is not checked.

    Attributes:
        unchanged: those also that were looked at and left alone.
        refused_before: ONNX Runtime rejects the model that was read.
        still_refused: it rejects the result; of check, the model.
        numbers_changed: `--verify` found outputs that differ.
        rolled_back: a firing was rolled back because it made the model worse.
        unjudged: a check gave no verdict.
    """

    models: int = 0
    changed: int = 0
    unchanged: int = 0
    failed: int = 0
    refused_before: int = 0
    loads_now: int = 0
    still_refused: int = 0
    numbers_changed: int = 0
    rolled_back: int = 0
    unjudged: int = 0


@record(slots=True)
class ReasonRecord:
    """A reason for which models are still rejected: an error message, the number of its models, and the rules that repair them.

    Attributes:
        example: the path of this one.
    """

    reason: str
    models: int
    example: str
    answers: tuple[str, ...] = ()


@record(frozen=True, slots=True)
class FleetRecord:
    """Many models at a glance.

    Attributes:
        total: of all.
        exporters, folders, rules: of parts; a model counts with each rule that fired in it or was rolled back.
        reasons: error messages, the most frequent first; messages that differ only in names and numbers count as one.
    """

    total: TotalsRecord = field(default_factory=TotalsRecord)
    exporters: dict[str, TotalsRecord] = field(default_factory=dict)
    folders: dict[str, TotalsRecord] = field(default_factory=dict)
    rules: dict[str, TotalsRecord] = field(default_factory=dict)
    reasons: tuple[ReasonRecord, ...] = ()


@record(frozen=True, slots=True)
class Summary:
    """Totals of a call.

    Attributes:
        models: how many there were.
        statuses: models by status.
        refused: models that ONNX Runtime rejects: of check as they are, of fix as they are written.
        repaired: models whose fault is gone: a rule of kind repair fired, or what rejected the model accepts the result.
        mismatched: models that ONNX Runtime loads and whose outputs differ from the framework's outputs.
        unjudged: models for which a check gave no verdict.
        unfinished: models with something that could not be repaired.
        rolled_back: entries under `rolled_back` of all models.
        firings: by rule, of the models that did not fail.
        seconds: of the whole call.
        fleet: what became of many models, by exporter, folder and rule.
    """

    models: int
    statuses: dict[str, int]
    unfinished: int
    rolled_back: int
    firings: dict[str, int]
    seconds: float
    refused: int = 0
    repaired: int = 0
    mismatched: int = 0
    unjudged: int = 0
    fleet: FleetRecord = field(default_factory=FleetRecord)


@record(frozen=True, slots=True)
class Report:
    """The record of one call.

    Attributes:
        schema: version of this format, 2.
        command: what was called.
        version: of rewriter.
        exit_code: 0 done or nothing found, 1 findings or something not repaired, 2 bad input, 3 a mistake of the program.
        summary: totals.
        rule_set: the rules that were selected.
        rules: those of them that did something, by code.
        models: in the order of the input.
        skipped: selected rules that were not tried on models, by reason; listed once for all models.
    """

    schema: int
    command: Literal["fix", "check", "optimize"]
    version: str
    exit_code: int
    summary: Summary
    rule_set: RuleSetRecord
    rules: tuple[RuleRecord, ...]
    models: Collection[ModelRecord]
    skipped: tuple[SkippedRecord, ...] = ()

    def rule(self, code: str) -> RuleRecord | None:
        """The rule of a code."""
        return next((rule for rule in self.rules if rule.code == code), None)


# The texts of all formats for entries of a record: places and counts.


def place_text(at: Firing | Blocked | RolledBack | Suppressed | Question) -> str:
    """`fc1 (Gemm)`, with the graph in front if it is not the main graph."""
    where = "" if at.place in ("", "main") else f"{clean(at.place)}: "
    return f"{where}{clean(at.root) or 'model'}" + (f" ({clean(at.op)})" if at.op else "")


def place_texts(entries: Iterable[Firing | Blocked | RolledBack]) -> list[str]:
    """The places of entries, each once: a rule about the whole model may fire several times at the same place."""
    times = Counter(map(place_text, entries))
    return [text if count == 1 else f"{text}, {count:,} times" for text, count in times.items()]


def rolled_place(rolled: RolledBack) -> str:
    """The place of a firing that was rolled back."""
    return place_text(rolled) if rolled.place else f"everywhere ({counted(rolled.times, 'place')})"


def repair_text(model: ModelRecord) -> str:
    """`ModelRecord.repair` as a text."""
    words, codes = model.repair
    return f"{words} {', '.join(codes)}" if codes else words


def change_lines(changes: Iterable[Change]) -> Iterator[str]:
    """`-before` and `+after`, each on one line."""
    for change in changes:
        if change.before is not None:
            yield f"-{clean(change.before)}"
        if change.after is not None:
            yield f"+{clean(change.after)}"


_ENDINGS = {
    "fixpoint": "nothing fires any more",
    "Time": "stopped at the time limit",
    "Budget": "stopped at the limit of rewrites",
    "Growth": "stopped a rule that added too many nodes",
    "Generation": "stopped a rule that went on rewriting its own results",
    "Cycle": "stopped rules that undo each other",
}


def ending(stop: str | None) -> str:
    """Why a run of the rules ended, in words."""
    return _ENDINGS.get(stop or "", "with an error")


def by_rule(firings: Iterable[Firing]) -> dict[str, list[Firing]]:
    """Firings by rule, rules in the order of their codes."""
    found: dict[str, list[Firing]] = {}
    for firing in firings:
        found.setdefault(firing.rule, []).append(firing)
    return dict(sorted(found.items()))


def verb(report: Report) -> str:
    """The noun for a firing of the command: a rewrite, or the finding that a rule would rewrite."""
    return "finding" if report.command == "check" else "rewrite"


def status_text(status: str) -> str:
    """The status of a model as pages show it."""
    return {"refused": "rejected", "findings": "with findings"}.get(status, status)


def severity(report: Report, code: str) -> str:
    """The severity of a rule."""
    rule = report.rule(code)
    return "error" if rule is None else rule.severity


def has_something(model: ModelRecord) -> bool:
    """Whether a report on a model has more than the line that no rule fires."""
    found = model.error or model.firings or model.blocked or model.rolled_back or model.refused or model.stops or model.tidied
    return bool(found)


# The first part of a report on many models: how many load now, which are still rejected and why, by folder and by rule.
#
# Models are counted as they arrive. Error messages that differ only in names and numbers count as one.

MOST_GROUPS = 100_000
"""The most folders, or messages, with a group of their own; the rest is one group."""

REST = "(other)"
LISTED = 20  # messages in a report
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_NUMBERS = re.compile(r"\d+")
_WORDS = re.compile(r"\S*[/_.]\S*")


def pattern_of(message: str) -> str:
    """A message without the names and numbers in it, so that messages that differ only in these are one."""
    return _NUMBERS.sub("#", _WORDS.sub("*", _NAMES.sub("*", message)))[:200]


class Fleet:
    """Counts models by exporter, folder and rule."""

    def __init__(self) -> None:
        self._all = [0] * len(COLUMNS)
        self._groups: tuple[dict[str, list[int]], ...] = ({}, {}, {})
        self._reasons: dict[str, ReasonRecord] = {}

    def add(self, one: ModelRecord) -> None:
        """Counts a model."""
        facts = facts_of(one)
        rules = dict.fromkeys([*one.counts, *(rolled.rule for rolled in one.rolled_back)])
        names = [one.exporter or "unknown"], [os.path.dirname(one.path) or "."], list(rules)
        for row in (self._all, *(_row(group, name) for group, mine in zip(self._groups, names, strict=True) for name in mine)):
            for place, holds in enumerate(facts):
                row[place] += holds
        if one.refused:
            self._add_reason(one)

    def _add_reason(self, one: ModelRecord) -> None:
        pattern = pattern_of(one.refused)
        if pattern not in self._reasons and len(self._reasons) >= MOST_GROUPS:
            pattern = REST
        found = self._reasons.setdefault(pattern, ReasonRecord(one.refused, 0, one.path))
        found.models += 1
        found.answers = tuple(dict.fromkeys([*found.answers, *one.repair[1]]))

    def record(self) -> FleetRecord:
        """The counts so far."""
        exporters, folders, rules = (
            {name: TotalsRecord(*row) for name, row in sorted(group.items(), key=lambda item: (-item[1][0], item[0]))}
            for group in self._groups
        )
        reasons = tuple(sorted(self._reasons.values(), key=lambda one: (-one.models, one.example)))
        return FleetRecord(TotalsRecord(*self._all), exporters, folders, dict(sorted(rules.items())), reasons)


COLUMNS: Mapping[str, str] = {
    "models": "models",
    "changed": "changed",
    "unchanged": "unchanged",
    "failed": "failed",
    "refused_before": "rejected before",
    "loads_now": "loads now",
    "still_refused": "still rejected",
    "numbers_changed": "outputs changed",
    "rolled_back": "rolled back",
    "unjudged": "not checked",
}
"""The columns: the fields of `TotalsRecord` with their headings."""

CHECK_COLUMNS: Mapping[str, str] = {
    "models": "models",
    "changed": "with findings",
    "unchanged": "clean",
    "failed": "failed",
    "refused_before": "rejected",
    "unjudged": "not checked",
}
"""The columns of a check, which writes no results."""


def columns_of(report: Report) -> Mapping[str, str]:
    """The columns that say something about the command of a report."""
    return CHECK_COLUMNS if report.command == "check" else COLUMNS


def facts_of(one: ModelRecord) -> tuple[bool, ...]:
    """Whether a model counts in each column, in their order. It is changed, unchanged or failed. If it was rejected before, it
    loads now, is still rejected, or is not checked.
    """
    failed = bool(one.error)
    changed = not failed and one.status in ("changed", "findings")
    before = bool(one.refusal) or (one.refusal is None and bool(one.remaining))
    still = bool(one.remaining) or (one.remaining is None and bool(one.refusal) and not one.unjudged)
    differ = one.verification is not None and one.verification.verdict in ("differ", "wrong")
    loads = before and one.remaining == ""
    unjudged = bool(one.unjudged) or (before and not still and not loads)
    return True, changed, not failed and not changed, failed, before, loads, still, differ, bool(one.rolled_back), unjudged


def verdict_of(one: ModelRecord, columns: Mapping[str, str]) -> str:
    """The verdict on a model in a few words: the heading of the first column below that it counts in."""
    holds = dict(zip(COLUMNS, facts_of(one), strict=True))
    for name in (
        "failed",
        "unjudged",
        "still_refused",
        "loads_now",
        "numbers_changed",
        "rolled_back",
        "refused_before",
        "changed",
    ):
        if holds[name] and name in columns:
            return columns[name]
    return columns["unchanged"]


def _row(group: dict[str, list[int]], name: str) -> list[int]:
    if name not in group and len(group) >= MOST_GROUPS:
        name = REST
    return group.setdefault(name, [0] * len(COLUMNS))
