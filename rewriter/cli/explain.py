"""`rewriter explain`: the page of a compiler message."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "explain",
        parents=[common],
        help="explain a message of the rule compiler",
        description="Explains a message of the rule compiler: what it means, a rule that gives it, and one that does not.",
        epilog="example: rewriter explain E103",
    )
    parser.add_argument("code", metavar="CODE", help="E103, W301, ...; `list` prints all of them")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the page; returns 0."""
    from rewriter.language.pages.codes import PAGES, explain

    if args.code == "list":
        print("\n".join(f"{code}  {page.title}" for code, page in PAGES.items()))
    else:
        print(explain(args.code))
    return 0
