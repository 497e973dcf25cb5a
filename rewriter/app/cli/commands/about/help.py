"""`rewriter help`: explains a command, a rule or a message, whatever the word names."""

from __future__ import annotations

import argparse
from typing import Any


def add(commands: Any) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "help",
        help="explain a command, a rule or a message",
        description="Explains a command (fix), a rule (MX001) or a message of the rule compiler (E103).",
        epilog="examples:\n  rewriter help fix\n  rewriter help MX001",
    )
    parser.add_argument("word", metavar="WORD", nargs="?", help="a command, a rule's code, or a message's code")


def run(args: argparse.Namespace) -> int:
    """Prints the help of the word; returns 0."""
    from rewriter.app.cli.program import COMMANDS, make_parser
    from rewriter.rule_tools.messages.message_pages import explain, message_pages

    if args.word is None:
        make_parser().print_help()
    elif args.word in COMMANDS:
        make_parser([args.word]).commands.choices[args.word].print_help()
    elif args.word.upper() in message_pages():
        print(explain(args.word))
    else:
        _print_rule(args.word, COMMANDS)
    return 0


def _print_rule(word: str, known: tuple[str, ...]) -> None:
    import sys

    from rewriter.app.cli.output import style_of, tell
    from rewriter.app.cli.rule_page import rule_lines
    from rewriter.app.cli.selection import read_rules
    from rewriter.core.errors import RewriterError
    from rewriter.core.language.diagnostics import suggest

    rules = {rule.code: rule for rule in read_rules(None)}
    rule = rules.get(word.upper())
    if rule is None:
        near = suggest(word, known) or suggest(word.upper(), rules)
        hint = f"did you mean {near}?" if near else "`rewriter help` lists the commands"
        raise RewriterError(f"{word!r} is no command, rule or message; {hint}")
    for line in rule_lines(rule, style_of(sys.stdout)):
        tell(line)
