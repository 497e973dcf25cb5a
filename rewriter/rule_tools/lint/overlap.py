"""Pairs of rules that match the same place: the same rule twice, one that never gets its turn, two without an order.

All rules of a phase compete at a root; `before` decides, then how specific they are. The author must decide the remaining
ties. Roots are visited from inputs to outputs, so a rule that matches an inner node of another rule's pattern comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, combinations

from rewriter.core.language import ast
from rewriter.core.language.ast import walk
from rewriter.core.language.claims import TermRef
from rewriter.core.language.header import Clause, exactly
from rewriter.core.record import record
from rewriter.rule_tools.lint.outcome import RewriteResult, consumes_root, independent, outcomes
from rewriter.rule_tools.lint.overlay import OpKey, RuleSubject, compatible, implies, may_lie, overlays, subject

# The models that two rules are meant for: exporters, versions, opsets, the framework's own file.


def meet(one: RuleSubject, other: RuleSubject) -> bool:
    """Whether some model is meant for both."""
    common = one.guards.keys() & other.guards.keys()
    if any(one.guards[key].meet(other.guards[key]).is_empty for key in common):
        return False
    return not (one.versions and other.versions) or _satisfiable((*one.versions, *other.versions))


def reaches_all(one: RuleSubject, other: RuleSubject) -> bool:
    """Whether every run that has the other rule on a model also has the first one on it."""
    mine, theirs = one.rule, other.rule
    if not all(key in other.guards and other.guards[key].within(domain) for key, domain in one.guards.items()):
        return False
    if one.versions and one.versions != other.versions:
        return False
    if mine.targets:  # for any of the other's targets, this one runs as well
        return mine.header.on_target and bool(theirs.targets) and set(theirs.targets) <= set(mine.targets)
    return mine.default or not theirs.default


def ever_holds(one: RuleSubject) -> bool:
    """Whether some version of the exporter satisfies `versions`."""
    return _satisfiable(one.versions)


def _satisfiable(clauses: tuple[Clause, ...]) -> bool:
    """Whether a version satisfies all clauses; tries 0, the versions that they name, and the next ones (starts of ranges)."""
    tried: set[tuple[int, ...]] = {(0,)}
    for clause in clauses:
        release = clause.release
        tried |= {release, (*release, 0, 0, 1), (*release[:-1], release[-1] + 1)}
    return any(all(clause.holds(exactly(version)) for clause in clauses) for version in tried)


# Rules that match the results of rules: one that matches its own result, several that undo each other.
#
# An edge leads from a rule to another that matches the result of the first. It is certain if the pattern lies wholly over
# the result and its conditions follow from it, and possible if the rest of the model would have to help. Going round along
# edges ends only if a count falls: a count of nodes that no rule of the circle raises.

Edges = Mapping[str, set[str]]
Groups = Mapping[OpKey | None, list[RuleSubject]]


@record(frozen=True, slots=True)
class Circle:
    """Rules in the order in which they feed each other, the last feeding the first; one rule alone matches its own result."""

    subjects: tuple[RuleSubject, ...]
    certain: bool


def circles(subjects: Sequence[RuleSubject], possible: bool = False) -> Iterator[Circle]:
    """Every circle in which no count falls; with `possible`, also circles that the rest of a model would have to close."""
    known = {s.names.side: s for s in subjects if s.picture is not None}
    results = {side: outcomes(subject(s.rule, f"{side}'")) for side, s in known.items()}
    certain = _edges(known, results, certain=True)
    known_rings: set[frozenset[str]] = set()
    for ring in _endless(certain, results):
        known_rings.add(frozenset(ring))
        yield Circle(tuple(known[code] for code in ring), True)
    if not possible:
        return
    for ring in _endless(_edges(known, results, certain=False), results):
        if frozenset(ring) not in known_rings:
            yield Circle(tuple(known[code] for code in ring), False)


def _edges(known: Mapping[str, RuleSubject], results: Mapping[str, list[RewriteResult]], certain: bool) -> dict[str, set[str]]:
    groups = _by_operator(known.values(), roots=certain)
    edges: dict[str, set[str]] = {code: set() for code in known}
    for code, code_results in results.items():
        for outcome in code_results:
            anchors = _anchors(outcome, certain)
            ops = {op for ref in anchors for op in outcome.picture.nodes[ref].ops or ()}
            readers = {one.names.side: one for op in (None, *sorted(ops)) for one in groups.get(op, ())}
            for side, reader in readers.items():
                ways = [] if side in edges[code] else _ways(outcome, anchors, reader, certain)
                if not ways or not meet(known[code], reader) or _once(known[code], reader):
                    continue
                if any(_feeds(outcome, reader, at, place, certain) for at, place in ways):
                    edges[code].add(side)
    return edges


def _once(maker: RuleSubject, reader: RuleSubject) -> bool:
    """Whether one of two rules fires only once in all, or only once at a node and never at a node that it made itself."""
    times = {maker.rule.header.once, reader.rule.header.once}
    return "model" in times or ("node" in times and maker.rule.code == reader.rule.code)


def _anchors(outcome: RewriteResult, certain: bool) -> list[TermRef]:
    """Nodes of the result where a pattern may match: its root anywhere, or any part of it on a new node."""
    return sorted(outcome.picture.nodes if certain else outcome.touched, key=repr)


def _ways(outcome: RewriteResult, anchors: list[TermRef], reader: RuleSubject, certain: bool) -> list[tuple[TermRef, TermRef]]:
    """The nodes of a pattern and of a result that may be one, as far as the two nodes show it."""
    pattern, result = reader.graph, outcome.picture
    if certain and (pattern.private or len(pattern.nodes) > len(result.nodes)):
        return []
    places = [(ref, result.nodes[ref]) for ref in (outcome.touched if certain and len(pattern.nodes) == 1 else anchors)]
    starts = [(pattern.root, pattern.nodes[pattern.root])] if certain else list(pattern.nodes.items())
    return [(at, place) for at, mine in starts for place, theirs in places if may_lie(mine, theirs, certain)]


def _feeds(outcome: RewriteResult, reader: RuleSubject, at: TermRef, place: TermRef, certain: bool) -> bool:
    pattern, result = reader.graph, outcome.picture
    for overlay in overlays(pattern, at, result, place, covering=certain):
        if outcome.touched.isdisjoint(overlay.nodes.values()):
            continue
        if implies(pattern, result, overlay, some=True) if certain else compatible(pattern, result, overlay):
            return True
    return False


# --- circles and what falls along them -----------------------------------------------------------------------------------


def _endless(edges: Edges, results: Mapping[str, list[RewriteResult]]) -> Iterator[list[str]]:
    waiting = _components(edges)
    while waiting:
        part = waiting.pop()
        inner = {code: edges[code] & part for code in part}
        falling = _falling(part, results)
        if not falling:
            yield _ring(inner)
            continue
        # A rule along which a count falls can fire only finitely often: the other rules must terminate without it.
        waiting.extend(_components({code: set() if code in falling else inner[code] for code in part}))


def _falling(part: set[str], results: Mapping[str, list[RewriteResult]]) -> set[str]:
    """The rules along which a count falls that no rule of the part raises; empty if there is no such count."""
    changes = {code: [outcome.change for outcome in results[code]] for code in part}
    measures: set[frozenset[OpKey] | None] = {None}
    for code in part:
        for change in changes[code]:
            if change is None:
                return set()
            measures |= {frozenset({op}) for gone in change.removed for op in gone} | set(filter(None, change.removed))
    for measure in measures:
        most = {code: max((c.of(measure) for c in changes[code] if c is not None), default=0) for code in part}
        falling = {code for code, more in most.items() if more < 0}
        if falling and max(most.values()) <= 0:
            return falling
    return set()


def _components(edges: Edges) -> list[set[str]]:
    """Sets of rules that all lead to each other; a single rule only if it leads to itself."""
    reach = {code: reachable(code, edges) for code in edges}
    found: list[set[str]] = []
    placed: set[str] = set()
    for code in sorted(edges):
        if code in placed or code not in reach[code]:
            continue
        part = {other for other in reach[code] if code in reach[other]}
        placed |= part
        found.append(part)
    return found


def reachable(start: str, edges: Mapping[str, Iterable[str]]) -> set[str]:
    """All codes that one or several edges lead to."""
    reached: set[str] = set()
    waiting = list(edges[start])
    while waiting:
        code = waiting.pop()
        if code not in reached:
            reached.add(code)
            waiting.extend(edges.get(code, ()))
    return reached


def _ring(edges: Edges) -> list[str]:
    """A shortest path from the first rule of a component back to itself."""
    start = min(edges)
    paths = [[start]]
    seen: set[str] = set()
    for path in paths:
        for code in sorted(edges[path[-1]]):
            if code == start:
                return path
            if code not in seen:
                seen.add(code)
                paths.append([*path, code])
    return sorted(edges)


@record(frozen=True, slots=True)
class Pair:
    """A finding on two rules. `kind` is duplicate, shadowed (the first by the second), overlap or undecided."""

    kind: str
    one: RuleSubject
    other: RuleSubject
    at: ast.Span = ast.NOWHERE


def pairs(subjects: Iterable[RuleSubject]) -> Iterator[Pair]:
    """Every pair with an error, once."""
    drawn = [subject for subject in subjects if subject.picture is not None]
    groups = _by_operator(drawn)
    pairs_of_sides: set[tuple[str, str]] = set()
    for pair in chain(_at_one_root(groups, _Before(drawn)), _inside(drawn, groups)):
        sides = pair.one.names.side, pair.other.names.side
        if pair.at == ast.NOWHERE:
            pairs_of_sides.add(sides)
        if pair.at == ast.NOWHERE or sides not in pairs_of_sides:
            yield pair


def _at_one_root(groups: Groups, order: _Before) -> Iterator[Pair]:
    seen: set[tuple[str, str]] = set()
    for group in groups.values():
        for one, other in combinations(group, 2):
            key = (one.names.side, other.names.side)
            if key in seen or one.rule.code == other.rule.code:
                continue
            seen.add(key)
            if meet(one, other) and (pair := _judge(one, other, order)) is not None:
                yield pair


def _judge(one: RuleSubject, other: RuleSubject, order: _Before) -> Pair | None:
    mine, theirs = one.graph, other.graph
    laid = list(overlays(mine, mine.root, theirs, theirs.root))
    if not laid:
        return None
    more_general, less_general = _covers(one, other, theirs.root), _covers(other, one, mine.root)
    if more_general and less_general and one.phase == other.phase:
        return Pair("duplicate", other, one)
    if more_general and order.first(one, other) and consumes_root(one):
        return Pair("shadowed", other, one)
    if less_general and order.first(other, one) and consumes_root(other):
        return Pair("shadowed", one, other)
    if one.phase != other.phase or one.specificity != other.specificity or order.decides(one, other):
        return None
    sure = [overlay for overlay in laid if compatible(mine, theirs, overlay) and not independent(one, other, overlay)]
    if not sure:
        return None
    return Pair("undecided" if all(overlay.unsure for overlay in sure) else "overlap", one, other)


def _covers(general: RuleSubject, special: RuleSubject, place: TermRef) -> bool:
    """Whether a rule matches in all places where another one does, with its root at a node of the other's pattern."""
    one, other = general.graph, special.graph
    ways = overlays(one, one.root, other, place, covering=True)
    return reaches_all(general, special) and any(implies(one, other, way) for way in ways)


