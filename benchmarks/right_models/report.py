"""The farm's result as JSON and as a Markdown table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from judge import Row

MAX_LISTED = 20000


@dataclass
class Tally:
    """What is counted while the farm runs."""

    models: Counter[str] = field(default_factory=Counter)
    not_right: Counter[str] = field(default_factory=Counter)
    runs: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    rules: dict[str, Counter[str]] = field(default_factory=dict)
    listed: list[Row] = field(default_factory=list)

    def add(self, exporter: str, rows: Iterable[Row], error: str) -> None:
        """The rows of one case, or why it does not count."""
        (self.not_right if error else self.models)[exporter] += 1
        for row in rows:
            key = (row.exporter, row.transform, row.way)
            self.runs[(*key, "all")] += 1
            self.runs[(*key, row.verdict)] += 1
            if row.rolled_back:
                self.runs[(*key, "rolled back")] += 1
            for code in row.rules:
                counter = self.rules.setdefault(code, Counter())
                counter["changed"] += row.verdict == "changed"
                counter["harmed"] += row.verdict == "harmed" and code in row.culprits
            for line in row.rolled_back:
                self.rules.setdefault(line.split(":")[0], Counter())["rolled back"] += 1
            if row.verdict == "harmed" or row.rolled_back:
                self.listed.append(row)

    @property
    def bad(self) -> list[Row]:
        return [row for row in self.listed if row.verdict == "harmed" or row.rolled_back]

    def total(self, verdict: str) -> int:
        return sum(count for key, count in self.runs.items() if key[3] == verdict)


def write_json(tally: Tally, path: Path, facts: dict[str, Any]) -> None:
    """Everything that was counted, and each harmed or rolled back result."""
    runs = [
        dict(zip(("exporter", "transform", "way", "verdict"), key, strict=True), count=n)
        for key, n in sorted(tally.runs.items())
    ]
    data = {
        **facts,
        "models": dict(tally.models),
        "not_right": dict(tally.not_right),
        "runs": runs,
        "rules": {code: dict(+counter) for code, counter in sorted(tally.rules.items())},
        "harmed_or_rolled_back": [asdict(row) for row in tally.listed[:MAX_LISTED]],
    }
    path.write_text(json.dumps(data, indent=1))


def markdown(tally: Tally) -> str:
    """Tables: models by exporter, runs by way and transform, rules, and the first example of each harm."""
    lines = ["| exporter | right models | runs | changed, still right | harmed | rolled back |", "|---|---|---|---|---|---|"]
    for exporter in sorted(tally.models):
        lines.append(_line(exporter, tally.models[exporter], tally, lambda key, exporter=exporter: key[0] == exporter))
    lines.append(_line("all", sum(tally.models.values()), tally, lambda key: True))
    lines += ["", "| model | rules run | runs | changed, still right | harmed | rolled back |", "|---|---|---|---|---|---|"]
    for transform, way in sorted({key[1:3] for key in tally.runs}):
        lines.append(_line(transform, way, tally, lambda key, both=(transform, way): key[1:3] == both))
    lines += ["", "| rule | fired, still right | harmed | rolled back |", "|---|---|---|---|"]
    for code, counter in sorted(tally.rules.items()):
        lines.append(f"| {code} | {counter['changed']} | {counter['harmed']} | {counter['rolled back']} |")
    return "\n".join(lines) + "\n" + _examples(tally)


def _line(first: object, second: object, tally: Tally, wanted: Any) -> str:
    counts: Counter[str] = Counter()
    for key, count in tally.runs.items():
        if wanted(key):
            counts[key[3]] += count
    return f"| {first} | {second} | {counts['all']} | {counts['changed']} | {counts['harmed']} | {counts['rolled back']} |"


def _examples(tally: Tally) -> str:
    """For each set of rules to blame, how often and one example."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in tally.bad:
        what = "harmed" if row.verdict == "harmed" else "rolled back"
        blamed = row.culprits if what == "harmed" else sorted({line.split(":")[0] for line in row.rolled_back})
        near = ", wrong source" if row.transform == "near-source" else ""
        groups.setdefault((what + near, ", ".join(blamed) or row.reason[:60]), []).append(row)
    lines = ["", "| result | rules | runs | example | reason |", "|---|---|---|---|---|"]
    for (what, rules), rows in sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]))):
        row = min(rows, key=lambda one: (one.transform != "as-is", one.way != "default"))
        reason = row.reason or "; ".join(row.rolled_back)
        ways = ", ".join(f"{w} {n}" for w, n in Counter(f"{r.transform}/{r.way}" for r in rows).most_common(6))
        lines.append(f"| {what} | {rules} | {len(rows)} ({ways}) | {row.case} {row.transform}/{row.way} | {reason[:140]} |")
    return "\n".join(lines) + "\n" if groups else ""
