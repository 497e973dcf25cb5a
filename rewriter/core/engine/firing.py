"""A firing until the log has it, and tracers, which record why rules fire or do not. Coverage, profile, audit and `why` are
tracers that are passed to an attempt.

A tracer changes nothing, so that its report cannot differ from the run. A run without tracers pays nothing for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.evaluate import Bindings
from rewriter.core.conditions.rule_values import UNKNOWN
from rewriter.core.engine.compile import CompiledRule
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.scopes import Scope
from rewriter.core.language import ast
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.core.log import Condition
from rewriter.core.matching.pattern_program import Place
from rewriter.core.matching.questions import Registers
from rewriter.core.record import field, record, replace


@record(slots=True)
class Noted:
    """Notes from before a rewrite: the values that each condition found, and the types of tensors if a snapshot is wanted."""

    found: tuple[str, ...]
    types: dict[int, str] = field(default_factory=dict)
    snapshot: bool = False


@record(slots=True)
class Fired:
    """A rewrite that is in the graph and can still be rolled back."""

    compiled: CompiledRule
    root: gs.Node | None
    nodes: dict[int, gs.Node]
    edits: Edits
    conditions: tuple[Condition, ...]
    seconds: float
    scope: Scope
    names: tuple[str, ...]
    op: str
    mark: tuple[int, int]
    noted: Noted | None = None


class Tracer:
    """Each method does nothing here. A `root` is None for a rule on the whole model.

    Attributes:
        asks_why: whether `fails` is called for each question of a pattern that fails.
    """

    asks_why = False

    def tries(self, compiled: CompiledRule, root: gs.Node | None) -> None:
        """A rule is going to be tried; `ends` follows."""

    def is_not_meant(self, compiled: CompiledRule, root: gs.Node) -> None:
        """The rule is for other opsets, or for nodes inside of others."""

    def fails(self, place: Place, reason: str, registers: Registers, doubts: int) -> None:
        """A question of the pattern failed; the context had so many doubts before."""

    def is_read_outside(self, compiled: CompiledRule, name: str, tensor: gs.Tensor) -> None:
        """A private tensor is read outside of the match."""

    def matches(self, compiled: CompiledRule) -> None:
        """The pattern matches, and its conditions are going to be checked."""

    def answers(self, compiled: CompiledRule, where: ast.Where, answer: Any) -> None:
        """A condition is true, false or unknown."""

    def has_kernel(self, compiled: CompiledRule) -> None:
        """The runtime does not reject the matched nodes, or that is unknown."""

    def rewrites(self, compiled: CompiledRule, names: Bindings, nodes: Mapping[int, gs.Node]) -> None:
        """A match is going to be rewritten; `has_rewritten` follows."""

    def has_rewritten(self, compiled: CompiledRule, root: gs.Node | None, fired: Fired | None) -> None:
        """The match was rewritten, or everything was rolled back."""

    def declines(self, compiled: CompiledRule, names: Bindings) -> None:
        """A match did not lead to a firing."""

    def blocks(self, compiled: CompiledRule, reason: str, remedy: str, where: ast.Where | None, *, error: bool) -> None:
        """The rule is blocked at a place, by a condition or otherwise."""

    def ends(self, compiled: CompiledRule) -> None:
        """The rule was tried."""


# How much of a set of rules a set of models exercises: counted on request, while rules run.


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
