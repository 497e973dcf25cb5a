"""One case through `fix`: as it is and under each transform, by every way of running the rules; what came of it.

A result is harmed where it is no longer right: ONNX Runtime refuses it, the numbers differ from the framework's, or the checker
refuses it and accepted the input. A rollback on a right model is counted, too: the rule fired where it should not.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from cases import Arrays, Case, NotRightError, Run, answers, difference, leaves
from transforms import TRANSFORMS, Variant, apply

from rewriter.app.batch.job import process
from rewriter.app.batch.work import Job, Outcome, Reading, Rewriting, Work, Writing
from rewriter.core.isolation.budget import within_limits
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.rule_tools.load_rules import load_rules

SECONDS = 120.0
WAYS = {
    "default": "rewriter fix",
    "no-source": "rewriter fix --source none",
    "all": "every repair with every exact and approx rule, in one run",
    "optimized-first": "every exact and approx rule, then every repair, in two runs",
    "again": "rewriter fix, then once more without the source file: the second changes nothing",
}


@dataclass
class Row:
    """One way on one variant.

    Attributes:
        verdict: "right" (unchanged), "changed" (and right), "harmed", or "undecided": only a tensor without recorded truth
            differs, by rules that leave the model itself right.
        rules: those that fired.
        culprits: those without which the result is right.
    """

    case: str
    exporter: str
    transform: str
    way: str
    verdict: str
    rules: list[str] = field(default_factory=list)
    reason: str = ""
    culprits: list[str] = field(default_factory=list)
    rolled_back: list[str] = field(default_factory=list)


class Bench:
    """The rules, in the selections that the ways need."""

    def __init__(self) -> None:
        known = load_rules()
        kinds = {rule.code: "guess" if evidence(rule) == "guess" else rule.kind.name for rule in known}
        self.default = known.select()
        self.repairs, self.optional, self.every = (
            known.select(["ALL"], [code for code, kind in kinds.items() if kind not in wanted])
            for wanted in (("repair",), ("exact", "approx"), ("repair", "exact", "approx"))
        )

    def steps(self, way: str) -> list[tuple[RuleSet, str]]:
        """The runs of a way: rules and `--source`."""
        return {
            "default": [(self.default, "auto")],
            "no-source": [(self.default, "none")],
            "all": [(self.every, "auto")],
            "optimized-first": [(self.optional, "auto"), (self.repairs, "auto")],
            "again": [(self.default, "auto"), (self.default, "none")],
        }[way]


def evidence(rule: Rule) -> str:
    """What the rule's header says makes it certain."""
    return "" if rule.evidence is None else str(rule.evidence.name)


def examine(case: Case, near: str | None, transforms: Sequence[str], ways: Sequence[str], bench: Bench) -> Iterator[Row]:
    """All rows of a case. Raises NotRightError where the case itself is not right."""
    found = trusted(case.model, case.runs, None)
    harmless: set[str] = set()
    for row in _ways(case, "as-is", case.model, case.symbol, found, ways, bench):
        harmless |= set(row.rules) if row.way == "default" and row.verdict == "changed" else set()
        yield row
    if near is not None:
        yield from _ways(case, "near-source", case.model, near, found, ["default"], bench)
    for name in transforms:
        with contextlib.suppress(NotRightError):
            variant = apply(name, case)
            if variant is not None:
                wanted = trusted(variant.model, case.runs, variant)
                for row in _ways(case, name, variant.model, variant.symbol, wanted, ["default"], bench):
                    if row.verdict == "harmed" and variant.unknown(row.reason) and harmless.issuperset(row.culprits):
                        row.verdict = "undecided"
                    yield row


