"""The phases of a run: each to its fixpoint, firing by firing, with all that a firing entails: also its entry in the log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from heapq import heappop, heappush
from itertools import chain, count, islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.engine.attempt import Attempt, Fired
from rewriter.core.engine.compile import PHASES, CompiledRule, Path, PhasePlan, prepared
from rewriter.core.engine.limits import Limits, Watch, cycle_stop
from rewriter.core.errors import printable
from rewriter.core.facts.facts import refresh
from rewriter.core.framework.exporter import suited
from rewriter.core.graph.edits import Edits, NodeState, signature
from rewriter.core.graph.index import CROWD, GraphIndex
from rewriter.core.graph.model_text import node_name, node_text, type_words
from rewriter.core.graph.objects import Graph, Node, operator_key
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Change, Firing, Log, Profile, Stop, stage
from rewriter.core.matching.pattern_program import interface_matches
from rewriter.core.matching.requirements import take_inventory
from rewriter.core.onnxfile.tensors import clean, dtype_number
from rewriter.core.rewriting.model_edits import changed_types, complete_outputs, declare_anew, mend_stale_types
from rewriter.core.whole_model import DoesNotFlow

if TYPE_CHECKING:
    from rewriter.core.engine.firing_audit import Auditor
    from rewriter.core.matching.forecast import Forecast


# The rules behind a node: the rules that made or changed it, and the rules that made the nodes it replaced.


def note_lineage(firings: Iterable[tuple[str, Edits]]) -> None:
    """Writes into `rules` of every node that firings, in their order, made or changed.

    Nodes that are removed again pass theirs on, so that a result of two repairs names both.
    """
    for code, edits in firings:
        if edits.added:
            inherited = [rule for node in edits.removed.values() if isinstance(node, Node) for rule in node.rules]
            for node in edits.added.values():
                if isinstance(node, Node):
                    node.rules = tuple(dict.fromkeys([*inherited, *node.rules, code]))
        alone = (code,)
        for node in edits.edited.values():
            if isinstance(node, Node) and code not in (before := node.rules):
                node.rules = (*before, code) if before else alone


SHOWN = 64  # changes whose text is kept, of one firing
SHOWN_TO_AUDITORS = 4096


class Recorder:
    """Writes the log of one run. Remembers the firings that made or edited each node, to name the parents of later firings."""

    def __init__(self, log: Log, context: Context, *, detail: bool, auditor: Auditor | None = None) -> None:
        self._log = log
        self._context = context
        self._detail = detail
        self._auditor = auditor
        self._author: dict[int, int] = {}

    def record(self, fired: Fired) -> None:
        """Books a firing that is kept."""
        edits, rule, author, firings = fired.edits, fired.compiled, self._author, self._log.firings
        number = len(firings) + 1
        parents = set(map(author.get, map(id, fired.nodes.values())))  # None: as it was read
        firing = Firing(
            number,
            rule.code,
            rule.title,
            rule.kind,
            rule.phase,
            fired.scope.path,
            fired.names[0] if fired.names else "",
            fired.op,
            fired.names,
            (),
            fired.conditions,
            tuple(sorted(filter(None, parents))) if any(parents) else (),
            fired.seconds * 1e6,
        )
        if self._detail:
            self._tell_changes(firing, fired)
        firings.append(firing)
        for part in edits.edited:
            author[part] = number
        for part in edits.added:
            author[part] = number

    def _tell_changes(self, firing: Firing, fired: Fired) -> None:
        most = SHOWN if self._auditor is None else SHOWN_TO_AUDITORS
        changes = firing.changes = tuple(islice(self._changes(fired), most))
        if len(changes) == most:
            firing.omitted = sum(1 for _ in self._changed(fired)) + len(fired.edits.declared) - len(changes)
        if self._auditor is not None and fired.noted is not None:
            firing.weights = self._auditor.weights(fired.edits)
            self._auditor.count(fired.compiled.code, fired.noted)

    def depict(self, fired: Fired) -> None:
        """Adds the surroundings of the last booked firing, if they are wanted, once its facts are up to date."""
        if self._auditor is not None and fired.noted is not None and fired.noted.snapshot:
            self._log.firings[-1].snapshot = self._auditor.snapshot(list(fired.nodes.values()), fired.edits, fired.noted)

    # --- changes -----------------------------------------------------------------------------------------------------------

    def _changes(self, fired: Fired) -> Iterator[Change]:
        """The changes; for nodes, first the removed ones, then the edited ones, then the added ones."""
        edits = fired.edits
        for node, kept in self._changed(fired):
            before = self._text(edits.before[id(node)]) if id(node) not in edits.added else None
            yield Change(node_name(node), before, self._text(node) if kept else None)
        for (what, name), (before, after) in edits.declared.items():
            yield _declaration(what, name, before, after)

    def _changed(self, fired: Fired) -> Iterator[tuple[gs.Node, bool]]:
        """Each node that was changed, and whether it is still there."""
        edits = fired.edits
        yield from ((node, False) for node in edits.removed.values())
        for key, node in edits.edited.items():
            if key in edits.before and node in self._context.index:
                yield node, True
        yield from ((node, True) for node in edits.added.values())

    def _text(self, node: gs.Node | NodeState) -> str:
        return node_text(node) if self._auditor is None else self._auditor.text(node)


def _declaration(what: str, name: str, before: Any, after: Any) -> Change:
    """A declaration of the model: `x: float[1,3]`, `model.ir_version = 8`, `model.opset["ai.onnx"] = 13`."""
    shown = printable(name)
    if what in ("type", "input", "output"):
        prefix = f"{shown}: " if what == "type" else f"{what} {shown}: "
        texts = [value and prefix + type_words(dtype_number(value[0]), clean(value[1])) for value in (before, after)]
        return Change(shown, texts[0], texts[1])
    if what == "text":
        texts = [f"{shown} = {_worth(value)}" if value else None for value in (before, after)]
        return Change(shown, texts[0], texts[1])
    if what in ("node", "tensor", "initializer", "function", "order"):
        texts = [None if value is None else f"{what} {_worth(value)}" for value in (before, after)]
        return Change(shown, texts[0], texts[1])
    place = f'model.opset["{shown}"]' if what == "opset" else f"model.{shown}"
    texts = [None if value is None else f"{place} = {_worth(value)}" for value in (before, after)]
    return Change("model", texts[0], texts[1])


def _worth(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_worth, value))}]"
    return f'"{printable(value)}"' if isinstance(value, str) else str(value)


# Places still to be tried, in execution order, and the changes around a place that bring it back.

Position = tuple[int, int]


class Worklist:
    """Roots of one phase. A root comes back if a node that its pattern can reach changes, or a fact about a tensor that a rule
    read there.

    Attributes:
        watchers: by id() of a tensor, the roots at which a rule read its facts.
        tracers: by id() of a tensor, the roots at which a rule read its maker or its declaration in the file.
        counters: by id() of a tensor, the roots at which a rule read its readers: by the number of readers that matter there,
            and whether there were more.
        incomplete: set if a change reached too many roots at once to list them; then the whole graph is tried once more.
    """

    def __init__(self, phase: PhasePlan, index: GraphIndex) -> None:
        self._phase = phase
        self._index = index
        self._first: list[tuple[Position, gs.Node]] = []  # the last one comes first
        self._back: list[tuple[Position, int, gs.Node]] = []
        self._waiting: set[int] = set()
        self._count = 0
        self.watchers: dict[int, dict[int, gs.Node]] = {}
        self.tracers: dict[int, dict[int, gs.Node]] = {}
        self.counters: dict[int, dict[tuple[int, bool], dict[int, gs.Node]]] = {}
        self.incomplete = False

    def fill(self) -> None:
        """All nodes at which a first look shows that a rule of the phase may stand."""
        index, found = self._index, list[tuple[Position, gs.Node]]()
        phase = self._phase
        present = index.by_operator.keys
        for key in list(present) if phase.any_root else present & phase.by_root.keys():
            roots = phase.roots(key)
            if roots is not None and (candidates := roots.candidates(index.by_operator.of(key), index)):
                found += index.positions(candidates)
        found.sort(key=itemgetter(0), reverse=True)
        self._first, self._back = found, []
        self._waiting = {id(node) for _, node in found}
        self.incomplete = False

    def add(self, node: gs.Node) -> None:
        number = id(node)
        if node._scope is not None and number not in self._waiting and self._phase.roots(operator_key(node)) is not None:
            self._count += 1
            self._waiting.add(number)
            heappush(self._back, (self._index.position(node), self._count, node))

    def __iter__(self) -> Iterator[gs.Node]:
        first, back = self._first, self._back
        while first or back:
            node = heappop(back)[2] if not first or (back and back[0][0] < first[-1][0]) else first.pop()[1]
            self._waiting.discard(id(node))
            if node._scope is not None:
                yield node

    def watch(self, root: gs.Node, context: Context) -> None:
        """Notes the tensors whose facts a rule at `root` read, from the context."""
        for tensor in context.seen:
            self.watchers.setdefault(tensor, {})[id(root)] = root
        for tensor in context.traced:
            self.tracers.setdefault(tensor, {})[id(root)] = root
        for (number, most), tensor in context.counted.items():
            kind = most, self._index.use_count(tensor) > most
            self.counters.setdefault(number, {}).setdefault(kind, {})[id(root)] = root

    def facts_changed(self, tensors: Iterable[gs.Tensor]) -> None:
        """Tries again the roots where a rule read the facts of these tensors."""
        for tensor in tensors if self.watchers else ():
            for root in self.watchers.pop(id(tensor), {}).values():
                self.add(root)

    def makers_changed(self, tensors: Iterable[gs.Tensor]) -> None:
        """Tries again the roots where a rule read the makers of these tensors: another node makes them, or the maker was
        edited.
        """
        for tensor in tensors if self.tracers else ():
            for root in self.tracers.pop(id(tensor), {}).values():
                self.add(root)

    def users_changed(self, *groups: Iterable[gs.Tensor]) -> None:
        """Tries again the roots where a rule read the readers of these tensors, unless more than matter there are left."""
        for tensor in chain(*groups) if self.counters else ():
            kinds = self.counters.get(id(tensor))
            if not kinds:
                continue
            count = self._index.use_count(tensor)
            for most, were_more in [*kinds]:
                if not were_more or count <= most:
                    for root in kinds.pop((most, were_more)).values():
                        self.add(root)

    def node_changed(self, node: gs.Node) -> None:
        """Tries again the roots from which a pattern can reach `node`."""
        for way in self._phase.ways_back(operator_key(node)):
            for root in self._follow(node, way) if way else (node,):
                self.add(root)

    def _follow(self, node: gs.Node, way: Path) -> Iterable[gs.Node]:
        frontier = {id(node): node}
        for step, ops in way:
            following: dict[int, gs.Node] = {}
            for here in frontier.values():
                for there in self._step(here, step, ops):
                    following[id(there)] = there
            frontier = following
        return frontier.values()

    def _step(self, node: gs.Node, step: str, ops: frozenset[tuple[str, str]]) -> Iterator[gs.Node]:
        if step == "user":
            for tensor in node.outputs:
                yield from self._index.users_with(tensor, ops)
        elif step == "maker":
            makers = (self._index.producer(tensor) for tensor in node.inputs)
            yield from (maker for maker in makers if maker is not None and operator_key(maker) in ops)
        else:
            for tensor in (*node.inputs, *node.outputs):
                if len(self._index.users(tensor)) > CROWD:
                    self.incomplete = True
                else:
                    yield from self._index.users_with(tensor, ops)
            makers = (self._index.producer(tensor) for tensor in node.inputs)
            yield from (maker for maker in makers if maker is not None and operator_key(maker) in ops)


# Whether rewriting goes round in a circle: the changes of firings as numbers, whose sum is 0 if together they change nothing.
#
# Most runs have nothing to do with circles, and hashing every node that is touched takes longer than rewriting it. So the
# numbers are computed only once a firing is suspicious. The numbers of earlier firings follow from the copies in their edits.


def deltas(done: Sequence[Edits]) -> list[int]:
    """By how much each transaction changed the sum of the signatures of all nodes; the graph is as the last one left it."""
    after: dict[int, int] = {}  # by node that a later transaction touched: its signature after the present one
    found = []
    for edits in reversed(done):
        delta = 0
        for number, node in (*edits.added.items(), *_kept(edits)):
            known = after.get(number)
            delta += signature(node) if known is None else known
        for number in edits.added:
            after.pop(number, None)
        for number, state in edits.before.items():
            after[number] = signature(state)
            delta -= after[number]
        found.append(delta)
    return found[::-1]


def changes_nothing(edits: Edits) -> bool:
    """Whether a transaction that touched nodes left them, or others in their places, as they were."""
    if len(edits.added) != len(edits.removed) or not edits.touched or edits.retyped:
        return False
    now = [*edits.added.values(), *(node for _, node in _kept(edits))]
    if sorted(map(_kind, edits.before.values())) != sorted(map(_kind, now)):
        return False
    return deltas([edits]) == [0]


def _kept(edits: Edits) -> list[tuple[int, gs.Node]]:
    """The nodes that were edited and are still there."""
    return [(n, node) for n, node in edits.edited.items() if n in edits.before and n not in edits.removed]


def _kind(node: gs.Node | NodeState) -> tuple[str, str, int, int]:
    return node.op, node.domain or "", len(node.inputs), len(node.outputs)


Permit = Callable[[Fired], bool]

ROUNDS = 8  # later phases may enable earlier ones; more rounds have never been seen to help


class Run:
    """One run over one model."""

    def __init__(
        self,
        context: Context,
        rules: RuleSet,
        limits: Limits,
        attempt: Attempt,
        *,
        veto: Collection[tuple[str, str, str]] = (),
        permit: Permit | None = None,
        profile: Profile | None = None,
        forecast: Forecast | None = None,
        auditor: Auditor | None = None,
    ) -> None:
        self.context = context
        self.index = context.index
        self.log = Log()
        self._attempt = attempt
        self._veto = frozenset(veto)
        self._permit = permit
        self._profile = profile
        self._forecast = forecast
        self._watch = Watch(limits, self._count_nodes())
        self._recorder = Recorder(self.log, context, detail=attempt.detail, auditor=auditor)
        self._generation: dict[int, int] = {}
        self._done: list[Fired] = []
        self._freed: dict[int, gs.Tensor] = {}
        self._halted: Stop | None = None
        self._past_places: set[tuple[object, ...]] = set()
        self._rules = rules
        attempt.chosen = rules.chosen_runtimes
        self._plans = self._planned()

    def _planned(self) -> list[PhasePlan]:
        """The rules that can match in the present model, by phase. Rules that are not meant for it are logged."""
        meant, skipped = suited(self._rules, self.context.subject)
        self.log.skipped = list(skipped)
        if self._forecast is not None:
            return prepared(self._rules, self.context.settings).only(self._forecast.possible(meant))
        with stage(self._profile, "rules made ready"):
            return prepared(self._rules, self.context.settings).plans(meant, take_inventory(self.index))

    def execute(self, *, keep: bool = True) -> Log:
        """Runs all phases. Repeats them while a phase may let rules of an earlier phase, or its own rules on the model, fire.

        An attempt that rewrites nothing ends the run at the first rule that would fire.
        """
        for _ in range(ROUNDS):
            before, opsets = len(self._done), self._opsets()
            fired = [self._phase(phase) for phase in self._plans]
            again = any(fired[1:]) or (fired[:1] == [True] and bool(self._plans[0].on_graph))
            raised = self._opsets() != opsets
            if raised:  # other rules are meant for the model now, and more can be known of it
                refresh(self.context.facts, [tensor for node in self.index.all_nodes() for tensor in node.outputs])
                self._plans = self._planned()
            if self._is_over or len(self._done) == before or not (raised or again):
                break
        if self._attempt.would_fire:
            return self.log  # no node was edited, and the log is empty
        self.log.tries = self._watch.tries
        still_blocked = (b for (_, root), b in self._attempt.blocked.items() if b.op == "" or self.index.has(root))
        self.log.blocked = sorted(still_blocked, key=lambda blocked: (blocked.rule, blocked.place, blocked.root))
        if keep:
            self._finish()
        else:
            for fired_one in reversed(self._done):
                fired_one.edits.rollback()
            self.index.finish()
        return self.log

    @property
    def _is_over(self) -> bool:
        return self._halted is not None or self._attempt.would_fire

    def _opsets(self) -> list[dict[str, int]]:
        return [dict(scope.opsets) for scope in self.index.scopes]

    def _finish(self) -> None:
        changed = changed_types(self.index, self.context.facts, (fired.edits for fired in self._done))
        retyped = [tensor for fired in self._done for tensor in fired.edits.retyped.values()]
        mend_stale_types(self.index, self.context.facts, changed)
        declare_anew(self.index, self.context.facts, retyped)
        complete_outputs(self.context)
        note_lineage((fired.compiled.code, fired.edits) for fired in self._done)
        self.index.finish()
        for scope in self.index.scopes:
            if isinstance(scope.graph, Graph) and self._freed:
                listed = scope.graph.initializers
                listed[:] = [t for t in listed if id(t) not in self._freed or self.index.is_used(t)]

    # --- phases ------------------------------------------------------------------------------------------------------------

    def _phase(self, phase: PhasePlan) -> bool:
        """Runs one phase to its fixpoint. Returns whether a rule fired.

        Rules on the whole model come first; in the phase `cleanup` they come last, when no other rule fires there. For example,
        a merge of equal nodes gives a node two readers, and a rule that requires one reader would not fire any more.
        """
        before = len(self._done)
        is_last = phase.name == PHASES[-1]
        if not self._is_over and phase.on_graph and not is_last:
            self._interface(phase)
        worklist = Worklist(phase, self.index)
        while not self._is_over and (phase.by_root or phase.any_root):
            fired = len(self._done)
            worklist.fill()
            for root in worklist:
                self._visit(phase, worklist, root)
                if self._is_over:
                    break
            if not worklist.incomplete or fired == len(self._done):
                break
        if not self._is_over and phase.on_graph and is_last and len(self._done) == before:
            self._interface(phase)
        return len(self._done) > before

    def _visit(self, phase: PhasePlan, worklist: Worklist, root: gs.Node) -> None:
        """Tries the rules at one root, best first; after one has fired the root is tried anew."""
        watch = self._watch
        if watch.is_timed:
            self._halt(watch.out_of_time(lambda: f"{node_name(root)} ({root.op})"))
        roots = phase.roots(operator_key(root))
        for compiled in () if roots is None else roots.at(root, self.index):
            if (watch.restrains or self._veto or compiled.once) and self._is_held_off(compiled, root):
                continue
            watch.tries += 1
            self.context.forget()
            fired = self._attempt.at_node(compiled, root)
            if fired is None:
                if self._attempt.rewrites:
                    worklist.watch(root, self.context)
            elif self._accept(fired):
                self._spread(fired, worklist)
                if fired.noted is not None:
                    self._recorder.depict(fired)
                worklist.add(root)
                break
        self._halt(watch.out_of_tries())

    def _is_held_off(self, compiled: CompiledRule, root: gs.Node) -> bool:
        """Whether a rule must not fire at a node, even if it matches there."""
        code = compiled.code
        if self._watch.is_stopped(code):
            return True
        if self._watch.exhausted(code, id(root)):
            self._once(Stop("Budget", "a rule fired too often at one node", (code,), (node_name(root),)))
            return True
        if self._veto and (code, self.index.scope(root).path, node_name(root)) in self._veto:
            return True
        return bool(compiled.once and self._past_places and not self._past_places.isdisjoint(((code,), (code, id(root)))))

    def _interface(self, phase: PhasePlan) -> None:
        """Rules on the model's interface: each fires once for each of its matches; one on the model as a whole, which has no
        others, as long as its conditions hold.
        """
        for compiled in phase.on_graph:
            before = len(self._done)
            times = count() if compiled.rule.ast.match.items else range(self._watch.limits.per_root)
            for _ in times:
                fired = self._fire_on_graph(compiled)
                if not fired or self._is_over:
                    break
            self._follow(compiled, before)

    def _follow(self, compiled: CompiledRule, start: int) -> None:
        """Follows dimensions that the firings from `start` on have named through the graph, as a firing of its own. If they do
        not flow, all these firings are rolled back.
        """
        group = self._done[start:]
        try:
            fired = self._attempt.follow(compiled, group)
        except DoesNotFlow as error:
            for one in reversed(group):
                self._attempt.take_back(one)
                refresh(self.context.facts, list(one.edits.retyped.values()))
            del self._done[start:], self.log.firings[len(self.log.firings) - len(group) :]
            self._attempt.refuse(compiled, str(error))
            return
        if fired is not None and self._accept(fired):
            refresh(self.context.facts, [*fired.edits.retyped.values(), *_outputs(fired)])
            self._recorder.depict(fired)

    def _fire_on_graph(self, compiled: CompiledRule) -> bool:
        match = compiled.rule.ast.match
        for bound in interface_matches(match, self.context, compiled.parameter_values):
            place = compiled.code, *(id(bound[item.name]) for item in match.items if compiled.once != "model")
            if place in self._past_places:
                continue
            fired = self._attempt.on_graph(compiled, bound, hash(place))
            if fired is None:
                continue
            if self._veto and (compiled.code, fired.scope.path, "") in self._veto:
                fired.edits.rollback()
            elif self._accept(fired):
                edits = fired.edits
                if match.items or compiled.once:
                    self._past_places.add(place)
                refresh(self.context.facts, [*edits.retyped.values(), *edits.corrected.values(), *_outputs(fired)])
                self._recorder.depict(fired)
                return True
        return False

    # --- firings -----------------------------------------------------------------------------------------------------------

    def _accept(self, fired: Fired) -> bool:
        """Books a firing, or rolls it back at a limit."""
        edits, watch, limits = fired.edits, self._watch, self._watch.limits
        more = len(edits.added) - len(edits.removed)
        generation, edited = 0, set[int]()
        if self._generation or more >= 0:
            edited = edits.edited.keys() & map(id, fired.nodes.values())
            generation = self._next_generation(edits, edited)
        too_deep = generation > limits.generations
        if too_deep or (more == 0 and changes_nothing(edits)) or (watch.is_spent and self._halt(watch.out_of_budget())):
            edits.rollback()
            if too_deep:
                self._once(_generation_stop(fired, limits))
            return False
        if self._permit is not None and not self._permit(fired):
            self._attempt.take_back(fired)
            return False
        stop = watch.overgrown(fired.compiled.code, generation, more, self._count_nodes) if more > 0 else None
        if stop is not None:
            self._attempt.take_back(fired)
            self._once(stop)
            return False
        self._book(fired, generation, edited)
        return True

    def _book(self, fired: Fired, generation: int, edited: Set[int]) -> None:
        """Notes all consequences of a firing that is kept; `edited` are the matched nodes that it edited."""
        edits = fired.edits
        if generation:
            self._generation.update(dict.fromkeys((*edits.added, *edited), generation))
        if edits.freed:
            self._freed.update(edits.freed)
        self.index.release_names(edits.removed.values(), edits.freed.values())
        if fired.compiled.once and fired.root is not None:
            self._past_places.update(_places(fired))
        self._done.append(fired)
        self._recorder.record(fired)
        code, root = fired.compiled.code, id(fired.root) if fired.root is not None else 0
        if (self._watch.recalls or self._watch.suspects(code, root, generation)) and (edits.touched or edits.added):
            self._watch_over(fired, root)
        else:
            self._watch.count(code, root)

    def _count_nodes(self) -> int:
        return self.index.node_count

    def _watch_over(self, fired: Fired, root: int) -> None:
        """Counts a firing that changed nodes and may restore an earlier state. Stops the run if it closes a circle."""
        watch = self._watch
        if watch.recalls:
            delta = deltas([fired.edits])[0]
        else:
            *before, delta = deltas([one.edits for one in self._done if one.edits.touched or one.edits.added])
            watch.recall(before)
        circle = watch.record(fired.compiled.code, root, delta)
        if circle:
            name = node_name(fired.root) if fired.root is not None else ""
            self._halt(cycle_stop(circle, name))

    def _next_generation(self, edits: Edits, edited: Set[int]) -> int:
        """One more than the oldest line among the nodes that a firing consumed or edited, those that it matched; the same when
        it leaves fewer nodes.
        """
        known, highest = self._generation, 0
        if known:  # those that are not in it have no such line
            highest = max(map(known.get, (*edits.removed, *edited), repeat(0)), default=0)
        return highest if len(edits.added) < len(edits.removed) else highest + 1

    def _spread(self, fired: Fired, worklist: Worklist) -> None:
        """Brings back every root that could see the change."""
        edits, facts, counts = fired.edits, self.context.facts, worklist.counters
        if facts.any or worklist.tracers:
            outputs = _outputs(fired)
            if edits.retyped or edits.corrected:
                outputs += [*edits.retyped.values(), *edits.corrected.values()]
            worklist.facts_changed(refresh(facts, outputs))
            worklist.makers_changed(outputs)
        for node in (*edits.added.values(), *edits.edited.values()):
            if node._scope is not None:
                worklist.node_changed(node)
                if counts:
                    worklist.users_changed(node.inputs, node.outputs)
        for node in edits.removed.values() if counts else ():
            worklist.users_changed(node.inputs)

    # --- stops -------------------------------------------------------------------------------------------------------------

    def _halt(self, stop: Stop | None) -> bool:
        if stop is not None and self._halted is None:
            self._halted = stop
            self.log.stops.append(stop)
        return stop is not None

    def _once(self, stop: Stop) -> None:
        """Notes a reason that ends one rule at one place and not the run."""
        if not any((s.kind, s.rules) == (stop.kind, stop.rules) for s in self.log.stops):
            self.log.stops.append(stop)


def _places(fired: Fired) -> Iterator[tuple[object, ...]]:
    """The places where a rule that fires only once is not tried again: the node and the nodes that it made, or all."""
    code, edits = fired.compiled.code, fired.edits
    if fired.compiled.once == "model":
        return iter([(code,)])
    matched = set(map(id, fired.nodes.values()))
    return ((code, number) for number in (id(fired.root), *edits.added, *(edits.edited.keys() & matched)))


def _outputs(fired: Fired) -> list[gs.Tensor]:
    edits, found = fired.edits, list[gs.Tensor]()
    for node in (*edits.added.values(), *edits.edited.values(), *edits.removed.values()):
        found += node.outputs
    return found


def _generation_stop(fired: Fired, limits: Limits) -> Stop:
    nodes = tuple(node_name(node) for node in fired.nodes.values())
    text = f"was stopped after rewriting its own results {limits.generations} times over; see `rewriter explain E407`"
    return Stop("Generation", f"{fired.compiled.code} {text}", (fired.compiled.code,), nodes)
