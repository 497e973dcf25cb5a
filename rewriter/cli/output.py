"""Where text goes: results to stdout, everything else to stderr; colour and broken lines only where a terminal reads."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO

from rewriter.report.style import Style


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


def tell(line: str, hang: int = 4) -> None:
    """A line of results; on a terminal that is narrower it goes on below, indented by `hang`."""
    print(folded(line, sys.stdout, hang))


def say(text: str) -> None:
    """Everything that is no result. What has several lines is laid out already and stays so."""
    print(text if "\n" in text else folded(text, sys.stderr), file=sys.stderr)


def folded(line: str, stream: TextIO, hang: int = 4) -> str:
    """The line as it goes to a stream: broken between words for a terminal, as it is for a file or a pipe."""
    if not stream.isatty():
        return line
    from rewriter.report.fold import fold

    return "\n".join(fold(line, _width(stream), hang))


def _width(stream: TextIO) -> int:
    """Columns of the terminal; COLUMNS goes before, and a terminal that does not know has 80."""
    with contextlib.suppress(ValueError):
        if (told := int(os.environ.get("COLUMNS", "0"))) > 0:
            return told
    with contextlib.suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or 80
    return 80
