"""`rewriter verify`: runs rules on random instances of their patterns and compares before with after in two runtimes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewriter.app.cli.options import add_format, add_limits, count, limits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rewriter.core.language.rules import RuleSet
    from rewriter.trust.proof.rules.verdict import Verdict
    from rewriter.workbench.style import Style


GRACE = 60.0
"""Seconds for a rule beside the time of its samples: for its tests, and for making a counterexample small."""


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "verify",
        help="look for counterexamples to what rules promise",
        description="Runs each rule on random instances of its pattern and compares the models before and after in ONNX "
        "Runtime and in onnx.reference. Rules that are as the lock file has them are not run again. Needs rewriter[verify]. "
        "The exit code is 1 for a counterexample, or a rule that could not be verified and does not say why.",
        epilog="examples:\n  rewriter verify my_rules/ --samples 2000\n  rewriter verify rules/ --locked",
    )
    parser.add_argument("rules", metavar="RULES", nargs="*", help="rule file or folder (default: the shipped rules)")
    parser.add_argument(
        "--select",
        metavar="CODES",
        action="append",
        default=[],
        help="comma-separated codes or beginnings of codes (default: ALL)",
    )
    parser.add_argument("--samples", metavar="N", type=count, default=200, help="instances wanted for each rule (default: 200)")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="where chance begins (default: 0)")
    parser.add_argument("--jobs", metavar="N", type=count, default=1, help="processes (default: 1)")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=20.0, help="for the samples of one rule (default: 20)"
    )
    parser.add_argument(
        "--recorded", metavar="FOLDER", help="recorded exports (default: tests/models beside the rules, if there)"
    )
    parser.add_argument("--update-lock", action="store_true", help="write the verdicts to the lock file beside the rules")
    lock = parser.add_mutually_exclusive_group()
    lock.add_argument(
        "--locked", action="store_true", help="run nothing; a rule that is not in the lock as it is now is a finding"
    )
    lock.add_argument("--no-lock", action="store_true", help="verify every rule, whatever the lock file says")
    add_limits(parser, "one rule", f"three times --timeout, and {GRACE:g} seconds")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Verifies; returns 1 for a counterexample, an unverified rule without a reason, or one that is missing in the lock."""
    from rewriter.app.cli.selection import codes, load
    from rewriter.trust.proof.oracles import require_runtime
    from rewriter.trust.proof.rules.verdict import lock_path, read_lock

    rules = load(args.rules or None)
    named = rules.select(codes(args.select) or ["ALL"])
    chosen = [*named, *named.aside]  # a promise holds for every target
    place = lock_path(_place(args.rules))
    locked = read_lock(place)
    held = {rule.code: locked[rule.code] for rule in chosen if _holds(locked.get(rule.code), rule.digest)}
    known = {} if args.no_lock else held
    fresh = [rule for rule in chosen if rule.code not in known]
    if args.locked:
        return _show_locked(args, known, [rule.code for rule in fresh])
    if fresh:
        require_runtime()
    # What took long before, and so came to few samples, begins first: at the end no process waits for another one.
    fresh.sort(key=lambda rule: locked[rule.code].samples if rule.code in locked else 0)
    verdicts = _verified(args, rules, [rule.code for rule in fresh], place)
    everything = sorted([*known.values(), *verdicts], key=lambda verdict: verdict.rule)
    if args.update_lock:
        _update(place, _kept(locked, rules, {rule.code for rule in chosen}, whole=_is_whole(args.rules, place)), everything)
    return _show(args, everything, rules)


def _holds(verdict: Verdict | None, digest: str) -> bool:
    """A locked verdict counts while the rule is what it was and nothing speaks against it."""
    return verdict is not None and verdict.digest == digest and verdict.acceptable


def _kept(locked: dict[str, Verdict], rules: RuleSet, chosen: set[str], *, whole: bool) -> dict[str, Verdict]:
    """Verdicts of rules that were not asked about now and still count; of rules that were not loaded, unless all were."""
    loaded = {rule.code: rule.digest for rule in rules}
    others = {code: verdict for code, verdict in locked.items() if code not in chosen}
    return {code: v for code, v in others.items() if (_holds(v, loaded[code]) if code in loaded else not whole)}


def _is_whole(paths: list[str], lock: Path) -> bool:
    """Whether all rules of the lock's folder are loaded: a rule that is not among them is gone."""
    return not paths or any(Path(path).resolve() == lock.parent.resolve() for path in paths)


def _place(paths: list[str]) -> Path:
    from rewriter.core.resources import resource

    return Path(paths[0]) if paths else Path(str(resource("rules")))


def _verified(args: argparse.Namespace, rules: RuleSet, codes: list[str], place: Path) -> list[Verdict]:
    from rewriter.trust.proof.rules.recorded import Recorded, examine
    from rewriter.trust.proof.rules.verdict import COUNTEREXAMPLE, Verdict
    from rewriter.trust.proof.rules.verify_rule import VerifyPlan
    from rewriter.trust.proof.rules.workers import verify_all

    if not codes:
        return []
    folder = Path(args.recorded) if args.recorded else place.parent.parent / "tests" / "models"
    recorded = examine(_with_shipped(rules), folder, codes) if folder.is_dir() else Recorded()
    found = []
    limits = limits_of(args, 3 * args.timeout + GRACE)
    plan = VerifyPlan(args.samples, args.seed, args.timeout, limit=limits["seconds"], memory=limits["memory"])
    todo = [rule for code in codes if (rule := rules.get(code)) is not None]
    for code, why in recorded.harms.items():
        todo = [rule for rule in todo if rule.code != code]
        rule = rules.get(code)
        assert rule is not None
        found.append(Verdict(code, rule.digest, COUNTEREXAMPLE, why))
    return [*found, *verify_all(todo, plan, recorded.repairs, args.jobs)]


