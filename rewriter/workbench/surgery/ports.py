"""Inputs and outputs of a model, or of a part of one, by the names that people write for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from shlex import quote
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.errors import RewriterError
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.model_text import type_text
from rewriter.core.graph.objects import Graph, may_hold_bodies, opset_versions
from rewriter.core.graph.values import Variable, elem_type
from rewriter.core.language.operator_traits import MAY_DRAW
from rewriter.core.language.schema import DTYPE_NAMES, normal, registered_at
from rewriter.core.onnxfile.tensors import TensorType, decode, encode, gs_dtype, refine

_TYPE = re.compile(r"[A-Za-z0-9_\[\](),.? -]+")
_SHOWN = (
    (r"\bsequence\(", "seq("), (r"\bmap (\w+) to\(", r"map(\1, "), (r"\bsparse (\w+\[[^]]*\])", r"sparse_tensor(\1)"),
    (r"\[\]", ""), (r"\[\.\.\.\]", "[]"),
)  # fmt: skip
"""Types as this program shows them, and in ONNX's text, where `float` is a scalar and `float[]` has any rank."""
_EXAMPLES = {"seq": "seq(float[1])", "optional": "optional(float[1])", "map": "map(int64, float[1])"}
"""Examples of types that are no tensors, by the first word of their names in schemas."""


def parsed_types(texts: Iterable[str]) -> dict[str, TensorType]:
    """`NAME:TYPE` as types by name, with each type in ONNX's text format: `float[N,3,?]`, `seq(float[1])`.

    Raises:
        RewriterError: a text has another form.
    """
    found: dict[str, TensorType] = {}
    for text in texts:
        name, colon, kind = text.rpartition(":")
        if not colon or not name:
            raise RewriterError(f"{text!r} is not NAME:TYPE, as 'x:float[1,3,8,8]'")
        found[name] = parsed_type(kind)
    return found


def parsed_type(text: str) -> TensorType:
    """A type in ONNX's text format, or as this program shows it; without brackets the shape stays unknown.

    Raises:
        RewriterError: the text is no type.
    """
    proto, said = None, text
    for shown, written in _SHOWN:
        said = re.sub(shown, written, said)
    if _TYPE.fullmatch(said):
        try:
            proto = onnx.parser.parse_graph(f"g ({said} x) => () {{ }}").input[0].type
        except Exception:  # the parser raises a class of its own
            proto = None
    if proto is None:
        raise RewriterError(f"{text!r} is no type; write it as float[1,3,N], int64[?] or {', '.join(_EXAMPLES.values())}")
    if "[" not in text:
        _innermost(proto).ClearField("shape")
    return decode(proto.SerializeToString())


def _innermost(proto: Any) -> Any:
    """The tensor type inside a type."""
    while (kind := proto.WhichOneof("value")) not in ("tensor_type", "sparse_tensor_type"):
        proto = proto.map_type.value_type if kind == "map_type" else getattr(proto, kind).elem_type
    return getattr(proto, kind)


class Ports:
    """Declares inputs and outputs.

    Args:
        facts: facts about the model, before it is cut.
        types: types that the user gives, by name.
    """

    def __init__(self, facts: Facts, types: Mapping[str, TensorType]) -> None:
        self._facts = facts
        self._types = types
        self._used: set[str] = set()
        graph = facts.index.graph
        self._before = set(map(id, (*graph.inputs, *graph.outputs)))

    def declare(self, tensors: Iterable[gs.Tensor], role: str) -> None:
        """Makes tensors declare the user's types, the types that they declare already, or the derived types.

        Raises:
            RewriterError: the element type or the rank of some of them is unknown.
        """
        for tensor, known in self._all(tensors, role):
            set_type(tensor, known)

    def types(self, tensors: Iterable[gs.Tensor]) -> dict[str, TensorType]:
        """The types that tensors would declare, by name. Errors as for `declare`."""
        return {tensor.name: known for tensor, known in self._all(tensors, "output")}

    def _all(self, tensors: Iterable[gs.Tensor], role: str) -> list[tuple[Variable, TensorType]]:
        found = [(tensor, self._type(tensor)) for tensor in tensors if isinstance(tensor, Variable)]
        lacking = [(tensor, known) for tensor, known in found if self._lacks(tensor, known)]
        if lacking:
            tensor, known = lacking[0]
            what = "element type" if known.dtype is None else "rank"
            more = f" (and of {len(lacking) - 1} more)" if lacking[1:] else ""
            options = " ".join(f"--type {quote(f'{tensor.name}:{self._example(tensor, known)}')}" for tensor, known in lacking)
            raise RewriterError(f"the {what} of the new {role} {tensor.name!r}{more} is unknown; set it with {options}")
        return found

    def _type(self, tensor: Variable) -> TensorType:
        self._used.add(tensor.name)
        return self._types.get(tensor.name) or self._known(tensor)

    def _lacks(self, tensor: Variable, known: TensorType) -> bool:
        return not known.other and (known.dtype is None or (known.shape is None and tensor.name not in self._types))

    def _example(self, tensor: Variable, known: TensorType) -> str:
        """An example of how to write the type, with the element type if it is known."""
        kind = _kind(tensor, opset_versions(self._facts.index.graph))
        return _EXAMPLES.get(kind, f"{'float' if known.dtype is None else DTYPE_NAMES[known.dtype]}[1,3]")

    def unused(self) -> list[str]:
        """Names with a type from the user that no tensor needed."""
        return [name for name in self._types if name not in self._used]

    def _known(self, tensor: Variable) -> TensorType:
        found = self._facts.fact(tensor).type
        dtype, shape = self._facts.declared(tensor)
        if id(tensor) in self._before and dtype is not None and shape is not None:
            return TensorType(dtype, shape)
        return found if found.other else refine(found, TensorType(dtype, shape))


