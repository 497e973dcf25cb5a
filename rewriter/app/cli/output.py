"""Text output: results go to stdout, everything else to stderr. Only a terminal gets colour, broken lines and bars."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from rewriter.app.style import Style, fold
from rewriter.core.errors import RewriterError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping
    from pathlib import Path

    from rich.progress import Progress, ProgressColumn, TaskID

    from rewriter.app.report.printout import Printout


def wants_color(stream: TextIO) -> bool:
    """Whether a stream is a terminal with colour. NO_COLOR (not empty) and TERM=dumb turn it off, FORCE_COLOR turns it on."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def style_of(stream: TextIO) -> Style:
    """The style for a stream."""
    return Style(wants_color(stream))


def print_line(line: str, hang: int = 4) -> None:
    """Prints a line of results. On a narrower terminal it continues on the next line, indented by `hang`."""
    print(folded(line, sys.stdout, hang))


def print_message(text: str) -> None:
    """Prints text that is no result. Text of several lines keeps its layout."""
    print(text if "\n" in text else folded(text, sys.stderr), file=sys.stderr)


def answer(args: Namespace, printout: Printout, code: int = 0, totals: str = "") -> int:
    """Prints the findings of a command in the format of `--format`, and returns the exit code. Behind text, also the totals."""
    if getattr(args, "format", "text") == "json":
        answer_json(args, printout.data())
        return code
    style = style_of(sys.stdout)
    for line in printout.lines(style):
        print_line(line, printout.hang)
    for line in printout.table(style):
        print(line)
    sys.stdout.flush()
    if totals:
        print_message(totals)
    return code


def answer_json(args: Namespace, fields: Mapping[str, Any]) -> None:
    """Prints the findings of a command as JSON, after the fields that all commands share."""
    from rewriter.app.report.printout import dumps

    print(dumps({"schema": 1, "command": args.command, **fields}))


def check_stdout() -> None:
    """Raises RewriterError if `-o -` would write a model to a terminal."""
    if sys.stdout.isatty():
        raise RewriterError("-o - writes the model to standard output, which is a terminal; redirect it to a file")


def model_to_stdout(folder: Path) -> None:
    """Writes the only file of a folder, if there is one, to standard output.

    Raises:
        RewriterError: there are data files as well.
    """
    files = list(folder.iterdir())
    if len(files) > 1:
        raise RewriterError("the model keeps weights in other files, which cannot go to standard output; use -o FILE")
    for file in files:
        sys.stdout.buffer.write(file.read_bytes())
        sys.stdout.buffer.flush()


def folded(line: str, stream: TextIO, hang: int = 4) -> str:
    """The line for a stream: broken between words for a terminal, unchanged for a file or a pipe."""
    if not stream.isatty():
        return line
    return "\n".join(fold(line, terminal_width(stream), hang))


def print_page(text: str) -> None:
    """Prints paragraphs. On a terminal they are as wide as the terminal; indented lines stay as they are."""
    if sys.stdout.isatty():
        parts = text.split("\n\n")
        text = "\n\n".join(p if p.startswith(" ") else folded(" ".join(p.split("\n")), sys.stdout, hang=0) for p in parts)
    print(text)


def terminal_width(stream: TextIO | None) -> int:
    """Columns of the terminal. COLUMNS has priority; 80 if the width is unknown."""
    with contextlib.suppress(ValueError):
        if (columns := int(os.environ.get("COLUMNS", "0"))) > 0:
            return columns
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(stream.fileno()).columns or 80  # type: ignore[union-attr]
    return 80


# A progress bar, only on a terminal: elsewhere the lines of the results show the progress.


T = TypeVar("T")


class Display:
    """Prints lines of results while work goes on, and shows the progress. This class has no bar."""

    def advance(self, *, failed: bool) -> None:
        """Counts a finished item."""

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
        """Prints lines above the bar if both are on the terminal."""
        from rich.text import Text

        if not sys.stdout.isatty():
            super().show(*lines)
            return
        for line in lines:
            self._bar.console.print(Text.from_ansi(folded(line, sys.stdout)), soft_wrap=True)


@contextlib.contextmanager
def progress(total: int | None, what: str = "models") -> Iterator[Display]:
    """The display for `total` items: a bar on stderr if it is a terminal and there is more than one item.

    If `total` is None, the bar moves and shows the time.
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
    """The items as they come, with a bar that counts them; there are `total` items."""
    with progress(total, what) as display:
        for item in items:
            yield item
            display.advance(failed=has_failed(item))
