"""Two graphs laid over each other: the ways in which a node of one and a node of the other can be the same node of a model.

Both graphs are known in part only. Where one of them ends (a captured tensor) the other may continue; a tensor that one leaves
free can be any tensor of the other. Laying one over the other also shows whether the first requires only facts that the second
has anyway: then the first `covers` the second, and matches in all places where the second matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from itertools import islice, permutations, takewhile
from math import inf
from typing import Any

from rewriter.core.errors import RewriterError
from rewriter.core.language import ast, schema
from rewriter.core.language.claims import (
    ABSENT_TERM,
    Branch,
    Claim,
    Domain,
    Term,
    TermNames,
    TermRef,
    alternatives,
    compare,
    consistent,
    equals,
    facts_of,
    fold,
    implied,
    is_constant,
    normal,
    replace_parts,
)
from rewriter.core.language.header import PHASES, Clause, parse_versions
from rewriter.core.language.pattern import (
    ANY_OPERATOR,
    ORDERED_ABOVE,
    Made,
    Pattern,
    PatternNode,
    compile_pattern,
    specificity,
)
from rewriter.core.language.rules import Rule
from rewriter.core.language.schema import DTYPES
from rewriter.core.record import field, record

# A graph as far as it follows from a rule: the nodes of its pattern and their facts, ready to be laid over another one.

OpKey = tuple[str, str]
Facts = tuple[dict[Term, Domain], list[Claim]]
"""Terms with their remaining possible values, and literals that are true unless a fact is unknown."""


@record(slots=True)
class RuleNode:
    """One node. `ops` None: any operator; `open`: it may have more operands; `ordered`: they have the order of `inputs`.

    `least` and `most`: numbers of operands that it may have; `used`: how many of its outputs nodes of the graph read.
    """

    ref: TermRef
    ops: frozenset[OpKey] | None
    inputs: tuple[TermRef | Term, ...]
    open: bool = False
    ordered: bool = False
    outputs: int = 1
    more_outputs: bool = False
    span: ast.Span = ast.NOWHERE
    least: int = 0
    most: float = inf
    used: int = 0

    def open_up(self) -> None:
        """Forgets the operands: it may have any."""
        self.inputs, self.open = (), True


@record(slots=True)
class RuleGraph:
    """Nodes and facts. `facts` are always true, as is one of `branches`. `constants` and `optional` are refs of operands.

    `resolve` expresses a term of a new node by matched nodes; pictures of patterns leave terms as they are.
    `branch_facts`: the facts of `facts` and each branch together, once computed.
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
    branch_facts: list[Facts] | None = None


@record(slots=True)
class RuleSubject:
    """One rule of the set with the facts that the analysis reads repeatedly. `picture` None: it matches the interface.

    `guards`: the models, and the places in them, that it is meant for; a missing guard allows all.
    """

    rule: Rule
    specificity: int
    reach: frozenset[int]
    guards: Mapping[str, Domain]
    versions: tuple[Clause, ...]
    phase: int
    names: TermNames
    pattern: Pattern | None
    picture: RuleGraph | None

    @property
    def graph(self) -> RuleGraph:
        """The picture of a rule that has one."""
        assert self.picture is not None
        return self.picture


def subject(rule: Rule, side: str) -> RuleSubject:
    """The rule with its picture; `side` distinguishes it from others, and from itself."""
    reach = frozenset(v for v in range(1, schema.latest_opset() + 1) if v in rule.opset)
    names = TermNames(side, lets={let.name: let.value for let in rule.ast.lets})
    pattern = None if rule.ast.match.graph else _pattern(rule)
    guards = {"opset": Domain(only=reach), **dict(_guards(rule))}
    phase = PHASES.index(rule.phase)
    found = RuleSubject(rule, specificity(rule.ast), reach, guards, _versions(rule), phase, names, pattern, None)
    if pattern is not None:
        found.picture = _RuleGraphBuilder(found, pattern).picture()
    return found


def _guards(rule: Rule) -> Iterator[tuple[str, Domain]]:
    low, high = (None if end is None else (end, False) for end in (rule.ir.first, rule.ir.last))
    if low or high:
        yield "ir_version", Domain(low=low, high=high)
    if rule.exporters:
        yield "exporter", Domain(only=frozenset(rule.exporters))
    if rule.needs_source:
        yield "source", Domain(only=frozenset({True}))
    if (inside := rule.ast.match.inside) is not None:
        yield "inside", Domain(only=frozenset({(inside.op.name, inside.attr)}))


