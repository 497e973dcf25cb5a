"""Colour where it is wanted, and names that cannot steer a terminal."""

from __future__ import annotations

from rewriter.record import record

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


@record(frozen=True, slots=True)
class Style:
    """Paints text, or leaves it as it is."""

    color: bool = False

    def paint(self, name: str, text: str) -> str:
        """The text in a style: bold, dim, red, green, yellow or cyan."""
        return f"\x1b[{_CODES[name]}m{text}\x1b[0m" if self.color and text else text


def counted(number: int, noun: str) -> str:
    """`1 rule`, `2,000 rules`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def clean(text: str) -> str:
    """The text on one line, with every control character, bidirectional mark and broken character written as an escape.

    Names come from models of strangers: one may hold a sequence that clears the screen or hides the rest of a line.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
