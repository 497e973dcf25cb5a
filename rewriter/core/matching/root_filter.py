"""A first look at a root: the questions of all rules of one root operator that need no search and no facts.

At most places where the operator is right a rule is not, and for one of these reasons: the number of operands, who makes them,
attributes that are or are not written. A node shows so little of this that few views of it are different: the rules that may
stand at a view are found once, by asking each, and kept. Most nodes are then settled by one look into a dictionary, however
many rules there are.

Nothing has to be remembered of a first look that failed: its answers change only with nodes that the worklist follows anyway.
What is asked before and after is told in `rewriter.core.matching`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

import onnx_graphsurgeon as gs

from rewriter.core.graph.gs_lists import reading
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.objects import written_names
from rewriter.core.language import schema
from rewriter.core.language.pattern import ANY_OPERATOR, Made, Pattern, is_run
from rewriter.core.language.schema import normal

OpKey = tuple[str, str]
Shown = tuple[int, int, tuple[str | None, ...], frozenset[str]]
"""As `RootView`; of each maker the operator and the domain, one behind the other."""

MOST_VIEWS = 1 << 14  # that are remembered of one operator
_NOBODY = (None, None)


class RootView(NamedTuple):
    """What a node shows at once.

    Attributes:
        listed: number of operands, omitted ones included; `used_count` without trailing omitted ones. Both up to what matters.
        makers: operators that make the operands, by position; None where no rule asks for the operator.
        among: those of all operands together.
        written: attributes that are written, of those that rules ask for.
    """

    listed: int
    used_count: int
    makers: tuple[OpKey | None, ...]
    among: frozenset[OpKey]
    written: frozenset[str]


class RootFilter:
    """What the root of a pattern must show."""

    __slots__ = ("absent", "fixed", "makers", "most", "present")

    def __init__(self, pattern: Pattern) -> None:
        root = pattern.nodes[pattern.root]
        self.fixed = root.fixed
        self.most = root.most
        attrs = root.source.attrs
        self.present = frozenset(attr.name for attr in attrs if attr.mode == "present")
        self.absent = frozenset(attr.name for attr in attrs if attr.mode == "absent")
        # In a commutative operator, and behind a run, an operand may stand anywhere.
        commutative = root.ops is ANY_OPERATOR or any(schema.is_commutative(op, domain) for domain, op in root.ops)
        free = not root.source.ordered and commutative
        runs = [position for position, operand in enumerate(root.inputs) if is_run(operand)]
        placed = 0 if free else min(runs, default=len(root.inputs))
        self.makers: list[tuple[int | None, frozenset[OpKey]]] = [
            (position if position < placed else None, pattern.nodes[operand.node].ops)
            for position, operand in enumerate(root.inputs)
            if isinstance(operand, Made) and operand.run is None and pattern.nodes[operand.node].ops is not ANY_OPERATOR
        ]

    def allows(self, view: RootView) -> bool:
        """False when the pattern cannot stand where this is seen."""
        if view.listed < self.fixed or (self.most is not None and view.used_count > self.most):
            return False
        if not self.present <= view.written or self.absent & view.written:
            return False
        for position, ops in self.makers:
            if position is None:
                if not ops & view.among:
                    return False
            elif position >= len(view.makers) or view.makers[position] not in ops:
                return False
        return True


class Filtered(Protocol):
    """A rule that is made ready: `root_filter` None stands anywhere."""

    @property
    def root_filter(self) -> RootFilter | None: ...


R = TypeVar("R", bound=Filtered)


class Roots(Generic[R]):
    """The rules of one phase that may have a certain operator as their root, the best ones first."""

    def __init__(self) -> None:
        self._rules: list[R] = []
        self._known: dict[Shown, tuple[R, ...]] = {}
        self._attributes: frozenset[str] = frozenset()
        self._operators: frozenset[OpKey] = frozenset()
        self._positions = 0
        self._anywhere = False
        self._widest = 0
        self._makers: frozenset[str] | None = frozenset()  # one of these makes an operand wherever a rule stands, if not None

    def __iter__(self) -> Iterator[R]:
        return iter(self._rules)

    def add(self, compiled: R) -> None:
        """Adds a rule behind the others."""
        self._rules.append(compiled)
        root_filter = compiled.root_filter
        wanted = None if root_filter is None or not root_filter.makers else frozenset(op for _, op in root_filter.makers[0][1])
        self._makers = None if wanted is None or self._makers is None else self._makers | wanted
        if root_filter is None:
            return
        self._attributes |= root_filter.present | root_filter.absent
        self._widest = max(self._widest, root_filter.fixed, 0 if root_filter.most is None else root_filter.most + 1)
        for position, ops in root_filter.makers:
            self._operators |= ops
            self._anywhere |= position is None
            self._positions = max(self._positions, 0 if position is None else position + 1)

    def at(self, node: gs.Node, index: GraphIndex) -> tuple[R, ...]:
        """The rules whose first questions this node answers."""
        shown = self._shown(node, index.producer)
        found = self._known.get(shown)
        return self._find(shown) if found is None else found

    def candidates(self, nodes: Iterable[gs.Node], index: GraphIndex) -> list[gs.Node]:
        """Those of many nodes at which `at` finds any rule."""
        known, producer, shown_by = self._known, index.producer, self._shown
        found = []
        if self._makers is not None:
            nodes = reading(nodes, self._makers)
        for node in nodes:
            shown = shown_by(node, producer)
            rules = known.get(shown)
            if rules or (rules is None and self._find(shown)):
                found.append(node)
        return found

    def _shown(self, node: gs.Node, producer: Callable[[gs.Tensor], gs.Node | None]) -> Shown:
        """A view of a node as it is found in the graph: operators as they are written, and also those that no rule asks for."""
        inputs, widest = node.inputs, self._widest
        count = used = len(inputs)
        while used and not inputs[used - 1].name:
            used -= 1
        makers: tuple[str | None, ...] = ()
        if depth := count if self._anywhere else self._positions:
            for tensor in inputs[:depth]:
                maker = producer(tensor)
                makers += _NOBODY if maker is None else (maker.op, maker.domain)
        written = self._attributes.intersection(written_names(node)) if self._attributes else self._attributes
        return count if count < widest else widest, used if used < widest else widest, makers, written

    def _find(self, shown: Shown) -> tuple[R, ...]:
        """The rules for what a node shows; remembered."""
        count, used, written_makers, written = shown
        makers: list[OpKey | None] = []
        for op, domain in zip(written_makers[::2], written_makers[1::2], strict=True):
            key = None if op is None else (normal(domain or ""), op)
            makers.append(key if key in self._operators else None)
        among = frozenset(op for op in makers if op is not None)
        view = RootView(count, used, tuple(makers[: self._positions]), among, written)
        if len(self._known) >= MOST_VIEWS:
            self._known.clear()
        found = self._known[shown] = tuple(
            rule for rule in self._rules if rule.root_filter is None or rule.root_filter.allows(view)
        )
        return found
