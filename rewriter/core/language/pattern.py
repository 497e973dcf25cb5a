"""A rule's match block as a graph: nodes by number, operands with the pattern nodes that make them.

The engine matches with it, and the analysis of rule sets compares two of them.

The root is the last node of the block that no other node of the block reads. All other nodes are reached from there, towards
producers and, if a pattern has several ends, from a tensor already matched to its consumers. The whole graph is never
searched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rewriter.core.errors import RewriterError
from rewriter.core.language import ast
from rewriter.core.language.ast import pattern_nodes
from rewriter.core.record import field, record

SIZE_LIMIT = 256  # nodes and operands of one pattern; matching descends by one level for each
ORDERED_ABOVE = 4
"""Commutative operators with more operands are matched in the written order only."""


class AnyOperator(frozenset[tuple[str, str]]):
    """The operators of a pattern node that may have any operator: `in` is true for all, and iteration gives none."""

    def __contains__(self, op: object) -> bool:
        return True

    def intersection(self, *others: Iterable[object]) -> frozenset[tuple[str, str]]:
        return frozenset().union(*others)  # type: ignore[arg-type]


ANY_OPERATOR = AnyOperator()


@record(frozen=True, slots=True)
class Made:
    """An operand made by another pattern node: its output `output`, or, with `run`, all of its outputs in order."""

    node: int
    output: int
    run: str | None = None


Operand = ast.Capture | ast.Wildcard | ast.Variadic | ast.ConstPattern | Made


@record(slots=True)
class PatternNode:
    """One node of a pattern. `ops` are (domain, operator) pairs, or `ANY_OPERATOR`; `inputs` refer to other pattern nodes by
    `Made`.
    """

    number: int
    ops: frozenset[tuple[str, str]]
    source: ast.NodePattern
    inputs: tuple[Operand, ...]
    fixed: int = 0  # operands that match exactly one tensor, optional ones excluded
    most: int | None = None  # the largest number of operands, None for any
    orders: bool = True  # whether two operand orders can differ
    split: bool = False  # whether operands follow a run, so that its end has to be searched for
    uses: list[int] = field(default_factory=list)  # pattern nodes that read this one


@record(slots=True)
class Pattern:
    """A compiled match block. `joins` are pattern nodes not reachable upwards from the root: (number, operand position,
    tensor name).
    """

    nodes: list[PatternNode]
    root: int
    joins: list[tuple[int, int, str]]
    produced: frozenset[str]  # names of tensors that pattern nodes make
    paths: list[tuple[int, list[tuple[str, frozenset[tuple[str, str]]]]]]


def operator_names(op: ast.Op, settings: Mapping[str, Any]) -> tuple[str, str]:
    """(domain, operator), a parameter's value written "domain::Op" or "domain.Op". Raises RewriterError when it is not set."""
    if not op.param:
        return ("" if op.domain == "ai.onnx" else op.domain), op.name
    value = settings.get(op.name)
    if not isinstance(value, str) or not value:
        raise RewriterError(f"parameter `{op.name}` must name an operator; set it with --set CODE.{op.name}=domain::Op")
    domain, _, name = value.replace("::", ".").rpartition(".")
    return ("" if domain == "ai.onnx" else domain), name


class NotConnected(RewriterError):
    """A node of a pattern cannot be reached from the others. `inner` is the part that could be reached if it had a name."""

    def __init__(self, node: ast.NodePattern, inner: ast.NodePattern | None) -> None:
        super().__init__("the pattern is not connected")
        self.node, self.inner = node, inner


def compile_pattern(match: ast.Match, settings: Mapping[str, Any]) -> Pattern:
    """Numbers the nodes of a match block and connects them. Raises NotConnected, or RewriterError when it is too large."""
    builder = _PatternBuilder(settings)
    for line in match.nodes:
        builder.declare(line)
    for number in range(len(match.nodes)):
        builder.connect(number)
    return builder.pattern()


