"""Pairs of rules that fit the same place: the same rule twice, one that never gets its turn, two of which neither is first.

All rules of a phase compete at a root; `before` decides, then how specific they are. What remains equal must be decided by the
author. Roots are visited from inputs to outputs, so a rule that fits an inner node of another rule's pattern comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from rewriter.language import ast
from rewriter.language.lint.endless import reachable
from rewriter.language.lint.independence import independent
from rewriter.language.lint.outcome import consumes_root
from rewriter.language.lint.overlay import compatible, implies, overlays
from rewriter.language.lint.rule_graph import OpKey, RuleGraph, RuleSubject
from rewriter.language.lint.shared_guards import meet, reaches_all
from rewriter.language.lint.terms import TermRef
from rewriter.language.walk import walk
from rewriter.record import record


@record(frozen=True, slots=True)
class Pair:
    """A finding on two rules. `kind` is duplicate, shadowed (the first by the second), overlap or undecided."""

    kind: str
    one: RuleSubject
    other: RuleSubject
    at: ast.Span = ast.NOWHERE


def pairs(subjects: Iterable[RuleSubject]) -> Iterator[Pair]:
    """Every pair with something wrong, once."""
    drawn = [subject for subject in subjects if subject.picture is not None]
    order = _Before(drawn)
    told: set[tuple[str, str]] = set()
    for pair in _at_one_root(drawn, order):
        told.add((pair.one.names.side, pair.other.names.side))
        yield pair
    for pair in _inside(drawn):
        if (pair.one.names.side, pair.other.names.side) not in told:
            yield pair


def _at_one_root(drawn: list[RuleSubject], order: _Before) -> Iterator[Pair]:
    seen: set[tuple[str, str]] = set()
    for group in _by_operator(drawn).values():
        for one, other in combinations(group, 2):
            key = (one.names.side, other.names.side)
            if key in seen or one.rule.code == other.rule.code:
                continue
            seen.add(key)
            if (pair := _judge(one, other, order)) is not None:
                yield pair


def _judge(one: RuleSubject, other: RuleSubject, order: _Before) -> Pair | None:
    mine, theirs = one.picture, other.picture
    if mine is None or theirs is None or not meet(one, other):
        return None
    laid = list(overlays(mine, mine.root, theirs, theirs.root))
    if not laid:
        return None
    more_general = reaches_all(one, other) and any(implies(mine, theirs, overlay) for overlay in laid) and _private(one, other)
    back = list(overlays(theirs, theirs.root, mine, mine.root))
    less_general = reaches_all(other, one) and any(implies(theirs, mine, overlay) for overlay in back) and _private(other, one)
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


def _private(general: RuleSubject, special: RuleSubject) -> bool:
    """A rule that forbids other uses of inner tensors fits less often."""
    return not general.rule.ast.privates or bool(special.rule.ast.privates)


def _inside(drawn: list[RuleSubject]) -> Iterator[Pair]:
    """Rules that always eat an inner node of another rule's pattern first."""
    groups = _by_operator(drawn)
    for victim in drawn:
        picture = victim.picture
        assert picture is not None
        for node in picture.nodes.values():
            if node.ref == picture.root or len(node.ops or ()) != 1:
                continue
            for eater in groups.get(next(iter(node.ops or ())), groups[None]):
                apart = eater.rule.code != victim.rule.code and eater.phase <= victim.phase
                if apart and _eats(eater, victim, picture, node.ref):
                    yield Pair("shadowed", victim, eater, node.span)


def _eats(eater: RuleSubject, victim: RuleSubject, picture: RuleGraph, at: TermRef) -> bool:
    if eater.picture is None or not reaches_all(eater, victim) or not consumes_root(eater) or eater.rule.ast.privates:
        return False
    records = (record for block in eater.rule.ast.rewrites for record in walk(block))
    again = {record.op.name for record in records if isinstance(record, ast.Build)}
    if again & {name for _, name in picture.nodes[at].ops or ()}:
        return False  # what it makes may stand in the same place
    return any(implies(eater.picture, picture, overlay) for overlay in overlays(eater.picture, eater.picture.root, picture, at))


def _by_operator(drawn: list[RuleSubject]) -> Mapping[OpKey | None, list[RuleSubject]]:
    """The rules that may fit each operator that one names as its root; under None, those that fit any."""
    groups: dict[OpKey | None, list[RuleSubject]] = {None: []}
    for subject in drawn:
        picture = subject.picture
        assert picture is not None
        ops = picture.nodes[picture.root].ops
        for op in [None] if ops is None else sorted(ops):
            groups.setdefault(op, []).append(subject)
    return {op: group if op is None else [*group, *groups[None]] for op, group in groups.items()}


class _Before:
    """What `before`, phases and specificity say of two rules."""

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
