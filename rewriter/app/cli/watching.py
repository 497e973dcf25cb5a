"""Doing something again whenever a rule file changes, until somebody presses Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rewriter.app.cli.output import say
from rewriter.app.cli.selection import rule_paths
from rewriter.core.errors import RewriterError
from rewriter.core.language.rule_files import State, find_rule_files, state_of

SECONDS = 0.5
"""Between two looks at the files."""


def watched(paths: Sequence[str] | None, work: Callable[[], int], wait: Callable[[float], None] = time.sleep) -> int:
    """Does the work, and again after each change of one of the rule files; what is wrong in them is said, and it goes on.

    Returns:
        What the work returned last, as soon as `wait` is interrupted.
    """
    before, found = None, 0
    while True:
        now = _states(paths)
        if now != before:
            before = now
            try:
                found = work()
            except RewriterError as error:
                say(f"rewriter: error: {error}")
                found = 2
            say(f"--- {time.strftime('%H:%M:%S')}: waiting for changes; Ctrl-C ends")
        try:
            wait(SECONDS)
        except KeyboardInterrupt:
            return found


def _states(paths: Sequence[str] | None) -> list[State] | str:
    """The states of all files; the reason where one of them is not there."""
    try:
        return [state_of(path) for path in find_rule_files(rule_paths(paths))]
    except RewriterError as error:
        return str(error)