def _with_shipped(rules: RuleSet) -> RuleSet:
    """A recorded export often needs more than one repair, so the shipped ones run beside those to be verified."""
    from rewriter.core.record import replace
    from rewriter.rule_tools.load_rules import load_rules

    others = [rule for rule in load_rules(None) if rules.get(rule.code) is None]
    return replace(rules, rules=(*rules, *others))


def _update(place: Path, kept: dict[str, Verdict], verdicts: list[Verdict]) -> None:
    """Writes the lock: what was found now beside what is kept."""
    from rewriter.app.cli.output import say
    from rewriter.trust.proof.oracles import versions
    from rewriter.trust.proof.rules.verdict import write_lock
    from rewriter.workbench.style import counted

    new = {verdict.rule: verdict for verdict in verdicts if verdict.acceptable}
    write_lock(place, {**kept, **new}.values(), versions())
    say(f"wrote {place}: {counted(len(new), 'verdict')}")


# --- what is printed ---------------------------------------------------------------------------------------------------


def _show_locked(args: argparse.Namespace, known: dict[str, Verdict], missing: list[str]) -> int:
    from rewriter.app.cli.output import say, tell
    from rewriter.app.report.jsonreport import dumps
    from rewriter.workbench.style import counted

    if args.format == "json":
        print(dumps({"schema": 1, "command": "verify", "locked": sorted(known), "changed": missing}))
    else:
        for code in missing:
            tell(f"{code} is not in the lock as it is now; run: rewriter verify --update-lock")
        say(f"{counted(len(known), 'rule')} as they were verified, {len(missing)} not")
    return 1 if missing else 0


def _show(args: argparse.Namespace, verdicts: list[Verdict], rules: RuleSet) -> int:
    from rewriter.app.cli.output import say, style_of, tell
    from rewriter.app.report.jsonreport import dumps
    from rewriter.workbench.style import counted

    bad = [verdict for verdict in verdicts if not verdict.acceptable]
    if args.format == "json":
        print(dumps({"schema": 1, "command": "verify", "rules": [_object(verdict) for verdict in verdicts]}))
        return 1 if bad else 0
    style = style_of(sys.stdout)
    for verdict in verdicts:
        rule = rules.get(verdict.rule)
        for line in _lines(verdict, rule.path if rule is not None else "", style):
            tell(line)
    sys.stdout.flush()
    counts = {
        status: sum(verdict.status == status for verdict in verdicts) for status in ("tested", "counterexample", "unverified")
    }
    locked = sum(verdict.locked for verdict in verdicts)
    told = ", ".join(f"{number} {status}" for status, number in counts.items())
    say(f"{counted(len(verdicts), 'rule')}: {told}" + (f" ({locked} by lock)" if locked else ""))
    return 1 if bad else 0


def _object(verdict: Verdict) -> dict[str, Any]:
    unneeded = [{"code": "W504", "line": found.line, "text": found.text, "broke": found.broke} for found in verdict.unneeded]
    extra = {
        "rule": verdict.rule,
        "code": verdict.code,
        "tried": verdict.tried,
        "crashed": verdict.crashed,
        "locked": verdict.locked,
    }
    return {**extra, **verdict.record(), "unneeded": unneeded, "counterexample": verdict.obligation}


def _lines(verdict: Verdict, path: str, style: Style) -> list[str]:
    from rewriter.workbench.style import clean, counted

    color = {"tested": "green", "counterexample": "red"}.get(verdict.status, "yellow")
    code = f" [{verdict.code}]" if verdict.code else ""
    why = f": {clean(verdict.why)}" if verdict.why else ""
    found = [f"{verdict.rule} {style.paint(color, verdict.status)}{code}{_figures(verdict)}{why}"]
    if verdict.quarantine:
        found.append(f"    the oracles disagree on {', '.join(verdict.quarantine)}; ONNX Runtime alone decided")
    if verdict.crashed:
        found.append(f"    {verdict.crashed} instances took the runtime's process down and were left out")
    if verdict.raised and verdict.status == "unverified":
        found.append(f"    a condition raised: {clean(verdict.raised)}")
    for line in verdict.unneeded:
        drafts = counted(line.broke, "draft")
        told = f"nothing goes wrong without `{clean(line.text)}`, which {drafts} broke"
        found.append(f"    warning[W504] {clean(path)}:{line.line}: {told}")
    found += [f"    {clean(line)}" for line in verdict.obligation.splitlines()]
    return found


def _figures(verdict: Verdict) -> str:
    if verdict.status == "counterexample":
        return ""
    rate = f", {verdict.samples / verdict.tried:.0%} of drafts" if verdict.tried else ""
    error = f", largest error {verdict.error:.2g} ({verdict.bound})" if verdict.bound and verdict.samples else ""
    opsets = f", opset {_ranges(verdict.opsets)}" if verdict.opsets else ""
    ranks = f", rank {_ranges(verdict.ranks)}" if verdict.ranks else ""
    kinds = f", {' '.join(verdict.dtypes)}" if verdict.dtypes else ""
    return f" ({verdict.samples} instances{rate}{kinds}{opsets}{ranks}{error})"


def _ranges(numbers: Sequence[int]) -> str:
    """ "7 to 13, 18" for the numbers that were tried; what lies between two of them is not said to be."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return " ".join(f"{run[0]} to {run[-1]}" if len(run) > 2 else " ".join(map(str, run)) for run in runs)
