"""`rewriter test`: runs the tests that stand in rule files."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rewriter.app.cli.options import add_format, add_limits

if TYPE_CHECKING:
    from rewriter.trust.rule_tests import TestResult

SECONDS = 600.0
"""For all tests of a call; one of them has 60 at most."""

MISSES = 2
"""Places that are shown where a rule does not fire."""


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "test",
        help="run the inline tests of rules",
        description="Runs the inline tests of rule files. Where one fails it shows the difference, or why nothing fires.",
        epilog="examples:\n  rewriter test my_rules/\n  rewriter test my_rules/ --watch\n"
        "  rewriter test my_rules/MY001_pool.rules --bless",
    )
    parser.add_argument("rules", metavar="RULES", nargs="*", help="rule file or folder (default: the shipped rules)")
    parser.add_argument(
        "--bless",
        action="store_true",
        help="write what a rule makes into tests that expect something else, and show the difference first",
    )
    parser.add_argument("--dry-run", action="store_true", help="of --bless only show the difference")
    parser.add_argument("--watch", action="store_true", help="run the tests again whenever a rule file changes")
    add_limits(parser, "all tests together", f"{SECONDS:g}")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Runs the tests; returns 1 when one fails."""
    from rewriter.core.errors import RewriterError

    if args.watch and (args.bless or args.format == "json"):
        raise RewriterError(f"--watch does not go with {'--bless' if args.bless else '--format json'}")
    if args.bless and (args.format == "json" or not args.rules):
        raise RewriterError("--bless writes rule files: name them, and leave --format out")
    if args.watch:
        from rewriter.app.cli.watching import watched

        return watched(args.rules, lambda: _limited(args))
    return _limited(args)


def _limited(args: argparse.Namespace) -> int:
    """One round, within the limits."""
    from rewriter.app.batch.deadline import within_limits
    from rewriter.app.cli.options import limits_of

    with within_limits(**limits_of(args, SECONDS)):
        return _bless(args) if args.bless else _run(args)


def _run(args: argparse.Namespace) -> int:
    import sys

    from rewriter.app.cli.output import say
    from rewriter.app.cli.selection import load
    from rewriter.app.report.jsonreport import dumps
    from rewriter.trust.proof.rules.limited_tests import inline_tests, limited_results
    from rewriter.workbench.style import counted

    rules = load(args.rules)
    results = list(limited_results(inline_tests(rules), tuple(rules)))
    failed = [result for result in results if not result.ok]
    untested = [rule.code for rule in rules if not rule.ast.tests]
    if args.format == "json":
        tests = [
            {"rule": r.rule, "title": r.title, "path": r.path, "line": r.line, "ok": r.ok, "message": r.message}
            for r in results
        ]
        print(dumps({"schema": 1, "command": "test", "tests": tests, "untested": untested}))
        return 1 if failed else 0
    _tell(failed)
    sys.stdout.flush()
    if untested:
        say(f"without a test: {', '.join(untested)}")
    passed = f"{len(results) - len(failed)} passed, {len(failed)} failed"
    say(f"{counted(len(results), 'test')} of {counted(len(rules), 'rule')}: {passed}")
    return 1 if failed else 0


def _tell(failed: Iterable[TestResult]) -> None:
    import sys

    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.report.why_lines import miss_lines
    from rewriter.workbench.style import clean

    style = style_of(sys.stdout)
    for result in failed:
        tell(f"{style.paint('red', 'failed')} {clean(result.path)}:{result.line}: {result.rule} {clean(result.title)}")
        _difference(result.message.splitlines())
        for line in () if result.why is None else miss_lines(result.why, MISSES, style):
            tell(f"    {line}", hang=8)


def _difference(lines: Sequence[str]) -> None:
    import sys

    from rewriter.app.cli.output import style_of, tell
    from rewriter.workbench.style import clean

    style = style_of(sys.stdout)
    for line in lines:
        color = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        tell("    " + (style.paint(color, clean(line)) if color else clean(line)))


def _bless(args: argparse.Namespace) -> int:
    """Writes expected models; returns 1 when a test fails that is none of them."""
    from rewriter.app.cli.output import say, tell
    from rewriter.app.cli.selection import load
    from rewriter.workbench.authoring.bless import Blessing, blessings, write_blessings
    from rewriter.workbench.style import clean, counted

    found = list(blessings(load(args.rules)))
    blessed = [one for one in found if isinstance(one, Blessing)]
    failed = [one for one in found if not isinstance(one, Blessing)]
    for one in blessed:
        tell(f"{clean(one.result.path)}:{one.result.line}: {one.result.rule} {clean(one.result.title)}")
        _difference(one.diff)
    _tell(failed)
    files = [] if args.dry_run else write_blessings(blessed)
    done = f"written to {counted(len(files), 'file')}" if files else "not written" if blessed else "to bless"
    say(f"{counted(len(blessed), 'expected model')} {done}; {counted(len(failed), 'other failure')}")
    return 1 if failed else 0
