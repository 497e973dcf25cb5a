"""A report as SARIF 2.1.0, the format of static analysis results that code scanning reads.

The analysed file is the input: a firing is a result in it, whether it was repaired or only found. A rule that an unknown fact
blocks is a result of kind "open". Rewrites that were rolled back and failed or unreadable models are notifications of the run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from rewriter.app.report.document import (
    ModelRecord,
    Report,
    RuleRecord,
    change_lines,
    place_text,
    rolled_place,
    severity,
)
from rewriter.app.report.printout import Listed, pieces
from rewriter.app.style import clean
from rewriter.core.errors import counted
from rewriter.core.log import Blocked, Firing, Question, RolledBack, Suppressed

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "info": "note"}
REFUSED = "ONNXRUNTIME"
"""The rule id of results without a rule: error messages of ONNX Runtime."""


def report_pieces(report: Report) -> Iterator[str]:
    """The SARIF log."""
    return pieces({"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(report)]})


def _run(report: Report) -> dict[str, Any]:
    rules = [_rule(rule) for rule in report.rules]
    if any(model.refused for model in report.models):
        rules.append(
            {"id": REFUSED, "name": "RefusedByOnnxRuntime", "shortDescription": _text("ONNX Runtime rejects the model")}
        )
    positions = {rule["id"]: number for number, rule in enumerate(rules)}
    notifications = (notification for place, model in enumerate(report.models) for notification in _notifications(model, place))
    return {
        "tool": {
            "driver": {
                "name": "rewriter",
                "semanticVersion": report.version,
                "rules": rules,
                "properties": {"ruleSet.sha256": report.rule_set.sha256, "ruleSet.rules": report.rule_set.rules},
            }
        },
        "invocations": [
            {
                "executionSuccessful": report.exit_code < 2,
                "exitCode": report.exit_code,
                "toolExecutionNotifications": Listed(notifications),
            }
        ],
        "artifacts": Listed(map(_artifact, report.models)),
        "results": Listed(
            result for place, model in enumerate(report.models) for result in _results(report, model, place, positions)
        ),
        "columnKind": "unicodeCodePoints",
    }


def _rule(rule: RuleRecord) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": rule.code,
        "name": "".join(word.capitalize() for word in rule.slug.split("-")),
        "shortDescription": _text(rule.title),
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
        "properties": {"kind": rule.kind, "phase": rule.phase, "sha256": rule.sha256, "issues": list(rule.issues)},
    }
    page = next((issue for issue in rule.issues if issue.startswith("https://")), None)
    return found if page is None else {**found, "helpUri": quote(page, safe=":/?#[]@!$&'()*+,;=%-._~")}


def _artifact(model: ModelRecord) -> dict[str, Any]:
    file = model.file("input")
    found: dict[str, Any] = {"location": {"uri": uri(model.path)}, "roles": ["analysisTarget"]}
    if file is not None and file.sha256 is not None and file.bytes is not None:
        found |= {"length": file.bytes, "hashes": {"sha-256": file.sha256}}
    return found


def _results(report: Report, model: ModelRecord, place: int, positions: dict[str, int]) -> Iterator[dict[str, Any]]:
    for firing in model.firings:
        done = f"; repaired in {clean(model.output)}" if model.output is not None else ""
        yield {
            **_result(firing, model, place, positions),
            "level": LEVELS[severity(report, firing.rule)],
            "message": _text(f"{place_text(firing)}: {firing.title}{done}"),
            "properties": _properties(firing),
        }
    for blocked in model.blocked:
        if not blocked.error:
            text = f"{place_text(blocked)}: {blocked.reason}" + (f"; {blocked.remedy}" if blocked.remedy else "")
            yield {
                **_result(blocked, model, place, positions),
                "kind": "open",
                "level": "none",
                "message": _text(text),
            }
    for one in model.suppressed:
        yield {
            **_result(one, model, place, positions),
            "level": LEVELS[severity(report, one.rule)],
            "message": _text(f"{place_text(one)}: {one.title}"),
            "suppressions": [{"kind": "external", "justification": clean(f"{one.reason} ({one.origin})")}],
        }
    for question in model.questions:
        yield {
            **_result(question, model, place, positions),
            "kind": "open",
            "level": "none",
            "message": _text(f"{place_text(question)}: {question.text} {question.remedy}"),
        }
    if model.refused:
        yield {
            "ruleId": REFUSED,
            "ruleIndex": positions[REFUSED],
            "level": "error",
            "message": _text(model.refused),
            "locations": [_location(model, place)],
            "properties": {"answers": [answer.rule for answer in model.answers]},
        }


def _result(
    entry: Firing | Blocked | Question | Suppressed, model: ModelRecord, place: int, positions: dict[str, int]
) -> dict[str, Any]:
    logical = {"name": clean(entry.root) or "model", "fullyQualifiedName": clean(f"{entry.place}/{entry.root}")}
    marks = "\0".join((entry.rule, entry.place, entry.root, entry.op)).encode("utf-8", "surrogatepass")
    return {
        "ruleId": entry.rule,
        "ruleIndex": positions[entry.rule],
        "locations": [{**_location(model, place), "logicalLocations": [logical]}],
        "partialFingerprints": {"rewriter/v1": sha256(marks).hexdigest()},
    }


def _properties(firing: Firing) -> dict[str, Any]:
    return {
        "number": firing.number,
        "kind": firing.kind,
        "verdict": firing.verdict,
        "parents": list(firing.parents),
        "matched": [clean(name) for name in firing.matched],
        "changes": list(change_lines(firing.changes)),
        "conditions": [clean(f"{c.text}: {c.found or c.value}") for c in firing.conditions],
        "weights": [clean(f"{weight.name} {weight.text} ({weight.used})") for weight in firing.weights],
        "microseconds": round(firing.microseconds),
    }


def _notifications(model: ModelRecord, place: int) -> Iterator[dict[str, Any]]:
    if model.error:
        yield _notification("error", model.error, model, place)
    for stop in model.stops:
        yield _notification("error", f"stopped, {stop.kind}: {stop.message}", model, place)
    for rolled in model.rolled_back:
        yield _notification(
            "error", f"{rolled.rule} rolled back, {rolled_place(rolled)}: {rolled.reason}", model, place, rolled
        )
    for blocked in model.blocked:
        if blocked.error:
            yield _notification(
                "error", f"{blocked.rule} failed, {place_text(blocked)}: {blocked.reason}", model, place, blocked
            )
    for note in model.notes:
        yield _notification("note", note, model, place)
    if model.skipped:
        text = f"{counted(model.skipped, 'rule')} not meant for this model"
        yield _notification("note", text, model, place)


def _notification(
    level: str, text: str, model: ModelRecord, place: int, entry: Blocked | RolledBack | None = None
) -> dict[str, Any]:
    found: dict[str, Any] = {"level": level, "message": _text(text), "locations": [_location(model, place)]}
    return found if entry is None else {**found, "associatedRule": {"id": entry.rule}}


def _location(model: ModelRecord, place: int) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": {"uri": uri(model.path), "index": place}}}


def _text(text: str) -> dict[str, str]:
    return {"text": clean(text) or "-"}


def uri(path: str) -> str:
    """A path as a URI reference: absolute with its scheme, relative with `/` between its parts."""
    shown = quote(path.replace(os.sep, "/").encode("utf-8", "surrogatepass"), safe="/-._~")
    if not os.path.isabs(path):
        return shown
    return f"file://{shown}" if shown.startswith("/") else f"file:///{shown}"
