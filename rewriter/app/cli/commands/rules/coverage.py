"""`rewriter coverage`: what of a set of rules a set of models exercises."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rewriter.app.cli.options import add_format, add_limits

if TYPE_CHECKING:
    from rewriter.core.engine.coverage import Coverage
    from rewriter.core.language.ast import Where
    from rewriter.core.language.rule import Rule
    from rewriter.core.language.rules import RuleSet


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "coverage",
        help="list the rules and conditions that models never exercise",
        description="Runs rules over models and reports which of them never fired, and which `where` lines never kept a rule "
        "from firing. What runs by default is run together, and so is the rest of the rules; nothing is written.",
        epilog="example: rewriter coverage shipped exported/",
    )
    parser.add_argument("rules", metavar="RULES", help="rule file or folder; `shipped` are the shipped rules")
    parser.add_argument("paths", metavar="MODEL", nargs="+", help="model, or folder that is searched for *.onnx")
    parser.add_argument(
        "--set", metavar="CODE.param=value", action="append", default=[], help="a rule's parameter; may be repeated"
    )
    parser.add_argument("--all", action="store_true", help="also print the counts of rules with nothing to say about")
    add_limits(parser, "each model")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Prints what was never exercised; returns 2 when a model cannot be read, otherwise 0."""
    from rewriter.app.batch.job import process
    from rewriter.app.batch.work import Work
    from rewriter.app.cli.console_report import failure
    from rewriter.app.cli.options import limits_of
    from rewriter.app.cli.output import say, style_of, tell
    from rewriter.app.cli.paths import find_models, unwritten
    from rewriter.app.cli.selection import load
    from rewriter.app.report.jsonreport import dumps
    from rewriter.core.engine.coverage import Coverage
    from rewriter.workbench.style import clean, counted

    rules = load([args.rules]).with_settings(args.set)
    coverage, failed, limits = Coverage(), 0, limits_of(args)
    jobs = unwritten(find_models(args.paths))
    for job in jobs:
        for part in parts(rules):
            outcome = process(job, Work(part, keep=False, coverage=coverage, **limits))
            if outcome.error:
                say(failure(outcome, style_of(sys.stderr), debug=args.debug))
                failed += 1
                break
    if args.format == "json":
        objects = [rule_object(rule, coverage) for rule in rules]
        print(dumps({"schema": 1, "command": "coverage", "models": len(jobs), "failed": failed, "rules": objects}))
    else:
        for rule in rules:
            for line in lines(rule, coverage, everything=args.all):
                tell(clean(line))
    never = sum(not coverage.fired[rule.code] for rule in rules)
    idle = sum(not coverage.blocked(rule.code, where) for rule in rules for where in rule.ast.wheres)
    say(
        f"{counted(len(rules), 'rule')} over {counted(len(jobs), 'model')}: {counted(never, 'rule')} never fired, "
        f"{counted(idle, '`where` line')} never blocked"
    )
    return 2 if failed else 0


def parts(rules: RuleSet) -> Sequence[RuleSet]:
    """The rules that run unasked, and the others; the latter may undo each other's work, but not that of the former.

    Rules with a parameter that nobody has set are left out.
    """
    able = [
        rule for rule in rules if all(p.default is not None or (rule.code, p.name) in rules.settings for p in rule.ast.params)
    ]
    from rewriter.core.record import replace

    split = [tuple(rule for rule in able if rule.default is unasked) for unasked in (True, False)]
    return [replace(rules, rules=part, selected=True) for part in split if part]


def lines(rule: Rule, coverage: Coverage, *, everything: bool) -> Iterator[str]:
    """What was never exercised of a rule."""
    from rewriter.workbench.style import counted

    fired = coverage.fired[rule.code]
    times = counted(coverage.stood[rule.code], "time") if coverage.stood[rule.code] else "nowhere"
    if not fired:
        yield f"{rule.code} never fired: its pattern stood {times}"
    elif everything:
        yield f"{rule.code} fired {counted(fired, 'time')}; its pattern stood {times}"
    if not coverage.stood[rule.code]:
        return  # nothing was asked
    for where in rule.ast.wheres:
        blocked, held = coverage.blocked(rule.code, where), coverage.held(rule.code, where)
        text = f"{rule.code} line {rule.source.line_col(where.span.start)[0]} `{condition(rule, where)}`"
        if not blocked + held:
            yield f"{text} was never asked"
        elif not blocked or not held:
            yield f"{text} never {'held' if blocked else 'blocked'} (asked {counted(blocked + held, 'time')})"
        elif everything:
            yield f"{text} held {counted(held, 'time')} and blocked {counted(blocked, 'time')}"


def rule_object(rule: Rule, coverage: Coverage) -> dict[str, object]:
    """The counts of a rule, as JSON has them."""
    wheres = [
        {
            "line": rule.source.line_col(where.span.start)[0],
            "condition": condition(rule, where),
            **{answer: coverage.answers[rule.code, where.span.start, answer] for answer in ("true", "false", "unknown")},
        }
        for where in rule.ast.wheres
    ]
    return {"code": rule.code, "stood": coverage.stood[rule.code], "fired": coverage.fired[rule.code], "wheres": wheres}


def condition(rule: Rule, where: Where) -> str:
    """The text of a `where` line."""
    return rule.words(where.condition.span)
