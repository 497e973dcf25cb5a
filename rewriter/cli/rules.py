"""`rewriter rules`: lists rules."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.cli.options import add_format, add_rule_paths


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "rules",
        parents=[common],
        help="list the rules",
        description="Lists rules: code, kind, exporter, whether it runs unasked, and title.",
        epilog="example: rewriter rules --format json",
    )
    add_rule_paths(parser)
    add_format(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Lists rules; returns 0."""
    import sys

    from rewriter.cli.catalogue import read_rules
    from rewriter.cli.output import style_of
    from rewriter.cli.show import rule_object
    from rewriter.report.jsonreport import dumps
    from rewriter.report.style import clean

    found = read_rules(args.rules)
    if args.format == "json":
        print(dumps({"schema": 1, "command": "rules", "rules": [rule_object(rule) for rule in found]}))
        return 0
    style = style_of(sys.stdout)
    heading = ("code", "kind", "exporter", "runs", "title")
    rows = [
        (rule.code, rule.kind.name, ",".join(rule.exporters) or "any", "yes" if rule.default else "asked", rule.title)
        for rule in found
    ]
    widths = [max(len(clean(row[i])) for row in (heading, *rows)) for i in range(len(heading) - 1)]
    for number, row in enumerate((heading, *rows)):
        cells = [clean(cell).ljust(width) for cell, width in zip(row, widths, strict=False)]
        cells[0] = style.paint("bold" if number == 0 else "cyan", cells[0])
        print("  ".join([*cells, clean(row[-1])]))
    return 0
