"""`rewriter audit`: whether a model is what the record in it says."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_configuration, add_format, add_limits, add_rule_paths


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "audit",
        help="check whether a result is what the recorded rules make of its input",
        description="Does again what the record in OUTPUT says was done to INPUT, and compares bytes. The exit code is 1 when "
        "the output is something else, when it has no record, or when a rule has changed since. Nothing is written.",
        epilog="example: rewriter audit net.onnx net.fixed.onnx",
    )
    parser.add_argument("input", metavar="INPUT", help="the model before")
    parser.add_argument("output", metavar="OUTPUT", help="the model after")
    parser.add_argument("--source", metavar="FILE", help="the framework's own file, where it is not beside INPUT")
    add_rule_paths(parser)
    add_configuration(parser)
    add_format(parser)
    add_limits(parser, "the audit", whole=600)


def run(args: argparse.Namespace) -> int:
    """Audits one model; returns 1 when it is not as recorded."""
    import sys
    from pathlib import Path

    from rewriter.app.batch.urls import told
    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.cli.selection import load
    from rewriter.app.cli.surgery import all_opened
    from rewriter.app.report.jsonreport import dumps
    from rewriter.app.report.run_lines import audit_lines, audit_object
    from rewriter.trust.provenance.check_record import audit

    before, after = all_opened([args.input, args.output])
    source = None if args.source in (None, "auto", "none") else Path(args.source)
    found = audit(before.file, after.file, load(args.rules), source)
    found.findings = list(map(told, found.findings))
    if args.format == "json":
        print(dumps(audit_object(before.name, after.name, found)))
    else:
        for line in audit_lines(before.name, after.name, found, style_of(sys.stdout)):
            tell(line)
    return 0 if found.true else 1
