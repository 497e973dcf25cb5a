"""The compiler's messages about a rule file: one record per finding, and its picture in the manner of rustc.

A `Diagnostic` is plain data with character offsets; lines, columns and carets are worked out here, from a `SourceText`, when it
is shown. Everything echoed from a file is escaped first, so that no rule file can write to a terminal.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rewriter.core.errors import RewriterError
from rewriter.core.language.ast import NOWHERE, Span
from rewriter.core.record import record

MAX_FILE_BYTES = 1 << 20
"""How large a rule file may be."""

MAX_WIDTH = 120
"""Columns of a shown source line; of a longer one the part around the carets is shown."""

_ELLIPSIS = "..."
_RESET = "\x1b[0m"
_BOLD = "\x1b[1m"
_RED = "\x1b[1;31m"
_YELLOW = "\x1b[1;33m"
_BLUE = "\x1b[1;34m"


@record(frozen=True)
class Related:
    """Another place that a finding speaks of, maybe in another file."""

    path: str
    span: Span
    label: str = ""


@record(frozen=True)
class Diagnostic:
    """One finding. `label` is printed next to the carets. `notes` are facts, `helps` say what to do. Codes `W...` are warnings.

    `related` are further places, which are shown below the first one.
    """

    code: str
    message: str
    span: Span
    label: str = ""
    notes: tuple[str, ...] = ()
    helps: tuple[str, ...] = ()
    path: str = ""
    related: tuple[Related, ...] = ()

    @property
    def is_warning(self) -> bool:
        return self.code.startswith("W")


class SourceText:
    """The text of one file with the way from offsets to lines (1-based) and columns (1-based, in characters)."""

    def __init__(self, path: str, text: str | Callable[[], str]) -> None:
        self.path = path
        self._text = text
        self._starts: list[int] | None = None

    @property
    def text(self) -> str:
        """The text. If the constructor got a function that reads it, this can raise the errors of that function."""
        if not isinstance(self._text, str):
            self._text = self._text()
        return self._text

    @property
    def starts(self) -> list[int]:
        """The offset of the first character of every line."""
        if self._starts is None:
            self._starts = [0]
            at = self.text.find("\n")
            while at >= 0:
                self._starts.append(at + 1)
                at = self.text.find("\n", at + 1)
        return self._starts

    def line_col(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset; offsets outside the text are moved to its nearest end."""
        offset = max(0, min(offset, len(self.text)))
        number = bisect_right(self.starts, offset)
        return number, offset - self.starts[number - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line without its end, "" for a number that the file does not have."""
        if not 1 <= number <= len(self.starts):
            return ""
        end = self.starts[number] - 1 if number < len(self.starts) else len(self.text)
        return self.text[self.starts[number - 1] : end].removesuffix("\r")


class RuleFileError(RewriterError):
    """Rule files that cannot be used; carries everything that was found wrong in them."""

    def __init__(self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceText] | None = None) -> None:
        self.diagnostics = list(diagnostics)
        self.sources = dict(sources or {})
        super().__init__(self.diagnostics, self.sources)

    def render(self, color: bool = False) -> str:
        return render_all(self.diagnostics, self.sources, color)

    def __str__(self) -> str:
        return self.render()


def render_all(diagnostics: Iterable[Diagnostic], sources: Mapping[str, SourceText], color: bool = False) -> str:
    """All diagnostics, one below the other with a blank line between."""
    return "\n\n".join(render(d, sources.get(d.path), color, sources) for d in diagnostics)


def render(
    diagnostic: Diagnostic, source: SourceText | None, color: bool = False, sources: Mapping[str, SourceText] | None = None
) -> str:
    """The diagnostic as several lines of text (no newline at the end); without a source no line of it is shown.

    `sources` are the texts that related places stand in.
    """
    paint = _paint if color else _plain
    hue = _YELLOW if diagnostic.is_warning else _RED
    word = "warning" if diagnostic.is_warning else "error"
    lines = [paint(hue, f"{word}[{diagnostic.code}]") + paint(_BOLD, f": {escape(diagnostic.message)}")]
    path = diagnostic.path or (source.path if source else "")
    places = [(Related(path, diagnostic.span, diagnostic.label), source)]
    places += [(other, (sources or {}).get(other.path)) for other in diagnostic.related]
    margin = max(_margin(place, where) for place, where in places)
    for number, (place, where) in enumerate(places):
        lines.extend(_place(place, where, margin, hue if number == 0 else _BLUE, paint, "-->" if number == 0 else ":::"))
    extra = [("note", note) for note in diagnostic.notes] + [("help", text) for text in diagnostic.helps]
    if extra:
        lines.append(paint(_BLUE, " " * (margin + 2) + "|"))
    for kind, text in extra:
        indent = "\n" + " " * (margin + 2 + len(kind) + 4)
        lines.append(f"{paint(_BLUE, ' ' * (margin + 2) + '=')} {paint(_BOLD, kind)}: {escape(text, indent)}")
    return "\n".join(lines)


def _margin(place: Related, source: SourceText | None) -> int:
    return 1 if source is None or place.span == NOWHERE else len(str(source.line_col(place.span.start)[0]))


def _place(
    place: Related, source: SourceText | None, margin: int, hue: str, paint: Callable[[str, str], str], arrow: str
) -> Iterator[str]:
    """One place: its file, its line, and carets below it; a further place is set off by a line of the margin."""
    path = escape(place.path)
    bar = paint(_BLUE, " " * (margin + 2) + "|")
    if arrow != "-->":
        yield bar
    if source is None or place.span == NOWHERE:
        if path:
            yield f"{paint(_BLUE, ' ' * (margin + 1) + arrow)} {path}"
        return
    number, column = source.line_col(place.span.start)
    shown, carets = _underline(source.line(number), column - 1, place.span.end - place.span.start)
    yield f"{paint(_BLUE, ' ' * (margin + 1) + arrow)} {path}:{number}:{column}"
    yield bar
    yield (paint(_BLUE, f" {str(number).rjust(margin)} |") + f" {shown}").rstrip()
    label = f" {escape(place.label)}" if place.label else ""
    blanks = len(carets) - len(carets.lstrip())
    yield f"{bar} {carets[:blanks]}{paint(hue, carets[blanks:] + label)}"


def escape(text: str, newline: str = "\\n") -> str:
    """The text with every character that could steer a terminal or reorder a line written as an escape sequence."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(newline if c == "\n" else _visible(c) for c in text)


def suggest(word: str, candidates: Iterable[str], most: int | None = None) -> str | None:
    """The candidate that a misspelled word probably meant: the nearest by edits, at most a third of the letters, or `most`;
    else None.
    """
    if not word or len(word) > 64:
        return None
    best: tuple[int, str] | None = None
    limit = most or max(1, len(word) // 3)
    for candidate in candidates:
        if candidate == word or abs(len(candidate) - len(word)) > limit:
            continue
        distance = 0 if candidate.lower() == word.lower() else _distance(word, candidate)
        if distance <= limit and distance < len(word) and (best is None or (distance, candidate) < best):
            best = (distance, candidate)
    return best[1] if best else None


def _distance(a: str, b: str) -> int:
    """Edits from a to b: insert, delete, replace, swap two neighbours (optimal string alignment)."""
    before: Sequence[int] = ()
    row: Sequence[int] = range(len(b) + 1)
    for i, x in enumerate(a, 1):
        following = [i]
        for j, y in enumerate(b, 1):
            cost = min(row[j] + 1, following[j - 1] + 1, row[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                cost = min(cost, before[j - 2] + 1)
            following.append(cost)
        before, row = row, following
    return row[-1]


def _underline(line: str, start: int, length: int) -> tuple[str, str]:
    """The line as it is shown and the carets below it; tabs become blanks, wide characters count twice, long lines are cut."""
    skipped = max(0, start - 2 * MAX_WIDTH)  # a line may be a megabyte long
    cells = _cells(line[skipped : start + 2 * MAX_WIDTH])
    rest = len(line) - skipped - len(cells)
    start = min(start - skipped, len(cells))
    stop = max(start + 1, min(start + length, len(cells)))
    left, right = _window([width for _, width in cells], start, stop)
    head = _ELLIPSIS if left + skipped > 0 else ""
    tail = _ELLIPSIS if right < len(cells) or rest > 0 else ""
    shown = head + "".join(text for text, _ in cells[left:right]) + tail
    before = len(head) + sum(width for _, width in cells[left:start])
    under = sum(width for _, width in cells[start : min(stop, right)])
    return shown, " " * before + "^" * max(1, under)


def _window(widths: list[int], start: int, stop: int) -> tuple[int, int]:
    """The cells to show so that at most about MAX_WIDTH columns are used and the carets begin inside."""
    if sum(widths) <= MAX_WIDTH:
        return 0, len(widths)
    room = MAX_WIDTH - 2 * len(_ELLIPSIS)
    left = right = min(start, len(widths))
    while right < min(stop, len(widths)) and room >= widths[right]:
        room -= widths[right]
        right += 1
    grown = True
    while grown:
        grown = False
        if left > 0 and room >= widths[left - 1]:
            left, room, grown = left - 1, room - widths[left - 1], True
        if right < len(widths) and room >= widths[right]:
            room, right, grown = room - widths[right], right + 1, True
    return left, right


def _cells(line: str) -> list[tuple[str, int]]:
    """The picture of each character of a line, and the number of its columns."""
    if line.isascii() and line.isprintable():
        return [(c, 1) for c in line]
    cells: list[tuple[str, int]] = []
    column = 0
    for c in line:
        text = " " * (4 - column % 4) if c == "\t" else _visible(c)
        width = _width(c) if text == c else len(text)
        cells.append((text, width))
        column += width
    return cells


def _width(c: str) -> int:
    import unicodedata

    if unicodedata.combining(c):
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


def _visible(c: str) -> str:
    if c.isprintable():
        return c
    return repr(c)[1:-1] if c.isascii() else f"\\u{{{ord(c):x}}}"


def _paint(style: str, text: str) -> str:
    return f"{style}{text}{_RESET}"


def _plain(style: str, text: str) -> str:
    return text
