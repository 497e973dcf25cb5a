"""Rules made ready for a run: parameters filled in, patterns compiled, sorted by how specific they are, and found by root
operator.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import is_
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.rule_values import DType
from rewriter.core.errors import RewriterError
from rewriter.core.graph.gs_lists import reading
from rewriter.core.graph.index import GraphIndex
from rewriter.core.language import ast
from rewriter.core.language.pattern import ANY_OPERATOR, Pattern, compile_pattern, specificity
from rewriter.core.language.rules import Rule, RuleSet, with_operators
from rewriter.core.language.schema import DTYPES, normal
from rewriter.core.matching.pattern_program import EarlyReject, Program
from rewriter.core.matching.requirements import Inventory, Needs, needs
from rewriter.core.record import field, record
from rewriter.core.rewriting.rewrite import Block

OpKey = tuple[str, str]
Path = tuple[tuple[str, frozenset[OpKey]], ...]

PHASES = ("interface", "repair", "canonical", "optimize", "cleanup")


class CompiledRule:
    """One rule of a run.

    Attributes:
        pattern: None for `match graph`.
        parameter_values: values of the rule's parameters.
        inside, private, wheres: of the rule: the places of matches, names of its private tensors, its conditions with their
            texts.
        blocks: the compiled rewrite blocks; `only` is the block for all opsets, if there is no other.
        title, kind, phase, opset, runtime, once: of the rule.
    """

    def __init__(self, rule: Rule, pattern: Pattern | None, parameter_values: dict[str, Any]) -> None:
        tree = rule.ast
        self.rule, self.pattern, self.parameter_values = rule, pattern, parameter_values
        self.lets = {let.name: let.value for let in tree.lets}
        self.code, self.title, self.opset, self.once = rule.code, rule.title, rule.opset, rule.header.once
        self.kind, self.phase, self.runtime = rule.kind.name, rule.phase, bool(rule.runtimes)
        self.inside = tree.match.inside
        self.private = tuple(name for private in tree.privates for name in private.names)
        self.wheres = tuple((where, rule.words(where.condition.span)) for where in tree.wheres)
        self.blocks = tuple(Block(block) for block in tree.rewrites)
        self.only = self.blocks[0] if len(self.blocks) == 1 and self.blocks[0].opset is None else None

    def block(self, version: int) -> Block | None:
        """The rewrite block for a model of this opset."""
        for block in self.blocks:
            if block.opset is None or version in block.opset:
                return block
        return None

    @cached_property
    def early(self) -> EarlyReject:
        """The conditions on the root of the pattern."""
        assert self.pattern is not None
        return EarlyReject(self.pattern)

    @cached_property
    def program(self) -> Program:
        """The pattern, compiled when the rule is first tried at a node."""
        assert self.pattern is not None
        outer = () if self.inside is None else ("outer",)
        return Program(self.pattern, (*self.parameter_values, *outer), self.lets)

    @cached_property
    def specificity(self) -> int:
        """How much the rule requires; computed when it is first compared with other rules."""
        return specificity(self.rule.ast)


# The rules that may match at a node, by its view: the number of its operands, and their makers.
#
# At most nodes with a rule's root operator, the rule does not match for one of these reasons. Few views differ. So the rules
# that may match at a view are found once, by checking each rule, and kept. Most nodes then cost one look into a dictionary,
# however many rules there are. A view without rules need not be watched: it changes only with nodes that the worklist follows
# anyway.

View = tuple[int, int, tuple[str | None, ...]]
"""Number of operands, the same without trailing omitted ones, and the operator and domain of each maker, one by one."""

MOST_VIEWS = 1 << 14  # that are kept for one operator
_NOBODY = (None, None)


class Roots:
    """The rules of one phase that may have a certain operator as their root, the best ones first."""

    def __init__(self) -> None:
        self._rules: list[CompiledRule] = []
        self._known: dict[View, tuple[CompiledRule, ...]] = {}
        self._positions: int | None = 0  # of operands whose makers matter; None for all
        self._makers: frozenset[str] | None = frozenset()  # one of these makes an operand wherever a rule matches, if not None

    def __iter__(self) -> Iterator[CompiledRule]:
        return iter(self._rules)

    def add(self, rule: CompiledRule) -> None:
        """Adds a rule behind the others."""
        self._rules.append(rule)
        makers = rule.early.makers
        self._makers = self._makers | {op for _, op in makers[0][1]} if makers and self._makers is not None else None
        for position, _ in makers:
            if position is None or self._positions is None:
                self._positions = None
            else:
                self._positions = max(self._positions, position + 1)

    def at(self, node: gs.Node, index: GraphIndex) -> tuple[CompiledRule, ...]:
        """The rules that may match at a node."""
        view = self._view(node, index.producer)
        found = self._known.get(view)
        return self._find(view) if found is None else found

    def candidates(self, nodes: Iterable[gs.Node], index: GraphIndex) -> list[gs.Node]:
        """The nodes, among many, at which `at` finds a rule."""
        known, producer, view_of = self._known, index.producer, self._view
        found = []
        if self._makers is not None:
            nodes = reading(nodes, self._makers)
        for node in nodes:
            view = view_of(node, producer)
            rules = known.get(view)
            if rules or (rules is None and self._find(view)):
                found.append(node)
        return found

    def _view(self, node: gs.Node, producer: Callable[[gs.Tensor], gs.Node | None]) -> View:
        inputs = node.inputs
        count = used = len(inputs)
        while used and not inputs[used - 1].name:
            used -= 1
        makers: tuple[str | None, ...] = ()
        if (depth := self._positions) != 0:
            for tensor in inputs[:depth]:
                maker = producer(tensor)
                makers += _NOBODY if maker is None else (maker.op, maker.domain)
        return count, used, makers

    def _find(self, view: View) -> tuple[CompiledRule, ...]:
        """The rules for a view, from the cache if possible."""
        count, used, written = view
        makers = [
            None if op is None else (normal(domain or ""), op) for op, domain in zip(written[::2], written[1::2], strict=True)
        ]
        if len(self._known) >= MOST_VIEWS:
            self._known.clear()
        found = self._known[view] = tuple(rule for rule in self._rules if rule.early.allows(count, used, makers))
        return found


@record(slots=True)
class PhasePlan:
    """The rules of one phase: by the operator of their root, and the ways back from a changed node to roots that may see it.

    Attributes:
        any_root, paths_from_any: rules whose root may be of any operator, and ways back from a node of any.
    """

    name: str
    by_root: dict[OpKey, Roots] = field(default_factory=dict)
    any_root: list[CompiledRule] = field(default_factory=list)
    on_graph: list[CompiledRule] = field(default_factory=list)
    paths_by_operator: dict[OpKey, dict[Path, None]] = field(default_factory=dict)
    paths_from_any: dict[Path, None] = field(default_factory=dict)
    _back: dict[OpKey, tuple[Path, ...]] = field(default_factory=dict)

    def ways_back(self, op: OpKey) -> tuple[Path, ...]:
        """The ways back from a changed node of an operator."""
        found = self._back.get(op)
        if found is None:
            found = self._back[op] = (*self.paths_by_operator.get(op, ()), *self.paths_from_any)
        return found

    def roots(self, op: OpKey) -> Roots | None:
        """The rules whose root may be of an operator; None if there are none."""
        found = self.by_root.get(op)
        if found is None and self.any_root:
            found = self.by_root[op] = Roots()
            for compiled in self.any_root:
                found.add(compiled)
        return found


def parameters(rule: Rule, settings: Mapping[tuple[str, str], Any]) -> dict[str, Any]:
    """Values of a rule's parameters. Raises RewriterError for one that has neither a setting nor a default."""
    values: dict[str, Any] = {}
    for param in rule.ast.params:
        value = settings.get((rule.code, param.name))
        if value is None:
            if param.default is None:
                raise RewriterError(f"rule {rule.code} needs --set {rule.code}.{param.name}=... ({param.type})")
            value = default_value(param.default)
        values[param.name] = value
    return values


