"""A page for each command, made from its parser; they are part of the site and not kept in git."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from rewriter.app.cli.main import GROUPS, make_parser


def command_pages() -> dict[str, str]:
    """The pages by their names, with an index."""
    os.environ["COLUMNS"] = "100"  # what argparse breaks lines by
    parser = make_parser()
    pages = {"index": index(parser.commands)}
    for name, command in parser.commands.choices.items():
        pages[name] = "\n\n".join(page(name, command)) + "\n"
    return pages


def index(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> str:
    helps = {action.dest: action.help or "" for action in commands._get_subactions()}
    parts = ["# Commands"]
    for group, names in GROUPS.items():
        rows = (f"| [{name}]({name}.md) | {cell(helps[name])} |" for name in names)
        parts += [f"## {group}", "\n".join(["| command | |", "|---|---|", *rows])]
    parts.append("\n".join(["```{toctree}", ":hidden:", "", *(name for names in GROUPS.values() for name in names), "```"]))
    return "\n\n".join(parts) + "\n"


def page(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    yield f"# rewriter {name}"
    yield cell(command.description or "")
    yield f"```text\n{command.format_usage().removeprefix('usage: ').strip()}\n```"
    for group in command._action_groups:
        rows = [f"| {signature(action)} | {cell(told(action, command))} |" for action in group._group_actions]
        if rows:
            yield f"## {group.title}"
            yield "\n".join(["| | |", "|---|---|", *rows])
    if command.epilog:
        yield "## Examples and more"
        yield "```text\n" + command.epilog.removeprefix("examples:").strip("\n") + "\n```"


def signature(action: argparse.Action) -> str:
    """An option with its value, or the name of an argument."""
    shown = action.metavar if isinstance(action.metavar, str) else "{" + ",".join(map(str, action.choices or ())) + "}"
    value = shown if action.nargs != 0 and shown != "{}" else ""
    names = action.option_strings or [value or action.dest]
    return ", ".join(f"`{name}{f' {value}' if value and action.option_strings else ''}`" for name in names).replace("|", "\\|")


def told(action: argparse.Action, command: argparse.ArgumentParser) -> str:
    return command._get_formatter()._expand_help(action) if action.help else ""


def cell(text: str) -> str:
    for sign in "\\|<*[]_":
        text = text.replace(sign, f"\\{sign}")
    return " ".join(text.split())
