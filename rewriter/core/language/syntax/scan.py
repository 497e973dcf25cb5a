"""Cuts a rule file at its rules, before any of them is parsed.

Each rule is then parsed by itself, so that an error in one does not hide those of the next. The scanner knows just enough for
that: strings, comments, `~~~` texts and brackets. Problems that would make parsing unsafe or pointless (an unclosed string or
text, brackets nested beyond the limit, control characters) are found here. A chunk with such problems is not parsed.
"""

from __future__ import annotations

import re

from rewriter.core.language.ast import Span
from rewriter.core.language.diagnostics import Diagnostic
from rewriter.core.language.syntax.words import MAX_NESTING, MAX_RULE_LENGTH, MAX_RULES, PARTS
from rewriter.core.record import field, record

MAX_INDENT = 64
"""A rule that begins further to the right is no longer seen as beginning its line."""

MAX_PROBLEMS = 20
"""The number of problems that are reported for one rule before it is parsed."""

_MARK = re.compile(
    r""""(?:[^"\\\n]|\\.)*(?P<closed>")?|///|\#[^\n]*|~~~|\[|\(|\{|\]|\)|\}|r(?<![.\w]r)ule(?!\w)"""
    r"""|d(?<![.\w]d)efine(?=(?:\s|\#[^\n]*\n)+\w)"""
)  # each way begins with a letter of its own: only then does `re` pass over all others at once
_KINDS = (
    {'"': "string", "/": "doc", "#": "comment", "~": "fence", "r": "rule", "d": "rule"}
    | dict.fromkeys("[({", "open")
    | dict.fromkeys("])}", "close")
)
_BLANK = re.compile(r"(?:\s|\#[^\n]*)*")
_DOCS = re.compile(r"(?:\s|\#[^\n]*|///[^\n]*)*")
_WORD = re.compile(r"\w+")
_TABLE = re.compile(r"\btable\s*\{\Z")
_HEAD = re.compile(r"rule\s+[A-Z]+[0-9]+\s+[a-z0-9]")
_RULE_LINE = re.compile(r"^(?:///|rule[ \t]+[A-Z]+[0-9]+[ \t]+[a-z0-9]|define[ \t]+\w+[ \t]*\()", re.MULTILINE)
_BEGIN = ("rule", "define")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]|\r(?!\n)")


@record
class Chunk:
    """The text of one rule with its doc comment; `unclosed` are the offsets of brackets that are open at its end."""

    start: int
    end: int = 0
    fenced: int = 0
    unclosed: list[int] = field(default_factory=list)
    problems: list[Diagnostic] = field(default_factory=list)


def scan(text: str) -> tuple[list[Chunk], list[Diagnostic]]:
    """The rules of a text in their order, and the problems of the whole text. Problems of one rule are in its chunk."""
    scanner = _Scanner(text)
    scanner.run()
    return scanner.chunks, scanner.problems


def open_brackets(text: str, start: int, end: int) -> list[int]:
    """Offsets of the brackets that are open at `end`, outermost first; strings, comments and texts do not count."""
    stack: list[int] = []
    at = start
    while (mark := _MARK.search(text, at, end)) is not None:
        at, kind = mark.end(), _kind(mark)
        if kind == "open":
            stack.append(mark.start())
        elif kind == "close":
            if stack:
                stack.pop()
        elif kind == "fence":
            at = max(text.find("~~~", at, end) + 3, at)
        elif kind == "doc":
            at = _line_end(text, at)
    return stack


