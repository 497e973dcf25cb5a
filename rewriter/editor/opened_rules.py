"""A rule file as an editor has it open: maybe not saved, and mostly not finished."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from types import MappingProxyType

from rewriter.errors import RewriterError
from rewriter.language import ast
from rewriter.language.check import check
from rewriter.language.diagnostics import Diagnostic, SourceText
from rewriter.language.dtypes import DTYPES
from rewriter.language.expand.shared_defines import NAME, SharedDefines
from rewriter.language.parse import parse
from rewriter.language.rule import Rule
from rewriter.record import record

_WORD = re.compile(r"[A-Za-z_@][A-Za-z0-9_.]*")
_RULE = re.compile(r"^[ \t]*(?:rule|define)\b", re.MULTILINE)
_PART = re.compile(r"^[ \t]*(param|match|private|where|let|rewrite|test|table)\b", re.MULTILINE)
_NAME = re.compile(r"\b[A-Za-z_]\w*\b(?!\s*[(.<])")
_NO_NAMES = frozenset(("const", "ordered", "maybe", "tensor", "input", "output", "graph", "inside", "_"))
_FENCE = re.compile(r"~~~.*?(?:~~~|\Z)", re.DOTALL)


@record(frozen=True, slots=True)
class Word:
    """A word of the text, and where it stands."""

    text: str
    start: int
    end: int


class OpenedRules:
    """One text, looked at once. What is asked is answered even where the text does not parse.

    Args:
        path: where the file lies, or "" for one that was never saved.
    """

    def __init__(self, text: str, path: str = "") -> None:
        self.text, self.path = text, path
        self.source = SourceText(path, text)
        self._outside = _FENCE.sub(lambda found: re.sub(r"\S", " ", found[0]), text)

    @cached_property
    def shared(self) -> Mapping[str, ast.Define]:
        """The defines that files beside this one share with it."""
        if not os.path.isdir(os.path.dirname(self.path)):
            return MappingProxyType({})
        try:
            return SharedDefines([self.source]).of(self.path)
        except RewriterError:
            return MappingProxyType({})

    @cached_property
    def _parsed(self) -> tuple[ast.RuleFile, list[Diagnostic]]:
        shared = {} if os.path.basename(self.path) == NAME else self.shared
        return parse(self.text, self.path, shared)

    @property
    def file(self) -> ast.RuleFile:
        """The rules that can be read."""
        return self._parsed[0]

    @cached_property
    def problems(self) -> list[Diagnostic]:
        """What the compiler says."""
        return [*self._parsed[1], *check(self.file)]

    @property
    def rules(self) -> list[Rule]:
        """The rules, to be run."""
        return [Rule(rule, self.path, self.source) for rule in self.file.rules]

    def word(self, offset: int) -> Word | None:
        """The word at a place."""
        for found in _WORD.finditer(self.text, self.text.rfind("\n", 0, offset) + 1):
            if found.start() > offset:
                return None
            if found.end() >= offset:
                text = found[0].rstrip(".")
                return Word(text, found.start(), found.start() + len(text))
        return None

    def rule_span(self, offset: int) -> ast.Span:
        """The text of the rule around a place, from its first line to the next rule."""
        starts = [found.start() for found in _RULE.finditer(self._outside)]
        before = [start for start in starts if start <= offset]
        after = [start for start in starts if start > offset]
        return ast.Span(before[-1] if before else 0, after[0] if after else len(self.text))

    def part(self, offset: int) -> str:
        """The part of a rule that a place lies in: "match", "where" and so on, "header", "model" in a test, "" outside."""
        if any(found.start() + 3 <= offset < max(found.end() - 2, found.start() + 4) for found in _FENCE.finditer(self.text)):
            return "model"
        span = self.rule_span(offset)
        parts = list(_PART.finditer(self._outside, span.start, max(offset, span.start)))
        if parts:
            return parts[-1][1]
        return "header" if self._outside.startswith("rule", span.start) else ""

    def names(self, offset: int) -> Iterator[Word]:
        """The names that the rule around a place binds, where each is bound: captures, labels, values and parameters."""
        span = self.rule_span(offset)
        parts = [*_PART.finditer(self._outside, span.start, span.end)]
        ends = [*(found.start() for found in parts[1:]), span.end]
        known: set[str] = set()
        for found, end in zip(parts, ends, strict=False):
            if found[1] in ("let", "param"):
                names = iter([_NAME.search(self._outside, found.end(), end)])
            elif found[1] == "match":
                names = _NAME.finditer(self._outside, found.end(), end)
            else:
                continue
            for one in names:
                if one is not None and one[0] not in known and self._binds(one, found.end()):
                    known.add(one[0])
                    yield Word(one[0], one.start(), one.end())

    def _binds(self, found: re.Match[str], start: int) -> bool:
        """Whether a word of a pattern is a name, and none of the language or of an attribute."""
        word, before = found[0], self._outside[start : found.start()]
        if word in DTYPES or word in _NO_NAMES or before.endswith((".", "@", '"')) or before.count('"') % 2:
            return False
        inside = before.rfind("<") > before.rfind(">")
        return not inside or before.rstrip().endswith("=")
