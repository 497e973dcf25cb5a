"""Printed text: optional colour, names that cannot control a terminal, and lines of its width."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rewriter.core.errors import printable
from rewriter.core.record import record

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


@record(frozen=True, slots=True)
class Style:
    """Paints text, or leaves it as it is."""

    color: bool = False

    def paint(self, name: str, text: str) -> str:
        """The text in a style: bold, dim, red, green, yellow or cyan."""
        return f"\x1b[{_CODES[name]}m{text}\x1b[0m" if self.color and text else text


clean = printable
"""Text from a model, for a terminal or a log."""


# Lines too long for a terminal, broken between words: a terminal itself breaks them anywhere and does not indent the rest.

_PAINT = re.compile(r"\x1b\[[0-9;]*m")
LEAST = 20  # columns that are left for text, however deep it is indented


def fold(line: str, width: int, hang: int = 4) -> Iterator[str]:
    """The line as lines of at most `width` columns, those after the first indented by `hang` more than it is.

    A word is never broken, so that paths and names can be copied, and neither is `axis = 1`; a word that is longer than a line
    has its own line. Colour takes no columns, and a painted text continues over the break.
    """
    if _columns(line) <= width:
        yield line
        return
    plain = _PAINT.sub("", line)
    deep = len(plain) - len(plain.lstrip(" "))
    indent = " " * max(0, min(deep + hang, width - LEAST))
    now, used, empty = "", 0, True
    for word in re.findall(r" *\S+(?: = \S+)* *", line):
        taken = _columns(word.rstrip(" "))
        if not empty and used + taken > width:
            yield now.rstrip(" ")
            now, used = indent, len(indent)
        now, used = now + word, used + _columns(word)
        empty = empty and taken == 0  # paint alone
    yield now.rstrip(" ")


def _columns(text: str) -> int:
    """How many columns a terminal takes for the text."""
    text = _PAINT.sub("", text)
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