def _kind(tensor: Variable, versions: Mapping[str, int]) -> str:
    """The kind on which schemas of the operators around a tensor agree: "tensor", "seq", "optional", or "" for none."""
    for node in (*tensor.inputs, *tensor.outputs):
        is_output = node in tensor.inputs
        domain = normal(node.domain or "")
        schema = registered_at(node.op, domain, versions.get(domain, 0))
        formals = () if schema is None else schema.outputs if is_output else schema.inputs
        place = next((i for i, one in enumerate(node.outputs if is_output else node.inputs) if one is tensor), None)
        if place is not None and formals:
            kinds = {kind.partition("(")[0] for kind in formals[min(place, len(formals) - 1)].types}
            if len(kinds) == 1:
                return kinds.pop()
    return ""


def set_type(tensor: Variable, known: TensorType) -> None:
    """Makes a tensor declare a type; existing declarations stay as they are written."""
    if not known.other:
        tensor.dtype = None if known.dtype is None else gs_dtype(known.dtype)
        tensor.shape = None if known.shape is None else list(known.shape)
        tensor.type = "tensor_type"
    elif not tensor.infos or encode(known) != tensor.infos[0].type.SerializeToString():
        tensor.infos = (onnx.ValueInfoProto(name=tensor.name, type=onnx.TypeProto.FromString(known.other)),)
        said = tensor.said
        tensor.dtype, tensor.shape, tensor.type = gs_dtype(said.elem_type), said.shape, said.kind


def shown(tensor: gs.Tensor) -> str:
    """`x float[1,3,8,8]`, as a tensor declares itself."""
    if isinstance(tensor, gs.Constant):
        return f"{tensor.name} {_shown(TensorType(elem_type(tensor), tuple(tensor.shape)))}"
    if isinstance(tensor, Variable) and tensor.type not in (None, "tensor_type") and tensor.infos:
        return f"{tensor.name} {type_text(tensor.infos[0].type)}"
    return f"{tensor.name} {_shown(TensorType(elem_type(tensor), None if tensor.shape is None else tuple(tensor.shape)))}"


def _shown(known: TensorType) -> str:
    return type_text(onnx.TypeProto.FromString(encode(known))) or "of unknown type"


# The tensors and nodes of a model by the texts that people write: a name, a pattern, or an operator.

OPERATOR = "op:"
"""Begins the name of an operator, which stands for all its nodes."""

_WILD = frozenset("*?[")
_SIMILAR = 3  # names that an error suggests


