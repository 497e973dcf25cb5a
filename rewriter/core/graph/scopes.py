"""The scopes of a model: its main graph, every subgraph body and every local function; and its nodes by operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Set

import onnx_graphsurgeon as gs

from rewriter.core.graph.objects import Node
from rewriter.core.graph.values import Variable
from rewriter.core.record import field, record


@record(eq=False, slots=True)
class Scope:
    """One list of nodes with its own names.

    Attributes:
        graph: the `gs.Graph`, or the `gs.Function`, whose nodes these are.
        path: for people: "main", "Loop_3.body", "function local::Norm".
        opsets: version by operator domain; the default domain is "".
        parent: the enclosing scope of a subgraph body, otherwise None.
        owner: the node that holds this body in its attribute `attr`, otherwise None.
        number: position among all scopes, outermost first.
        token: distinguishes the scopes of one index from another index's.
    """

    graph: gs.Graph
    path: str
    opsets: dict[str, int]
    parent: Scope | None = None
    owner: gs.Node | None = None
    attr: str = ""
    number: int = 0
    is_function: bool = field(default=False)
    token: object = field(default=None)


def opset_versions(graph: gs.Graph) -> dict[str, int]:
    """Opset version by domain of a graph or function; "ai.onnx" is written as ""."""
    versions: dict[str, int] = {}
    for entry in graph.import_domains or ():
        versions["" if entry.domain == "ai.onnx" else entry.domain] = entry.version
    if graph.opset is not None and ("" in versions or not versions):
        versions[""] = graph.opset
    return versions


def bodies(node: gs.Node) -> Iterator[tuple[str, gs.Graph]]:
    """(attribute, graph) of each subgraph of a node, without reading other attributes if the node lists its subgraphs."""
    known = getattr(node, "bodies", None)
    for name, value in (node.attrs if known is None else known).items():
        if isinstance(value, gs.Graph):
            yield name, value


def may_hold_bodies(node: gs.Node) -> bool:
    """False, at once, for nodes that were read without bodies and whose attributes were never read: nearly all nodes."""
    return node.__class__ is not Node or bool(node._bodies) or node._attrs is not None


def with_inner(nodes: Iterable[gs.Node]) -> Iterator[gs.Node]:
    """Nodes, and those in their bodies at any depth."""
    for node in nodes:
        yield node
        for graph in node.subgraphs(recursive=True) if may_hold_bodies(node) else ():
            yield from graph.nodes


# Local functions, and which nodes call them.

FunctionKey = tuple[str, str, str]
"""Domain, name, overload."""


def callee(node: gs.Node) -> FunctionKey:
    """The function that a node calls, if its operator is one."""
    return node.domain or "", node.op, node.overload if isinstance(node, Node) else ""


def key_of(function: gs.Function) -> FunctionKey:
    """The name by which nodes call a function."""
    return function.domain or "", function.name, getattr(function, "overload", "") or ""


def needed_functions(functions: Iterable[gs.Function], nodes: Iterable[gs.Node]) -> list[gs.Function]:
    """The functions that nodes call, directly or through other functions, in their order."""
    known = {key_of(function): function for function in functions}
    found: set[FunctionKey] = set()
    waiting = [nodes] if known else []
    while waiting:
        for node in waiting.pop():
            key = callee(node)
            if key in known and key not in found:
                found.add(key)
                waiting.append(with_inner(known[key].nodes))
    return [function for key, function in known.items() if key in found]


def find_scopes(graph: gs.Graph) -> list[Scope]:
    """All scopes of a model: the main graph, then its functions, each followed by the bodies inside it."""
    roots = [Scope(graph, "main", opset_versions(graph))]
    for function in getattr(graph, "functions", ()):
        path = f"function {function.domain}::{function.name}"
        roots.append(Scope(function, path, opset_versions(function) or roots[0].opsets, is_function=True))
    found: list[Scope] = []
    waiting = roots[::-1]
    while waiting:
        scope = waiting.pop()
        scope.number = len(found)
        found.append(scope)
        inner = [
            Scope(
                body,
                f"{_prefix(scope)}{node.name or node.op}.{attr}",
                scope.opsets,
                scope,
                node,
                attr,
                is_function=scope.is_function,
            )
            for node in scope.graph.nodes
            if may_hold_bodies(node)
            for attr, body in bodies(node)
        ]
        waiting.extend(reversed(inner))
    return found


def _prefix(scope: Scope) -> str:
    return "" if scope.path == "main" else scope.path + "/"


def nested(scopes: Iterable[Scope]) -> dict[int, list[Scope]]:
    """By node id: all scopes that lie inside that node, at any depth."""
    found: dict[int, list[Scope]] = {}
    for scope in scopes:
        outer: Scope | None = scope
        while outer is not None and outer.owner is not None:
            found.setdefault(id(outer.owner), []).append(scope)
            outer = outer.parent
    return found


def node_count(graph: gs.Graph) -> int:
    """The number of nodes by which optimizers are compared: with bodies and local functions, without Constant nodes, which
    compute nothing.
    """
    return sum(node.op != "Constant" for scope in find_scopes(graph) for node in scope.graph.nodes)


# The nodes of a model by their operator, so that checks about some operators visit their nodes only.
#
# Most checks of a whole model (which rules can match in it, at which nodes, whether its opset has all that it uses) are about
# operators. A model has some dozens of operators, however many nodes it has.

OpKey = tuple[str, str]


def operator_key(node: gs.Node) -> OpKey:
    """(domain, operator) with the default domain written as ""."""
    domain = node.domain
    return "" if not domain or domain == "ai.onnx" else domain, node.op


class NodesByOperator:
    """Nodes by (domain, operator), current during a run."""

    __slots__ = ("_constants", "_nodes")

    def __init__(self, nodes: Iterable[gs.Node]) -> None:
        self._constants: tuple[int, Collection[gs.Constant]] | None = None
        written: defaultdict[tuple[str, str | None], list[gs.Node]] = defaultdict(list)
        for node in nodes:
            written[node.op, node.domain].append(node)
        self._nodes: dict[OpKey, dict[int, gs.Node]] = {}
        for alike in written.values():  # a domain may be written in several ways
            self._nodes.setdefault(operator_key(alike[0]), {}).update(zip(map(id, alike), alike, strict=True))

    @property
    def keys(self) -> Set[OpKey]:
        """The operators that some node has."""
        return self._nodes.keys()

    def of(self, key: OpKey) -> Collection[gs.Node]:
        """The nodes of one operator, in no particular order. The live view: copy before editing."""
        return self._nodes.get(key, {}).values()

    def constants(self, novelty: int) -> Collection[gs.Constant]:
        """Each initializer that a node reads, or has read since the last change of `novelty`, once."""
        if self._constants is not None and self._constants[0] == novelty:
            return self._constants[1]
        found: dict[int, gs.Constant] = {}
        for nodes in self._nodes.values():
            for node in nodes.values():
                for tensor in node.inputs:
                    if tensor.__class__ is not Variable and isinstance(tensor, gs.Constant):
                        found[id(tensor)] = tensor
        self._constants = novelty, found.values()
        return found.values()

    def add(self, node: gs.Node) -> None:
        """Takes in a node."""
        self._nodes.setdefault(operator_key(node), {})[id(node)] = node

    def drop(self, node: gs.Node) -> None:
        """Removes a node, which still has the operator with which it was added."""
        key = operator_key(node)
        nodes = self._nodes[key]
        del nodes[id(node)]
        if not nodes:
            del self._nodes[key]