def default_value(expr: ast.Expr) -> Any:
    """A parameter's default, which is a literal, an element type, a negative number or a list of these."""
    if isinstance(expr, ast.Literal):
        return expr.value
    if isinstance(expr, ast.Name) and expr.id in DTYPES:
        return DType(DTYPES[expr.id])
    if isinstance(expr, ast.Unary) and isinstance(expr.operand, ast.Literal) and isinstance(expr.operand.value, int | float):
        return -expr.operand.value
    if isinstance(expr, ast.ListOf):
        return [default_value(item) for item in expr.items]
    raise RewriterError("a parameter's default must be a literal")


def compile_rule(rule: Rule, settings: Mapping[tuple[str, str], Any]) -> CompiledRule:
    """Raises RewriterError for a missing parameter or a pattern that is too large."""
    parameter_values = parameters(rule, settings)
    pattern = None if rule.ast.match.graph else compile_pattern(rule.ast.match, parameter_values)
    return CompiledRule(rule, pattern, parameter_values)


def plan(rules: Iterable[CompiledRule]) -> list[PhasePlan]:
    """One plan a phase that has rules, in the order of the phases."""
    phases = {name: PhasePlan(name) for name in PHASES}
    for compiled in _ranked(list(rules)):
        phase = phases[compiled.rule.phase]
        if compiled.pattern is None:
            phase.on_graph.append(compiled)
            continue
        pattern = compiled.pattern
        if pattern.nodes[pattern.root].ops is ANY_OPERATOR:
            for roots in phase.by_root.values():
                roots.add(compiled)
            phase.any_root.append(compiled)
        for op in sorted(pattern.nodes[pattern.root].ops):  # roots in the same place are tried in this order
            if phase.roots(op) is None:
                phase.by_root[op] = Roots()
            phase.by_root[op].add(compiled)
        for number, path in pattern.paths:
            if pattern.nodes[number].ops is ANY_OPERATOR:
                phase.paths_from_any[tuple(path)] = None
            for op in pattern.nodes[number].ops:
                phase.paths_by_operator.setdefault(op, {})[tuple(path)] = None
    return [phase for phase in phases.values() if phase.by_root or phase.any_root or phase.on_graph]


