"""`rewriter test`: runs the tests that stand in rule files."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rewriter.cli.options import add_format


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "test",
        parents=[common],
        help="run the inline tests of rules",
        description="Runs the inline tests of rule files and shows the difference where one fails.",
        epilog="example: rewriter test my_rules/",
    )
    parser.add_argument("rules", metavar="RULES", nargs="*", help="rule file or folder (default: the shipped rules)")
    add_format(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Runs the tests; returns 1 when one fails."""
    from rewriter.cli.output import say, style_of, tell
    from rewriter.cli.selection import load
    from rewriter.engine.testing import run_tests
    from rewriter.report.jsonreport import dumps
    from rewriter.report.style import clean, counted

    rules = load(args.rules)
    results = run_tests(rules)
    failed = [result for result in results if not result.ok]
    untested = [rule.code for rule in rules if not rule.ast.tests]
    if args.format == "json":
        tests = [
            {"rule": r.rule, "title": r.title, "path": r.path, "line": r.line, "ok": r.ok, "message": r.message}
            for r in results
        ]
        print(dumps({"schema": 1, "command": "test", "tests": tests, "untested": untested}))
    else:
        style = style_of(sys.stdout)
        for result in failed:
            tell(f"{style.paint('red', 'failed')} {clean(result.path)}:{result.line}: {result.rule} {clean(result.title)}")
            for line in result.message.splitlines():
                color = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
                tell("    " + (style.paint(color, clean(line)) if color else clean(line)))
        sys.stdout.flush()
        if untested:
            say(f"without a test: {', '.join(untested)}")
        passed = f"{len(results) - len(failed)} passed, {len(failed)} failed"
        say(f"{counted(len(results), 'test')} of {counted(len(rules), 'rule')}: {passed}")
    return 1 if failed else 0
