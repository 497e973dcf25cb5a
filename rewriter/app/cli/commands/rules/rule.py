"""`rewriter rule`: shows all of one rule."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_configuration, add_format, add_limits, add_rule_paths


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "rule",
        help="show one rule",
        description="Shows one rule: what it does, for which models, its parameters, upstream issues, and its text.",
        epilog="example: rewriter rule MX001",
    )
    parser.add_argument("code", metavar="CODE", help="code of the rule")
    add_rule_paths(parser)
    add_configuration(parser)
    add_limits(parser, "the command", whole=600)
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Shows one rule; returns 0."""
    import sys

    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.cli.rule_page import rule_lines, rule_object, text_lines
    from rewriter.app.cli.selection import find_rule, read_rules
    from rewriter.app.report.jsonreport import dumps

    rule = find_rule(args.code, read_rules(args.rules))
    if args.format == "json":
        print(dumps({"schema": 1, "command": "rule", **rule_object(rule)}))
    else:
        for line in rule_lines(rule, style_of(sys.stdout)):
            tell(line)
        for line in text_lines(rule):
            print(line)
    return 0
