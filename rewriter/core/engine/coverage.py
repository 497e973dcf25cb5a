"""How much of a set of rules a set of models exercises: counted while rules run, when somebody asks for it."""

from __future__ import annotations

from collections import Counter

from rewriter.core.conditions.rule_values import UNKNOWN
from rewriter.core.language import ast
from rewriter.core.record import field, record


@record
class Coverage:
    """Counts over all runs that were given it.

    Attributes:
        stood: how often a rule's pattern stood, by code.
        fired: how often a rule fired, by code.
        answers: how often a `where` line was false, unknown or true, by (code, offset of the line in its file, answer). A line
            is asked when no line before it was false.
    """

    stood: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    answers: Counter[tuple[str, int, str]] = field(default_factory=Counter)

    def asked(self, code: str, where: ast.Where, answer: object) -> None:
        """Notes the answer of a `where` line."""
        self.answers[code, where.span.start, "unknown" if answer is UNKNOWN else str(bool(answer)).lower()] += 1

    def blocked(self, code: str, where: ast.Where) -> int:
        """How often the line kept the rule from firing."""
        return sum(self.answers[code, where.span.start, answer] for answer in ("false", "unknown"))

    def held(self, code: str, where: ast.Where) -> int:
        """How often the line was true."""
        return self.answers[code, where.span.start, "true"]
