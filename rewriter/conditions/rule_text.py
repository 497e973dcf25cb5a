"""The text of one rule, for what it asks in its own words."""

from __future__ import annotations

from rewriter.language import ast
from rewriter.language.rule import Rule


class Text:
    """The text of one rule: what it says at a span, and in which line."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule

    def at(self, span: ast.Span) -> str:
        """What the rule says there, on one line."""
        return self._rule.words(span)

    def line(self, span: ast.Span) -> int:
        """Counted from 1; 0 for no span."""
        return self._rule.source.line_col(span.start)[0] if span != ast.NOWHERE else 0
