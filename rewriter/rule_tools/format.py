"""The canonical layout of rule files: header, match, conditions, rewrites, tests, always written the same way.

Only blanks and line ends change. Comments stay in their place, on their own line or behind one; test texts are kept as they
are. The result is parsed again and compared before it is returned, and formatting it once more changes nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from rewriter.core.errors import RewriterError
from rewriter.core.language import ast
from rewriter.core.language.ast import Cell, Span, Table
from rewriter.core.language.code_table import begins_row, row_docs
from rewriter.core.language.diagnostics import RuleFileError, SourceText
from rewriter.core.language.parse import parse
from rewriter.core.language.syntax.scan import comments
from rewriter.core.record import names, replace

if TYPE_CHECKING:
    from lark import Token


# Blanks between the tokens of a line, as the formatter writes them.
#
# The same sign is written differently by its place: `=` is tight between attribute and value and spaced in a statement, `<`
# opens attributes after an operator and compares in an expression, `*` spreads a run of tensors or multiplies. So the brackets
# around a token are followed while its line is written.

Place = Literal["header", "node", "edit", "attributes", "expression"]

_OPENING = {"LPAR", "LSQB", "_TOUCHING", "LBRACE"}
_CLOSING = {"RPAR", "RSQB", "RBRACE"}
_TIGHT_AFTER = {*_OPENING, "BANG", "DOT", "RANGE"}
_TIGHT_BEFORE = {*_CLOSING, "COMMA", "COLON", "DOT", "_TOUCHING"}
_ENDS_OPERAND = {"NAME", "INT", "FLOAT", "STRING", "RPAR", "RSQB", "DTYPE", "COLUMN", "TRUE", "FALSE", "NONE"}


def spaced(tokens: Sequence[Token], place: Place) -> list[str]:
    """The text of each token of a line with the blank before it, if any; the first has none.

    Args:
        tokens: one part, pattern line or statement, without the braces of a block.
        place: the kind of its outermost tokens; an "edit" becomes an "expression" at its `=`.
    """
    spacer = _Spacer(place)
    return [spacer.before(tokens, at) + _written(token) for at, token in enumerate(tokens)]


def joined(tokens: Sequence[Token], place: Place) -> str:
    """The tokens as one line."""
    return "".join(spaced(tokens, place))


def pieces(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """The runs of tokens that end with a comma (or the line), as positions from and to: a header may be broken after each."""
    ends = [at + 1 for at, token in enumerate(tokens[:-1]) if token.type == "COMMA"]
    return list(zip([0, *ends], [*ends, len(tokens)], strict=True))


def _written(token: Token) -> str:
    """A token as it is written; only `* parts` before a `=` can contain blanks of its own."""
    return "*" + token[1:].strip() if token.type == "SPREAD" else str(token)


class _Spacer:
    def __init__(self, place: Place) -> None:
        self.places: list[Place] = [place]
        self.tight = True  # whether the next token follows without a blank

    def before(self, tokens: Sequence[Token], at: int) -> str:
        token = tokens[at]
        if tokens[0].type == "EACH" and self._braces(token):
            return " "
        previous = tokens[at - 1].type if at else ""
        place = self.places[-1]
        opens_attributes = token.type == "LESSTHAN" and place in ("node", "header")
        closes_attributes = token.type == "MORETHAN" and place in ("attributes", "header")
        tight = (
            (self.tight and not (previous == "RANGE" and token.type == "LBRACE"))
            or token.type in _TIGHT_BEFORE
            or (opens_attributes and place == "node")
            or closes_attributes
            or "TILDE" in (token.type, previous)
            or (token.type == "TIMES" and place == "node" and previous in ("NAME", "RPAR", "COLUMN"))
            or (token.type == "EQUAL" and (place == "attributes" or self.places[0] == "header"))
            or (
                token.type == "LPAR"
                and (
                    previous in ("NAME", "COLUMN", "DTYPE", "ANY", "RPAR")
                    or (previous == "TIMES" and self.tight)
                    or (previous == "MORETHAN" and place == "node")
                )
            )
            or (token.type == "LBRACE" and previous in ("DTYPE", "COLUMN", "RSQB"))
            or (token.type == "RANGE" and previous in _ENDS_OPERAND)
            or (token.type == "OPTIONAL" and previous == "NAME")
        )
        self.tight = self._tight_after(token, previous, place, opens_attributes)
        self._enter(token, place, opens_attributes, closes_attributes)
        return "" if tight else " "

    def _braces(self, token: Token) -> bool:
        """Handles the words and braces of `each ... if condition { statement }`; returns whether the token is such a brace."""
        if token.type == "IF" and len(self.places) == 1:
            self.places[0] = "expression"
        opens, closes = token.type == "LBRACE" and len(self.places) == 1, token.type == "RBRACE" and len(self.places) == 2
        if opens:
            self.places.append("node")
        elif closes:
            self.places.pop()
        self.tight = self.tight and not opens
        return opens or closes

    def _tight_after(self, token: Token, previous: str, place: Place, opens_attributes: bool) -> bool:
        if token.type == "EQUAL":
            return place == "attributes" or self.places[0] == "header"
        if token.type == "MINUS":
            return previous not in _ENDS_OPERAND
        if token.type == "TIMES":
            return place == "node"
        return opens_attributes or token.type in _TIGHT_AFTER

    def _enter(self, token: Token, place: Place, opens_attributes: bool, closes_attributes: bool) -> None:
        """Follows the brackets."""
        if token.type == "EQUAL" and place == "edit":
            self.places[-1] = "expression"
        elif opens_attributes and place == "node":
            self.places.append("attributes")
        elif closes_attributes and place == "attributes":
            self.places.pop()
        elif token.type in _OPENING:
            self.places.append("node" if token.type == "LPAR" and place == "node" else "expression")
        elif token.type in _CLOSING and len(self.places) > 1:
            self.places.pop()


# The lines of a formatted file, with the comments and blank lines of the original among them.

WIDTH = 120
"""Columns that a line may take when it can be broken."""

_BLANK_LINE = re.compile(r"\n[ \t]*\n")


class Lines:
    """Takes lines in the order of the original, and carries over the comments and blank lines between them."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._comments = comments(text)
        self._starts = [comment.start for comment in self._comments]
        self._next = 0
        self._out: list[str] = []
        self._end = 0
        self._fresh = True  # at the beginning of the file or of a block, which has no blank line
        self._commented = False
        self._columns: dict[int, tuple[int, str]] = {}  # of comments behind lines: their place in the original, and their text

    def commented(self, start: int, end: int) -> bool:
        """Whether there is a comment between two places that are still to be written."""
        at = bisect_left(self._starts, start, self._next)
        return at < len(self._starts) and self._starts[at] < end

    def add(
        self, line: str, start: int, end: int, indent: int = 0, *, blank: bool | None = None, inner: int | None = None
    ) -> None:
        """Writes the text from `start` to `end` as one line (or several, for test texts).

        Args:
            line: without indentation.
            start, end: its place in the original.
            indent: columns before the line and before the comments above it.
            blank: whether there is a blank line above it and its comments; None keeps the original's.
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
        """A block begins: no blank line above its first line."""
        self._fresh = True

    def finish(self) -> str:
        """The whole text, with the comments after the last line."""
        for text, separate in self._above(len(self._text), 0):
            if separate and not self._fresh:
                self._out.append("")
            self._out.append(text)
            self._fresh = False
        self._align()
        return "".join(f"{line}\n" for line in self._out)

    def _align(self) -> None:
        """Comments behind lines that follow each other stay below each other, if they were and there is room."""
        aligned: list[int] = []
        for number in [*sorted(self._columns), -1]:
            follows = aligned and number == aligned[-1] + 1 and self._columns[number][0] == self._columns[aligned[0]][0]
            if aligned and not follows:
                column = max(len(self._code(one)) for one in aligned) + 2
                fits = all(column + len(self._columns[one][1]) <= WIDTH for one in aligned)
                for one in aligned if fits and len(aligned) > 1 else ():
                    self._out[one] = self._code(one).ljust(column) + self._columns[one][1]
                aligned = []
            aligned.append(number)

    def _code(self, number: int) -> str:
        return self._out[number].removesuffix(self._columns[number][1]).rstrip()

    def _above(self, until: int, indent: int) -> list[tuple[str, bool]]:
        """The comments up to a place: one on the line that was written last goes behind it, the others become lines."""
        above: list[tuple[str, bool]] = []
        while self._next < len(self._comments) and self._comments[self._next].start < until:
            place = self._comments[self._next]
            comment = self._text[place.start : place.end].rstrip()
            between = self._text[self._end : place.start]
            if self._out and not above and not self._commented and not between.strip() and "\n" not in between:
                self._columns[len(self._out) - 1] = place.start - self._text.rfind("\n", 0, place.start), comment
                self._out[-1] += f"  {comment}"
                self._commented = True
            else:
                above.append((" " * indent + comment, self._blank_before(place.start)))
            self._end = place.end
            self._next += 1
        return above

    def _blank_before(self, start: int) -> bool:
        return _BLANK_LINE.search(self._text, self._end, start) is not None


Part: TypeAlias = ast.Match | ast.Param | ast.Private | ast.Where | ast.Let | ast.Rewrite | ast.Test
Line: TypeAlias = ast.NodePattern | ast.GraphItem | ast.Statement


def format_text(text: str, path: str = "<text>") -> str:
    """The text of a rule file in its canonical layout.

    Raises:
        RuleFileError: the text does not parse.
    """
    text = text.replace("\r\n", "\n")
    rule_file, problems = parse(text, path)
    if problems:
        raise RuleFileError(problems, {path: SourceText(path, text)})
    lines = Lines(text)
    parts: list[ast.Rule | ast.Define] = [*rule_file.written, *rule_file.defines]
    for part in sorted(parts, key=lambda part: part.span.start):
        layout = _Layout(text, part.span, lines)
        layout.write_define() if isinstance(part, ast.Define) else layout.write(part)
    result = lines.finish()
    if result == text:
        return result
    again, problems = parse(result, path)
    if problems or not same(_said(again), _said(rule_file)):
        raise RewriterError(f"{path}: formatting would change the meaning of its rules; it is left as it is")
    return result


def _said(file: ast.RuleFile) -> tuple[Any, ...]:
    return file.rules, file.written, tuple(replace(define, text="") for define in file.defines)


def same(a: Any, b: Any) -> bool:
    """Whether two pieces of syntax are equal except for their places in the text."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Span):
        return True
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    found = names(type(a))
    return a is b or bool(a == b) if found is None else all(same(getattr(a, name), getattr(b, name)) for name in found)


