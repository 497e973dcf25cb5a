"""A row of a table becomes the text of the rule that it stands for.

`@name` is replaced by what the row has in that column: as it is in the rule, and without its quotes in doc comments, strings
and test texts. What comes out is a rule without a table, which is parsed like any other. So a table can say nothing that
could not be said without, and nothing behind the parser knows tables; places are carried back to where the text was written.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from rewriter.language.ast import NOWHERE, Row, Rule, Span
from rewriter.record import field, record

_TEXTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|///[^\n]*|#[^\n]*|~~~[\s\S]*?~~~|@[A-Za-z_][A-Za-z0-9_]*')
_COLUMN = re.compile(r"@([A-Za-z_][A-Za-z0-9_]*)")
_ESCAPE = re.compile(r"\\(.)")
_HEAD = re.compile(r"^[ \t]*rule\s+([A-Z]+[0-9]+)\s+([a-z0-9-]+)", re.MULTILINE)
_TEST_CODE = re.compile(r"^test\s+([A-Z]+[0-9]+\s+)\"", re.MULTILINE)
_EMPTY_KEY = re.compile(r",\s*\w+:\s*_(?=\s*[,>])")
_BLANK_LINES = re.compile(r"\n([ \t]*\n){2,}")


@record(frozen=True)
class Mention:
    """`@name` in the text of a rule; `quoted` where it stands within a text, and is replaced by a cell without quotes."""

    name: str
    span: Span
    quoted: str = ""


@record
class FilledText:
    """The text of a row's rule, and where each piece of it was written: (offset here, offset there, whether it is verbatim)."""

    pieces: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    origins: list[tuple[Span, bool]] = field(default_factory=list)
    length: int = 0

    def add(self, text: str, origin: Span, *, verbatim: bool = False) -> None:
        if text:
            self.pieces.append(text)
            self.starts.append(self.length)
            self.origins.append((origin, verbatim))
            self.length += len(text)

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def place(self, span: Span) -> Span:
        """Where the text was written that stands here at a span; what was filled in stands where it is mentioned."""
        if not span.end or not self.starts:
            return NOWHERE
        first, last = self._piece(span.start), self._piece(max(span.start, span.end - 1))
        (begins, exact), (ends, exact_end) = self.origins[first], self.origins[last]
        start = begins.start + (span.start - self.starts[first] if exact else 0)
        return Span(start, max(start, ends.start + span.end - self.starts[last] if exact_end else ends.end))

    def _piece(self, offset: int) -> int:
        return max(0, bisect_right(self.starts, offset) - 1)


def mentions(text: str, start: int, end: int) -> list[Mention]:
    """Every `@name` of a text, in its order; those of comments do not count."""
    found = []
    for match in _TEXTS.finditer(text, start, end):
        mark = match[0][0]
        if mark == "@":
            found.append(Mention(match[0][1:], Span(match.start(), match.end())))
        elif mark != "#":
            inner = _COLUMN.finditer(text, match.start(), match.end())
            found += [Mention(one[1], Span(one.start(), one.end()), mark) for one in inner]
    return found


def fill(
    text: str, whole: Span, marks: Sequence[Mention], cells: Mapping[str, str], changes: Sequence[tuple[Span, str]]
) -> FilledText:
    """The text of one row.

    Args:
        text: that of the file.
        whole: where the rule stands.
        marks: the mentions of columns in it.
        cells: column to cell.
        changes: what else is replaced: the table, tests of other rows, the code.
    """
    edits = [*changes, *((mark.span, _written(cells[mark.name], mark.quoted)) for mark in marks if mark.name in cells)]
    filled = FilledText()
    at = whole.start
    for span, new in sorted(edits, key=lambda edit: edit[0].start):
        if span.start < at:  # within what was left out
            continue
        filled.add(text[at : span.start], Span(at, span.start), verbatim=True)
        filled.add(new, span)
        at = span.end
    filled.add(text[at : whole.end], Span(at, whole.end), verbatim=True)
    return filled


def filled_words(text: str, row: Row) -> str:
    """A piece of a rule as a row says it."""
    return fill(text, Span(0, len(text)), mentions(text, 0, len(text)), dict(row.cells), ()).text


def row_text(text: str, rule: Rule, row: Row) -> str:
    """The rule of a row as it would be written without a table; `text` is that of its file."""
    whole = rule.span
    head = _HEAD.search(text, whole.start, whole.end)
    assert head is not None
    changes = [(span, "") for span in row.others_span]
    changes += [(Span(*head.span(1)), rule.code), (Span(*head.span(2)), rule.slug)]
    changes += [(Span(*code.span(1)), "") for code in _TEST_CODE.finditer(text, whole.start, whole.end)]
    changes.append((Span(whole.start, whole.start), row.doc))
    filled = fill(text, whole, mentions(text, whole.start, whole.end), dict(row.cells), changes).text
    return _BLANK_LINES.sub("\n\n", _EMPTY_KEY.sub("", filled))


def unquoted(cell: str) -> str:
    """What a cell says as a text."""
    return _ESCAPE.sub(r"\1", cell[1:-1]) if cell.startswith('"') else cell


def _written(cell: str, quoted: str) -> str:
    """A cell as it stands in the rule, in a string, or in a comment or test."""
    if quoted == '"':
        return cell[1:-1] if cell.startswith('"') else cell
    return unquoted(cell) if quoted else cell
