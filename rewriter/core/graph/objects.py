"""Nodes, graphs and functions that remember the messages they came from, how to make new ones, and the scopes of a model: its
main graph, every subgraph body and every local function.

All are graphsurgeon's own classes underneath, so that any graphsurgeon script works on them. They are compared by identity,
which also makes every list operation on them fast; `Variable` and `Constant`, the tensors, are in values.py and can be imported
from here.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.graph.attributes import RULES, NodeTexts, read_attributes
from rewriter.core.graph.gs_lists import Inputs, Outputs, tie_one
from rewriter.core.graph.values import (
    Constant,
    Variable,
    constant_array,
    elem_type,
    new_constant,
    new_variable,
    static_shape,
    used_count,
)
from rewriter.core.onnxfile.model_file import WeightFile
from rewriter.core.onnxfile.tensors import text
from rewriter.core.record import field, record

if TYPE_CHECKING:
    from rewriter.core.language.meaning import Form


__all__ = [
    "Constant",
    "Function",
    "Graph",
    "Node",
    "Origin",
    "Variable",
    "constant_array",
    "elem_type",
    "new_constant",
    "new_node",
    "new_variable",
    "static_shape",
]


_NO_BODIES: Mapping[str, Any] = {}
_NAME = attrgetter("name")
_set = object.__setattr__  # other fields than operands need no call of graphsurgeon's, which updates operands
_MARKED = RULES.encode()
_ATTRIBUTE = b"*"
"""The key of an attribute in the message of a node; without this byte, a message has no attribute."""


def rules_of(proto: onnx.NodeProto | None) -> tuple[str, ...]:
    """The rules that made or changed a node, from its message."""
    if proto is None or not proto.metadata_props:
        return ()
    return next((tuple(str(entry.value).split()) for entry in proto.metadata_props if entry.key == RULES), ())


_INNER = ("_attrs", "_bodies", "_loaded", "_proto", "_read", "_rules", "texts")
_SLOTS = ("op", "name", "domain", "inputs", "outputs", "data", "folder", "_scope", "_key", *_INNER)


class Node(gs.Node):  # type: ignore[misc]
    """A node that remembers its message.

    Attributes:
        op, name, domain (None: not written), inputs, outputs: as in graphsurgeon.
        data: the message it came from, as protobuf writes it; None for a new node.
        folder: of the model, for tensor attributes whose data are elsewhere.
        texts: its doc_string and metadata_props if they differ from its message's (`attributes.py`), else None.
        rules: the rules that made or changed it, or made its origin, first to last.
    """

    __slots__ = _SLOTS
    op: str
    name: str
    domain: str | None
    inputs: list[gs.Tensor]
    outputs: list[gs.Tensor]
    data: bytes | None
    folder: Path | None
    _proto: onnx.NodeProto | None
    _read: tuple[Any, ...] | None  # operator, name, domain, inputs and outputs as they were read
    _attrs: dict[str, Any] | None
    _loaded: dict[str, Any] | None
    _bodies: Mapping[str, Graph]
    _rules: tuple[str, ...] | None
    texts: NodeTexts | None
    _scope: Any  # its scope in an indexed graph, and its place in the execution order there: see index.py
    _key: int

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        """For callers of the constructor, which is graphsurgeon's."""
        node = object.__new__(cls)
        node.data = node.folder = node._proto = node._read = node._attrs = node._loaded = node._rules = node._scope = (
            node.texts
        ) = None
        node._bodies = _NO_BODIES
        return node

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def proto(self) -> onnx.NodeProto | None:
        """The message it came from, never to be changed; None for a new node. Read on first use."""
        if self._proto is None and self.data is not None:
            _set(self, "_proto", onnx.NodeProto.FromString(self.data))
        return self._proto

    @property
    def messages(self) -> Sequence[onnx.AttributeProto]:
        """The messages of the attributes that were read."""
        if self.data is None or _ATTRIBUTE not in self.data:
            return ()
        proto: Any = self.proto
        return proto.attribute  # type: ignore[no-any-return]

    @property
    def attrs(self) -> dict[str, Any]:
        """Attribute values by name; converted on first access. attributes.py lists the kinds of values."""
        attrs = self._attrs
        if attrs is None:
            attrs = read_attributes(self.messages, self._bodies, self.folder)
            _set(self, "_attrs", attrs)
            _set(self, "_loaded", attrs)
        return attrs

    @attrs.setter
    def attrs(self, attrs: dict[str, Any]) -> None:
        _set(self, "_attrs", attrs)

    @property
    def loaded_attrs(self) -> Mapping[str, Any]:
        """The attributes as they were read, also when the node has got others since."""
        return self.attrs if self._loaded is None else self._loaded

    @property
    def is_unread(self) -> bool:
        """Whether its attributes are as in its message, and were not read yet."""
        return self._attrs is None

    @property
    def bodies(self) -> Mapping[str, gs.Graph]:
        """Subgraphs by attribute name, without converting other attributes."""
        if self._attrs is None:
            return self._bodies
        return {name: value for name, value in self._attrs.items() if isinstance(value, gs.Graph)}

    @property
    def rules(self) -> tuple[str, ...]:
        return self.rules_read if self._rules is None else self._rules

    @rules.setter
    def rules(self, rules: tuple[str, ...]) -> None:
        _set(self, "_rules", rules)

    @property
    def rules_read(self) -> tuple[str, ...]:
        """The rules that made or changed it, from its message."""
        if self.data is None or _MARKED not in self.data:
            return ()
        return rules_of(self.proto)

    @property
    def overload(self) -> str:
        """Distinguishes functions of one name that this node could call; mostly empty."""
        return str(self.proto.overload) if self.proto is not None else ""

    def subgraphs(self, recursive: bool = False) -> Iterator[gs.Graph]:
        """As in graphsurgeon, without converting attributes of nodes that have no subgraph."""
        waiting, seen = [self], set()
        while waiting:
            node = waiting.pop()
            for graph in node.bodies.values() if isinstance(node, Node) else node.subgraphs():
                if id(graph) not in seen:
                    seen.add(id(graph))
                    if recursive:
                        waiting.extend(graph.nodes)
                    yield graph

    def copy(self, inputs: Any = None, outputs: Any = None, tensor_map: Any = None) -> Node:
        """A copy with other inputs and outputs; subgraphs are also copied, and the other fields of its message are kept."""
        attrs = {k: v.copy(tensor_map) if isinstance(v, gs.Graph) else v for k, v in self.attrs.items()}
        copy = new_node(self.op, self.domain, self.name, attrs, inputs or [], outputs or [])
        copy.data, copy._proto, copy.folder, copy.texts = self.data, self._proto, self.folder, self.texts
        return copy