def trusted(model: onnx.ModelProto, runs: Sequence[Run], variant: Variant | None) -> list[Arrays]:
    """The outputs that a result must have, run by run. Raises NotRightError where the model is not right."""
    found = answers(model, runs)
    for outputs, run in zip(found, runs, strict=True):
        wanted = list(leaves(run.outputs))
        if variant is not None and variant.outputs is not None:
            if len(variant.outputs) != len(outputs) or max((k or 0 for k in variant.outputs), default=0) >= len(wanted):
                raise NotRightError("outputs are nested")
            wanted = [outputs[k] if place is None else wanted[place] for k, place in enumerate(variant.outputs)]
        if text := difference(outputs, wanted):
            raise NotRightError(text)
    return found


def _ways(
    case: Case,
    transform: str,
    model: onnx.ModelProto,
    symbol: str | None,
    wanted: list[Arrays],
    ways: Sequence[str],
    bench: Bench,
) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="farm-") as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(model.SerializeToString())
        if symbol is not None:
            path.with_name("symbol.json").write_text(symbol)
        for way in ways:
            if way == "no-source" and symbol is None:
                continue  # the same as default
            yield _row(case, transform, way, path, wanted, bench)


def _row(case: Case, transform: str, way: str, path: Path, wanted: list[Arrays], bench: Bench) -> Row:
    row = Row(case.where, case.exporter, transform, way, "right")
    outcomes = run_steps(path, bench.steps(way))
    for number, outcome in enumerate(outcomes):
        if outcome.error or outcome.log is None:
            row.verdict, row.reason = "harmed", f"error: {outcome.error[:200]}"
            return row
        row.rolled_back += sorted({f"{rolled.rule}: {rolled.reason[:160]}" for rolled in outcome.log.rolled_back})
        row.rules += [code for code in outcome.log.counts if code not in row.rules]
        if way == "again" and number == 1 and outcome.changed:
            row.verdict, row.reason = "harmed", "the second run changes the result of the first"
    if row.verdict == "right" and any(outcome.changed for outcome in outcomes):
        row.reason = wrong(path, wanted, case.runs)
        row.verdict = "harmed" if row.reason else "changed"
        if row.reason:
            row.culprits = culprits(path, way, row.rules, wanted, case.runs, bench)
    return row


def run_steps(path: Path, steps: Sequence[tuple[RuleSet, str]]) -> list[Outcome]:
    """Runs on the model, each on the result of the one before, in files beside it; the last result is result.onnx."""
    outcomes, current = [], path
    for number, (rules, source) in enumerate(steps):
        target = path.with_name("result.onnx" if number == len(steps) - 1 else f"step{number}.onnx")
        with within_limits(SECONDS, None):
            outcome = process(
                Job(str(current), str(target)), Work(Rewriting(rules), Reading(source), writing=Writing(force=True))
            )
        outcomes.append(outcome)
        if outcome.error:
            break
        current = target
    return outcomes


def wrong(path: Path, wanted: list[Arrays], runs: Sequence[Run]) -> str:
    """What is wrong with result.onnx, "" where it is right."""
    result = path.with_name("result.onnx")
    try:
        found = answers(str(result), runs)
    except NotRightError as error:
        return str(error)
    for outputs, expected in zip(found, wanted, strict=True):
        if text := difference(outputs, expected):
            return text
    if not _valid(result) and _valid(path):
        return "the checker refuses it"
    return ""


def culprits(path: Path, way: str, rules: Sequence[str], wanted: list[Arrays], runs: Sequence[Run], bench: Bench) -> list[str]:
    """Rules without each of which the result is right; all that fired where no single one is to blame."""
    found = []
    for code in rules if len(rules) > 1 else ():
        steps = [(without(known, code), source) for known, source in bench.steps(way)]
        outcomes = run_steps(path, steps)
        if not any(outcome.error for outcome in outcomes) and not wrong(path, wanted, runs):
            found.append(code)
    return found or list(rules)


def without(rules: RuleSet, code: str) -> RuleSet:
    """The same rules but one."""
    from rewriter.core.record import replace

    return replace(rules, rules=tuple(rule for rule in rules if rule.code != code))


def _valid(path: Path) -> bool:
    try:
        onnx.checker.check_model(str(path))
    except Exception:
        return False
    return True


__all__ = ["TRANSFORMS", "Bench", "Row", "examine"]
