"""A report as Markdown, for a pull request or a job summary: totals, a table of models, and the changes of each rule.

Texts from a model are written in code spans and code blocks, in which Markdown has no syntax: no name can become a link, an
image, a heading or a mention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from rewriter.app.report.document import (
    ModelRecord,
    Report,
    TotalsRecord,
    by_rule,
    change_lines,
    columns_of,
    ending,
    has_something,
    place_text,
    repair_text,
    rolled_place,
    status_text,
    verb,
)
from rewriter.app.report.terminal import models_by_status
from rewriter.app.style import clean
from rewriter.core.errors import counted, listed
from rewriter.core.log import Firing

SHOWN = 3  # firings of one rule and model whose changes are shown
LISTED = 20  # further ones that are named
MODELS = 200  # in the table of models
_SPECIAL = re.compile(r"([\\`*_\[\]<>#!|~&@])")


def report_pieces(report: Report) -> Iterator[str]:
    """The whole page."""
    return (f"{line}\n" for line in _lines(report))


def _lines(report: Report) -> Iterator[str]:
    summary, total = report.summary, sum(report.summary.firings.values())
    yield f"# rewriter {report.command}: {counted(total, verb(report))} in {counted(summary.models, 'model')}"
    yield ""
    statuses = models_by_status(report.command, summary) or counted(summary.models, "model")
    rules = f"{counted(report.rule_set.rules, 'rule')} selected (`{report.rule_set.sha256[:12]}`)"
    yield f"{statuses}; {rules}; rewriter {report.version}; {summary.seconds:.1f} s; exit code {report.exit_code}."
    if summary.firings:
        yield from _totals(report)
    if len(report.models) > 1:
        yield from _fleet(report)
        yield from _models(report)
    for model in report.models:
        if has_something(model):
            yield from _model(report, model)


def _totals(report: Report) -> Iterator[str]:
    yield ""
    yield "| rule | kind | severity | firings | what it is about |"
    yield "|---|---|---|---:|---|"
    for code, count in report.summary.firings.items():
        rule = report.rule(code)
        if rule is not None:
            yield f"| {code} | {rule.kind} | {rule.severity} | {count:,} | {escaped(rule.title)} |"


def _fleet(report: Report) -> Iterator[str]:
    fleet, columns = report.summary.fleet, columns_of(report)
    yield ""
    yield f"| {' | '.join(columns.values())} | |"
    yield f"|{'---:|' * len(columns)}---|"
    yield _row("all", fleet.total, columns)
    for group in (fleet.exporters, fleet.folders, fleet.rules):
        yield from (_row(name, totals, columns) for name, totals in islice(group.items(), MODELS))
    if fleet.reasons:
        yield ""
    for one in fleet.reasons[:LISTED]:
        answers = ", ".join(one.answers) or "none"
        yield f"- rejected by ONNX Runtime: {counted(one.models, 'model')}, {code_span(one.example)} for one: "
        yield f"  {code_span(one.reason)}, rules: {answers}"


def _row(name: str, totals: TotalsRecord, columns: Iterable[str]) -> str:
    cells = " | ".join(f"{getattr(totals, column):,}" for column in columns)
    return f"| {cells} | {code_span(name, table=True)} |"


def _models(report: Report) -> Iterator[str]:
    yield ""
    yield "| model | status | firings | rolled back | input | output |"
    yield "|---|---|---:|---:|---|---|"
    silent = 0
    for place, model in enumerate(report.models):
        silent += not has_something(model)
        if place >= MODELS:
            continue
        digests = [f"`{file.sha256[:12]}`" if (file := model.file(r)) and file.sha256 else "" for r in ("input", "output")]
        numbers = f"{len(model.firings):,} | {len(model.rolled_back) or ''}"
        yield f"| {code_span(model.path, table=True)} | {status_text(model.status)} | {numbers} | {' | '.join(digests)} |"
    if len(report.models) > MODELS:
        yield ""
        yield f"{len(report.models) - MODELS:,} more models are not listed."
    if silent:
        yield ""
        yield f"{counted(silent, 'model')} without findings or changes."


def _model(report: Report, model: ModelRecord) -> Iterator[str]:
    yield ""
    yield f"## {code_span(model.path)}"
    yield ""
    if model.error:
        yield f"**Failed**: {code_span(model.error)}"
        return
    facts = [
        status_text(model.status),
        f"exporter {code_span(model.exporter)}" if model.exporter else "",
        f"ended: {ending(model.stop)}",
    ]
    facts += [f"written to {code_span(model.output)}"] if model.output else []
    yield "; ".join(fact for fact in facts if fact) + "."
    if model.refused:
        yield ""
        yield f"**Rejected by ONNX Runtime**: {code_span(model.refused)}, {repair_text(model)}."
    for rolled in model.rolled_back:
        yield ""
        yield f"- **rolled back** {rolled.rule}, {code_span(rolled_place(rolled))}: {code_span(rolled.reason)}"
    if model.verification is not None:
        yield ""
        yield from (f"- {code_span(finding)}" for finding in model.verification.findings)
    for code, firings in by_rule(model.firings).items():
        yield from _rule(code, firings)
    yield from _others(model)


def _rule(code: str, firings: Sequence[Firing]) -> Iterator[str]:
    yield ""
    yield f"### {code} {escaped(firings[0].title)}"
    for firing in firings[:SHOWN]:
        verdict = "" if firing.verdict == "found" else f", {firing.verdict}"
        yield ""
        yield f"{firing.number}. {code_span(place_text(firing))}{verdict}"
        lines = list(change_lines(firing.changes))
        fence = "`" * max(3, _longest("\n".join(lines)) + 1)
        yield ""
        yield f"{fence}diff"
        yield from lines
        yield fence
        for condition in firing.conditions:
            if condition.found:
                yield f"- {code_span(condition.text)}: {code_span(condition.found)}"
    left = firings[SHOWN:]
    if left:
        yield ""
        yield f"Also at {listed([code_span(place_text(firing)) for firing in left], LISTED)}."


def _others(model: ModelRecord) -> Iterator[str]:
    lines = [
        f"- {'**failed**' if blocked.error else 'blocked'} {blocked.rule}, {code_span(place_text(blocked))}: "
        f"{code_span(blocked.reason)}"
        for blocked in model.blocked[:LISTED]
    ]
    if len(model.blocked) > LISTED:
        lines.append(f"- {len(model.blocked) - LISTED:,} more are blocked")
    lines += [
        f"- suppressed {one.rule}, {code_span(place_text(one))}: {code_span(f'{one.reason} ({one.origin})')}"
        for one in model.suppressed[:LISTED]
    ]
    lines += [
        f"- question of {one.rule}, {code_span(place_text(one))}: {code_span(f'{one.text} {one.remedy}')}"
        for one in model.questions[:LISTED]
    ]
    lines += [f"- **stopped**: {code_span(stop.message)}" for stop in model.stops]
    lines += [f"- note: {code_span(note)}" for note in model.notes]
    if lines:
        yield ""
        yield from lines


def code_span(text: str, *, table: bool = False) -> str:
    """A code span: Markdown shows the text unchanged. In a table, bars still need a backslash."""
    shown = clean(text).replace("|", "\\|" if table else "|") or " "
    ticks = "`" * (_longest(shown) + 1)
    margin = " " if len(ticks) > 1 or shown != shown.strip() else ""
    return f"{ticks}{margin}{shown}{margin}{ticks}"


def escaped(text: str) -> str:
    """Prose in which characters of Markdown's syntax have a backslash."""
    return _SPECIAL.sub(r"\\\1", clean(text))


def _longest(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