@record(eq=False, slots=True)
class Origin:
    """A graph or function as it was loaded: its message, and the object of each entry of the message.

    Attributes:
        proto: the message with its nodes left as bytes (a raw message), never to be changed.
        message: the whole message, for a body of a node or a function; None for the main graph.
        nodes: of `proto.node`.
        inputs, outputs: tensors of `proto.input` (constants where an initializer is listed there) and `proto.output`.
        infos: tensors of `proto.value_info`; None for a name without a tensor.
        constants, sparse: of `proto.initializer` and `proto.sparse_initializer`.
        annotations: for each quantization annotation the tensors it names, the annotated one first.
        opset, imports: operator sets as loaded (main graph and functions).
        dissolved: of bodies whose nodes the graph has now.
    """

    proto: Any
    message: Any = None
    nodes: list[Node] = field(default_factory=list)
    inputs: list[gs.Tensor] = field(default_factory=list)
    outputs: list[gs.Tensor] = field(default_factory=list)
    infos: list[gs.Tensor | None] = field(default_factory=list)
    constants: list[Constant] = field(default_factory=list)
    sparse: list[Constant] = field(default_factory=list)
    annotations: list[list[gs.Tensor | None]] = field(default_factory=list)
    opset: int | None = None
    imports: list[onnx.OperatorSetIdProto] = field(default_factory=list)
    dissolved: list[Origin] = field(default_factory=list)
    _tensors: list[gs.Tensor] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)

    def note_names(self, tensors: list[gs.Tensor]) -> None:
        """Remembers the names of the tensors of this graph."""
        self._tensors, self._names = tensors, list(map(_NAME, tensors))

    def joined(self, other: Origin) -> Origin:
        """The origin of a graph that joins two: its message has all of both except their constants, which are written anew."""
        proto = type(self.proto)()
        proto.CopyFrom(self.proto)
        proto.MergeFrom(other.proto)
        for name in ("name", "doc_string"):
            proto.ClearField(name)
            if self.proto.HasField(name):
                setattr(proto, name, getattr(self.proto, name))
        result = Origin(proto, opset=self.opset, imports=self.imports)
        for name in (
            "nodes", "inputs", "outputs", "infos", "constants", "sparse", "annotations", "dissolved", "_tensors", "_names",
        ):  # fmt: skip
            setattr(result, name, [*getattr(self, name), *getattr(other, name)])
        return result

    def renamed(self) -> dict[int, gs.Tensor]:
        """By id, the tensors of this graph, and of the bodies dissolved in it, that were renamed."""
        found = {number: tensor for inner in self.dissolved for number, tensor in inner.renamed().items()}
        if list(map(_NAME, self._tensors)) != self._names:
            pairs = zip(self._tensors, self._names, strict=True)
            found |= {id(tensor): tensor for tensor, name in pairs if tensor.name != name}
        return found

    def names(self) -> Iterator[str]:
        """Names that no new tensor may take although no node need mention them."""
        yield from (tensor.name for tensor in (*self.constants, *self.sparse))
        yield from (info.name for info in self.proto.value_info if isinstance(info.name, str))


