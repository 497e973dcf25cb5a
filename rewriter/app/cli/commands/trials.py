"""Commands that try rules: on the models of their tests, on your own models, on random models, and against each other."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rewriter.app.cli.options import LONG, RULES, Limits, OneOf, Option, command, like, limits_of
from rewriter.app.cli.output import answer, answer_json, print_line, print_message, progress, style_of, tracked, wants_color
from rewriter.app.style import clean
from rewriter.core.errors import RewriterError, counted, listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rewriter.app.style import Style
    from rewriter.core.language.rules import RuleSet
    from rewriter.trust.proof.rules.verdict import Verdict
    from rewriter.trust.rule_tests import TestResult

# The tests in rule files.

MISSES = 2
"""Places that are shown if a rule does not fire."""

MAX_UNTESTED = 10
"""Rules without a test whose codes are printed."""

SECONDS_BETWEEN_LOOKS = 0.5


@command(
    "test",
    "run the inline tests of rules",
    RULES,
    epilog="examples:\n  rewriter test my_rules/\n  rewriter test my_rules/ --watch\n"
    "  rewriter test my_rules/MY001_pool.rules --bless",
    options=(
        "bless",
        like("dry-run", help="with --bless: only show the difference"),
        "watch",
        Limits("all tests together", default="600"),
        "format",
    ),
)
def test(args: argparse.Namespace) -> int:
    """Runs the inline tests of rule files. If a test fails, shows the difference, or why no rule fires."""
    from rewriter.core.isolation.budget import within_limits

    def limited() -> int:
        with within_limits(**limits_of(args, LONG)):
            return _bless(args) if args.bless else _test(args)

    if args.watch and (args.bless or args.format == "json"):
        raise RewriterError(f"--watch does not go with {'--bless' if args.bless else '--format json'}")
    if args.bless and (args.format == "json" or not args.rules):
        raise RewriterError("--bless writes rule files: name them, and leave --format out")
    return watched(args.rules, limited) if args.watch else limited()


def watched(paths: Sequence[str] | None, work: Callable[[], int], wait: Callable[[float], None] = time.sleep) -> int:
    """Does the work, and again after each change of one of the rule files. Errors in them are printed and do not end it.

    Returns:
        The last result of the work, as soon as `wait` is interrupted.
    """
    from rewriter.app.configuration import rule_paths
    from rewriter.core.language.rule_files import find_rule_files, state_of

    before, found = None, 0
    while True:
        now: object
        try:
            now = [state_of(path) for path in find_rule_files(rule_paths(paths))]
        except RewriterError as error:  # one of the files is missing
            now = str(error)
        if now != before:
            before = now
            try:
                found = work()
            except RewriterError as error:
                print_message(f"rewriter: error: {error}")
                found = 2
            print_message(f"--- {time.strftime('%H:%M:%S')}: waiting for changes; Ctrl-C ends")
        try:
            wait(SECONDS_BETWEEN_LOOKS)
        except KeyboardInterrupt:
            return found


def _test(args: argparse.Namespace) -> int:
    from rewriter.app.cli.settings import load
    from rewriter.app.report.printout import Printout
    from rewriter.trust.rule_tests import inline_tests, limited_results

    known = load(args.rules)
    tests = inline_tests(known)
    results = list(tracked(limited_results(tests, tuple(known)), len(tests), "tests", lambda result: not result.ok))
    failed = [result for result in results if not result.ok]
    untested = [rule.code for rule in known if not rule.ast.tests]
    named = f"without a test: {listed(untested, MAX_UNTESTED)}\n" if untested else ""
    passed = f"{len(results) - len(failed)} passed, {len(failed)} failed"
    totals = f"{named}{counted(len(results), 'test')} of {counted(len(known), 'rule')}: {passed}"
    fields = ("rule", "title", "path", "line", "ok", "message")
    shown = Printout(
        lambda: {"tests": [{name: getattr(one, name) for name in fields} for one in results], "untested": untested},
        lambda style: _failure_lines(failed, style),
    )
    return answer(args, shown, int(bool(failed)), totals)


def _failure_lines(failed: Iterable[TestResult], style: Style) -> Iterator[str]:
    from rewriter.app.report.why_lines import miss_lines

    for result in failed:
        yield f"{style.paint('red', 'failed')} {clean(result.path)}:{result.line}: {result.rule} {clean(result.title)}"
        yield from _difference_lines(result.message.splitlines(), style)
        yield from (f"    {line}" for line in (() if result.why is None else miss_lines(result.why, MISSES, style)))


def _difference_lines(lines: Sequence[str], style: Style) -> Iterator[str]:
    for line in lines:
        color = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        yield "    " + (style.paint(color, clean(line)) if color else clean(line))


def _bless(args: argparse.Namespace) -> int:
    """Writes expected models. Returns 1 if a test fails for another reason than its expected model."""
    from rewriter.app.cli.settings import load
    from rewriter.workbench.authoring.bless import Blessing, blessings, write_blessings

    found = list(blessings(load(args.rules)))
    blessed = [one for one in found if isinstance(one, Blessing)]
    failed = [one for one in found if not isinstance(one, Blessing)]
    style = style_of(sys.stdout)
    for one in blessed:
        print_line(f"{clean(one.result.path)}:{one.result.line}: {one.result.rule} {clean(one.result.title)}")
        for line in _difference_lines(one.diff, style):
            print_line(line)
    for line in _failure_lines(failed, style):
        print_line(line)
    files = [] if args.dry_run else write_blessings(blessed)
    done = f"written to {counted(len(files), 'file')}" if files else "not written" if blessed else "to bless"
    print_message(f"{counted(len(blessed), 'expected model')} {done}; {counted(len(failed), 'other failure')}")
    return 1 if failed else 0


# Rules as a set.


@command(
    "lint",
    "check rules against each other",
    ("rules", Option("rule file or folder; `shipped` are the shipped rules (default: these alone)", "RULES", nargs="*")),
    epilog="example: rewriter lint shipped my_rules/",
    options=("pedantic", Limits("the command", 600), "format"),
)
def lint(args: argparse.Namespace) -> int:
    """Checks rules as a set. Finds rules that are the same, never get their turn, match the same node without an order, match
    their own results, undo each other, or can never apply. Warns of tables that hold conditions or are too wide, and of a
    rewrite that is written twice.
    """
    from rewriter.app.cli.settings import load
    from rewriter.app.report.rule_lines import finding_object
    from rewriter.core.language.diagnostics import render_all
    from rewriter.rule_tools.lint import rule_set
    from rewriter.rule_tools.lint.rule_set import LEGIBILITY

    known = load(args.rules)
    with progress(None if len(known) > 1 else 1, "rules"):
        found = rule_set.lint(known, pedantic=args.pedantic)
    errors = [diagnostic for diagnostic in found if not diagnostic.is_warning]
    sources = {rule.path: rule.source for rule in known}
    if args.format == "json":
        findings = [finding_object(diagnostic, sources) for diagnostic in found]
        answer_json(args, {"rules": len(known), "findings": findings})
    elif found:
        print(render_all(found, sources, wants_color(sys.stdout)))
    sys.stdout.flush()
    style = len([diagnostic for diagnostic in found if diagnostic.code in LEGIBILITY])
    undecided = f", {len(found) - len(errors) - style} undecided" if args.pedantic else ""
    hints = f", {counted(style, 'warning')}" if style else ""
    print_message(f"{counted(len(known), 'rule')}: {counted(len(errors), 'finding')}{undecided}{hints}")
    return 1 if errors else 0


# Rules on models: the parts of rules that a set of models exercises.


@command(
    "coverage",
    "list the rules and conditions that models never exercise",
    ("rules", Option("rule file or folder; `shipped` are the shipped rules", "RULES")),
    ("paths", Option("model, or folder that is searched for *.onnx", "MODEL", nargs="+")),
    epilog="example: rewriter coverage shipped exported/",
    options=(like("set", default=[]), "all", Limits("each model"), "format"),
)
def coverage(args: argparse.Namespace) -> int:
    """Runs rules over models. Reports the rules that never fired, and the `where` lines that never kept a rule from firing. The
    rules that run by default run together; then the other rules run together. Nothing is written.
    """
    from rewriter.app.batch.job import process
    from rewriter.app.batch.jobs import find_models, unwritten
    from rewriter.app.batch.work import Notes, Rewriting, Work
    from rewriter.app.cli.batch import failure
    from rewriter.app.cli.settings import load
    from rewriter.app.report.printout import Printout
    from rewriter.app.report.rule_lines import coverage_lines
    from rewriter.core.engine.attempt import Coverage, parts

    known = load([args.rules]).with_settings(args.set)
    count, failed, limits = Coverage(), 0, limits_of(args)
    jobs = unwritten(find_models(args.paths))
    with progress(len(jobs)) as display:
        for job in jobs:
            before = failed
            for part in parts(known):
                outcome = process(job, Work(Rewriting(part, keep=False), notes=Notes(coverage=count), **limits))
                if outcome.error:
                    print_message(failure(outcome, style_of(sys.stderr), debug=args.debug))
                    failed += 1
                    break
            display.advance(failed=failed > before)
    found = [count.counts(rule) for rule in known]
    shown = Printout(
        lambda: {"models": len(jobs), "failed": failed, "rules": found},
        lambda style: (clean(line) for one in found for line in coverage_lines(one, everything=args.all)),
    )
    answer(args, shown)
    never = sum(not one["fired"] for one in found)
    idle = sum(not where["false"] + where["unknown"] for one in found for where in one["wheres"])
    print_message(
        f"{counted(len(known), 'rule')} over {counted(len(jobs), 'model')}: {counted(never, 'rule')} never fired, "
        f"{counted(idle, '`where` line')} never stopped a rule"
    )
    return 2 if failed else 0


# Rules on random models: the promises that have a counterexample.

GRACE = 60.0
"""Seconds for a rule in addition to the time of its samples: for its tests, and for making a counterexample small."""


@command(
    "verify",
    "search for counterexamples to the promises of rules",
    RULES,
    epilog="examples:\n  rewriter verify my_rules/ --samples 2000\n  rewriter verify rules/ --locked",
    options=(
        like("select", default=[], help="comma-separated codes or beginnings of codes (default: ALL)"),
        "samples",
        "seed",
        like("jobs", default=1, help="processes (default: 1)"),
        like("timeout", type=float, default=20.0, help="processor time for the samples of one rule (default: 20)"),
        "recorded",
        "update-lock",
        OneOf(("locked", "no-lock")),
        Limits("one rule", default=f"three times --timeout, and {GRACE:g} seconds"),
        "format",
    ),
)
def verify(args: argparse.Namespace) -> int:
    """Runs each rule on random models of its pattern, and compares the outputs before and after in ONNX Runtime and in
    onnx.reference. Rules that have not changed since the lock file was written are not run again, unless you give --samples or
    --seed. Needs onnx-rewriter[verify]. The exit code is 1 if there is a counterexample, or if a rule could not be verified and
    does not give a reason.
    """
    from rewriter.app.cli.settings import codes, load
    from rewriter.app.configuration import rule_paths
    from rewriter.core.resources import resource
    from rewriter.trust.proof.oracles import require_runtime
    from rewriter.trust.proof.rules.verdict import holds, kept_verdicts, lock_path, read_lock
    from rewriter.trust.proof.rules.verify_rule import VerifyPlan, verify_with_exports

    rules = load(args.rules or None)
    named = rules.select(codes(args.select) or ["ALL"])
    chosen = [*named, *named.aside]  # a promise holds for every target
    place = lock_path(Path((rule_paths(args.rules) or [resource("rules")])[0]))
    locked = read_lock(place)
    valid = {rule.code: locked[rule.code] for rule in chosen if holds(locked.get(rule.code), rule.digest)}
    asked = {name: number for name in ("samples", "seed") if (number := getattr(args, name)) is not None}
    known = {} if args.no_lock or (asked and not args.locked) else valid
    fresh = [rule for rule in chosen if rule.code not in known]
    if args.locked:
        return _show_locked(args, known, [rule.code for rule in fresh])
    if fresh:
        require_runtime()
    # Rules that were slow before, with few samples, begin first: at the end no process waits for another one.
    fresh.sort(key=lambda rule: locked[rule.code].samples if rule.code in locked else 0)
    limits = limits_of(args, 3 * args.timeout + GRACE)
    plan = VerifyPlan(seconds=args.timeout, **asked, limit=limits["seconds"], memory=limits["memory"])
    exports = Path(args.recorded) if args.recorded else place.parent.parent / "tests" / "models"
    found = verify_with_exports(rules, [rule.code for rule in fresh], plan, exports, args.jobs)
    verdicts = tracked(found, len(fresh), "rules", lambda verdict: not verdict.acceptable)
    everything = sorted([*known.values(), *verdicts], key=lambda verdict: verdict.rule)
    if args.update_lock:
        # If all rules of the lock's folder are loaded, a rule that is not among them has been removed.
        paths = [Path(path).resolve() for path in rule_paths(args.rules) or ()]
        is_whole = not paths or any(place.parent.resolve().is_relative_to(path) for path in paths)
        _update(place, kept_verdicts(locked, rules, {rule.code for rule in chosen}, whole=is_whole), everything)
    code = _show(args, everything, rules)
    if args.format != "json" and named.questions:
        print_message(
            f"{counted(len(named.questions), 'rule')} left out as a guess; to verify one: --select {named.questions[0].code}"
        )
    return code


def _update(place: Path, kept: dict[str, Verdict], verdicts: list[Verdict]) -> None:
    """Writes the lock: the new verdicts next to the kept ones."""
    from rewriter.trust.proof.oracles import versions
    from rewriter.trust.proof.rules.verdict import write_lock

    new = {verdict.rule: verdict for verdict in verdicts if verdict.acceptable}
    write_lock(place, {**kept, **new}.values(), versions())
    print_message(f"wrote {place}: {counted(len(new), 'verdict')}")


def _show_locked(args: argparse.Namespace, known: dict[str, Verdict], missing: list[str]) -> int:
    from rewriter.app.report.printout import Printout

    again = " ".join(["rewriter verify --update-lock", *map(clean, args.rules)])
    lines = [f"{code} is new or changed since it was verified; run: {again}" for code in missing]
    totals = f"{counted(len(known), 'rule')} verified, {len(missing)} new or changed"
    shown = Printout(lambda: {"locked": sorted(known), "changed": missing}, lambda style: lines)
    return answer(args, shown, int(bool(missing)), totals)


def _show(args: argparse.Namespace, verdicts: list[Verdict], rules: RuleSet) -> int:
    from rewriter.app.report.printout import Printout
    from rewriter.app.report.rule_lines import verdict_lines, verdict_object

    shown = Printout(
        lambda: {"rules": [verdict_object(verdict) for verdict in verdicts]},
        lambda style: (line for one in verdicts for line in verdict_lines(one, rules.get(one.rule), style)),
    )
    counts = {
        status: sum(verdict.status == status for verdict in verdicts) for status in ("tested", "counterexample", "unverified")
    }
    locked = sum(verdict.locked for verdict in verdicts)
    totals = ", ".join(f"{n} {name}{'s' if name == 'counterexample' and n != 1 else ''}" for name, n in counts.items())
    said = f"{counted(len(verdicts), 'rule')}: {totals}" + (f" ({locked} from the lock file)" if locked else "")
    return answer(args, shown, int(any(not verdict.acceptable for verdict in verdicts)), said)
