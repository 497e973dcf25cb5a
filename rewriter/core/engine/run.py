"""The run: rules meet a graph; what is asked of it, and what its log says."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import onnx_graphsurgeon as gs

from rewriter.core.collector import collector_off
from rewriter.core.conditions.context import NOTHING_KNOWN, Context, Knowledge
from rewriter.core.conditions.evaluate import Bindings
from rewriter.core.engine.attempt import Attempt
from rewriter.core.engine.compile import CompiledRule
from rewriter.core.engine.firing import Fired, Tracer
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.phases import Permit, Run
from rewriter.core.facts.derive import Fact
from rewriter.core.facts.facts import Facts
from rewriter.core.framework.exporter import exporter_of, suited
from rewriter.core.graph.index import GraphIndex
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Log, Profile, Question, stage
from rewriter.core.record import record, replace

if TYPE_CHECKING:
    from rewriter.core.engine.coverage import Coverage
    from rewriter.core.engine.firing_audit import Auditor, FiringAudit
    from rewriter.core.matching.forecast import Forecast


class Timer(Tracer):
    """Books the time of each rule."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def tries(self, compiled: CompiledRule, root: gs.Node | None) -> None:
        """As of a tracer."""
        self._profile.asked[compiled.code] += 1
        self._profile.begin(f"match of {compiled.code}")

    def rewrites(self, compiled: CompiledRule, names: Bindings, nodes: Mapping[int, gs.Node]) -> None:
        """As of a tracer."""
        self._profile.begin(f"rewrite of {compiled.code}")

    def has_rewritten(self, compiled: CompiledRule, root: gs.Node | None, fired: Fired | None) -> None:
        """As of a tracer."""
        self._profile.end()
        self._profile.fired[compiled.code] += fired is not None

    def ends(self, compiled: CompiledRule) -> None:
        """As of a tracer."""
        self._profile.end()


class TimedFacts(Facts):
    """Facts that tell the clock when they have to be found."""

    def __init__(self, profile: Profile, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._profile = profile

    def _find(self, wanted: gs.Tensor) -> Fact:
        with self._profile.stage("facts"):
            return super()._find(wanted)


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
        facts_of = Facts if profile is None else partial(TimedFacts, profile)
        look = None if forecast is None else _FirstLook(Context(index, known, Facts(index, known.overridable)), rules, forecast)
        log = None if look is None or look.is_idle else look.without_firing(limits, veto, detail=detail)
        if log is None:
            # else what the look found out still holds: it has edited nothing
            facts = look.context.facts if look is not None and profile is None else facts_of(index, known.overridable)
            context = Context(index, known, facts)
            auditor = None if hooks.audit is None or not detail else _auditor(context, hooks.audit)
            timer = None if profile is None else Timer(profile)
            tracers = [tracer for tracer in (timer, hooks.coverage, auditor) if tracer is not None]
            attempt = Attempt(context, detail=detail, tracers=tracers)
            whole = Run(context, rules, limits, attempt, veto=veto, permit=hooks.permit, profile=profile, auditor=auditor)
            log = whole.execute(keep=keep)
            if look is not None and look.is_idle and not log.firings:
                log = (
                    look.without_firing(limits, veto, detail=detail) or log
                )  # which rules it has tried is part of what it says
        if look is not None:
            look.note(log)
        if not keep and rules.questions:
            log.questions = questions(Context(index, known), rules, limits)
        return log


ENOUGH, OFTEN = 2, 0.8
"""In how many models, and in what part of them, the same rules must have fired for a look to be left out."""
MOST_KINDS = 1 << 12
_fired: dict[tuple[str, ...], list[int]] = {}
"""By the rules that could fire: how many models there were, and in how many of them some did."""


class _FirstLook:
    """A run that tries only what may fire, to which it comes in most models: nothing.

    Attributes:
        is_idle: something fires in nearly all models in which these rules may, so that the look comes after the run, if at all.
    """

    def __init__(self, context: Context, rules: RuleSet, forecast: Forecast) -> None:
        self.context = context
        self._rules = rules
        self._forecast = forecast
        codes = tuple([rule.code for rule in forecast.possible(suited(rules, context.subject)[0])])
        if len(_fired) >= MOST_KINDS:
            _fired.clear()
        self._counts = _fired.setdefault(codes, [0, 0])
        self.is_idle = self._counts[1] >= max(ENOUGH, self._counts[0] * OFTEN)

    def without_firing(self, limits: Limits, veto: Collection[tuple[str, str, str]], *, detail: bool) -> Log | None:
        """The log of a run where nothing fires; else None, and the graph is as it was.

        It is None, too, where something is blocked: which of the rules are tried at all is then part of what the log says.
        """
        look = Attempt(self.context, detail=detail, rewrites=False)
        with self.context.facts.unedited():
            log = Run(self.context, self._rules, limits, look, veto=veto, forecast=self._forecast).execute()
        return None if look.would_fire or log.blocked or log.stops else log

    def note(self, log: Log) -> None:
        """Counts what became of a model."""
        self._counts[0] += 1
        self._counts[1] += bool(log.firings)


def questions(context: Context, rules: RuleSet, limits: Limits) -> list[Question]:
    """Where repairs with `evidence: guess` would fit, once the other rules have fired; the graph is left as it was.

    What the other rules repair is no question any more, so both kinds run together.
    """
    rules_by_code = {rule.code: rule for rule in rules.questions}
    if not suited(replace(rules, rules=rules.questions), context.subject)[0]:
        return []
    together = replace(rules, rules=(*rules.rules, *rules.questions), questions=())
    log = Run(context, together, limits, Attempt(context, detail=False)).execute(keep=False)
    return [
        Question(
            one.rule,
            one.title,
            one.place,
            one.root,
            one.op,
            rules_by_code[one.rule].header.question or f"{one.title} Is it so here?",
        )
        for one in log.firings
        if one.rule in rules_by_code
    ]


def _auditor(context: Context, audit: FiringAudit) -> Auditor:
    from rewriter.core.engine.firing_audit import Auditor

    return Auditor(context, audit)