class Parts:
    """The tensors and nodes of the main graph by name. Of two tensors with one name, the name means the later one."""

    def __init__(self, index: GraphIndex) -> None:
        self.index = index
        graph = index.graph
        main = index.members(index.scopes[0])
        initializers = graph.initializers if isinstance(graph, Graph) else ()
        self.tensors: dict[str, gs.Tensor] = {t.name: t for t in (*initializers, *graph.inputs) if t.name}
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
            raise self.missing(name, "tensor", self.tensors)
        return found

    def node(self, name: str) -> gs.Node:
        """The node of this name, or that makes the tensor of this name. Raises RewriterError."""
        found = self.find_node(name)
        if found is None:
            raise self.missing(name, "node", self.nodes)
        return found

    def find_node(self, name: str) -> gs.Node | None:
        """The node as for `node`, or None."""
        found = self.nodes.get(name)
        return self.index.producer(self.tensors[name]) if found is None and name in self.tensors else found

    def nodes_of(self, texts: Iterable[str]) -> list[gs.Node]:
        """The nodes that names, patterns and `op:TYPE` match, each once. Raises RewriterError for a text that matches none."""
        found: dict[int, gs.Node] = {}
        for text in names_in(texts, lambda name: name in self.nodes or name in self.tensors):
            chosen = [self.node(text)] if text in self.nodes or text in self.tensors else self._matching(text)
            if not chosen:
                raise self.missing(text, "node", self.nodes)
            found.update((id(node), node) for node in chosen)
        return list(found.values())

    def outputs_of(self, texts: Iterable[str]) -> list[gs.Tensor]:
        """The tensors that names and patterns match, each once; a node stands for its outputs. Raises RewriterError."""
        return self._all(texts, lambda node: [tensor for tensor in node.outputs if tensor.name])

    def inputs_of(self, texts: Iterable[str]) -> list[gs.Tensor]:
        """The same, except that a node stands for its operands that are no constants."""
        return self._all(texts, lambda node: [t for t in reads(node) if t.name and not isinstance(t, gs.Constant)])

    def _all(self, texts: Iterable[str], of_node: Callable[[gs.Node], list[gs.Tensor]]) -> list[gs.Tensor]:
        found: dict[int, gs.Tensor] = {}
        for text in names_in(texts, lambda name: name in self.tensors or name in self.nodes):
            chosen = self._tensors_of(text, of_node)
            if not chosen:
                raise self.missing(text, "tensor or node", (*self.tensors, *self.nodes))
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

    def missing(self, name: str, what: str, known: Iterable[str]) -> RewriterError:
        """The error about a name that matches nothing, with similar names."""
        place = next((scope.path for scope in self.index.scopes[1:] if _has(scope.graph, name)), None)
        if place is not None:
            return RewriterError(f"{name!r} is inside of {place}; only the main graph can be cut and edited here")
        if name.startswith(OPERATOR):
            return RewriterError(f"there is no node of the operator {name.removeprefix(OPERATOR)!r} in the main graph")
        from difflib import get_close_matches

        similar = get_close_matches(name, list(known), _SIMILAR)
        hint = f"there is {', '.join(map(repr, similar))}" if similar else "`rewriter show MODEL --nodes` lists them"
        return RewriterError(f"there is no {what} {name!r} in the main graph; {hint}")


def names_in(texts: Iterable[str], known: Callable[[str], bool]) -> Iterator[str]:
    """The names in texts, which may be lists separated by commas; a name that contains a comma itself is kept whole."""
    for text in texts:
        if known(text) or "," not in text:
            yield text
        else:
            yield from (part.strip() for part in text.split(",") if part.strip())


def with_outputs(model: Model, texts: Sequence[str]) -> None:
    """Turns the tensors that names and patterns match into outputs. Raises RewriterError for a text that matches none."""
    if texts:
        graph = model.graph
        known = set(map(id, graph.outputs))
        named = Parts(GraphIndex(graph)).outputs_of(texts)
        graph.outputs = [*graph.outputs, *(tensor for tensor in named if id(tensor) not in known)]


def reads(node: gs.Node) -> Iterator[gs.Tensor]:
    """The operands of a node, and the tensors that bodies inside it read and return, including the bodies' own tensors."""
    yield from node.inputs
    for graph in node.subgraphs(recursive=True) if may_hold_bodies(node) else ():
        for inner in graph.nodes:
            yield from inner.inputs
        yield from graph.outputs


def reached(start: Iterable[gs.Node], near: Callable[[gs.Node], Iterable[gs.Node]]) -> dict[int, gs.Node]:
    """The nodes that can be reached from some nodes through `near`, these included; by id()."""
    found: dict[int, gs.Node] = {}
    waiting = list(start)
    while waiting:
        node = waiting.pop()
        if id(node) not in found:
            found[id(node)] = node
            waiting += near(node)
    return found


def same_each_time(node: gs.Node) -> bool:
    """Whether a node is known to return the same for the same operands; one without operands only if it is a constant."""
    if (node.domain or "") not in ("", "ai.onnx") or node.op in MAY_DRAW:
        return False
    if may_hold_bodies(node) and any(True for _ in node.subgraphs()):
        return False
    return bool(node.inputs) or node.op == "Constant"


def tensors_of(index: GraphIndex) -> Iterator[gs.Tensor]:
    """The named tensors of the main graph and of bodies, each at least once; functions have their own."""
    for scope in index.scopes:
        if scope.is_function:
            continue
        graph = scope.graph
        parts = [graph.inputs, graph.outputs]
        if isinstance(graph, Graph):
            parts += [graph.initializers, graph.origin.inputs]
        for node in graph.nodes:
            parts += [node.inputs, node.outputs]
        yield from (tensor for part in parts for tensor in part if tensor.name)


def inner_tensors(index: GraphIndex) -> set[int]:
    """The tensors, by id(), that bodies and functions define themselves."""
    found: set[int] = set()
    for scope in index.scopes[1:]:
        graph = scope.graph
        initializers = graph.initializers if isinstance(graph, Graph) else ()
        found.update(map(id, (*graph.inputs, *initializers)))
        found.update(id(tensor) for node in graph.nodes for tensor in node.outputs)
        if scope.is_function:
            found.update(id(tensor) for node in graph.nodes for tensor in node.inputs)
    return found


def _has(graph: gs.Graph, name: str) -> bool:
    return any(node.name == name or any(tensor.name == name for tensor in node.outputs) for node in graph.nodes)
