"""How much of a set of rules a set of models exercises: counted on request, while rules run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.rule_values import UNKNOWN
from rewriter.core.engine.compile import CompiledRule
from rewriter.core.engine.firing import Fired, Tracer
from rewriter.core.language import ast
from rewriter.core.language.rule import Rule
from rewriter.core.language.rules import RuleSet
from rewriter.core.record import field, record, replace


@record
class Coverage(Tracer):
    """Counts over all runs that get this tracer.

    Attributes:
        stood: how often a rule's pattern matched, by code.
        fired: how often a rule fired, by code.
        answered: how often a `where` line was false, unknown or true, by (code, offset of the line in its file, answer). A line
            is checked if no line before it was false.
    """

    stood: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    answered: Counter[tuple[str, int, str]] = field(default_factory=Counter)

    def matches(self, compiled: CompiledRule) -> None:
        """Counts a match."""
        self.stood[compiled.code] += 1

    def answers(self, compiled: CompiledRule, where: ast.Where, answer: Any) -> None:
        """Counts the answer of a `where` line."""
        self.answered[compiled.code, where.span.start, "unknown" if answer is UNKNOWN else str(bool(answer)).lower()] += 1

    def has_rewritten(self, compiled: CompiledRule, root: gs.Node | None, fired: Fired | None) -> None:
        """Counts a firing."""
        self.fired[compiled.code] += fired is not None

    def counts(self, rule: Rule) -> dict[str, Any]:
        """The counts of a rule and of its `where` lines, as JSON has them."""
        wheres = [
            {
                "line": rule.line(where.span),
                "condition": rule.words(where.condition.span),
                **{answer: self.answered[rule.code, where.span.start, answer] for answer in ("true", "false", "unknown")},
            }
            for where in rule.ast.wheres
        ]
        return {"code": rule.code, "stood": self.stood[rule.code], "fired": self.fired[rule.code], "wheres": wheres}


def parts(rules: RuleSet) -> Sequence[RuleSet]:
    """The default rules, and the other rules. The other rules may undo each other's work, but not the default rules' work.

    Rules with a required parameter that is not set are left out.
    """
    able = [
        rule for rule in rules if all(p.default is not None or (rule.code, p.name) in rules.settings for p in rule.ast.params)
    ]
    split = [tuple(rule for rule in able if rule.default is unasked) for unasked in (True, False)]
    return [replace(rules, rules=part, selected=True) for part in split if part]
