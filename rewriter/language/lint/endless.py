"""Rules that find work in what rules have made: one that fits its own result, several that undo each other.

An edge leads from a rule to another that fits what the first has just made. It is certain when the pattern lies wholly over
the result and its conditions follow from it, possible when the rest of the model would have to help. Going round along edges
ends only if something grows less: a count of nodes that no rule of the circle raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from rewriter.language.lint.outcome import RewriteResult, outcomes
from rewriter.language.lint.overlay import compatible, implies, overlays
from rewriter.language.lint.rule_graph import OpKey, RuleSubject, subject
from rewriter.language.lint.shared_guards import meet
from rewriter.language.lint.terms import TermRef
from rewriter.record import record

Edges = Mapping[str, set[str]]


@record(frozen=True, slots=True)
class Circle:
    """Rules in the order in which they feed each other, the first one fed by the last; one rule alone fits its own result."""

    subjects: tuple[RuleSubject, ...]
    certain: bool


def circles(subjects: Sequence[RuleSubject], possible: bool = False) -> Iterator[Circle]:
    """Every circle in which nothing falls; with `possible`, also those that the rest of a model would have to close."""
    known = {s.names.side: s for s in subjects if s.picture is not None}
    results = {side: outcomes(subject(s.rule, f"{side}'")) for side, s in known.items()}
    certain = _edges(known, results, certain=True)
    told: set[frozenset[str]] = set()
    for ring in _endless(certain, results):
        told.add(frozenset(ring))
        yield Circle(tuple(known[code] for code in ring), True)
    if not possible:
        return
    for ring in _endless(_edges(known, results, certain=False), results):
        if frozenset(ring) not in told:
            yield Circle(tuple(known[code] for code in ring), False)


def _edges(known: Mapping[str, RuleSubject], results: Mapping[str, list[RewriteResult]], certain: bool) -> dict[str, set[str]]:
    readers: dict[OpKey, list[RuleSubject]] = {}
    anything: list[RuleSubject] = []
    for one in known.values():
        assert one.picture is not None
        nodes = [one.picture.nodes[one.picture.root]] if certain else list(one.picture.nodes.values())
        if any(node.ops is None for node in nodes):
            anything.append(one)
            continue
        for op in {op for node in nodes for op in node.ops or ()}:
            readers.setdefault(op, []).append(one)
    edges: dict[str, set[str]] = {code: set() for code in known}
    for code, made in results.items():
        for outcome in made:
            ops = {op for ref in _anchors(outcome, certain) for op in outcome.picture.nodes[ref].ops or ()}
            for reader in chain(*(readers.get(op, ()) for op in sorted(ops)), anything):
                if reader.names.side in edges[code] or not meet(known[code], reader) or _once(known[code], reader):
                    continue
                if _feeds(outcome, reader, certain):
                    edges[code].add(reader.names.side)
    return edges


def _once(maker: RuleSubject, reader: RuleSubject) -> bool:
    """Whether one of two rules fires but once in all, or once at a node and never at what it made itself."""
    times = {maker.rule.header.once, reader.rule.header.once}
    return "model" in times or ("node" in times and maker.rule.code == reader.rule.code)


def _anchors(outcome: RewriteResult, certain: bool) -> list[TermRef]:
    """Nodes of the result where a pattern may stand: its root anywhere, or any part of it on something new."""
    return sorted(outcome.picture.nodes if certain else outcome.touched, key=repr)


def _feeds(outcome: RewriteResult, reader: RuleSubject, certain: bool) -> bool:
    pattern, result = reader.picture, outcome.picture
    assert pattern is not None
    if certain and pattern.private:
        return False
    for at in [pattern.root] if certain else list(pattern.nodes):
        for place in _anchors(outcome, certain):
            for overlay in overlays(pattern, at, result, place):
                if not outcome.touched & set(overlay.nodes.values()):
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
        # A rule along which something falls can be passed finitely often only: the rest must end without it.
        waiting.extend(_components({code: set() if code in falling else inner[code] for code in part}))


def _falling(part: set[str], results: Mapping[str, list[RewriteResult]]) -> set[str]:
    """The rules along which a count falls that no rule of the part raises; empty when there is no such count."""
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
    """Sets of rules each of which leads to each other, single ones only when they lead to themselves."""
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
    """Whatever edges lead to, one or several of them."""
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