class _PatternBuilder:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._nodes: list[PatternNode] = []
        self._makers: dict[str, tuple[int, int, bool]] = {}
        self._size = 0

    def declare(self, source: ast.NodePattern) -> int:
        self._size += 1 + len(source.inputs)
        if self._size > SIZE_LIMIT:
            raise RewriterError(f"a pattern of more than {SIZE_LIMIT} nodes and operands")
        number = len(self._nodes)
        free = any(op.is_any for op in source.ops)
        ops = ANY_OPERATOR if free else frozenset(operator_names(op, self._settings) for op in source.ops)
        self._nodes.append(PatternNode(number, ops, source, ()))
        for position, output in enumerate(source.outputs):
            if output.name is not None:
                self._makers[output.name] = (number, position, output.variadic)
        return number

    def connect(self, number: int) -> None:
        node = self._nodes[number]
        node.inputs = tuple(self._operand(number, operand) for operand in node.source.inputs)
        single = [operand for operand in node.inputs if not is_run(operand)]
        node.fixed = sum(not (isinstance(o, ast.Capture) and o.optional) for o in single)
        open_ended = node.source.more_inputs or len(single) < len(node.inputs)
        node.most = None if open_ended else len(single)
        runs = [at for at, operand in enumerate(node.inputs) if is_run(operand)]
        node.split = bool(runs) and (runs[0] < len(node.inputs) - 1 or node.source.more_inputs)
        node.orders = not node.split and not _interchangeable(node.inputs)

    def _operand(self, number: int, operand: ast.Operand) -> Operand:
        if isinstance(operand, ast.NodePattern):
            inner = self.declare(operand)
            self._nodes[inner].uses.append(number)
            self.connect(inner)
            return Made(inner, 0)
        if isinstance(operand, ast.Capture | ast.Variadic) and operand.name in self._makers:
            maker, position, variadic = self._makers[operand.name]
            self._nodes[maker].uses.append(number)
            return Made(maker, position, operand.name if variadic else None)
        return operand

    def pattern(self) -> Pattern:
        root = next(i for i in reversed(range(len(self._nodes))) if not self._nodes[i].uses)
        reached = set(self._upwards(root))
        joins: list[tuple[int, int, str]] = []
        while len(reached) < len(self._nodes):
            number, position, name = self._join(reached)
            joins.append((number, position, name))
            reached |= set(self._upwards(number))
        produced = frozenset(self._makers)
        return Pattern(self._nodes, root, joins, produced, list(self._paths(root, joins)))

    def _upwards(self, start: int) -> Iterator[int]:
        waiting = [start]
        while waiting:
            number = waiting.pop()
            yield number
            waiting.extend(operand.node for operand in self._nodes[number].inputs if isinstance(operand, Made))

    def _join(self, reached: set[int]) -> tuple[int, int, str]:
        """A pattern node outside of `reached` that reads a tensor named by a node inside: how to get there."""
        names: set[str] = set()
        for number in reached:
            source = self._nodes[number].source
            names |= {output.name for output in source.outputs if output.name and not output.variadic}
            names |= {operand.name for operand in source.inputs if isinstance(operand, ast.Capture)}
        for node in reversed(self._nodes):
            for position, operand in enumerate(node.source.inputs):
                if node.number not in reached and isinstance(operand, ast.Capture) and operand.name in names:
                    return node.number, position, operand.name
        for node in self._nodes:
            inside = next((one.node for one in node.inputs if isinstance(one, Made) and one.node in reached), None)
            if node.number not in reached and inside is not None:
                raise NotConnected(node.source, self._nodes[inside].source)
        loose = reached if 0 not in reached else set(range(len(self._nodes))) - reached
        raise NotConnected(self._nodes[min(loose)].source, None)

    def _paths(
        self, root: int, joins: list[tuple[int, int, str]]
    ) -> Iterator[tuple[int, list[tuple[str, frozenset[tuple[str, str]]]]]]:
        """For each pattern node the steps from it to the root: ("user" | "maker", operators of the node stepped to).

        A node is stepped to over any tensor that the two share, so a path needs no positions.
        """
        links: dict[int, list[tuple[int, str]]] = {node.number: [] for node in self._nodes}
        for node in self._nodes:
            for operand in node.inputs:
                if isinstance(operand, Made):
                    links[node.number].append((operand.node, "user"))  # from the maker to its user
                    links[operand.node].append((node.number, "maker"))
        for number, _, name in joins:
            for other in self._nodes:
                if other.number != number and name in _names(other.source):
                    links[number].append((other.number, "sibling"))
                    links[other.number].append((number, "sibling"))
        paths: dict[int, list[tuple[str, frozenset[tuple[str, str]]]]] = {root: []}
        waiting = [root]
        for here in waiting:
            for there, step in links[here]:
                if there not in paths:
                    paths[there] = [(step, self._nodes[here].ops), *paths[here]]
                    waiting.append(there)
        yield from paths.items()


