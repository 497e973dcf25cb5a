"""Places still to be tried, in execution order, and what brings a place back after the graph around it has changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain
from operator import itemgetter

import onnx_graphsurgeon as gs

from rewriter.conditions.context import Context
from rewriter.engine.compile import Path, PhasePlan
from rewriter.graph.index import CROWD, GraphIndex, operator_key

Position = tuple[int, int]


class Worklist:
    """Roots of one phase. A root comes back when a node that its pattern can reach changes, or the answer to something that a
    rule asked about a tensor there.

    Attributes:
        watchers: by id() of a tensor, the roots at which a rule asked for its facts.
        tracers: by id() of a tensor, the roots at which a rule asked who makes it, or what the file declares of it.
        counters: by id() of a tensor, those at which a rule asked who reads it: by how many readers matter there, and whether
            there were more.
        incomplete: set when a change reached too many roots at once to list them; then the whole graph is looked at once more.
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
        for key in list(index.by_operator.keys if phase.any_root else phase.by_root):
            if (roots := phase.roots(key)) is None:
                continue
            if standing := roots.standing(index.by_operator.of(key), index):
                found += index.positions(standing)
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
        """Notes which tensors a rule at `root` asked about, as the context remembers it."""
        for tensor in context.seen:
            self.watchers.setdefault(tensor, {})[id(root)] = root
        for tensor in context.traced:
            self.tracers.setdefault(tensor, {})[id(root)] = root
        for (number, most), tensor in context.counted.items():
            kind = most, self._index.use_count(tensor) > most
            self.counters.setdefault(number, {}).setdefault(kind, {})[id(root)] = root

    def facts_changed(self, tensors: Iterable[gs.Tensor]) -> None:
        """Tries again the roots where a rule asked for the facts of these tensors."""
        for tensor in tensors if self.watchers else ():
            for root in self.watchers.pop(id(tensor), {}).values():
                self.add(root)

    def makers_changed(self, tensors: Iterable[gs.Tensor]) -> None:
        """Tries again the roots where a rule asked who makes these tensors: another node, or one that was edited."""
        for tensor in tensors if self.tracers else ():
            for root in self.tracers.pop(id(tensor), {}).values():
                self.add(root)

    def users_changed(self, *groups: Iterable[gs.Tensor]) -> None:
        """Tries again the roots where a rule asked who reads these tensors, unless there are still more than matter there."""
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
