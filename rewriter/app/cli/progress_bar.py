"""A progress bar on a terminal, nothing elsewhere: there the lines of the results show how far a command is.

Commands that work on many models, tests or rules use it. It stands on stderr, and results are printed above it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from rewriter.app.cli.output import folded, print_line

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn, TaskID

T = TypeVar("T")


class Display:
    """Where lines of results go while work goes on, and how far it is. This one has no bar."""

    def advance(self, *, failed: bool) -> None:
        """Counts another finished one."""

    def show(self, *lines: str) -> None:
        """Prints lines of results to stdout."""
        for line in lines:
            print_line(line)


class _Bar(Display):
    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar = bar
        self._task = task
        self._failures = self._done = 0
        self._started = time.monotonic()

    def advance(self, *, failed: bool) -> None:
        self._failures += failed
        self._done += 1
        rate = f"{self._done / max(time.monotonic() - self._started, 1e-3):.3g}/s"
        self._bar.update(self._task, advance=1, failed=f"{self._failures} failed, " if self._failures else "", rate=rate)

    def show(self, *lines: str) -> None:
        """Above the bar when both are on the terminal."""
        from rich.text import Text

        if not sys.stdout.isatty():
            super().show(*lines)
            return
        for line in lines:
            self._bar.console.print(Text.from_ansi(folded(line, sys.stdout)), soft_wrap=True)


@contextmanager
def progress(total: int | None, what: str = "models") -> Iterator[Display]:
    """The display for so many of something: a bar on stderr when that is a terminal and there is more than one.

    With None the end is not known: the bar moves, and shows the time.
    """
    if (total is not None and total < 2) or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield Display()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns: list[ProgressColumn] = [TextColumn("{task.fields[failed]}" + what, markup=False), BarColumn()]
    if total is None:
        columns.append(TimeElapsedColumn())
    else:
        columns += [MofNCompleteColumn(), TextColumn("{task.fields[rate]}", markup=False), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        yield _Bar(bar, bar.add_task("", total=total, failed="", rate=""))


def tracked(items: Iterable[T], total: int, what: str, has_failed: Callable[[T], bool]) -> Iterator[T]:
    """The items as they come, of which there will be so many, with a bar that counts them."""
    with progress(total, what) as display:
        for item in items:
            yield item
            display.advance(failed=has_failed(item))
