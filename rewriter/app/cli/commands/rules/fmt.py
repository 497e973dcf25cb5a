"""`rewriter fmt`: formats rule files."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_limits


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "fmt",
        help="format rule files",
        description="Formats rule files in place; comments are kept. A file that does not parse is reported and left alone.",
        epilog="example: rewriter fmt --check my_rules/",
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", help="rule file, or folder that is searched for *.rules")
    parser.add_argument("--check", action="store_true", help="only list which files would change; exit code 1 if any")
    add_limits(parser, "the command", whole=600)


def run(args: argparse.Namespace) -> int:
    """Formats; returns 2 when a file could not be, 1 when `--check` finds a difference."""
    from pathlib import Path

    from rewriter.app.cli.output import say
    from rewriter.core.errors import RewriterError
    from rewriter.core.language.rule_files import find_rule_files, read_rule_file
    from rewriter.core.onnxfile.write import write_bytes
    from rewriter.rule_tools.format import format_text
    from rewriter.workbench.style import clean, counted

    changed, failed = 0, 0
    files = find_rule_files(args.paths)
    for file in files:
        try:
            text = read_rule_file(file)
            formatted = format_text(text)
            if formatted == text:
                continue
            changed += 1
            if not args.check:
                write_bytes(Path(file), formatted.encode(), True)
        except RewriterError as error:
            failed += 1
            shown = str(error)
            say(shown if shown.startswith(file) else f"{clean(file)}:\n{shown}")
            continue
        print(f"{'would format' if args.check else 'formatted'} {clean(file)}")
    say(f"{counted(len(files), 'file')}: {changed} {'to format' if args.check else 'formatted'}, {failed} failed")
    if failed:
        return 2
    return 1 if args.check and changed else 0
