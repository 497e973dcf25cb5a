"""Conditions that matter: without a `where` line something must go wrong, or nobody knows what the line is for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import islice

from rewriter.explain.testing import run_test
from rewriter.language import ast
from rewriter.language.rule import Rule
from rewriter.proof.instances.instance import Instance
from rewriter.proof.instances.sampling import Stream
from rewriter.proof.rules.trial import CHANGED, NOT_FIRED, REPAIRED, SAME, STILL, VOID, WRONG, attempt, run_on
from rewriter.proof.rules.verdict import Unneeded
from rewriter.record import replace

INSTANCES = 60
SECONDS = 1.5


def unneeded(rule: Rule, rejected: Sequence[Instance], seed: int) -> tuple[Unneeded, ...]:
    """The conditions without which nothing goes wrong.

    Args:
        rule: the rule.
        rejected: instances on which it did not fire.
        seed: of further instances.
    """
    found = []
    for weaker, span in weakened(rule):
        broke = _broke(rule, weaker, rejected, seed)
        if broke:
            line = rule.source.line_col(span.start)[0]
            found.append(Unneeded(line, rule.words(span), broke))
    return tuple(found)


def weakened(rule: Rule) -> Iterator[tuple[Rule, ast.Span]]:
    """The rule without each of its conditions, and where the condition stands."""
    forms = (rule.ast, *rule.ast.variants)
    parts = dict.fromkeys(part.span for one in forms for part in one.wheres)
    parts |= dict.fromkeys(part.span for one in forms for part in one.privates)
    for span in parts:
        weaker, *variants = (_without(one, span) for one in forms)
        yield Rule(replace(weaker, variants=tuple(variants)), rule.path, rule.source), span


def _without(rule: ast.Rule, span: ast.Span) -> ast.Rule:
    """A rule without what stands in one place."""
    wheres = tuple(where for where in rule.wheres if where.span != span)
    return replace(rule, wheres=wheres, privates=tuple(private for private in rule.privates if private.span != span))


def _broke(rule: Rule, weaker: Rule, rejected: Sequence[Instance], seed: int) -> int:
    """How many drafts broke the condition and came to no harm; 0 where one did, or where none broke it."""
    broke = 0
    if any(not run_test(weaker, test).ok for test in rule.ast.tests if test.after is None):
        return 0
    stop = time.monotonic() + SECONDS
    stream = Stream(weaker, seed)
    fresh = (instance for _, instance in islice(stream, INSTANCES) if instance is not None)
    for number, instance in enumerate((*rejected, *fresh)):
        if time.monotonic() > stop:
            break
        if number >= len(rejected) and not _leaves(rule, instance):
            continue
        trial = attempt(weaker, instance, stream.generator(number))
        if trial.status == NOT_FIRED:
            if trial.why:
                return 0  # the line kept a later one from raising
            continue
        if trial.status == VOID:
            continue
        broke += 1
        if trial.status in (WRONG, STILL, CHANGED):
            return 0
        if rule.kind.name == "repair" and (trial.status == SAME or (trial.status == REPAIRED and trial.agreed is False)):
            return 0  # a repair of what is sound
    return broke


def _leaves(rule: Rule, instance: Instance) -> bool:
    """Whether the engine does not fire the rule on an instance."""
    try:
        log = run_on(rule, instance)[1]
    except Exception:  # `attempt` tells of it
        return False
    return not log.changed and not log.stops
