"""A progress bar on a terminal, nothing elsewhere: there the lines of the results show how far it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rewriter.cli.job import Outcome


@contextmanager
def progress(total: int) -> Iterator[Callable[[Outcome], object]]:
    """Gives a function that is told of every finished model."""
    if total < 2 or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda outcome: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.fields[failed]}models", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    # On a terminal the lines of the results go above the bar; in a pipe they go their own way.
    shared = sys.stdout.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=shared) as bar:
        task = bar.add_task("", total=total, failed="")
        failures = 0

        def advance(outcome: Outcome) -> None:
            nonlocal failures
            failures += bool(outcome.error)
            bar.update(task, advance=1, failed=f"{failures} failed, " if failures else "")

        yield advance
