"""The lines of a formatted file, with the comments and blank lines of the original among them."""

from __future__ import annotations

import re
from bisect import bisect_left

from rewriter.language.syntax.scan import comments

WIDTH = 120
"""Columns that a line may take when it can be broken."""

_BLANK_LINE = re.compile(r"\n[ \t]*\n")


class Lines:
    """Takes lines in the order of the original, and carries over what lies between them there: comments and blank lines."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._comments = comments(text)
        self._starts = [comment.start for comment in self._comments]
        self._next = 0
        self._out: list[str] = []
        self._end = 0
        self._fresh = True  # at the beginning of the file or of a block, where no blank line stands
        self._commented = False

    def commented(self, start: int, end: int) -> bool:
        """Whether a comment stands between two places that are still to be written."""
        at = bisect_left(self._starts, start, self._next)
        return at < len(self._starts) and self._starts[at] < end

    def add(
        self, line: str, start: int, end: int, indent: int = 0, *, blank: bool | None = None, inner: int | None = None
    ) -> None:
        """Writes what stood from `start` to `end` as one line (or several, for test texts).

        Args:
            line: without indentation.
            start, end: its place in the original.
            indent: columns before the line and before the comments above it.
            blank: whether a blank line stands above it and its comments; None keeps what the original has.
            inner: the columns before the comments instead, for the end of a block.
        """
        above = self._above(end, indent if inner is None else inner)
        own = [*above, (" " * indent + line if line else "", blank is not False and self._blank_before(start))]
        if blank and not any(separate for _, separate in own):
            own[0] = (own[0][0], True)
        for text, separate in own:
            if separate and not self._fresh:
                self._out.append("")
            self._out.append(text)
            self._fresh = False
        self._end = max(end, self._end)
        self._commented = False

    def open(self) -> None:
        """A block begins: no blank line above what follows."""
        self._fresh = True

    def finish(self) -> str:
        """The whole text, with the comments after the last line."""
        for text, separate in self._above(len(self._text), 0):
            if separate and not self._fresh:
                self._out.append("")
            self._out.append(text)
            self._fresh = False
        return "".join(f"{line}\n" for line in self._out)

    def _above(self, until: int, indent: int) -> list[tuple[str, bool]]:
        """The comments up to a place: one on the line of what was written last goes behind it, the others become lines."""
        above: list[tuple[str, bool]] = []
        while self._next < len(self._comments) and self._comments[self._next].start < until:
            place = self._comments[self._next]
            comment = self._text[place.start : place.end].rstrip()
            between = self._text[self._end : place.start]
            if self._out and not above and not self._commented and not between.strip() and "\n" not in between:
                self._out[-1] += f"  {comment}"
                self._commented = True
            else:
                above.append((" " * indent + comment, self._blank_before(place.start)))
            self._end = place.end
            self._next += 1
        return above

    def _blank_before(self, start: int) -> bool:
        return _BLANK_LINE.search(self._text, self._end, start) is not None