def _versions(rule: Rule) -> tuple[Clause, ...]:
    try:
        return parse_versions(rule.versions or "")
    except RewriterError:
        return ()


def _pattern(rule: Rule) -> Pattern | None:
    """Parameters that name operators have their defaults; a rule that cannot run without a setting has no picture."""
    defaults = {p.name: p.default.value for p in rule.ast.params if isinstance(p.default, ast.Literal)}
    try:
        return compile_pattern(rule.ast.match, defaults)
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
            self._equal(("attr", ref, attr.name), self._names.term(attr.value))
        count_ports(nodes, self._optional)
        private_refs = [self._names.known.get(name) for private in self._rule.privates for name in private.names]
        return RuleGraph(
            self._side,
            nodes,
            TermRef("node", self._side, self._pattern.root),
            self._facts,
            alternatives((where.condition for where in self._rule.wheres), self._names),
            self._constants,
            self._optional,
            {ref for ref in private_refs if isinstance(ref, TermRef)},
        )

    def _ref(self, node: PatternNode) -> TermRef:
        return TermRef("node", self._side, node.number)

    def _declare(self, node: PatternNode) -> None:
        """Labels and outputs, so that every line may mention them."""
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
        self._facts.append(equals(("is_const", ref), True))
        self._equal(("content", ref), value)

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
        """The one value that the absent attribute means in every opset that the rule reaches, or None."""
        found = {default(domain, op, version, name) for domain, op in node.ops for version in self._reach}
        return found.pop() if len(found) == 1 else None

    def _equal(self, term: Term, value: Term) -> None:
        self._facts.append(equals(term, value) if is_constant(value) else compare(term, "=", value))


def default(domain: str, op: str, version: int, name: str) -> Term:
    """The declared default of an attribute as a term, or None."""
    value = schema.effective_default(op, domain, version, name)
    return ("list", *value) if isinstance(value, list) else value


def count_ports(nodes: Mapping[TermRef, RuleNode], optional: Set[TermRef]) -> None:
    """Notes in the nodes of a graph how many operands they may have, and how many of their outputs are used."""
    parts: dict[TermRef | Term, int] = {}
    for ref in (ref for node in nodes.values() for ref in node.inputs if isinstance(ref, TermRef) and ref.kind == "made"):
        maker = TermRef("node", ref.side, ref.at)
        parts[maker] = max(parts.get(maker, 0), ref.part + 1)
    for node in nodes.values():
        placed = list(takewhile(lambda ref: not _is_run(ref), node.inputs))
        there = [position for position, ref in enumerate(placed, 1) if not absent(ref)]
        node.least = max((position for position in there if placed[position - 1] not in optional), default=0)
        is_open = node.open or len(placed) < len(node.inputs)
        node.most = _most_operands(node.ops, len(placed)) if is_open else max(there, default=0)
        node.used = parts.get(node.ref, 0)


def _most_operands(ops: frozenset[OpKey] | None, least: int) -> float:
    """The largest number of operands that one of the operators takes in any version."""
    versions = [op for domain, name in ops or () for op in schema.history(name, domain)]
    return max([least, *(inf if op.max_inputs is None else op.max_inputs for op in versions)]) if versions else inf


def absent(ref: TermRef | Term) -> bool:
    """Whether an operand is an omitted one."""
    return bool(ref == ABSENT_TERM)


LIMIT = 64
"""Limit for the ways of laying one graph over another."""


@record(slots=True)
class Overlay:
    """One such way. `nodes` and `tensors` lead from refs of the one to refs of the other, `same` between refs of the other.

    `unsure`: it requires, for example, a constant to be the result of a node that folds to one.
    """

    nodes: dict[TermRef, TermRef]
    tensors: dict[TermRef, TermRef | Term]
    same: tuple[tuple[TermRef, TermRef], ...] = ()
    covers: bool = True
    unsure: bool = False

    def copy(self) -> Overlay:
        return Overlay(dict(self.nodes), dict(self.tensors), self.same, self.covers, self.unsure)


def overlays(one: RuleGraph, at: TermRef, other: RuleGraph, place: TermRef, covering: bool = False) -> Iterator[Overlay]:
    """The ways in which node `at` of the one is node `place` of the other, with everything upwards of them.

    With `covering`, only the ways that cover the other: they are few, and soon found.
    """
    if not may_lie(one.nodes[at], other.nodes[place], covering) or (covering and len(one.nodes) > len(other.nodes)):
        return
    for overlay in islice(_Laying(one, other, covering).node(Overlay({}, {}), at, place), LIMIT):
        overlay.covers = overlay.covers and len(overlay.nodes) == len(one.nodes)
        if overlay.covers or not covering:
            yield overlay