class Graph(gs.Graph):  # type: ignore[misc]
    """A graph or subgraph that remembers its message.

    Attributes:
        nodes, inputs, outputs, name, doc_string, opset, import_domains, producer_name, producer_version, functions, ir_version:
            as in graphsurgeon; initializers that are listed among the inputs are not in `inputs`.
        initializers: its constants in their order, used or not. A constant that is taken out of this list is written only if it
            is used.
        origin: the graph as it was loaded.
        weights: the file with the weights that were left out of the model; it stays open as long as the graph exists.
        model_metadata: metadata_props of the model, by key; None for a graph that does not belong to a `Model`.
        model_doc_string: of the model, while `doc_string` is the graph's; None likewise.
    """

    nodes: list[gs.Node]
    inputs: list[gs.Tensor]
    outputs: list[gs.Tensor]
    name: str
    doc_string: str
    opset: int
    import_domains: list[onnx.OperatorSetIdProto]
    ir_version: int | None
    producer_name: str
    producer_version: str
    initializers: list[gs.Tensor]
    origin: Origin
    weights: WeightFile | None = None
    model_metadata: dict[str, str] | None = None
    model_doc_string: str | None = None

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Function(gs.Function):  # type: ignore[misc]
    """A local function that remembers its message.

    Attributes:
        overload: distinguishes functions of one name and domain; mostly empty.
        attrs: its attributes: None for one without a default, else the default value.
        origin: the function as it was loaded. A function has no initializers: a constant used in one is written as a node.
    """

    nodes: list[gs.Node]
    inputs: list[gs.Tensor]
    outputs: list[gs.Tensor]
    name: str
    domain: str
    overload: str
    attrs: dict[str, Any]
    opset: int
    import_domains: list[onnx.OperatorSetIdProto]
    origin: Origin

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def unique_id(self) -> tuple[str, ...]:
        """(domain, name), with the overload if there is one."""
        return (self.domain, self.name, self.overload) if self.overload else (self.domain, self.name)


def new_node(
    op: str,
    domain: str | None,
    name: str,
    attrs: Mapping[str, Any],
    inputs: Iterable[gs.Tensor],
    outputs: Iterable[gs.Tensor],
    overload: str = "",
) -> Node:
    """A node that is in no graph yet; its tensors know it as user or producer at once."""
    operands, results = tuple(inputs), tuple(outputs)
    said = onnx.NodeProto(overload=overload).SerializeToString() if overload else None
    node = loaded_nodes([said], [op], [name], [domain], [operands], [results], None)[0]
    node._attrs = dict(attrs)
    for tensor in operands:
        tie_one(tensor, node, "_users", "outputs")
    for tensor in results:
        tie_one(tensor, node, "_makers", "inputs")
    return node


class _BareNode(gs.Node):  # type: ignore[misc]
    """A `Node` under construction: setting its fields calls no code of graphsurgeon. Once all are set, it becomes a `Node`."""

    __slots__ = _SLOTS
    __setattr__ = object.__setattr__


def loaded_nodes(
    encoded: Iterable[bytes | None],
    ops: Iterable[str],
    names: Iterable[str],
    domains: Iterable[str | None],
    inputs: Iterable[tuple[gs.Tensor, ...]],
    outputs: Iterable[tuple[gs.Tensor, ...]],
    folder: Path | None,
) -> list[Node]:
    """Nodes to which their tensors have no links yet; made without a constructor, which would take most of the loading time."""
    new, bodies, result = object.__new__, _NO_BODIES, []
    node: Any
    for data, op, name, domain, operands, results in zip(encoded, ops, names, domains, inputs, outputs, strict=True):
        node = new(_BareNode)
        node.op = op
        node.name = name
        node.domain = domain
        node.inputs = used = Inputs(operands)
        node.outputs = output_list = Outputs(results)
        used.parent_obj = output_list.parent_obj = node
        node.data = data
        node._read = None if data is None else (op, name, domain, operands, results)
        node.folder = folder
        node._proto = node._attrs = node._loaded = node._rules = node._scope = node.texts = None
        node._bodies = bodies
        node.__class__ = Node
        result.append(node)
    return result


def note(nodes: Sequence[gs.Node], name: str, values: Iterable[Any]) -> None:
    """Sets a field in each node that graphsurgeon does not use; fast if all are nodes of this package."""
    setting = getattr(Node, name).__set__ if set(map(type, nodes)) == {Node} else lambda node, value: _set(node, name, value)
    deque(map(setting, nodes, values), maxlen=0)


def form_of(node: gs.Node) -> Form:
    """How a node is written; no attribute is converted for that."""
    from rewriter.core.language.meaning import Form

    lazy = isinstance(node, Node) and node._attrs is None
    names = [text(attribute.name) for attribute in node.messages] if lazy else node.attrs
    inputs = tuple([bool(tensor.name) for tensor in node.inputs[: used_count(node.inputs)]])
    return Form(frozenset(names), inputs, used_count(node.outputs))


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

    @property
    def prefix(self) -> str:
        """With this begin the paths of the bodies inside."""
        return "" if self.path == "main" else self.path + "/"

    def move_to(self, parent: Scope | None, path: str) -> None:
        """Moves a body to another scope."""
        self.parent, self.path = parent, path


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
                f"{scope.prefix}{node.name or node.op}.{attr}",
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
