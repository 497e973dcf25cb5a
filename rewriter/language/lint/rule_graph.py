"""A graph as far as a rule knows it: the nodes of its pattern and what holds of them, ready to be laid over another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rewriter.errors import RewriterError
from rewriter.language import ast, schema
from rewriter.language.dtypes import DTYPES
from rewriter.language.header import PHASES
from rewriter.language.lint.implications import Branch, Claim, Domain, alternatives, compare, equals
from rewriter.language.lint.terms import ABSENT, Term, TermNames, TermRef, fold, is_constant
from rewriter.language.pattern import ANY_OPERATOR, Made, Pattern, PatternNode, compile_pattern
from rewriter.language.rule import Rule
from rewriter.language.specificity import specificity
from rewriter.record import field, record

OpKey = tuple[str, str]
Facts = tuple[dict[Term, Domain], list[Claim]]
"""Terms with the values that are left to them, and literals that hold unless something is unknown."""


@record(slots=True)
class RuleNode:
    """One node. `ops` None: any operator; `open`: it may have more operands; `exact`: made by a rewrite, so nothing is open."""

    ref: TermRef
    ops: frozenset[OpKey] | None
    inputs: tuple[TermRef | Term, ...]
    open: bool = False
    ordered: bool = False
    outputs: int = 1
    more_outputs: bool = False
    exact: bool = False
    span: ast.Span = ast.NOWHERE


@record(slots=True)
class RuleGraph:
    """Nodes and facts. `facts` always hold; one of `branches` holds besides. `constants` and `optional` are refs of operands.

    `resolve` says what a term of a new node amounts to; pictures of patterns leave terms as they are.
    `told`: what the facts and each branch say together, once somebody asked.
    """

    side: str
    nodes: dict[TermRef, RuleNode]
    root: TermRef
    facts: list[Claim] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=lambda: [()])
    constants: set[TermRef] = field(default_factory=set)
    optional: set[TermRef] = field(default_factory=set)
    private: set[TermRef] = field(default_factory=set)
    resolve: Callable[[Term], Term] = fold
    told: list[Facts] | None = None


@record(slots=True)
class RuleSubject:
    """One rule of the set with what the analysis asks of it again and again. `picture` None: it matches the interface."""

    rule: Rule
    specificity: int
    reach: frozenset[int]
    phase: int
    names: TermNames
    pattern: Pattern | None
    picture: RuleGraph | None


def subject(rule: Rule, side: str) -> RuleSubject:
    """The rule with its picture; `side` keeps it apart from others, and from itself."""
    reach = frozenset(v for v in range(1, schema.latest_opset() + 1) if v in rule.opset)
    names = TermNames(side, lets={let.name: let.value for let in rule.ast.lets})
    pattern = None if rule.ast.match.graph else _pattern(rule)
    found = RuleSubject(rule, specificity(rule.ast), reach, PHASES.index(rule.phase), names, pattern, None)
    if pattern is not None:
        found.picture = _RuleGraphBuilder(found, pattern).picture()
    return found


def _pattern(rule: Rule) -> Pattern | None:
    """Parameters that name operators stand at their defaults; a rule that cannot run without a setting has no picture."""
    given = {p.name: p.default.value for p in rule.ast.params if isinstance(p.default, ast.Literal)}
    try:
        return compile_pattern(rule.ast.match, given)
    except RewriterError:
        return None


class _RuleGraphBuilder:
    def __init__(self, of: RuleSubject, pattern: Pattern) -> None:
        self._rule = of.rule.ast
        self._side = of.names.side
        self._reach = of.reach
        self._names = of.names
        self._pattern = pattern
        self._facts: list[Claim] = []
        self._late: list[tuple[TermRef, ast.AttrPattern]] = []
        self._constants: set[TermRef] = set()
        self._optional: set[TermRef] = set()

    def picture(self) -> RuleGraph:
        for param in self._rule.params:
            self._names.known[param.name] = ("param", self._side, param.name)
        self._facts.append(Claim(("opset",), Domain(only=self._reach)))
        for pattern_node in self._pattern.nodes:
            self._declare(pattern_node)
        nodes = {self._ref(n): self._node(n) for n in self._pattern.nodes}
        for ref, attr in self._late:
            assert attr.value is not None
            self._attribute(("attr", ref, attr.name), self._names.term(attr.value))
        made = [self._names.known.get(name) for private in self._rule.privates for name in private.names]
        return RuleGraph(
            self._side,
            nodes,
            TermRef("node", self._side, self._pattern.root),
            self._facts,
            alternatives((where.condition for where in self._rule.wheres), self._names),
            self._constants,
            self._optional,
            {ref for ref in made if isinstance(ref, TermRef)},
        )

    def _ref(self, node: PatternNode) -> TermRef:
        return TermRef("node", self._side, node.number)

    def _declare(self, node: PatternNode) -> None:
        """Labels and outputs, so that every line may speak of them."""
        if node.source.label is not None:
            self._names.known[node.source.label] = self._ref(node)
        for position, output in enumerate(node.source.outputs):
            if output.name is not None:
                kind = "run" if output.variadic else "made"
                self._names.known[output.name] = TermRef(kind, self._side, node.number, position)

    def _node(self, node: PatternNode) -> RuleNode:
        source, ref = node.source, self._ref(node)
        if node.ops is not ANY_OPERATOR:
            self._facts.append(Claim(("op", ref), Domain(only=frozenset(op for _, op in node.ops))))
        inputs = tuple(self._operand(node, position, operand) for position, operand in enumerate(node.inputs))
        for attr in source.attrs:
            self._attr_pattern(node, attr)
        listed = [output for output in source.outputs if not output.variadic]
        runs = len(listed) < len(source.outputs)
        return RuleNode(
            ref,
            None if node.ops is ANY_OPERATOR else node.ops,
            inputs,
            source.more_inputs,
            source.ordered or not node.orders,
            max(1, len(listed)),
            source.more_outputs or runs,
            span=source.ops_span,
        )

    def _operand(self, node: PatternNode, position: int, operand: Any) -> TermRef:
        if isinstance(operand, Made):
            return TermRef("run" if operand.run else "made", self._side, operand.node, operand.output)
        if isinstance(operand, ast.Variadic):
            return self._known(operand.name, TermRef("run", self._side, operand.name))
        if isinstance(operand, ast.Capture):
            ref = self._known(operand.name, TermRef("capture", self._side, operand.name))
            self._captured(operand, ref)
            return ref
        ref = TermRef("const" if isinstance(operand, ast.ConstPattern) else "any", self._side, node.number, position)
        if isinstance(operand, ast.ConstPattern):
            self._constants.add(ref)
            self._constant(operand, ref)
        return ref

    def _known(self, name: str, ref: TermRef) -> TermRef:
        found = self._names.known.setdefault(name, ref)
        return found if isinstance(found, TermRef) else ref

    def _captured(self, operand: ast.Capture, ref: TermRef) -> None:
        if operand.const:
            self._constants.add(ref)
            self._facts.append(equals(("is_const", ref), True))
        if operand.optional:
            self._optional.add(ref)
        else:
            self._facts.append(equals(("present", ref), True))
        if operand.type is not None:
            self._typed(operand.type, ref)

    def _typed(self, pattern: ast.TypePattern, ref: TermRef) -> None:
        if pattern.dtype is not None:
            self._facts.append(equals(("dtype", ref), ("element", pattern.dtype)))
        if pattern.dims is None:
            return
        open_ended = Ellipsis in pattern.dims
        least = len(pattern.dims) - open_ended
        rank = ("rank", ref)
        self._facts.append(Claim(rank, Domain(low=(least, False))) if open_ended else equals(rank, least))
        for position, dim in enumerate(pattern.dims):
            if dim is Ellipsis:
                break
            term = ("dim", ref, position)
            if isinstance(dim, int):
                self._facts.append(equals(term, dim))
            elif isinstance(dim, str):
                known = self._names.known.setdefault(dim, term)
                if known != term:
                    self._facts.append(compare(term, "=", known))

    def _constant(self, operand: ast.ConstPattern, ref: TermRef) -> None:
        if operand.dtype is not None:
            self._facts.append(equals(("dtype", ref), ("element", operand.dtype)))
        value = self._names.term(operand.value)
        if isinstance(value, tuple) and value[0] == "list" and len(value) == 2:
            value = value[1]  # a constant of one element is equal to its element
        if is_constant(value):
            self._facts.append(equals(("content", ref), value))

    def _attr_pattern(self, node: PatternNode, attr: ast.AttrPattern) -> None:
        ref = self._ref(node)
        term = ("attr", ref, attr.name)
        if attr.mode != "equals":
            self._facts.append(equals(("has", ref, attr.name), attr.mode == "present"))
            default = self._default(node, attr.name)
            if attr.mode == "absent" and default is not None:
                self._facts.append(equals(term, default))
        elif isinstance(attr.value, ast.Name) and attr.value.id not in DTYPES:
            if self._names.known.setdefault(attr.value.id, term) != term:
                self._late.append((ref, attr))
        elif attr.value is not None:
            self._late.append((ref, attr))

    def _default(self, node: PatternNode, name: str) -> Term:
        """The one value that the absent attribute stands for in every opset that the rule reaches, or None."""
        found = {default(domain, op, version, name) for domain, op in node.ops for version in self._reach}
        return found.pop() if len(found) == 1 else None

    def _attribute(self, term: Term, value: Term) -> None:
        self._facts.append(equals(term, value) if is_constant(value) else compare(term, "=", value))


def default(domain: str, op: str, version: int, name: str) -> Term:
    """The declared default of an attribute as a term, or None."""
    value = schema.effective_default(op, domain, version, name)
    return ("list", *value) if isinstance(value, list) else value


def absent(ref: TermRef | Term) -> bool:
    """Whether an operand is an omitted one."""
    return bool(ref == ABSENT)
