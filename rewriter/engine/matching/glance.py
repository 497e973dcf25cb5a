"""A first look at a root: the questions of all rules of one root operator that need no search and no facts.

At most places where the operator is right a rule is not, and for one of these reasons: the number of operands, who makes them,
attributes that are or are not written. A node shows so little of this that few views of it are different: the rules that may
stand at a view are found once, by asking each, and kept. Most nodes are then settled by one look into a dictionary, however
many rules there are.

Nothing has to be remembered of a glance that failed: its answers change only with nodes that the worklist follows anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import onnx_graphsurgeon as gs

from rewriter.graph.index import GraphIndex, operator_key
from rewriter.graph.objects import written_names
from rewriter.language import schema
from rewriter.language.pattern import Made, Pattern

if TYPE_CHECKING:
    from rewriter.engine.compile import CompiledRule

OpKey = tuple[str, str]


class View(NamedTuple):
    """What a node shows at once.

    Attributes:
        listed: number of operands, omitted ones included; `given` without trailing omitted ones. Both up to what matters.
        makers: operators that make the operands, by position; None where no rule asks for the operator.
        among: those of all operands together.
        written: attributes that are written, of those that rules ask for.
    """

    listed: int
    given: int
    makers: tuple[OpKey | None, ...]
    among: frozenset[OpKey]
    written: frozenset[str]


class Glance:
    """What the root of a pattern must show."""

    __slots__ = ("absent", "fixed", "makers", "most", "present")

    def __init__(self, pattern: Pattern) -> None:
        root = pattern.nodes[pattern.root]
        self.fixed = root.fixed
        self.most = root.most
        attrs = root.source.attrs
        self.present = frozenset(attr.name for attr in attrs if attr.mode == "present")
        self.absent = frozenset(attr.name for attr in attrs if attr.mode == "absent")
        # In a commutative operator an operand may stand anywhere.
        free = not root.source.ordered and any(schema.is_commutative(op, domain) for domain, op in root.ops)
        self.makers: list[tuple[int | None, frozenset[OpKey]]] = [
            (None if free else position, pattern.nodes[operand.node].ops)
            for position, operand in enumerate(root.inputs)
            if isinstance(operand, Made) and operand.run is None
        ]

    def allows(self, view: View) -> bool:
        """False when the pattern cannot stand where this is seen."""
        if view.listed < self.fixed or (self.most is not None and view.given > self.most):
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


class Roots:
    """The rules of one phase that may have a certain operator as their root, the best ones first."""

    def __init__(self) -> None:
        self._rules: list[CompiledRule] = []
        self._known: dict[tuple[Any, ...], tuple[CompiledRule, ...]] = {}
        self._attributes: frozenset[str] = frozenset()
        self._operators: frozenset[OpKey] = frozenset()
        self._positions = 0
        self._anywhere = False
        self._widest = 0

    def __iter__(self) -> Iterator[CompiledRule]:
        return iter(self._rules)

    def add(self, compiled: CompiledRule) -> None:
        """Adds a rule behind the others."""
        self._rules.append(compiled)
        glance = compiled.glance
        if glance is None:
            return
        self._attributes |= glance.present | glance.absent
        self._widest = max(self._widest, glance.fixed, 0 if glance.most is None else glance.most + 1)
        for position, ops in glance.makers:
            self._operators |= ops
            self._anywhere |= position is None
            self._positions = max(self._positions, 0 if position is None else position + 1)

    def at(self, node: gs.Node, index: GraphIndex) -> tuple[CompiledRule, ...]:
        """The rules whose first questions this node answers."""
        inputs = node.inputs
        count = given = len(inputs)
        while given and not inputs[given - 1].name:
            given -= 1
        makers = tuple(self._asked(inputs[: self._positions], index)) if self._positions else ()
        among = frozenset(filter(None, self._asked(inputs, index))) if self._anywhere else frozenset()
        written = self._attributes.intersection(written_names(node)) if self._attributes else self._attributes
        widest = self._widest
        view = count if count < widest else widest, given if given < widest else widest, makers, among, written
        found = self._known.get(view)
        if found is None:
            shown = View(*view)
            found = tuple(rule for rule in self._rules if rule.glance is None or rule.glance.allows(shown))
            self._known[shown] = found
        return found

    def _asked(self, tensors: Iterable[gs.Tensor], index: GraphIndex) -> list[OpKey | None]:
        operators, producer, found = self._operators, index.producer, list[OpKey | None]()
        for tensor in tensors:
            maker = producer(tensor)
            op = None if maker is None else operator_key(maker)
            found.append(op if op in operators else None)
        return found