class _Layout:
    """Writes one rule, or one define."""

    def __init__(self, text: str, span: Span, lines: Lines) -> None:
        from rewriter.core.language.syntax.grammar import tokens

        self.text = text
        self.lines = lines
        self.base = span.start
        self.tokens = tokens(text[span.start : span.end])
        self.starts = [self._start(token) for token in self.tokens]

    def write_define(self) -> None:
        blank = True if self.tokens[0].type == "DOC" else None
        self._line(self._docs(self.tokens), 0, "expression", blank=False if blank else None)

    def write(self, rule: ast.Rule) -> None:
        parts: list[Part] = [rule.match, *rule.params, *rule.privates, *rule.wheres, *rule.lets, *rule.rewrites, *rule.tests]
        parts.sort(key=lambda part: part.span.start)
        self._head((rule.table or parts[0]).span.start)
        if rule.table is not None:
            write_table(rule.table, self.lines)
        widths = self._widths(parts)
        written: set[type] = set()
        for at, part in enumerate(parts):
            separate = at == 0 or (isinstance(part, ast.Rewrite | ast.Test) and type(part) not in written)
            written.add(type(part))
            blank = True if separate else None
            if isinstance(part, ast.Match):
                self._block(part, part.items if part.graph else part.nodes, blank)
            elif isinstance(part, ast.Rewrite):
                self._block(part, part.statements, blank)
            elif isinstance(part, ast.Test):
                self._test(part, blank)
            elif isinstance(part, ast.Let):
                self._let(part, widths[at], blank)
            else:
                self._line(self._within(part.span), 0, "expression", blank=blank)

    # --- Tokens -------------------------------------------------------------------------------------------------------

    def _start(self, token: Token) -> int:
        return self.base + (token.start_pos or 0)

    def _end(self, token: Token) -> int:
        return self.base + (token.end_pos or 0)

    def _within(self, span: Span) -> list[Token]:
        return self.tokens[bisect_left(self.starts, span.start) : bisect_left(self.starts, span.end)]

    def _broken(self, first: Token, second: Token) -> bool:
        """Whether the original has a line end between two tokens."""
        return "\n" in self.text[self._end(first) : self._start(second)]

    # --- Header -------------------------------------------------------------------------------------------------------

    def _head(self, end: int) -> None:
        """Doc comment, code and name, and the keys below them."""
        written = self._within(Span(self.base, end))
        head = self._docs(written)
        blank = len(head) == len(written)
        name = " ".join(head[:3])
        self.lines.add(name, self._start(head[0]), self._end(head[2]), blank=blank)
        if len(head) > 3:
            self._keys(head[3:])

    def _docs(self, tokens: list[Token]) -> list[Token]:
        """Writes a doc comment, and returns the tokens after it."""
        blank, left = True, list(tokens)
        while left[0].type == "DOC":
            doc = left.pop(0)
            self.lines.add(("/// " + doc[3:].removeprefix(" ")).rstrip(), self._start(doc), self._end(doc), blank=blank)
            blank = False
        return left

    def _keys(self, tokens: list[Token]) -> None:
        """`<key: value, ...>`: as much on a line as fits, or as a comment behind or above it allows."""
        begin, line = 0, ""
        texts = spaced(tokens, "header")
        for first, last in pieces(tokens):
            text = "".join(texts[first:last]).lstrip(" ")
            full = len(line) + 2 + len(text) > WIDTH
            if first > begin and (full or self.lines.commented(self._end(tokens[first - 1]), self._start(tokens[first]))):
                self.lines.add(line, self._start(tokens[begin]), self._end(tokens[first - 1]), int(begin > 0), blank=False)
                begin, line = first, ""
            line = f"{line} {text}".lstrip(" ")
        self.lines.add(line, self._start(tokens[begin]), self._end(tokens[-1]), int(begin > 0), blank=False)

    # --- Parts --------------------------------------------------------------------------------------------------------

    def _line(self, tokens: Sequence[Token], indent: int, place: Place, *, prefix: str = "", blank: bool | None = None) -> None:
        """One line; a line that is too long, or contains comments, keeps its own line ends."""
        texts = spaced(tokens, place)
        text = prefix + "".join(texts)
        start, end = self._start(tokens[0]), self._end(tokens[-1])
        if indent + len(text) <= WIDTH and not self.lines.commented(start, end):
            self.lines.add(text, start, end, indent, blank=blank)
            return
        breaks = [at for at in range(1, len(tokens)) if self._broken(tokens[at - 1], tokens[at])]
        for first, last in zip([0, *breaks], [*breaks, len(tokens)], strict=True):
            text = "".join(texts[first:last]).lstrip(" ")
            start, end = self._start(tokens[first]), self._end(tokens[last - 1])
            if first == 0:
                self.lines.add(prefix + text, start, end, indent, blank=blank)
            else:
                self.lines.add(text, start, end, indent + 4, blank=False)

    def _block(self, part: ast.Match | ast.Rewrite, content: Sequence[Line], blank: bool | None) -> None:
        """`match` and `rewrite`: one line if they were one line with one item, else a line for each pattern or statement."""
        tokens = self._within(part.span)
        opening = next(at for at, token in enumerate(tokens) if token.type == "LBRACE")
        head = joined(tokens[: opening + 1], "expression")
        start, opened = part.span.start, self._end(tokens[opening])
        closed = self._start(tokens[-1])
        inside = " ".join(joined(self._within(line.span), _place(line)) for line in content)
        whole = f"{head} {inside} }}" if inside else f"{head} }}"
        flat = not content or (len(content) == 1 and "\n" not in self.text[opened:closed])
        if flat and len(whole) <= WIDTH and not self.lines.commented(opened, closed):
            self.lines.add(whole, start, part.span.end, blank=blank)
            return
        self.lines.add(head, start, opened, blank=blank)
        self.lines.open()
        labels = [self._label(line) for line in content]
        width = max(map(len, labels), default=0) if isinstance(part, ast.Match) else 0
        for line, label in zip(content, labels, strict=True):
            own = self._within(line.span)
            rest = own[3:] if label else own
            prefix = f"{label:<{width}} " if width or label else ""
            self._labelled(own, rest, prefix, _place(line))
        self.lines.add("}", closed, part.span.end, blank=False, inner=2)

    def _labelled(self, tokens: list[Token], rest: list[Token], prefix: str, place: Place) -> None:
        """A line of a block; the labels of a pattern have a column of their own."""
        commented = self.lines.commented(self._start(tokens[0]), self._start(rest[0]))
        if len(rest) < len(tokens) and commented:
            self._line(tokens, 2, place)
        else:
            self._line(rest, 2, place, prefix=prefix)

    def _label(self, line: Line) -> str:
        label = getattr(line, "label", None)
        first = self.text[line.span.start] == "["  # or it is the label of the first of several alternatives
        return f"[{label}]" if label is not None and first and not isinstance(line, ast.Inline) else ""

    def _let(self, part: ast.Let, width: int, blank: bool | None) -> None:
        """`let` lines that follow each other have their `=` below each other."""
        let, name, *rest = self._within(part.span)
        text = f"{let} {name:<{width}} " + joined(rest, "expression")
        if len(text) <= WIDTH and not self.lines.commented(part.span.start, part.span.end):
            self.lines.add(text, part.span.start, part.span.end, blank=blank)
        else:
            self._line([let, name, *rest], 0, "expression", blank=blank)

    def _widths(self, parts: list[Part]) -> list[int]:
        """For each part the longest name of the `let` lines that it follows or precedes without a blank line between."""
        widths = [len(part.name) if isinstance(part, ast.Let) else 0 for part in parts]
        for order in (range(1, len(parts)), range(len(parts) - 2, -1, -1)):
            back = order.step
            for at in order:
                if self._adjacent(*sorted((parts[at], parts[at - back]), key=lambda part: part.span.start)):
                    widths[at] = max(widths[at], widths[at - back])
        return widths

    def _adjacent(self, first: Part, second: Part) -> bool:
        between = self.text[first.span.end : second.span.start]
        return isinstance(first, ast.Let) and isinstance(second, ast.Let) and between.count("\n") <= 1

    def _test(self, part: ast.Test, blank: bool | None) -> None:
        """Title, settings and texts; `unchanged` or `twin` precedes its text, and the texts do not change."""
        tokens = [token for token in self._within(part.span) if token.type not in ("UNCHANGED", "TWIN")]
        words: list[str] = []
        start = 0
        for at, token in enumerate(tokens):
            if token.type != "FENCE":
                continue
            words.append(joined(tokens[start:at], "expression"))
            if part.after is None and tokens[at - 1].type != "SOURCE":
                words.append("twin" if part.twin else "unchanged")
            words.append(_fence(token))
            start = at + 1
        self.lines.add(" ".join(word for word in words if word), part.span.start, part.span.end, blank=blank)


