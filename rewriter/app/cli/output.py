"""Where text goes: results to stdout, everything else to stderr; colour and broken lines only where a terminal reads."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

from rewriter.workbench.style import Style, fold

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping
    from pathlib import Path

    from rewriter.app.report.printout import Printout


def wants_color(stream: TextIO) -> bool:
    """Whether a stream is a terminal for colour; NO_COLOR (not empty) says no, FORCE_COLOR says yes, TERM=dumb says no."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def style_of(stream: TextIO) -> Style:
    """The style for a stream."""
    return Style(wants_color(stream))


def print_line(line: str, hang: int = 4) -> None:
    """A line of results; on a terminal that is narrower it goes on below, indented by `hang`."""
    print(folded(line, sys.stdout, hang))


def print_message(text: str) -> None:
    """Everything that is no result. What has several lines is laid out already and stays so."""
    print(text if "\n" in text else folded(text, sys.stderr), file=sys.stderr)


def answer(args: Namespace, printout: Printout, code: int = 0) -> int:
    """Prints what a command found, as `--format` wants it; returns the exit code."""
    if args.format == "json":
        answer_json(args, printout.data())
    else:
        for line in printout.lines(style_of(sys.stdout)):
            print_line(line, printout.hang)
    return code


def answer_json(args: Namespace, found: Mapping[str, Any]) -> None:
    """Prints what a command found as JSON, below the head that all of them have."""
    from rewriter.app.report.jsonreport import dumps

    print(dumps({"schema": 1, "command": args.command, **found}))


def check_stdout() -> None:
    """Raises RewriterError where a model, for `-o -`, would go to a terminal."""
    if sys.stdout.isatty():
        from rewriter.core.errors import RewriterError

        raise RewriterError("-o - writes the model to standard output, which is a terminal; redirect it to a file")


def model_to_stdout(folder: Path) -> None:
    """Writes the only file of a folder, if there is one, to standard output.

    Raises:
        RewriterError: there are data files as well.
    """
    files = list(folder.iterdir())
    if len(files) > 1:
        from rewriter.core.errors import RewriterError

        raise RewriterError("the model keeps weights in other files, which cannot go to standard output; use -o FILE")
    for file in files:
        sys.stdout.buffer.write(file.read_bytes())
        sys.stdout.buffer.flush()


def folded(line: str, stream: TextIO, hang: int = 4) -> str:
    """The line as it goes to a stream: broken between words for a terminal, as it is for a file or a pipe."""
    if not stream.isatty():
        return line

    return "\n".join(fold(line, terminal_width(stream), hang))


def terminal_width(stream: TextIO | None) -> int:
    """Columns of the terminal; COLUMNS goes before, and a terminal that does not know has 80."""
    with contextlib.suppress(ValueError):
        if (columns := int(os.environ.get("COLUMNS", "0"))) > 0:
            return columns
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return os.get_terminal_size(stream.fileno()).columns or 80  # type: ignore[union-attr]
    return 80
