"""A log as JSON, for machines.

A model's object holds what `Log` holds, under the same names (see `rewriter.engine.log`), and

    path, output      files read and written; output is null when nothing was written
    status            of fix: "changed", "unchanged" or "failed"; of check: "findings", "clean", "refused" or "failed"
    refusal           why ONNX Runtime does not load the model as it is; "" when it does, null when it was not asked
    answers           rules that answer the refusal: [{rule, symptom, score}]
    exporter, source  who wrote the model as far as is known, and the source file that was used, or null
    constant_inputs   whether initializers that are also inputs were taken as constants; null when there are none
    tidied            how many unused nodes, initializers and imports were removed
    seconds           time for the whole model
    error             why it failed, or null
    counts            firings by rule
    firings           [{number, rule, title, kind, phase, place, root, op, matched, changes: [{name, before, after}],
                        conditions: [[text, value]], parents, microseconds}]
    blocked           [{rule, title, place, root, op, reason, line, remedy, error}]
    skipped           [{rule, reason}]
    stops             [{kind, message, rules, nodes}]
    notes             [text]
    rolled_back       [{rule, title, kind, place, root, op, reason, times}]
    suppressed        [{rule, title, place, root, op, reason, origin}]
    verification      {verdict, runtime, inputs, outputs, largest, findings}, or null

A report is {"schema": 1, "command", "exit_code", "summary": {...}, "models": [...]}. The number of the schema rises when a
field goes or changes its meaning, not when one is added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rewriter.engine.log import Log

SCHEMA = 1


def log_object(log: Log) -> dict[str, Any]:
    """The part of a model's object that is its log."""
    return {"counts": dict(sorted(log.counts.items())), **asdict(log)}


def report(command: str, models: Sequence[Mapping[str, Any]], summary: Mapping[str, Any], exit_code: int) -> str:
    """The report of one call, as text."""
    whole = {"schema": SCHEMA, "command": command, "exit_code": exit_code, "summary": dict(summary), "models": list(models)}
    return dumps(whole)


def dumps(value: object) -> str:
    """JSON in ASCII, so that no name can break a terminal or an encoding."""
    return json.dumps(value, indent=1, ensure_ascii=True)
