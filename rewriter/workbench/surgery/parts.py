"""The tensors and nodes of a model by what people call them: a name, a pattern, or an operator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import Graph, Node
from rewriter.core.language.operator_traits import DRAWS

OPERATOR = "op:"
"""What begins the name of an operator, which stands for all nodes of it."""

_WILD = frozenset("*?[")
_SIMILAR = 3  # names that an error suggests


class Parts:
    """The tensors and nodes of the main graph by name. Of two tensors of one name the later one is meant."""

    def __init__(self, index: GraphIndex) -> None:
        self.index = index
        graph = index.graph
        main = index.members(index.scopes[0])
        held = graph.initializers if isinstance(graph, Graph) else ()
        self.tensors: dict[str, gs.Tensor] = {t.name: t for t in (*held, *graph.inputs) if t.name}
        self.nodes: dict[str, gs.Node] = {node.name: node for node in main if node.name}
        for node in main:
            self.tensors.update((tensor.name, tensor) for tensor in node.outputs if tensor.name)
        inner = inner_tensors(index)
        for node in index.all_nodes():
            for tensor in node.inputs:
                if tensor.name and id(tensor) not in inner:
                    self.tensors.setdefault(tensor.name, tensor)
        for tensor in graph.outputs:
            self.tensors.setdefault(tensor.name, tensor)
        self._main = main

    def tensor(self, name: str) -> gs.Tensor:
        """The tensor of exactly this name. Raises RewriterError."""
        found = self.tensors.get(name)
        if found is None:
            raise self._missing(name, "tensor", self.tensors)
        return found

    def node(self, name: str) -> gs.Node:
        """The node of this name, or that makes the tensor of this name. Raises RewriterError."""
        found = self.found(name)
        if found is None:
            raise self._missing(name, "node", self.nodes)
        return found

    def found(self, name: str) -> gs.Node | None:
        """The same, or None."""
        found = self.nodes.get(name)
        return self.index.producer(self.tensors[name]) if found is None and name in self.tensors else found

    def nodes_of(self, texts: Iterable[str]) -> list[gs.Node]:
        """The nodes that names, patterns and `op:TYPE` stand for, each once. Raises RewriterError for what stands for none."""
        found: dict[int, gs.Node] = {}
        for text in names_in(texts, lambda name: name in self.nodes or name in self.tensors):
            chosen = [self.node(text)] if text in self.nodes or text in self.tensors else self._matching(text)
            if not chosen:
                raise self._missing(text, "node", self.nodes)
            found.update((id(node), node) for node in chosen)
        return list(found.values())

    def outputs_of(self, texts: Iterable[str]) -> list[gs.Tensor]:
        """The tensors that names and patterns stand for, each once; a node stands for what it makes. Raises RewriterError."""
        return self._all(texts, lambda node: [tensor for tensor in node.outputs if tensor.name])

    def inputs_of(self, texts: Iterable[str]) -> list[gs.Tensor]:
        """The same, where a node stands for what it reads that is no constant."""
        return self._all(texts, lambda node: [t for t in reads(node) if t.name and not isinstance(t, gs.Constant)])

    def _all(self, texts: Iterable[str], of_node: Callable[[gs.Node], list[gs.Tensor]]) -> list[gs.Tensor]:
        found: dict[int, gs.Tensor] = {}
        for text in names_in(texts, lambda name: name in self.tensors or name in self.nodes):
            chosen = self._tensors_of(text, of_node)
            if not chosen:
                raise self._missing(text, "tensor or node", (*self.tensors, *self.nodes))
            found.update((id(tensor), tensor) for tensor in chosen)
        return list(found.values())

    def _tensors_of(self, text: str, of_node: Callable[[gs.Node], list[gs.Tensor]]) -> list[gs.Tensor]:
        if text in self.tensors:
            return [self.tensors[text]]
        if text in self.nodes:
            return of_node(self.nodes[text])
        if not text.startswith(OPERATOR) and _WILD & set(text):
            matched = [tensor for name, tensor in self.tensors.items() if fnmatchcase(name, text)]
            if matched:
                return matched
        return [tensor for node in self._matching(text) for tensor in of_node(node)]

    def _matching(self, text: str) -> list[gs.Node]:
        if text.startswith(OPERATOR):
            wanted = text.removeprefix(OPERATOR)
            return [node for node in self._main if fnmatchcase(node.op, wanted)]
        return [node for node in self._main if fnmatchcase(node.name, text)] if _WILD & set(text) else []

    def _missing(self, name: str, what: str, known: Iterable[str]) -> RewriterError:
        place = next((scope.path for scope in self.index.scopes[1:] if _has(scope.graph, name)), None)
        if place is not None:
            return RewriterError(f"{name!r} is inside of {place}; only the main graph can be cut and edited here")
        if name.startswith(OPERATOR):
            return RewriterError(f"there is no node of the operator {name.removeprefix(OPERATOR)!r} in the main graph")
        from difflib import get_close_matches

        similar = get_close_matches(name, list(known), _SIMILAR)
        hint = f"; there is {', '.join(map(repr, similar))}" if similar else ""
        return RewriterError(f"there is no {what} {name!r} in the main graph{hint}")


def names_in(texts: Iterable[str], known: Callable[[str], bool]) -> Iterator[str]:
    """The names in texts, which may be lists separated by commas; a name that holds a comma itself is taken whole."""
    for text in texts:
        if known(text) or "," not in text:
            yield text
        else:
            yield from (part.strip() for part in text.split(",") if part.strip())


def with_outputs(model: Model, texts: Sequence[str]) -> None:
    """Makes outputs of the tensors that names and patterns stand for. Raises RewriterError for what stands for none."""
    if texts:
        graph = model.graph
        known = set(map(id, graph.outputs))
        named = Parts(GraphIndex(graph)).outputs_of(texts)
        graph.outputs = [*graph.outputs, *(tensor for tensor in named if id(tensor) not in known)]


def reads(node: gs.Node) -> Iterator[gs.Tensor]:
    """What a node reads, and what the bodies inside it read and hand out, their own tensors among them."""
    yield from node.inputs
    for graph in node.subgraphs(recursive=True) if may_hold_bodies(node) else ():
        for inner in graph.nodes:
            yield from inner.inputs
        yield from graph.outputs


def may_hold_bodies(node: gs.Node) -> bool:
    """False for nearly all nodes, at once: they were read without bodies, and nobody has looked at their attributes."""
    return node.__class__ is not Node or bool(node._bodies) or node._attrs is not None


def same_each_time(node: gs.Node) -> bool:
    """Whether a node is known to give the same whenever it reads the same; one without operands only if it is a constant."""
    if (node.domain or "") not in ("", "ai.onnx") or node.op in DRAWS | {"Dropout"}:
        return False
    if may_hold_bodies(node) and any(True for _ in node.subgraphs()):
        return False
    return bool(node.inputs) or node.op == "Constant"


def inner_tensors(index: GraphIndex) -> set[int]:
    """The tensors, by id(), that bodies and functions define themselves."""
    found: set[int] = set()
    for scope in index.scopes[1:]:
        graph = scope.graph
        held = graph.initializers if isinstance(graph, Graph) else ()
        found.update(map(id, (*graph.inputs, *held)))
        found.update(id(tensor) for node in graph.nodes for tensor in node.outputs)
        if scope.is_function:
            found.update(id(tensor) for node in graph.nodes for tensor in node.inputs)
    return found


def _has(graph: gs.Graph, name: str) -> bool:
    return any(node.name == name or any(tensor.name == name for tensor in node.outputs) for node in graph.nodes)
