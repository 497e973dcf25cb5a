"""Which rules may match at a node, by what the node shows at once: how many operands it has, and who makes them.

At most nodes of the right operator a rule does not match for one of these reasons. A node shows so little of this that few
views of it differ: the rules that may match at a view are found once, by asking each, and kept. Most nodes are then settled by
one look into a dictionary, however many rules there are.

Nothing has to be remembered of a look that failed: its answer changes only with nodes that the worklist follows anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

import onnx_graphsurgeon as gs

from rewriter.core.graph.gs_lists import reading
from rewriter.core.graph.index import GraphIndex
from rewriter.core.language.pattern import ANY_OPERATOR, Made, Pattern, is_run
from rewriter.core.language.schema import normal
from rewriter.core.matching.questions import is_free

OpKey = tuple[str, str]
View = tuple[int, int, tuple[str | None, ...]]
"""Number of operands, the same without trailing omitted ones, and of each maker the operator and the domain, one by one."""

MOST_VIEWS = 1 << 14  # that are remembered of one operator
_NOBODY = (None, None)


class EarlyReject:
    """What the root of a pattern must show.

    Attributes:
        fixed, most: the least and the largest number of operands.
        makers: operators that make an operand, with its position; None where it may stand anywhere.
    """

    __slots__ = ("fixed", "makers", "most")

    def __init__(self, pattern: Pattern) -> None:
        root = pattern.nodes[pattern.root]
        self.fixed, self.most = root.fixed, root.most
        runs = [position for position, operand in enumerate(root.inputs) if is_run(operand)]
        placed = 0 if is_free(root) else min(runs, default=len(root.inputs))
        self.makers: list[tuple[int | None, frozenset[OpKey]]] = [
            (position if position < placed else None, pattern.nodes[operand.node].ops)
            for position, operand in enumerate(root.inputs)
            if isinstance(operand, Made) and operand.run is None and pattern.nodes[operand.node].ops is not ANY_OPERATOR
        ]

    def allows(self, count: int, used: int, makers: Sequence[OpKey | None]) -> bool:
        """False if the pattern cannot match where this is shown."""
        if count < self.fixed or (self.most is not None and used > self.most):
            return False
        for position, ops in self.makers:
            if position is None:
                if ops.isdisjoint(makers):
                    return False
            elif position >= len(makers) or makers[position] not in ops:
                return False
        return True


class Matched(Protocol):
    """A rule that is made ready."""

    @property
    def early(self) -> EarlyReject: ...


R = TypeVar("R", bound=Matched)


class Roots(Generic[R]):
    """The rules of one phase that may have a certain operator as their root, the best ones first."""

    def __init__(self) -> None:
        self._rules: list[R] = []
        self._known: dict[View, tuple[R, ...]] = {}
        self._positions: int | None = 0  # of operands whose makers matter; None for all
        self._makers: frozenset[str] | None = frozenset()  # one of these makes an operand wherever a rule matches, if not None

    def __iter__(self) -> Iterator[R]:
        return iter(self._rules)

    def add(self, rule: R) -> None:
        """Adds a rule behind the others."""
        self._rules.append(rule)
        makers = rule.early.makers
        self._makers = self._makers | {op for _, op in makers[0][1]} if makers and self._makers is not None else None
        for position, _ in makers:
            if position is None or self._positions is None:
                self._positions = None
            else:
                self._positions = max(self._positions, position + 1)

    def at(self, node: gs.Node, index: GraphIndex) -> tuple[R, ...]:
        """The rules that may match at a node."""
        view = self._view(node, index.producer)
        found = self._known.get(view)
        return self._find(view) if found is None else found

    def candidates(self, nodes: Iterable[gs.Node], index: GraphIndex) -> list[gs.Node]:
        """Those of many nodes at which `at` finds any rule."""
        known, producer, view_of = self._known, index.producer, self._view
        found = []
        if self._makers is not None:
            nodes = reading(nodes, self._makers)
        for node in nodes:
            view = view_of(node, producer)
            rules = known.get(view)
            if rules or (rules is None and self._find(view)):
                found.append(node)
        return found

    def _view(self, node: gs.Node, producer: Callable[[gs.Tensor], gs.Node | None]) -> View:
        inputs = node.inputs
        count = used = len(inputs)
        while used and not inputs[used - 1].name:
            used -= 1
        makers: tuple[str | None, ...] = ()
        if (depth := self._positions) != 0:
            for tensor in inputs[:depth]:
                maker = producer(tensor)
                makers += _NOBODY if maker is None else (maker.op, maker.domain)
        return count, used, makers

    def _find(self, view: View) -> tuple[R, ...]:
        """The rules for a view; remembered."""
        count, used, written = view
        makers = [
            None if op is None else (normal(domain or ""), op) for op, domain in zip(written[::2], written[1::2], strict=True)
        ]
        if len(self._known) >= MOST_VIEWS:
            self._known.clear()
        found = self._known[view] = tuple(rule for rule in self._rules if rule.early.allows(count, used, makers))
        return found