def _place(line: Line) -> Place:
    return "edit" if isinstance(line, ast.Edit) and line.place.field != "inputs" else "node"


def _fence(token: Token) -> str:
    """A test text; only the blanks before a closing `~~~` on a line of its own are removed."""
    body, newline, last = token[3:-3].rpartition("\n")
    return f"~~~{body}\n~~~" if newline and not last.strip() else str(token)


# The layout of a table: cells below each other, a row on one line, or on several if all rows would be too long for one.


INDENT, FURTHER = 2, 6
"""Columns before a row, and before its continuation lines."""


def write_table(table: Table, lines: Lines) -> None:
    rows = [table.columns, *table.rows]
    widths = [max(len(row[at].text) for row in rows) for at in range(len(table.columns))]
    kept = {at for row in rows for at, cell in enumerate(row) if begins_row(cell)}
    breaks = _breaks(widths, kept)
    opened = table.columns[0].span.start
    lines.add("table {", table.span.start, table.span.start + len("table"), blank=None)
    lines.open()
    for row in rows:
        docs = row_docs(table, row)
        blank = True if docs else _gap(row, opened)
        for doc in docs:
            text = ("/// " + doc.text[3:].removeprefix(" ")).rstrip()
            lines.add(text, doc.span.start, doc.span.end, INDENT, blank=blank)
            blank = False
        for number, (first, last) in enumerate(breaks):
            text = "  ".join(_padded(row, widths, first, last))
            span = Span(row[first].span.start, row[last - 1].span.end)
            lines.add(text, span.start, span.end, FURTHER if number else INDENT, blank=False if number else blank)
    lines.add("}", table.span.end - 1, table.span.end, blank=False, inner=INDENT)


def _gap(row: Sequence[Cell], opened: int) -> bool | None:
    """No blank line above the columns; above a row the original's."""
    return False if row[0].span.start == opened else None


def _padded(row: Sequence[Cell], widths: Sequence[int], first: int, last: int) -> list[str]:
    """The cells of a line; the last one needs no blanks behind it."""
    return [row[at].text.ljust(widths[at] if at < last - 1 else 0) for at in range(first, last)]


def _breaks(widths: Sequence[int], kept: Container[int]) -> list[tuple[int, int]]:
    """The columns that share a line; no line begins with a column in `kept`, whose cell would begin a row."""
    found, first, used = [], 0, INDENT
    for at, width in enumerate(widths):
        if at > first and used + width > WIDTH and at not in kept:
            found.append((first, at))
            first, used = at, FURTHER
        used += width + 2
    return [*found, (first, len(widths))]