def may_lie(mine: RuleNode, theirs: RuleNode, covering: bool = False) -> bool:
    """Whether the two nodes alone allow such a way."""
    return _may_be_one(mine, theirs) and (not covering or _asks_no_more(mine, theirs))


def _may_be_one(mine: RuleNode, theirs: RuleNode) -> bool:
    """Whether one node can have an operator, operands and outputs that satisfy both."""
    if mine.ops is not None and theirs.ops is not None and mine.ops.isdisjoint(theirs.ops):
        return False
    return mine.least <= theirs.most and theirs.least <= mine.most and (mine.more_outputs or theirs.used <= mine.outputs)


def _asks_no_more(mine: RuleNode, theirs: RuleNode) -> bool:
    """Whether each node that satisfies the other also satisfies the one."""
    if mine.ops is not None and (theirs.ops is None or not theirs.ops <= mine.ops):
        return False
    listed = mine.more_outputs or (theirs.outputs <= mine.outputs and not theirs.more_outputs)
    return listed and mine.outputs <= theirs.outputs and mine.least <= theirs.least and theirs.most <= mine.most


def compatible(one: RuleGraph, other: RuleGraph, overlay: Overlay) -> bool:
    """Whether the conditions of both can be true at once."""
    change = renaming(overlay, other.resolve)
    facts = [normal(literal, change) for literal in (*one.facts, *other.facts)]
    if not consistent(facts):
        return False
    mine = [[normal(literal, change) for literal in branch] for branch in one.branches]
    theirs = [[normal(literal, change) for literal in branch] for branch in other.branches]
    theirs = [branch for branch in theirs if consistent([*facts, *branch])]
    return any(consistent([*facts, *branch, *more]) for branch in mine for more in theirs)


def implies(one: RuleGraph, other: RuleGraph, overlay: Overlay, some: bool = False) -> bool:
    """Whether the other's conditions imply the one's conditions; with `some`, in at least one of its alternatives."""
    if not overlay.covers or not _is_alone(one, other, overlay):
        return False
    change = renaming(overlay, other.resolve)
    known = _branch_facts(other, change) if overlay.same else _branch_facts_alone(other)
    changed: dict[int, Claim | bool] = {}  # the same claims are in several branches, most of them fail at the first

    def follows(literal: Claim, facts: Facts) -> bool:
        claim = changed.get(id(literal))
        if claim is None:
            claim = changed[id(literal)] = normal(literal, change)
        return implied(claim, *facts)

    def follow(facts: Facts) -> bool:
        branch_follows = any(all(follows(literal, facts) for literal in branch) for branch in one.branches)
        return branch_follows and all(follows(literal, facts) for literal in one.facts)

    return any(map(follow, known)) if some else bool(known) and all(map(follow, known))


def _is_alone(one: RuleGraph, other: RuleGraph, overlay: Overlay) -> bool:
    """Whether only nodes that the one matches read its private tensors."""
    if not one.private:
        return True
    private = {overlay.tensors.get(ref) for ref in one.private}
    readers = {node.ref for node in other.nodes.values() if not private.isdisjoint(node.inputs)}
    return private <= other.private and readers <= set(overlay.nodes.values())


def _branch_facts_alone(picture: RuleGraph) -> list[Facts]:
    """The facts of a picture if no two of its tensors are one: they are then the same for every overlay."""
    if picture.branch_facts is None:
        picture.branch_facts = _branch_facts(picture, renaming(Overlay({}, {}), picture.resolve))
    return picture.branch_facts


def _branch_facts(picture: RuleGraph, change: Callable[[Term], Term]) -> list[Facts]:
    """The facts of each alternative that can be true, and the claims about things that may be unknown."""
    base = [normal(literal, change) for literal in picture.facts]
    branches = []
    for branch in picture.branches:
        known = [*base, *(normal(literal, change) for literal in branch)]
        if consistent(known):
            branches.append((facts_of(known), [k for k in known if isinstance(k, Claim) and k.maybe]))
    return branches


