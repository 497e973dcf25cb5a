"""For which models two rules are meant: exporters, versions, opsets, the framework's own file."""

from __future__ import annotations

from rewriter.errors import RewriterError
from rewriter.language.lint.rule_graph import RuleSubject
from rewriter.language.rule import Rule
from rewriter.versions import Clause, exactly, parse_versions


def meet(one: RuleSubject, other: RuleSubject) -> bool:
    """Whether some model is meant for both."""
    mine, theirs = one.rule, other.rule
    if not one.reach & other.reach or not _ranges_meet(mine, theirs) or _apart(mine, theirs):
        return False
    return not (mine.exporters and theirs.exporters) or bool(set(mine.exporters) & set(theirs.exporters))


def reaches_all(one: RuleSubject, other: RuleSubject) -> bool:
    """Whether every run that has the other rule on a model has the first one on it, too."""
    mine, theirs = one.rule, other.rule
    if not other.reach <= one.reach or (mine.ir.first, mine.ir.last) not in ((None, None), (theirs.ir.first, theirs.ir.last)):
        return False
    if mine.exporters and not (theirs.exporters and set(theirs.exporters) <= set(mine.exporters)):
        return False
    if mine.versions is not None and mine.versions != theirs.versions:
        return False
    if mine.needs_source and not theirs.needs_source:
        return False
    inside, other_inside = mine.ast.match.inside, theirs.ast.match.inside
    if inside is not None and (
        other_inside is None or (inside.op.name, inside.attr) != (other_inside.op.name, other_inside.attr)
    ):
        return False
    if mine.targets:  # with any of the other's targets, this one runs, too
        return mine.header.on_target and bool(theirs.targets) and set(theirs.targets) <= set(mine.targets)
    return mine.default or not theirs.default


def ever_holds(rule: Rule) -> bool:
    """Whether some version of the exporter satisfies `versions`."""
    return _satisfiable(_clauses(rule))


def _ranges_meet(one: Rule, other: Rule) -> bool:
    low = max(one.ir.first or 0, other.ir.first or 0)
    return low <= min(one.ir.last or low, other.ir.last or low)


def _apart(one: Rule, other: Rule) -> bool:
    """Different places in the model, or versions of which none is both."""
    mine, theirs = one.ast.match.inside, other.ast.match.inside
    if mine is not None and theirs is not None and (mine.op.name, mine.attr) != (theirs.op.name, theirs.attr):
        return True
    return not _satisfiable((*_clauses(one), *_clauses(other)))


def _clauses(rule: Rule) -> tuple[Clause, ...]:
    try:
        return parse_versions(rule.versions or "")
    except RewriterError:
        return ()


def _satisfiable(clauses: tuple[Clause, ...]) -> bool:
    """Where a range begins, one of its clauses names the version or the one before: these are tried, and 0."""
    tried: set[tuple[int, ...]] = {(0,)}
    for clause in clauses:
        release = clause.release
        tried |= {release, (*release, 0, 0, 1), (*release[:-1], release[-1] + 1)}
    return any(all(clause.holds(exactly(version)) for clause in clauses) for version in tried)