def _inside(drawn: list[RuleSubject], groups: Groups) -> Iterator[Pair]:
    """Rules that always remove an inner node of another rule's pattern first."""
    for victim in drawn:
        for node in victim.graph.nodes.values():
            if node.ref == victim.graph.root or len(node.ops or ()) != 1:
                continue
            op = next(iter(node.ops or ()))
            for eater in groups.get(op, groups[None]):
                apart = eater.rule.code != victim.rule.code and eater.phase <= victim.phase
                if apart and _covers(eater, victim, node.ref) and consumes_root(eater) and not _makes(eater, op):
                    yield Pair("shadowed", victim, eater, node.span)


def _makes(eater: RuleSubject, op: OpKey) -> bool:
    """Whether a rule makes a new node of an operator, perhaps in the same place."""
    return any(isinstance(part, ast.Build) and part.op.name == op[1] for part in walk(eater.rule.ast.rewrites))


def _by_operator(drawn: Iterable[RuleSubject], roots: bool = True) -> Groups:
    """The rules that may match with their root, or with any node, at a node of an operator; under None, at any operator."""
    groups: dict[OpKey | None, list[RuleSubject]] = {None: []}
    for one in drawn:
        nodes = [one.graph.nodes[one.graph.root]] if roots else list(one.graph.nodes.values())
        ops = {op for node in nodes for op in node.ops or ()}
        for op in [None] if any(node.ops is None for node in nodes) else sorted(ops):
            groups.setdefault(op, []).append(one)
    return {op: group if op is None else [*group, *groups[None]] for op, group in groups.items()}


class _Before:
    """The order of two rules, according to `before`, phases and specificity."""

    def __init__(self, subjects: list[RuleSubject]) -> None:
        direct = {subject.rule.code: subject.rule.before for subject in subjects}
        self._later = {code: reachable(code, direct) for code in direct}

    def decides(self, one: RuleSubject, other: RuleSubject) -> bool:
        """Whether `before` leads from one of them to the other."""
        return other.rule.code in self._later[one.rule.code] or one.rule.code in self._later[other.rule.code]

    def first(self, one: RuleSubject, other: RuleSubject) -> bool:
        """Whether the one is always tried before the other."""
        if one.phase != other.phase:
            return one.phase < other.phase
        if self.decides(one, other):
            return other.rule.code in self._later[one.rule.code]
        return one.specificity > other.specificity
