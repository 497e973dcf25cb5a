"""The scopes of a model: its main graph, every subgraph body and every local function, outermost first.

Found without recursion, so that a deeply nested model from a stranger costs memory and not the interpreter's stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_graphsurgeon as gs

from rewriter.graph.objects import Node
from rewriter.record import field, record


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
        token: tells the scopes of one index from those of another.
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
    """(attribute, graph) of each subgraph of a node, without reading other attributes where the node knows them by itself."""
    known = getattr(node, "bodies", None)
    for name, value in (node.attrs if known is None else known).items():
        if isinstance(value, gs.Graph):
            yield name, value


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
            if node.__class__ is not Node or node._bodies or node._attrs is not None  # most nodes: nobody has looked at them
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
    """Nodes of a model, as optimizers are compared: bodies and local functions counted, and Constant nodes, which compute
    nothing, not.
    """
    return sum(node.op != "Constant" for scope in find_scopes(graph) for node in scope.graph.nodes)
