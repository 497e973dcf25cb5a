"""One run of rules on a graph: its options and its log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.evaluate import Bindings
from rewriter.core.conditions.recorded_graph import NOTHING_KNOWN, Knowledge
from rewriter.core.engine.attempt import Attempt, Coverage, Fired, Tracer
from rewriter.core.engine.compile import CompiledRule
from rewriter.core.engine.limits import Limits, bounds
from rewriter.core.engine.phases import Permit, Run
from rewriter.core.errors import RewriterError
from rewriter.core.facts.derive import Fact
from rewriter.core.facts.facts import Facts
from rewriter.core.framework.exporter import exporter_of, suited
from rewriter.core.graph.index import GraphIndex
from rewriter.core.isolation.budget import collector_off
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Firing, Log, Profile, Question, stage
from rewriter.core.record import record, replace

if TYPE_CHECKING:
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
    """Facts that book the time for finding them."""

    def __init__(self, profile: Profile, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._profile = profile

    def _find(self, wanted: gs.Tensor) -> Fact:
        with self._profile.stage("facts"):
            return super()._find(wanted)


@record
class Hooks:
    """Observers of a run; None for each that is not used.

    Attributes:
        coverage: counts the rules that matched, fired and were blocked.
        audit: further details of each firing for the log, if the log has details at all; the run itself is the same.
        permit: is called for each firing that is ready to happen.
        profile: books the time.
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
        known: facts about the model in addition to its graph; its settings are added to the rules' settings.
        limits: when to stop a run that does not come to its end.
        keep: False rolls every edit back at the end: the log has the firings that would happen.
        detail: False leaves texts of nodes and conditions out of the log.
        veto: firings that are not to happen, as (rule, place, root) of an earlier log of the same model.
        hooks: observers of the run.
        forecast: of the graph, if the graph is as it was read from a model. The rules that the forecast leaves are tried first,
            and all rules only if one of them fires: in most models none does. None tries all at once.

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
        facts = facts_of(index, known.overridable)
        log = None
        if forecast is not None:
            log = _first_look(Context(index, known, facts), rules, forecast, limits, veto, detail=detail)
        if log is None:
            context = Context(index, known, facts)
            auditor = None if hooks.audit is None or not detail else _auditor(context, hooks.audit)
            timer = None if profile is None else Timer(profile)
            tracers = [tracer for tracer in (timer, hooks.coverage, auditor) if tracer is not None]
            attempt = Attempt(context, detail=detail, tracers=tracers)
            whole = Run(context, rules, limits, attempt, veto=veto, permit=hooks.permit, profile=profile, auditor=auditor)
            log = whole.execute(keep=keep)
        if not keep and rules.questions:
            log.questions = questions(Context(index, known), rules, limits, log.firings)
        return log


def _first_look(
    context: Context,
    rules: RuleSet,
    forecast: Forecast,
    limits: Limits,
    veto: Collection[tuple[str, str, str]],
    *,
    detail: bool,
) -> Log | None:
    """The log of a run that tries only rules that may fire, if no rule fires, as in most models; else None.

    It edits nothing, so that the facts that it found still hold. It is also None if a rule is blocked: the log then depends on
    the set of rules that are tried.
    """
    look = Attempt(context, detail=detail, rewrites=False)
    log = Run(context, rules, limits, look, veto=veto, forecast=forecast).execute()
    return None if look.would_fire or log.blocked or log.stops else log


def questions(context: Context, rules: RuleSet, limits: Limits, firings: Sequence[Firing]) -> list[Question]:
    """The places where repairs with `evidence: guess` would match after the other rules have fired. The graph is left as it
    was.

    Both kinds of rules run together, since defects that the other rules repair are no question any more. Nor are places where
    one of `firings`, of the other rules alone, matched a node, if its rule comes before the guess.
    """
    settled = {
        (later, one.place, name)
        for one in firings
        if (rule := rules.get(one.rule)) is not None
        for later in rule.before
        for name in one.matched
    }
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
        if one.rule in rules_by_code and settled.isdisjoint((one.rule, one.place, name) for name in one.matched)
    ]


def _auditor(context: Context, audit: FiringAudit) -> Auditor:
    from rewriter.core.engine.firing_audit import Auditor

    return Auditor(context, audit)


# A run on any graph of onnx-graphsurgeon, a function included; for programs that hold a graph and no file.


def run_on_graph(graph: gs.Graph, rules: RuleSet, known: Knowledge, limits: Limits | None, *, keep: bool) -> Log:
    """Rewrites a graph in place, or finds the rewrites that would happen. Raises RewriterError if this is no graph."""
    if not isinstance(graph, gs.Graph):
        kind = type(graph).__name__
        raise RewriterError(
            f"rules run on an onnx-graphsurgeon graph, not on a {kind}: rewriter.load(path).graph, or rewriter.fix"
        )
    whole = _alone(graph) if isinstance(graph, gs.Function) else graph
    log = run(whole, rules, known, limits=bounds(limits), keep=keep)
    if whole is not graph:
        for name in ("nodes", "inputs", "outputs", "opset", "import_domains"):
            setattr(graph, name, getattr(whole, name))
    return log


def _alone(function: gs.Function) -> gs.Graph:
    """A function as a graph of the same nodes and tensors: functions of graphsurgeon are graphs without some parts."""
    graph = object.__new__(gs.Graph)  # its constructor would take the functions away from bodies in this one
    graph.__dict__.update(vars(function), producer_name="", producer_version="", _functions=[])
    return graph
