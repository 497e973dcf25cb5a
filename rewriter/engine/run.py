"""The run: rules meet a graph; what is asked of it, and what its log says."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING

import onnx_graphsurgeon as gs

from rewriter.collector import collector_off
from rewriter.conditions.context import NOTHING_KNOWN, Context, Knowledge
from rewriter.conditions.guards import suited
from rewriter.engine.attempt import Attempt, Look, WouldFire
from rewriter.engine.coverage import Coverage
from rewriter.engine.limits import Limits
from rewriter.engine.phases import Permit, Run
from rewriter.facts.facts import Facts
from rewriter.graph.index import GraphIndex
from rewriter.language.rules import RuleSet
from rewriter.log.clock import Profile, stage
from rewriter.log.records import Log, Question
from rewriter.record import record, replace
from rewriter.source.exporter import exporter_of

if TYPE_CHECKING:
    from rewriter.engine.firing_audit import Auditor, FiringAudit
    from rewriter.matching.forecast import Forecast


@record
class Hooks:
    """Who else wants to know of a run; None of each for nobody.

    Attributes:
        coverage: where to count what stood, fired and was blocked.
        audit: what else the log is to say of each firing, when it is to say details at all; what the run does is the same.
        permit: is asked for each firing that is ready to happen.
        profile: where to book the time.
    """

    coverage: Coverage | None = None
    audit: FiringAudit | None = None
    permit: Permit | None = None
    profile: Profile | None = None


NO_HOOKS = Hooks()


def run(
    graph: gs.Graph,
    rules: RuleSet,
    known: Knowledge = NOTHING_KNOWN,
    *,
    limits: Limits | None = None,
    keep: bool = True,
    detail: bool = True,
    veto: Collection[tuple[str, str, str]] = (),
    hooks: Hooks = NO_HOOKS,
    forecast: Forecast | None = None,
) -> Log:
    """Rewrites a graph in place.

    Args:
        graph: any graphsurgeon graph; one from `rewriter.load` can be saved without losing anything.
        rules: the selected rules.
        known: what is known of the model beside its graph; its settings are added to those of the rules.
        limits: when to stop a run that does not come to its end.
        keep: False takes every edit back at the end: the log says what would be done.
        detail: False leaves texts of nodes and conditions out of the log.
        veto: firings that are not to happen, as (rule, place, root) of an earlier log of the same model.
        hooks: who else wants to know of the run.
        forecast: of the graph as it is, which then is that of a model just read. The rules that it leaves are tried first, and
            all of them only when one of those fires: in most models none does. None tries all at once.

    Returns:
        The log of the run.

    Raises:
        RewriterError: a selected rule lacks a parameter, or its pattern is too large.
    """
    profile, limits = hooks.profile, limits or Limits()
    exporter = known.exporter or exporter_of(graph, known.source)
    known = replace(known, exporter=exporter, settings={**rules.settings, **(known.settings or {})})
    with collector_off(), stage(profile, "rest of the run"):
        with stage(profile, "index"):
            index = GraphIndex(graph)
        facts_of, attempt_of = (Facts, Attempt) if profile is None else _timed(profile)
        log = facts = None
        if forecast is not None:
            facts = Facts(index, known.overridable)
            log = _without_firing(Context(index, known, facts), rules, limits, veto, forecast, detail=detail)
        if log is None:
            if facts is None or profile is not None:
                facts = facts_of(index, known.overridable)  # else what the look found out still holds: it has edited nothing
            context = Context(index, known, facts)
            auditor = None if hooks.audit is None or not detail else _auditor(context, hooks.audit)
            attempt = attempt_of(context, detail=detail, coverage=hooks.coverage, auditor=auditor)
            log = Run(context, rules, limits, attempt, veto=veto, permit=hooks.permit, profile=profile).execute(keep=keep)
        if not keep and rules.questions:
            log.questions = questions(Context(index, known), rules, limits)
        return log


def _without_firing(
    context: Context,
    rules: RuleSet,
    limits: Limits,
    veto: Collection[tuple[str, str, str]],
    forecast: Forecast,
    *,
    detail: bool,
) -> Log | None:
    """The log of a run that tries only what may fire, where nothing does; else None, and the graph is as it was.

    It is None, too, where something is blocked: which of the rules are tried at all is then part of what the log says.
    """
    try:
        log = Run(context, rules, limits, Look(context, detail=detail), veto=veto, forecast=forecast).execute()
    except WouldFire:
        return None
    return None if log.blocked or log.stops else log


def questions(context: Context, rules: RuleSet, limits: Limits) -> list[Question]:
    """Where repairs with `evidence: guess` would fit, once the other rules have fired; the graph is left as it was.

    What the other rules repair is no question any more, so both kinds run together.
    """
    asked = {rule.code: rule for rule in rules.questions}
    if not suited(replace(rules, rules=rules.questions), context.subject)[0]:
        return []
    together = replace(rules, rules=(*rules.rules, *rules.questions), questions=())
    log = Run(context, together, limits, Attempt(context, detail=False)).execute(keep=False)
    return [
        Question(
            one.rule, one.title, one.place, one.root, one.op, asked[one.rule].header.question or f"{one.title} Is it so here?"
        )
        for one in log.firings
        if one.rule in asked
    ]


def _timed(profile: Profile) -> tuple[Callable[..., Facts], Callable[..., Attempt]]:
    from rewriter.engine.timed import TimedAttempt, TimedFacts

    return partial(TimedFacts, profile), partial(TimedAttempt, profile)


def _auditor(context: Context, audit: FiringAudit) -> Auditor:
    from rewriter.engine.firing_audit import Auditor

    return Auditor(context, audit)