def is_run(operand: Operand) -> bool:
    """Whether an operand matches any number of tensors."""
    return isinstance(operand, ast.Variadic) or (isinstance(operand, Made) and operand.run is not None)


def asks_more(operand: ast.Capture) -> bool:
    """Whether a capture demands more than that the operand is present."""
    return bool(operand.const or operand.optional or operand.type is not None)


def _names(source: ast.NodePattern) -> set[str]:
    found = {output.name for output in source.outputs if output.name}
    return found | {operand.name for operand in source.inputs if isinstance(operand, ast.Capture)}


def _interchangeable(operands: tuple[Operand, ...]) -> bool:
    """Whether every order of the operands means the same: none of them is named or tested."""
    return all(isinstance(operand, ast.Wildcard) for operand in operands)


# The order of a pattern's questions: first the cheap ones, and the ones that need only known facts.


def cost(operand: Operand) -> int:
    """Order of operand questions: structure first, then names, constants' contents last."""
    if isinstance(operand, Made):
        return 0
    return 2 if isinstance(operand, ast.ConstPattern) else 1


def is_late(attr: ast.AttrPattern) -> bool:
    """Whether an attribute is compared with something that the whole match binds."""
    return attr.mode == "equals" and not isinstance(attr.value, ast.Name) and not is_plain(attr.value)


def plain_value(value: ast.Expr) -> Any:
    """The value of a plain expression: a number, a text, a list of such; None for `none`."""
    if isinstance(value, ast.ListOf):
        return [plain_value(item) for item in value.items]
    if isinstance(value, ast.Unary):
        return -plain_value(value.operand) if value.op == "-" else not plain_value(value.operand)
    assert isinstance(value, ast.Literal)
    return value.value


def is_plain(value: ast.Expr | None) -> bool:
    """Whether an expression needs no name: a number, a text, a list of such."""
    if isinstance(value, ast.ListOf):
        return all(map(is_plain, value.items))
    return isinstance(value, ast.Literal) or (isinstance(value, ast.Unary) and is_plain(value.operand))


# How specific a rule is: if two rules of a phase match at the same place, the more specific one goes first.
#
# The measure is a number, so it orders all rules. Nodes weigh most, then demands on constants, types and attributes. If two
# numbers are equal and both rules may match, the rules must declare which goes `before` the other.


def specificity(rule: ast.Rule) -> int:
    """The number of the rule's demands, weighted. Rules on the interface count their conditions only."""
    nodes = list(pattern_nodes(rule.match))
    output_names = {output.name for node in nodes for output in node.outputs}
    total = len(rule.wheres) + len(rule.privates)
    for node in nodes:
        total += (50 if any(op.is_any for op in node.ops) else 100) + 3 * len(node.attrs) + (0 if node.more_inputs else 1)
        total += sum(_weight(operand, output_names) for operand in node.inputs)
    return total


def _weight(operand: ast.Operand, output_names: set[str | None]) -> int:
    if isinstance(operand, ast.Capture) and operand.name not in output_names:
        return 1 + 2 * operand.const + 2 * (operand.type is not None) - operand.optional
    return 4 if isinstance(operand, ast.ConstPattern) else 0
