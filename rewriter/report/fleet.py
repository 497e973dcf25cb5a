"""What the owner of many models reads first: how many load that did not, which are still refused and why, where and by what.

Everything is counted as models come; messages of refusal that differ in names and numbers only are one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from rewriter.record import field, record
from rewriter.report.document import FleetRecord, ModelRecord, ReasonRecord, TotalsRecord

MOST_GROUPS = 100_000
"""Folders, or messages, that are told apart; the rest is one group."""

REST = "(other)"
LISTED = 20  # messages in a report
_NAMES = re.compile(r"'[^']*'|\"[^\"]*\"|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\}")
_NUMBERS = re.compile(r"\d+")
_WORDS = re.compile(r"\S*[/_.]\S*")


@record(slots=True)
class _Reason:
    models: int = 0
    example: str = ""
    said: str = ""
    answers: dict[str, None] = field(default_factory=dict)


def pattern_of(message: str) -> str:
    """A message without the names and numbers in it, by which those that say the same are one."""
    return _NUMBERS.sub("#", _WORDS.sub("*", _NAMES.sub("*", message)))[:200]


class Fleet:
    """Counts models by exporter, folder and rule."""

    def __init__(self) -> None:
        self._all = [0] * len(COLUMNS)
        self._groups: tuple[dict[str, list[int]], ...] = ({}, {}, {})
        self._reasons: dict[str, _Reason] = {}

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
        found = self._reasons.setdefault(pattern, _Reason(0, one.path, one.refused))
        found.models += 1
        found.answers.update(dict.fromkeys(answer.rule for answer in one.answers))

    def record(self) -> FleetRecord:
        """What was counted."""
        exporters, folders, rules = (
            {name: TotalsRecord(*row) for name, row in sorted(group.items(), key=lambda item: (-item[1][0], item[0]))}
            for group in self._groups
        )
        reasons = sorted(self._reasons.values(), key=lambda one: (-one.models, one.example))
        told = tuple(ReasonRecord(one.said, one.models, one.example, tuple(one.answers)) for one in reasons)
        return FleetRecord(TotalsRecord(*self._all), exporters, folders, dict(sorted(rules.items())), told)


COLUMNS: Mapping[str, str] = {
    "models": "models",
    "changed": "changed",
    "unchanged": "unchanged",
    "failed": "failed",
    "refused_before": "refused before",
    "loads_now": "loads now",
    "still_refused": "still refused",
    "numbers_changed": "numbers changed",
    "rolled_back": "rolled back",
    "unjudged": "not judged",
}
"""What is counted, by the fields of `TotalsRecord`, and how it is called."""


def facts_of(one: ModelRecord) -> tuple[bool, ...]:
    """Which columns a model counts in, in their order. It is changed, unchanged or failed; if it was refused before, it loads
    now, is still refused, or is not judged.
    """
    failed = bool(one.error)
    changed = not failed and one.status in ("changed", "findings")
    before = bool(one.refusal) or (one.refusal is None and bool(one.remaining))
    still = bool(one.remaining) or (one.remaining is None and bool(one.refusal) and not one.unjudged)
    differ = one.verification is not None and one.verification.verdict in ("differ", "wrong")
    loads = before and one.remaining == ""
    unjudged = bool(one.unjudged) or (before and not still and not loads)
    return True, changed, not failed and not changed, failed, before, loads, still, differ, bool(one.rolled_back), unjudged


def verdict_of(one: ModelRecord) -> str:
    """What became of a model in a few words; the first of these that holds."""
    holds = dict(zip(COLUMNS, facts_of(one), strict=True))
    for name in ("failed", "unjudged", "still_refused", "loads_now", "numbers_changed", "rolled_back", "changed"):
        if holds[name]:
            return COLUMNS[name]
    return "unchanged"


def _row(group: dict[str, list[int]], name: str) -> list[int]:
    if name not in group and len(group) >= MOST_GROUPS:
        name = REST
    return group.setdefault(name, [0] * len(COLUMNS))