def _ranked(rules: list[CompiledRule]) -> list[CompiledRule]:
    """`before` first, then the more specific rule, then by code; `before` in a circle is left to the specificity."""
    order = sorted(rules, key=lambda r: (-r.specificity, r.code))
    if not any(compiled.rule.before for compiled in order):
        return order
    patterns = Counter(compiled.code for compiled in order)
    ranked: list[CompiledRule] = []
    placed: set[str] = set()  # codes of rules whose patterns all have their place
    blockers: dict[str, set[str]] = {code: set() for code in patterns}
    for compiled in order:
        for later in compiled.rule.before:
            if later in blockers:
                blockers[later].add(compiled.code)
    waiting = list(order)
    while waiting:
        free = next((r for r in waiting if blockers[r.code] <= placed), waiting[0])
        waiting.remove(free)
        ranked.append(free)
        patterns[free.code] -= 1
        if not patterns[free.code]:
            placed.add(free.code)
    return ranked


# Rules compiled once for all models of a call.
#
# The program of a rule and its requirements follow from the rule and the settings alone. Only the choice of rules that can fire
# depends on the model. With many small models, compiling rules anew for each model would take most of the time.

MOST_SETS = 4
"""Rule sets that are kept: a call has one, and further ones without a rule that did harm."""

MOST_PLANS = 512
"""Selections of one rule set whose plans are kept; models of one kind share one."""


class Prepared:
    """The rules of one set, compiled when a model first needs them."""

    def __init__(self, rules: tuple[Rule, ...], settings: Mapping[tuple[str, str], Any]) -> None:
        self.rules = rules
        self.signature = _signature(settings)
        self._settings = dict(settings)
        self._ready: dict[str, list[tuple[CompiledRule, Needs]]] = {}
        self._plans: dict[tuple[str, ...], list[PhasePlan]] = {}

    def plans(self, suited: Sequence[Rule], inventory: Inventory) -> list[PhasePlan]:
        """The plans of the rules that can match in a model. They are shared. Do not change them.

        Raises:
            RewriterError: one of the rules lacks a parameter, or its pattern is too large.
        """
        waiting = with_operators(suited, inventory.ops)
        found: set[str] = set()
        growing = True
        while growing:  # one rule may make operators that another one needs
            growing, ops = False, inventory.ops
            for rule in waiting:
                fulfilled = [need for _, need in self._rule(rule) if need.are_fulfilled_in(inventory)]
                if fulfilled:
                    for need in fulfilled:
                        grown = need.added(inventory)
                        growing = growing or grown is not inventory
                        inventory = grown
                    found.add(rule.code)
            if growing:
                known = waiting if inventory.ops == ops else with_operators(suited, inventory.ops)
                waiting = [rule for rule in known if rule.code not in found]
        return self.only([rule for rule in suited if rule.code in found])

    def only(self, rules: Sequence[Rule]) -> list[PhasePlan]:
        """The plans of just these rules; errors as for `plans`. They are shared, and not to be changed."""
        codes = tuple(rule.code for rule in rules)
        found = self._plans.get(codes)
        if found is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            found = self._plans[codes] = plan(compiled for rule in rules for compiled, _ in self._rule(rule))
        return found

    def _rule(self, rule: Rule) -> list[tuple[CompiledRule, Needs]]:
        """A rule with each of its patterns."""
        found = self._ready.get(rule.code)
        if found is None:
            ready = [compile_rule(variant, self._settings) for variant in rule.variants]
            found = [(one, needs(one.rule.ast, one.pattern, one.parameter_values)) for one in ready]
            self._ready[rule.code] = found
        return found


_prepared: deque[Prepared] = deque(maxlen=MOST_SETS)


def prepared(rules: RuleSet, settings: Mapping[tuple[str, str], Any]) -> Prepared:
    """The rules of a set, compiled with these settings; the same object for the same rules and settings."""
    signature = _signature(settings)
    for known in _prepared:
        same = known.rules is rules.rules or (len(known.rules) == len(rules.rules) and all(map(is_, known.rules, rules.rules)))
        if same and known.signature == signature:
            return known
    preparation = Prepared(rules.rules, settings)
    _prepared.append(preparation)
    return preparation


def _signature(settings: Mapping[tuple[str, str], Any]) -> str:
    """A key of settings that differs for values that Python takes as equal: 1 and true are different parameters."""
    return repr(sorted((place, repr(value)) for place, value in settings.items()))
