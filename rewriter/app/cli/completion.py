"""Completion of commands, options, codes, targets and node names in bash, zsh and fish, by argcomplete.

argcomplete (the extra `completion`) starts the program with `_ARGCOMPLETE` set, hands it the line that is being typed, and gets
back the words that may follow.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import Any

from rewriter.app.cli.options import COMMANDS_BY_NAME

Completer = Callable[..., Iterable[str]]


def complete(parser: argparse.ArgumentParser, commands: Iterable[argparse.ArgumentParser]) -> None:
    """Answers the shell and ends the process; without argcomplete, does nothing. `commands` are the parsers inside `parser`."""
    try:
        import argcomplete
    except ImportError:
        return
    for command in commands:
        for action in command._actions:
            kind = getattr(action, "shell_words", None)
            if kind is not None:
                action.completer = COMPLETERS[kind]  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _continued(prefix: str, words: Iterable[str]) -> list[str]:
    """The words that begin with the prefix, in either case. The typed prefix keeps its case, or shells reject the words."""
    return [f"{prefix}{word[len(prefix) :]}" for word in words if word.lower().startswith(prefix.lower())]


def _one_code(prefix: str, **_: Any) -> list[str]:
    from rewriter.app.cli.settings import read_rules

    return _continued(prefix, [rule.code for rule in read_rules(None)])


def _last_entry(prefix: str, words: Iterable[str]) -> list[str]:
    """The words for the last entry of a comma-separated list, which is being typed."""
    head, comma, last = prefix.rpartition(",")
    return [f"{head}{comma}{word}" for word in _continued(last, words)]


def _codes(prefix: str, **_: Any) -> list[str]:
    return _last_entry(prefix, ["ALL", "DEFAULT", "NONE", *_one_code("")])


def _targets(prefix: str, **_: Any) -> list[str]:
    from rewriter.app.cli.settings import read_rules

    return _last_entry(prefix, sorted({target for rule in read_rules(None) for target in rule.targets}))


def _messages(prefix: str, **_: Any) -> list[str]:
    from rewriter.rule_tools.message_pages import message_pages

    return _continued(prefix, [*message_pages(), "list"])


def _nodes(prefix: str, parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Names of nodes of the model that was typed before."""
    from pathlib import Path

    from rewriter.core.errors import RewriterError
    from rewriter.core.onnxfile.model_file import read_model_file
    from rewriter.core.onnxfile.tensors import text

    try:
        nodes = read_model_file(Path(parsed_args.model)).proto.graph.node
    except (RewriterError, OSError, AttributeError, TypeError):
        return []
    return [name for name in (text(node.name) for node in nodes) if name.startswith(prefix)]


def _words(prefix: str, **_: Any) -> list[str]:
    commands = [command for command in COMMANDS_BY_NAME if command.startswith(prefix)]
    return [*commands, *_one_code(prefix), *(_messages(prefix) if prefix else ())]


COMPLETERS: dict[str, Completer] = {
    "codes": _codes,
    "messages": _messages,
    "nodes": _nodes,
    "one_code": _one_code,
    "targets": _targets,
    "words": _words,
}
"""Completers by the `shell_words` of options and arguments."""
