"""A progress bar on a terminal, nothing elsewhere: there the lines of the results show how far it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rewriter.batch.work import Outcome
from rewriter.cli.output import folded, tell

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Display:
    """Where lines of results go while jobs run, and who is told of finished ones. This one has no bar."""

    def advance(self, outcome: Outcome) -> None:
        """Another model is finished."""

    def show(self, line: str) -> None:
        """Prints a line of results to stdout."""
        tell(line)


class _Bar(Display):
    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task
        self._failures = 0

    def advance(self, outcome: Outcome) -> None:
        self._failures += bool(outcome.error)
        self._bar.update(self._task, advance=1, failed=f"{self._failures} failed, " if self._failures else "")

    def show(self, line: str) -> None:
        """Above the bar when both are on the terminal."""
        from rich.text import Text

        if sys.stdout.isatty():
            self._bar.console.print(Text.from_ansi(folded(line, sys.stdout)), soft_wrap=True)
        else:
            tell(line)


@contextmanager
def progress(total: int) -> Iterator[Display]:
    """The display for so many models: a bar on stderr when that is a terminal and there is more than one."""
    if total < 2 or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield Display()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.fields[failed]}models", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        yield _Bar(bar, bar.add_task("", total=total, failed=""))
