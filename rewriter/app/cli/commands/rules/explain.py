"""`rewriter explain`: the page of a compiler message."""

from __future__ import annotations

import argparse
from typing import Any

from rewriter.app.cli.options import add_format


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "explain",
        help="explain a message of the rule compiler",
        description="Explains a message of the rule compiler: what it means, a rule that gives it, and one that does not.",
        epilog="example: rewriter explain E103",
    )
    parser.add_argument("code", metavar="CODE", help="E103, W301, ...; `list` prints all of them")
    add_format(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the page; returns 0."""
    from rewriter.app.report.jsonreport import dumps
    from rewriter.rule_tools.messages.message_pages import explain, message_pages

    known = message_pages()
    texts = dict.fromkeys(known, "") if args.code == "list" else {args.code.upper(): explain(args.code)}
    if args.format == "json":
        pages = [{"code": code, "title": known[code].title, **({"text": text} if text else {})} for code, text in texts.items()]
        print(dumps({"schema": 1, "command": "explain", "pages": pages}))
    else:
        print("\n".join(text or f"{code}  {known[code].title}" for code, text in texts.items()))
    return 0
