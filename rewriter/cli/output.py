"""Where text goes: results to stdout, everything else to stderr, colour only to terminals that want it."""

from __future__ import annotations

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


def say(text: str) -> None:
    """Everything that is no result."""
    print(text, file=sys.stderr)