def renaming(overlay: Overlay, resolve: Callable[[Term], Term]) -> Callable[[Term], Term]:
    """Rewrites terms of the one, and of the other, into terms of the other."""
    table: dict[Term, Term] = {**overlay.nodes, **overlay.tensors}
    same = dict(overlay.same)

    def step(term: Term) -> Term:
        if isinstance(term, TermRef):
            term = table.get(term, term)
            return same.get(term, term)
        return resolve(term) if isinstance(term, tuple) else term

    return lambda term: replace_parts(term, step)


class _Laying:
    def __init__(self, one: RuleGraph, other: RuleGraph, covering: bool) -> None:
        self._one = one
        self._other = other
        self._covering = covering

    def node(self, overlay: Overlay, at: TermRef, place: TermRef) -> Iterator[Overlay]:
        if at in overlay.nodes or place in overlay.nodes.values():
            if overlay.nodes.get(at) == place:
                yield overlay
            return
        mine, theirs = self._one.nodes[at], self._other.nodes[place]
        if not _may_be_one(mine, theirs):
            return
        covers = overlay.covers and _asks_no_more(mine, theirs)
        if self._covering and not covers:
            return
        overlay = overlay.copy()
        overlay.nodes[at] = place
        overlay.covers = covers
        for part in range(max(mine.outputs, theirs.outputs)):
            overlay.tensors[TermRef("made", at.side, at.at, part)] = TermRef("made", place.side, place.at, part)
        orders = _orders(mine, theirs)
        overlay.covers = overlay.covers and not (mine.ordered and len(orders) > 1)
        for order in orders:
            yield from self._operands(overlay.copy(), mine, theirs, order, 0)

    def _operands(
        self, overlay: Overlay, mine: RuleNode, theirs: RuleNode, order: Sequence[TermRef | Term], position: int
    ) -> Iterator[Overlay]:
        """Operands from a position on; operands after a run are not laid over anything."""
        if self._covering and not overlay.covers:
            return
        one = order[position] if position < len(order) else None
        beyond = TermRef("open", theirs.ref.side, theirs.ref.at, position) if position < theirs.most else ABSENT_TERM
        other = theirs.inputs[position] if position < len(theirs.inputs) else beyond
        if one is None or _is_run(one) or _is_run(other):
            behind = _is_run(one) and (position < len(order) - 1 or mine.open)
            overlay.covers = overlay.covers and not behind
            yield overlay
            return
        for following in self._operand(overlay, one, other):
            yield from self._operands(following, mine, theirs, order, position + 1)

    def _operand(self, overlay: Overlay, one: TermRef, other: TermRef | Term) -> Iterator[Overlay]:
        if absent(other):
            if one in self._one.optional and self._bind(overlay, one, other):
                yield overlay
        elif one.kind == other.kind == "made":
            maker = TermRef("node", other.side, other.at)
            if maker not in self._other.nodes:  # its rewrite makes this operand in some other way
                overlay.covers, overlay.unsure = False, True
                yield overlay
            elif other.part == one.part:
                yield from self.node(overlay, TermRef("node", one.side, one.at), maker)
        else:
            folds = other.kind == "made" and one in self._one.constants
            folds = folds or (one.kind == "made" and other in self._other.constants)
            asks_more = folds or one.kind == "made" or (other in self._other.optional and one not in self._one.optional)
            overlay.unsure, overlay.covers = overlay.unsure or folds, overlay.covers and not asks_more
            if self._bind(overlay, one, other):
                yield overlay

    def _bind(self, overlay: Overlay, one: TermRef, other: TermRef | Term) -> bool:
        """Makes a tensor of the one this tensor of the other; if it already was another one, the two must be the same."""
        found = overlay.tensors.setdefault(one, other)
        if found == other:
            return True
        if absent(found) or absent(other) or (found.kind == "made" and other.kind == "made"):
            return False
        overlay.covers = False
        overlay.same = (*overlay.same, (other, found))
        return True


def _orders(mine: RuleNode, theirs: RuleNode) -> Sequence[Sequence[TermRef | Term]]:
    """The orders in which the operands of the one may be the other's."""
    several = 1 < len(mine.inputs) <= ORDERED_ABOVE and not any(map(_is_run, mine.inputs))
    if not several or (mine.ordered and theirs.ordered):
        return (mine.inputs,)
    ops = theirs.ops if mine.ops is None else mine.ops if theirs.ops is None else mine.ops & theirs.ops
    swaps = any(schema.is_commutative(op, domain) for domain, op in ops or ())
    return tuple(permutations(mine.inputs)) if swaps else (mine.inputs,)


def _is_run(ref: TermRef | Term) -> bool:
    return isinstance(ref, TermRef) and ref.kind == "run"
