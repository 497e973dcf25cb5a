"""One rule at one node: whether it fires, the firing until the log has it, and tracers, which record why rules fire or do not.

Coverage, profile, audit and `why` are tracers that are passed to an attempt. A tracer changes nothing, so that its report
cannot differ from the run. A run without tracers pays nothing for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.evaluate import Bindings, holds
from rewriter.core.conditions.rule_values import MISTAKES, UNKNOWN, Failure
from rewriter.core.engine.compile import CompiledRule
from rewriter.core.errors import RewriterError
from rewriter.core.graph.edits import Edits
from rewriter.core.graph.model_text import node_name
from rewriter.core.graph.objects import Scope
from rewriter.core.language import ast
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.core.log import Blocked, Condition
from rewriter.core.matching.pattern_program import Place, Program
from rewriter.core.matching.questions import Registers, TooManyAttempts
from rewriter.core.record import field, record, replace
from rewriter.core.rewriting.rewrite import apply_block
from rewriter.core.rewriting.transaction import Refused, Rewriting
from rewriter.core.whole_model import DoesNotFlow, repairs


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


class Attempt:
    """Tries rules at places. If a pattern matches and the rule does not fire, the reason goes to `blocked`.

    Attributes:
        chosen: codes of rules that fire whether or not the runtime that they are about is the installed one.
        rewrites: False leaves the graph as it is.
        would_fire: whether a rule was ready to rewrite, in an attempt that rewrites nothing.
    """

    def __init__(self, context: Context, *, detail: bool, tracers: Sequence[Tracer] = (), rewrites: bool = True) -> None:
        self.context = context
        self.detail = detail
        self._tracers = tracers
        self._asks_why = next((tracer for tracer in tracers if tracer.asks_why), None)
        self.rewrites = rewrites
        self.would_fire = False
        self.chosen: frozenset[str] = frozenset()
        self.blocked: dict[tuple[str, int], Blocked] = {}
        self._ready: dict[tuple[CompiledRule, Scope], tuple[int | None, tuple[Program, Registers] | None]] = {}  # by opset

    def at_node(self, compiled: CompiledRule, root: gs.Node) -> Fired | None:
        """The first match at `root` whose conditions hold, rewritten."""
        if self.blocked:
            self.blocked.pop((compiled.code, id(root)), None)
        started = perf_counter()
        for tracer in self._tracers:
            tracer.tries(compiled, root)
        try:
            ready = self._ready_for(compiled, root)
            if ready is None:
                for tracer in self._tracers:
                    tracer.is_not_meant(compiled, root)
                return None
            program, registers = ready

            def accept(found: Registers) -> Fired | None:
                return self._try(compiled, root, program.bound(found), program.nodes(found), started)

            fired = program.find(root, registers, self.context, accept, self._asks_why)
            if fired is not None:
                return fired
        except TooManyAttempts:
            self._block(compiled, root, "too many ways to match here; the search was stopped", error=True)
        except (Failure, RewriterError, *MISTAKES) as failure:
            self._block(compiled, root, _words(failure), error=True)
        else:
            if self.context.doubts and (compiled.code, id(root)) not in self.blocked:
                self._block(compiled, root, *self.context.doubts[0])
        finally:
            for tracer in self._tracers:
                tracer.ends(compiled)
        return None

    def on_graph(self, compiled: CompiledRule, bound: Mapping[str, Any], key: int) -> Fired | None:
        """A rule on the model's interface, with its items bound."""
        self.context.forget()
        self.blocked.pop((compiled.code, key), None)
        for tracer in self._tracers:
            tracer.tries(compiled, None)
        try:
            return self._try(compiled, None, {**compiled.parameter_values, **bound}, {}, perf_counter())
        except (Failure, RewriterError, *MISTAKES) as failure:
            self._block(compiled, None, _words(failure), error=True)
            return None
        finally:
            for tracer in self._tracers:
                tracer.ends(compiled)

    def follow(self, compiled: CompiledRule, group: Sequence[Fired]) -> Fired | None:
        """Follows dimensions that firings on the interface have named. Returns the firing, or None if it has no edits.

        Raises:
            DoesNotFlow: the dimensions cannot be followed; the graph is as it was.
        """
        # a rule that adds something makes all further changes itself
        declared = [fired.edits for fired in group if fired.edits.declared and not fired.edits.added]
        sizes = repairs().named_dimensions(declared) if declared else {}
        if not sizes:
            return None
        index, started = self.context.index, perf_counter()
        edits, mark = Edits(index), index.mark_names()
        try:
            repairs().follow(self.context, edits, sizes)
            edits.sweep(())
        except (DoesNotFlow, Failure, RewriterError, *MISTAKES) as failure:
            self._take_back(edits, mark)
            if isinstance(failure, DoesNotFlow):
                raise
            raise DoesNotFlow(f"a node has attributes that its operator does not take: {_words(failure)}") from None
        seconds = perf_counter() - started
        last = group[-1]
        scope, seen = index.scopes[0], (last.conditions, seconds)
        return Fired(compiled, None, {}, edits, *seen, scope, (), "", mark, last.noted) if edits.any else None

    def refuse(self, compiled: CompiledRule, reason: str) -> None:
        """Notes why a rule on the whole model was rolled back."""
        self._block(compiled, None, reason, error=True)

    def _ready_for(self, compiled: CompiledRule, root: gs.Node) -> tuple[Program, Registers] | None:
        """A rule's program, and its registers for all roots of one scope; None if the rule is not meant for the scope."""
        scope: Scope = root._scope
        version, found = scope.opsets.get(""), self._ready.get((compiled, scope))
        if found is None or found[0] != version:
            program = compiled.program if self._inside(compiled, root) else None
            ready = None if program is None else (program, program.registers(self._parameter_values(compiled, root)))
            found = self._ready[compiled, scope] = version, ready
        return found[1]

    def _parameter_values(self, compiled: CompiledRule, root: gs.Node) -> dict[str, Any]:
        owner = self.context.index.scope(root).owner
        values = compiled.parameter_values
        return {**values, "outer": owner} if compiled.inside is not None and owner is not None else values

    def _inside(self, compiled: CompiledRule, root: gs.Node) -> bool:
        scope = self.context.index.scope(root)
        if (version := scope.opsets.get("")) is not None and version not in compiled.opset:
            return False
        wanted = compiled.inside
        if wanted is None:
            return True
        owner = scope.owner
        return (
            owner is not None
            and scope.attr == wanted.attr
            and (owner.op, owner.domain or "") == (wanted.op.name, wanted.op.domain)
        )

    # --- conditions --------------------------------------------------------------------------------------------------------

    def _try(
        self, compiled: CompiledRule, root: gs.Node | None, bound: dict[str, Any], nodes: dict[int, gs.Node], started: float
    ) -> Fired | None:
        names = Bindings(bound, compiled.lets)
        conditions = self._reasons(compiled, root, names, nodes)
        fired = None
        if conditions is not None:
            if not self.rewrites:
                self.would_fire = True
                return None
            for tracer in self._tracers:
                tracer.rewrites(compiled, names, nodes)
            fired = self._rewrite(compiled, root, names, nodes, conditions, started)
            for tracer in self._tracers:
                tracer.has_rewritten(compiled, root, fired)
        if fired is None:
            for tracer in self._tracers:
                tracer.declines(compiled, names)
        return fired

    def _reasons(
        self, compiled: CompiledRule, root: gs.Node | None, names: Bindings, nodes: dict[int, gs.Node]
    ) -> tuple[Condition, ...] | None:
        """The conditions that let the rule fire, for the log; None if something keeps it from firing."""
        if compiled.private and not self._private(compiled, names.bound, nodes):
            return None
        for tracer in self._tracers:
            tracer.matches(compiled)
        if not self._all_hold(compiled, root, names):
            return None
        if compiled.runtime and not self._concerns_runtime(compiled, root, nodes):
            return None
        return tuple(Condition(text, "true") for _, text in compiled.wheres) if self.detail else ()

    def _all_hold(self, compiled: CompiledRule, root: gs.Node | None, names: Bindings) -> bool:
        """Whether all conditions are true. The first condition that fails, or else the first that is unknown, blocks the rule,
        unless one is false.
        """
        doubt: tuple[ast.Where, str, str] | None = None
        failed: tuple[ast.Where, str] | None = None
        for where, _ in compiled.wheres:
            mark = len(self.context.doubts)
            try:
                answer = holds(where.condition, names, self.context)
            except (Failure, *MISTAKES) as failure:
                failed = failed or (where, _words(failure))
                continue
            for tracer in self._tracers:
                tracer.answers(compiled, where, answer)
            if answer is False:
                del self.context.doubts[:]
                return False
            if answer is UNKNOWN and doubt is None:
                reason, remedy = (self.context.doubts[mark:] or [("the condition is unknown", "")])[0]
                doubt = where, reason, remedy
        if failed is not None:
            self._block(compiled, root, failed[1], where=failed[0], error=True)
        elif doubt is not None:
            self._block(compiled, root, doubt[1], doubt[2], where=doubt[0])
        return failed is None and doubt is None

    def _concerns_runtime(self, compiled: CompiledRule, root: gs.Node | None, nodes: Mapping[int, gs.Node]) -> bool:
        """Whether the rule's runtime was chosen, or the installed version of it rejects one of the matched nodes."""
        if compiled.code in self.chosen:
            return True
        answer = self.context.refused(nodes.values())
        if answer is UNKNOWN:
            self._block(compiled, root, *self.context.doubts[-1])
        if answer is not True:
            for tracer in self._tracers:
                tracer.has_kernel(compiled)
        return answer is True

    def _private(self, compiled: CompiledRule, bound: Mapping[str, Any], nodes: Mapping[int, gs.Node]) -> bool:
        """Whether no tensor that the rule calls private is read outside of the match."""
        matched = {id(node) for node in nodes.values()}
        for name in compiled.private:
            found = bound[name]
            for tensor in found if isinstance(found, list) else [found]:
                self.context.count(tensor, len(matched))
                if self.context.index.output_of(tensor) or not self.context.index.users(tensor).keys() <= matched:
                    for tracer in self._tracers:
                        tracer.is_read_outside(compiled, name, tensor)
                    return False
        return True

    # --- rewriting ---------------------------------------------------------------------------------------------------------

    def _rewrite(
        self,
        compiled: CompiledRule,
        root: gs.Node | None,
        names: Bindings,
        nodes: dict[int, gs.Node],
        conditions: tuple[Condition, ...],
        started: float,
    ) -> Fired | None:
        index = self.context.index
        scope, op = (index.scopes[0], "") if root is None else (root._scope, root.op)
        block = compiled.only or compiled.block(scope.opsets.get("", 1))
        if block is None:
            return None
        edits, mark = Edits(index), index.mark_names()
        matched = tuple(map(node_name, nodes.values()))
        try:
            apply_block(Rewriting(self.context, edits, names, root, nodes, scope), block)
            if not edits.any:
                raise Refused("it would change nothing")
        except Refused as refused:
            self._take_back(edits, mark)
            self._block(compiled, root, *refused.args)
            return None
        except (Failure, RewriterError, *MISTAKES) as failure:
            self._take_back(edits, mark)
            self._block(compiled, root, _words(failure), error=True)
            return None
        return Fired(compiled, root, nodes, edits, conditions, perf_counter() - started, scope, matched, op, mark)

    def take_back(self, fired: Fired) -> None:
        """Undoes a rewrite that is the last one, with the names that it took."""
        self._take_back(fired.edits, fired.mark)

    def _take_back(self, edits: Edits, mark: tuple[int, int]) -> None:
        edits.rollback()
        self.context.index.give_back_names(mark)

    def _block(
        self,
        compiled: CompiledRule,
        root: gs.Node | None,
        reason: str,
        remedy: str = "",
        *,
        where: ast.Where | None = None,
        error: bool = False,
    ) -> None:
        rule, index = compiled.rule, self.context.index
        line = 0 if where is None else rule.line(where.span)
        place = index.scopes[0].path if root is None else index.scope(root).path
        name = "" if root is None else node_name(root)
        self.blocked[compiled.code, id(root)] = Blocked(
            rule.code, rule.title, place, name, root.op if root is not None else "", reason, line, remedy, error
        )
        for tracer in self._tracers:
            tracer.blocks(compiled, reason, remedy, where, error=error)


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, Failure | RewriterError) else f"{type(error).__name__}: {error}"
