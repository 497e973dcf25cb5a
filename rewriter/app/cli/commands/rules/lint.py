"""`rewriter lint`: what is wrong with rules as a set."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rewriter.app.cli.options import add_format, add_limits


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "lint",
        help="check rules against each other",
        description="Checks rules as a set: rules that are the same, never get their turn, fit the same node with nothing to "
        "say which goes first, match their own results, undo each other, or can never apply.",
        epilog="example: rewriter lint shipped my_rules/",
    )
    parser.add_argument(
        "rules", metavar="RULES", nargs="*", help="rule file or folder; `shipped` are the shipped rules (default: these alone)"
    )
    parser.add_argument("--pedantic", action="store_true", help="also report what cannot be decided")
    add_limits(parser, "the command", whole=600)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Checks the set; returns 1 when something is wrong with it. What cannot be decided is no finding."""
    from rewriter.app.cli.output import say, wants_color
    from rewriter.app.cli.selection import load
    from rewriter.app.report.jsonreport import dumps
    from rewriter.core.language.diagnostics import render_all
    from rewriter.rule_tools.lint.rule_set import lint
    from rewriter.workbench.style import counted

    rules = load(args.rules)
    found = lint(rules, pedantic=args.pedantic)
    errors = [diagnostic for diagnostic in found if not diagnostic.is_warning]
    sources = {rule.path: rule.source for rule in rules}
    if args.format == "json":
        print(dumps({"schema": 1, "command": "lint", "rules": len(rules), "findings": [_object(d, sources) for d in found]}))
    elif found:
        print(render_all(found, sources, wants_color(sys.stdout)))
    sys.stdout.flush()
    undecided = f", {len(found) - len(errors)} undecided" if args.pedantic else ""
    say(f"{counted(len(rules), 'rule')}: {counted(len(errors), 'finding')}{undecided}")
    return 1 if errors else 0


def _object(diagnostic: Any, sources: Any) -> dict[str, object]:
    def place(path: str, span: Any, label: str) -> dict[str, object]:
        line, column = sources[path].line_col(span.start)
        return {"path": path, "line": line, "column": column, "label": label}

    return {
        "code": diagnostic.code,
        "message": diagnostic.message,
        **place(diagnostic.path, diagnostic.span, diagnostic.label),
        "related": [place(other.path, other.span, other.label) for other in diagnostic.related],
        "notes": list(diagnostic.notes),
        "helps": list(diagnostic.helps),
    }