def comments(text: str) -> list[Span]:
    """The places of the `#` comments of a text that parses, in their order."""
    found: list[Span] = []
    at = 0
    while (mark := _MARK.search(text, at)) is not None:
        at, kind = mark.end(), _kind(mark)
        if kind == "comment":
            found.append(Span(mark.start(), at))
        elif kind == "fence":
            at = max(text.find("~~~", at) + 3, at)
        elif kind == "doc":
            at = _line_end(text, at)
    return found


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.chunks: list[Chunk] = []
        self.problems: list[Diagnostic] = []
        self.chunk = Chunk(0)
        self.blank = True  # only blanks and comments in the chunk so far

    def run(self) -> None:
        at = 0
        while (mark := _MARK.search(self.text, at)) is not None:
            if len(self.chunks) >= MAX_RULES:
                self.problems.append(_too_many(mark.start()))
                return
            at = self._step(mark)
        self._finish(len(self.text))

    def _step(self, mark: re.Match[str]) -> int:
        """Takes one mark into account and returns where to go on."""
        chunk, kind = self.chunk, _kind(mark)
        if kind == "string":
            if not mark["closed"]:
                where = Span(mark.start(), mark.end())
                helps = ("a string ends on the line where it begins; write `\\n` for a line break",)
                self._problem(Diagnostic("E002", "this string is not closed", where, 'no `"` before the line ends', (), helps))
        elif kind == "doc":
            return self._docs(mark.start())
        elif kind == "fence":
            return self._fence(mark.start())
        elif kind == "open":
            chunk.unclosed.append(mark.start())
            if len(chunk.unclosed) == MAX_NESTING + 1:
                where = Span(mark.start(), mark.end())
                helps = ("give a part of it a name: a node by a line of its own, a value by `let`",)
                self._problem(Diagnostic("E003", f"brackets nest deeper than {MAX_NESTING} levels", where, "", (), helps))
        elif kind == "close":
            if chunk.unclosed:
                chunk.unclosed.pop()
        elif kind == "rule" and self._begins_rule(mark.start()):
            self._finish(mark.start())
        return mark.end()

    def _begins_rule(self, at: int) -> bool:
        """Whether the word `rule` begins a rule: anywhere outside of brackets, and on a line of its own even inside."""
        before = self.text[max(0, at - MAX_INDENT) : at].rstrip(" \t")
        on_new_line = not before or before.endswith("\n")
        if self.text[at] == "d":
            return on_new_line
        if self.chunk.unclosed:
            return on_new_line and _HEAD.match(self.text, at) is not None
        return on_new_line or _HEAD.match(self.text, at) is not None

    def _docs(self, at: int) -> int:
        """A run of `///` lines: begins a rule, unless it is in the middle of one."""
        after = _end(_DOCS, self.text, at)
        match = _WORD.match(self.text, after)
        word = match[0] if match else ""
        empty = self.chunk.start == 0 and not self.chunks and _end(_BLANK, self.text, 0) >= at
        if word not in _BEGIN and self._in_table():
            return after
        if word not in _BEGIN and not empty and (self.chunk.unclosed or word in PARTS):
            where = Span(at, _line_end(self.text, at))
            helps = ("begin a comment inside a rule with `#`",)
            message = "a `///` comment comes before a rule, not in it"
            self._problem(Diagnostic("E007", message, where, "inside a rule", (), helps))
            return after
        self._finish(at)
        return after + len(word) if word in _BEGIN else after

    def _in_table(self) -> bool:
        """Whether the only open bracket belongs to a table, whose rows may have doc comments."""
        unclosed = self.chunk.unclosed
        return len(unclosed) == 1 and _TABLE.search(self.text, max(0, unclosed[0] - MAX_INDENT), unclosed[0] + 1) is not None

    def _fence(self, at: int) -> int:
        """The text between two `~~~`; a line that can only begin a rule shows that the second is missing."""
        close = self.text.find("~~~", at + 3)
        stop = _RULE_LINE.search(self.text, at + 3, close if close >= 0 else len(self.text))
        if close >= 0 and stop is None:
            self.chunk.fenced += close + 3 - at
            return close + 3
        helps = ("close it with `~~~`",)
        self._problem(Diagnostic("E002", "this text is not closed", Span(at, at + 3), "begins here", (), helps))
        return stop.start() if stop else len(self.text)

    def _problem(self, diagnostic: Diagnostic) -> None:
        if len(self.chunk.problems) < MAX_PROBLEMS:
            self.chunk.problems.append(diagnostic)

    def _finish(self, at: int) -> None:
        """Ends the chunk at `at` and begins the next one there."""
        chunk = self.chunk
        chunk.end = at
        self.chunk = Chunk(at)
        if _end(_BLANK, self.text, chunk.start, at) >= at:
            return
        bad = _FORBIDDEN.search(self.text, chunk.start, at)
        if bad:
            name = f"U+{ord(bad[0][0]):04X}"
            where = Span(bad.start(), bad.end())
            helps = ("end lines with LF or CR LF",) if bad[0] == "\r" else ()
            chunk.problems.append(
                Diagnostic("E013", f"the text has the control character {name}", where, "not allowed here", (), helps)
            )
        if chunk.end - chunk.start - chunk.fenced > MAX_RULE_LENGTH:
            where = Span(chunk.start, chunk.start + 1)
            message = f"this rule is longer than {MAX_RULE_LENGTH:,} characters, its test texts not counted"
            chunk.problems.append(Diagnostic("E003", message, where))
        self.chunks.append(chunk)


def _kind(mark: re.Match[str]) -> str:
    return _KINDS[mark[0][0]]


def _end(pattern: re.Pattern[str], text: str, start: int, stop: int | None = None) -> int:
    """The end of the match of a pattern that also matches the empty text."""
    match = pattern.match(text, start, len(text) if stop is None else stop)
    return match.end() if match else start


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _too_many(at: int) -> Diagnostic:
    helps = ("split the file; a folder of rule files is read as a whole",)
    return Diagnostic("E003", f"more than {MAX_RULES:,} rules in one file", Span(at, at + 1), "", (), helps)
