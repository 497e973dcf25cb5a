"""Two models compared by the computations of their nodes, and not by names: `rewriter diff`."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from rewriter.core.errors import RewriterError, counted
from rewriter.core.graph.attributes import HISTORY
from rewriter.core.graph.model_text import attribute_text, message_name, tensor_text, type_text
from rewriter.core.onnxfile.model_file import read_model_file
from rewriter.core.onnxfile.part import free_inputs, initializers
from rewriter.core.onnxfile.tensors import read_sparse, read_tensor, text
from rewriter.core.record import field, record

# Constants by their contents: initializers and `Constant` nodes alike.

Array = np.ndarray[Any, Any]
Tensor = onnx.TensorProto | onnx.SparseTensorProto

_PLAIN = {"value_float": 1, "value_floats": 1, "value_int": 7, "value_ints": 7, "value_string": 8, "value_strings": 8}


@record(frozen=True, slots=True)
class ConstantContents:
    """A constant: `type` reads "float[5,3]", `digest` covers type and values. If values cannot be read, the digest covers their
    location, and `problem` is the reason.
    """

    name: str
    type: str
    digest: bytes
    tensor: Tensor
    folder: Path | None
    problem: str = ""

    def values(self) -> Array | None:
        """The values as an array, None if they cannot be read."""
        try:
            return _read(self.tensor, self.folder)
        except RewriterError:
            return None


def constant(name: str, tensor: Tensor, folder: Path | None) -> ConstantContents:
    """Reads a tensor once, for its digest; the values are not kept."""
    dense = tensor if isinstance(tensor, onnx.TensorProto) else tensor.values
    dims = tensor.dims
    shown = tensor_text(onnx.TensorProto(data_type=dense.data_type, dims=dims))
    found = hashlib.sha256(shown.encode())
    try:
        array = _read(tensor, folder)
    except RewriterError as error:
        for entry in dense.external_data:
            found.update(f"{entry.key}={entry.value};".encode())
        return ConstantContents(name, shown, found.digest(), tensor, folder, str(error))
    if array.dtype == object:
        found.update(repr(array.tolist()).encode())
    else:
        found.update(np.ascontiguousarray(array).tobytes())
    return ConstantContents(name, shown, found.digest(), tensor, folder)


def _read(tensor: Tensor, folder: Path | None) -> Array:
    return read_tensor(tensor, folder) if isinstance(tensor, onnx.TensorProto) else read_sparse(tensor, folder)


def of_node(node: onnx.NodeProto) -> Tensor | None:
    """The value of a `Constant` node; None for any other node, and if it has no readable value."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.ref_attr_name:
        return None
    found: Tensor
    if attribute.name == "value" and attribute.HasField("t"):
        found = attribute.t
        return found
    if attribute.name == "sparse_value" and attribute.HasField("sparse_tensor"):
        found = attribute.sparse_tensor
        return found
    if attribute.name in _PLAIN:
        kind = attribute.name.removeprefix("value_").upper()
        if attribute.type != onnx.AttributeProto.AttributeType.Value(kind):
            return None  # if the model is damaged
        value = helper.get_attribute_value(attribute)
        items = list(value) if kind.endswith("S") else [value]
        dims = [len(items)] if kind.endswith("S") else []
        return helper.make_tensor(text(node.name), _PLAIN[attribute.name], dims, items)
    return None


@record(frozen=True, slots=True)
class Statistics:
    """Two constants of one shape: their ranges and means, how many elements differ, and by how much at most."""

    before: tuple[float, float, float]
    after: tuple[float, float, float]
    differing: int
    elements: int
    largest: float


def statistics(one: ConstantContents, other: ConstantContents) -> Statistics | None:
    """None if they have no numbers, no common shape, or cannot be read. NaN equals NaN."""
    first, second = one.values(), other.values()
    if first is None or second is None or first.shape != second.shape or not first.size:
        return None
    if first.dtype == object or second.dtype == object:
        return None
    if np.iscomplexobj(first) or np.iscomplexobj(second):
        return None
    left, right = first.astype(np.float64), second.astype(np.float64)
    with np.errstate(all="ignore"):
        differs = ~((left == right) | (np.isnan(left) & np.isnan(right)))
        gap = np.abs(left - right)[differs]
        largest = float(np.nanmax(gap)) if gap.size and not np.isnan(gap).all() else float("nan") if gap.size else 0.0
        return Statistics(_range(left), _range(right), int(differs.sum()), int(left.size), largest)


def _range(values: Array) -> tuple[float, float, float]:
    return float(values.min()), float(values.max()), float(values.mean())


@record(slots=True)
class Side:
    """A graph or a local function.

    Attributes:
        positional: whether inputs and outputs are identified by position, as in bodies and functions, and not by name.
        nodes: without nodes that only hold a constant.
        made: (node, output position) of each tensor that a node makes, by name; `read` are its readers (node, position).
        digests: by tensor known here, a digest of all that the tensor is computed from; equal digests mean equal values.
        held: constants by name.
    """

    path: str
    inputs: list[str]
    outputs: list[str]
    folder: Path | None
    outer: Side | None = None
    positional: bool = False
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    makers: dict[str, tuple[int, int]] = field(default_factory=dict)
    read: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    digests: dict[str, bytes] = field(default_factory=dict)
    constants: dict[str, ConstantContents] = field(default_factory=dict)

    def digest(self, name: str) -> bytes:
        """The digest of a tensor here or in a graph around this one."""
        side: Side | None = self
        while side is not None:
            if name in side.digests:
                return side.digests[name]
            side = side.outer
        return _digest(b"unresolved", name.encode(errors="replace")) if name else b""

    def constant(self, name: str) -> ConstantContents | None:
        side: Side | None = self
        while side is not None:
            if name in side.constants:
                return side.constants[name]
            if name in side.makers or name in side.inputs:
                return None
            side = side.outer
        return None

    def names(self, number: int) -> tuple[list[str], list[str]]:
        """Operands, without omitted ones at the end, and outputs of a node."""
        operands = list(map(text, self.nodes[number].input))
        while operands and not operands[-1]:
            operands.pop()
        return operands, list(map(text, self.nodes[number].output))

    def count_of_outputs(self, number: int) -> int:
        """Without omitted ones at the end, but of a Split, which divides by it."""
        node = self.nodes[number]
        outputs = list(map(text, node.output))
        while outputs and not outputs[-1] and text(node.op_type) != "Split":
            outputs.pop()
        return len(outputs)


def key(node: onnx.NodeProto) -> tuple[str, str, str]:
    """Domain, operator and overload."""
    domain = text(node.domain)
    return "" if domain == "ai.onnx" else domain, text(node.op_type), text(node.overload)


def of_graph(graph: onnx.GraphProto, path: str, folder: Path | None, outer: Side | None = None) -> Side:
    """Reads every constant of the graph once."""
    tensors = [(text(tensor.name), tensor) for tensor in graph.initializer]
    tensors += [(text(sparse.values.name), sparse) for sparse in graph.sparse_initializer]
    constants = {name: constant(name, tensor, folder) for name, tensor in tensors}
    inputs = [name for value in graph.input if (name := text(value.name)) not in constants]
    side = Side(
        path, inputs, [text(value.name) for value in graph.output], folder, outer, outer is not None, constants=constants
    )
    return _filled(side, graph.node)


def of_function(function: onnx.FunctionProto, path: str, folder: Path | None) -> Side:
    side = Side(path, list(map(text, function.input)), list(map(text, function.output)), folder, positional=True)
    return _filled(side, function.node)


def _filled(side: Side, nodes: Iterable[onnx.NodeProto]) -> Side:
    for position, name in enumerate(side.inputs):
        known = f"{_depth(side)} {position}" if side.positional else f"main {name}"
        side.digests[name] = _digest(b"input", known.encode(errors="replace"))
    side.digests.update({name: contents.digest for name, contents in side.constants.items()})
    for node in nodes:
        value = of_node(node)
        if value is not None and len(node.output) == 1:
            name = text(node.output[0])
            side.constants[name] = constant(name, value, side.folder)
            side.digests[name] = side.constants[name].digest
            continue
        number = len(side.nodes)
        side.nodes.append(node)
        operands, outputs = side.names(number)
        head, domain, overload = (part.encode(errors="replace") for part in key(node))
        count = str(side.count_of_outputs(number)).encode()
        whole = _digest(head, domain, overload, count, *_attributes(node, side), *(side.digest(name) for name in operands))
        for position, name in enumerate(outputs):
            if name:
                side.makers[name] = number, position
                side.digests[name] = _digest(whole, str(position).encode())
        for position, name in enumerate(operands):
            if name:
                side.read.setdefault(name, []).append((number, position))
    return side


def _depth(side: Side) -> int:
    """The number of graphs around this one: inputs of nested bodies are different inputs."""
    depth = 0
    while side.outer is not None:
        side, depth = side.outer, depth + 1
    return depth


def _attributes(node: onnx.NodeProto, side: Side) -> list[bytes]:
    found = sorted(node.attribute, key=lambda attribute: text(attribute.name))
    return [text(a.name).encode(errors="replace") + attribute_digest(a, side) for a in found]


def attribute_digest(attribute: onnx.AttributeProto, side: Side) -> bytes:
    """Digest of an attribute's value: for tensors of the contents, for bodies of the computations of their outputs."""
    if attribute.HasField("g"):
        body = of_graph(attribute.g, side.path, side.folder, side)
        return _digest(b"graph", *(body.digest(name) for name in body.outputs))
    if attribute.HasField("t"):
        return constant("", attribute.t, side.folder).digest
    plain = deepcopy(attribute)
    plain.ClearField("doc_string")
    plain.ClearField("type")  # old exporters leave it out
    return _digest(bytes(plain.SerializeToString(deterministic=True)))


def _digest(*parts: bytes) -> bytes:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little"))
        found.update(part)
    return found.digest()


# Which node of one graph is which of the other.
#
# Nodes that compute the same from the same are paired first. The makers of the outputs follow and, from pair to pair, the
# makers of their operands and the readers of their outputs, as long as the operator is the same. A name decides only between
# nodes that structure cannot distinguish.


class Pairing:
    """Pairs of nodes by number: `forth` from the first graph to the second, `back` the other way."""

    def __init__(self, one: Side, other: Side) -> None:
        self.one = one
        self.other = other
        self.forth: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self._waiting: deque[tuple[int, int]] = deque()
        self._equal()
        self._from_outputs()
        self._spread()
        self._by_name()

    def _pair(self, one: int, other: int) -> bool:
        if one in self.forth or other in self.back or key(self.one.nodes[one]) != key(self.other.nodes[other]):
            return False
        self.forth[one], self.back[other] = other, one
        self._waiting.append((one, other))
        return True

    def _equal(self) -> None:
        """Pairs nodes of equal digests. Of several such nodes, it pairs equal names first, then the rest in their order."""
        for key_of in (_named_computation, _computation):
            there: dict[object, deque[int]] = defaultdict(deque)
            for number in range(len(self.other.nodes)):
                if number not in self.back:
                    there[key_of(self.other, number)].append(number)
            for number in range(len(self.one.nodes)):
                alike = there.get(key_of(self.one, number))
                if alike and number not in self.forth:
                    self._pair(number, alike.popleft())

    def _from_outputs(self) -> None:
        """The makers of outputs of one name, then of one position."""
        named = {name for name in self.one.outputs if name in self.other.outputs}
        for name in self.one.outputs:
            if name in named:
                self._makers(name, name)
        mine = [name for name in self.one.outputs if name not in named]
        theirs = [name for name in self.other.outputs if name not in named]
        for one, other in zip(mine, theirs, strict=False):
            self._makers(one, other)

    def _spread(self) -> None:
        while self._waiting:
            one, other = self._waiting.popleft()
            mine, theirs = self.one.names(one), self.other.names(other)
            for name, counterpart in zip(mine[0], theirs[0], strict=False):
                self._makers(name, counterpart)
            for name, counterpart in zip(mine[1], theirs[1], strict=False):
                self._readers(name, counterpart)

    def _makers(self, one: str, other: str) -> None:
        """Pairs the makers of two tensors or, if a node was put in between, the next makers of the same operator."""
        mine, theirs = self.one.makers.get(one), self.other.makers.get(other)
        if mine is None and theirs is None:
            return
        if mine is not None and theirs is not None and (self._pair(mine[0], theirs[0]) or self._paired(mine[0], theirs[0])):
            return
        if mine is not None and theirs is not None and theirs[0] not in self.back:
            for name in self.other.names(theirs[0])[0]:
                behind = self.other.makers.get(name)
                if behind is not None and self._pair(mine[0], behind[0]):
                    return
        if mine is not None and theirs is not None and mine[0] not in self.forth:
            for name in self.one.names(mine[0])[0]:
                behind = self.one.makers.get(name)
                if behind is not None and self._pair(behind[0], theirs[0]):
                    return

    def _paired(self, one: int, other: int) -> bool:
        return self.forth.get(one) == other

    def _readers(self, one: str, other: str) -> None:
        """Pairs readers at the same operand position, in their order."""
        there: dict[tuple[object, int], list[int]] = defaultdict(list)
        for number, position in self.other.read.get(other, ()):
            if number not in self.back:
                there[key(self.other.nodes[number]), position].append(number)
        for number, position in self.one.read.get(one, ()):
            alike = there.get((key(self.one.nodes[number]), position))
            if alike and self._pair(number, alike[0]):
                alike.pop(0)

    def _by_name(self) -> None:
        """Pairs nodes that structure did not reach: nodes of one operator that make a tensor of one name."""
        for number in range(len(self.one.nodes)):
            if number not in self.forth:
                found = next((self.other.makers[name] for name in _names(self.one, number) if name in self.other.makers), None)
                if found is not None and self._pair(number, found[0]):
                    self._spread()


def _names(side: Side, number: int) -> list[str]:
    return [text(name) for name in side.nodes[number].output if name]


def _computation(side: Side, number: int) -> object:
    """Equal for nodes that compute the same from the same."""
    return key(side.nodes[number]), tuple(side.digest(name) for name in side.names(number)[1] if name)


def _named_computation(side: Side, number: int) -> object:
    return _computation(side, number), tuple(_names(side, number))


# The differences of two models, one record each.


@record(frozen=True, slots=True)
class Difference:
    """One difference. `before` is None for a part that only the second model has, `after` for a part that only the first has.

    Attributes:
        kind: "model", "opset", "metadata", "input", "output", "function", "node", "attribute", "operand", "result", or
            "constant".
        place: path of the graph, "" for the whole model.
        name: of the part that differs: an opset's domain, a key, a tensor, the node.
        part: the attribute's name, or the operand's or output's position.
        statistics: of two constants of one shape.
    """

    kind: str
    place: str
    name: str
    part: str
    before: str | None
    after: str | None
    statistics: Statistics | None = None


def compare_files(one: Path, other: Path) -> list[Difference]:
    """The differences of two model files, weights compared by value.

    Raises:
        RewriterError: a file is missing or no ONNX model.
    """
    first, second = read_model_file(one), read_model_file(other)  # each keeps the file open that its weights stayed in
    folders = one.absolute().parent, other.absolute().parent
    return list(compare(first.proto, second.proto, *folders))


def compare(
    one: onnx.ModelProto, other: onnx.ModelProto, folder: Path | None = None, other_folder: Path | None = None
) -> Iterator[Difference]:
    """The differences of two models; the folders hold their external data."""
    yield from _model(one, other)
    yield from _interface(one.graph, other.graph)
    first = of_graph(one.graph, "main", folder)
    second = of_graph(other.graph, "main", other_folder)
    yield from _graphs(first, second)
    mine, theirs = _functions(one), _functions(other)
    for name in sorted({*mine, *theirs}):
        if name not in mine or name not in theirs:
            yield Difference("function", "", name, "", _count(mine.get(name)), _count(theirs.get(name)))
            continue
        path = f"function {name}"
        yield from _declared(path, mine[name], theirs[name])
        yield from _graphs(of_function(mine[name], path, folder), of_function(theirs[name], path, other_folder))


def _functions(model: onnx.ModelProto) -> dict[str, onnx.FunctionProto]:
    found = {}
    for function in model.functions:
        overload = f":{text(function.overload)}" if function.overload else ""
        found[f"{text(function.domain)}::{text(function.name)}{overload}"] = function
    return found


def _declared(path: str, one: onnx.FunctionProto, other: onnx.FunctionProto) -> Iterator[Difference]:
    """Differences in the declared attributes and the opsets of two functions of one name."""
    yield from _tables("opset", _opsets(one), _opsets(other), path)
    mine, theirs = _defaults(one), _defaults(other)
    for name in dict.fromkeys([*mine, *theirs]):
        if mine.get(name) != theirs.get(name):
            yield Difference("attribute", path, "defaults", name, mine.get(name), theirs.get(name))


def _defaults(function: onnx.FunctionProto) -> dict[str, str]:
    """The attributes of a function by name."""
    written = {text(attribute.name): attribute_text(attribute) for attribute in function.attribute_proto}
    return {**dict.fromkeys(map(text, function.attribute), "no default"), **written}


def _count(function: onnx.FunctionProto | None) -> str | None:
    return None if function is None else counted(len(function.node), "node")


# --- the model and its interface ---------------------------------------------------------------------------------------------


def _model(one: onnx.ModelProto, other: onnx.ModelProto) -> Iterator[Difference]:
    for name in ("ir_version", "producer_name", "producer_version", "domain", "model_version", "doc_string"):
        yield from _changed("model", "", name, _plain(getattr(one, name)), _plain(getattr(other, name)))
    yield from _changed("model", "", "graph name", _plain(one.graph.name), _plain(other.graph.name))
    yield from _tables("opset", _opsets(one), _opsets(other))
    props = [{text(entry.key): text(entry.value) for entry in model.metadata_props} for model in (one, other)]
    for table in props:
        table.pop(HISTORY, None)
    yield from _tables("metadata", props[0], props[1])


def _opsets(of: onnx.ModelProto | onnx.FunctionProto) -> dict[str, str]:
    return {text(entry.domain) or "ai.onnx": str(entry.version) for entry in of.opset_import}


def _tables(kind: str, one: Mapping[str, str], other: Mapping[str, str], place: str = "") -> Iterator[Difference]:
    for name in dict.fromkeys([*one, *other]):
        yield from _changed(kind, place, name, one.get(name), other.get(name))


def _changed(kind: str, place: str, name: str, before: str | None, after: str | None) -> Iterator[Difference]:
    if before != after:
        yield Difference(kind, place, name, "", before, after)


def _plain(value: Any) -> str | None:
    return text(value) or None if isinstance(value, str | bytes) else str(value)


def _interface(one: onnx.GraphProto, other: onnx.GraphProto) -> Iterator[Difference]:
    """Inputs that a caller must pass, and outputs, by name; and whether their order differs."""
    for kind, ports in (("input", _inputs), ("output", _outputs)):
        mine, theirs = ports(one), ports(other)
        yield from _tables(kind, mine, theirs)
        common = [[name for name in side if name in mine and name in theirs] for side in (mine, theirs)]
        if common[0] != common[1]:
            yield Difference(kind, "", "order", "", ", ".join(common[0]), ", ".join(common[1]))
    yield from _overridable(_listed(one), _listed(other))


LISTED = "initializers among the inputs"


def _overridable(one: list[str], other: list[str]) -> Iterator[Difference]:
    """Initializers among the inputs that only one model has there, or all of them if only the order differs."""
    if one == other:
        return
    mine, theirs = [name for name in one if name not in other], [name for name in other if name not in one]
    before, after = (mine, theirs) if mine or theirs else (one, other)
    yield Difference("input", "", LISTED, "", ", ".join(before) or "none", ", ".join(after) or "none")


def _inputs(graph: onnx.GraphProto) -> dict[str, str]:
    return {text(value.name): type_text(value.type) for value in free_inputs(graph)}


def _listed(graph: onnx.GraphProto) -> list[str]:
    """Initializers that a caller may override."""
    known = initializers(graph)
    return [text(value.name) for value in graph.input if value.name in known]


def _outputs(graph: onnx.GraphProto) -> dict[str, str]:
    """Types by name; a name that is listed more than once has each of its types."""
    found: dict[str, str] = {}
    times: Counter[str] = Counter()
    for value in graph.output:
        name = text(value.name)
        times[name] += 1
        found[name if times[name] == 1 else f"{name} ({times[name]})"] = type_text(value.type)
    return found


# --- graphs ------------------------------------------------------------------------------------------------------------------


def _graphs(one: Side, other: Side, outer: Callable[[str, str], bool] | None = None) -> Iterator[Difference]:
    """Differences of two graphs. Differences in bodies come after the differences of the nodes that hold the bodies."""
    yield from ComparedGraphs(one, other, outer).differences()


class ComparedGraphs:
    """Two graphs whose nodes are paired: their differences, and which tensors are the same.

    Attributes:
        one, other: the graphs.
        pairing: of their nodes.
    """

    def __init__(self, one: Side, other: Side, outer: Callable[[str, str], bool] | None) -> None:
        self.one = one
        self.other = other
        self._outer = outer
        self.pairing = Pairing(one, other)
        self._compared: set[tuple[str, str]] = set()

    def differences(self) -> Iterator[Difference]:
        one, other, pairing = self.one, self.other, self.pairing
        for number in range(len(one.nodes)):
            counterpart = pairing.forth.get(number)
            if counterpart is None:
                yield Difference("node", one.path, _name(one, number), "", node_line(one, number), None)
            else:
                yield from self._nodes(number, counterpart)
        for number in range(len(other.nodes)):
            if number not in pairing.back:
                yield Difference("node", other.path, _name(other, number), "", None, node_line(other, number))
        yield from self._results()
        yield from self._unread()

    def _nodes(self, number: int, counterpart: int) -> Iterator[Difference]:
        one, other = self.one, self.other
        name = _name(one, number)
        mine = {text(a.name): a for a in one.nodes[number].attribute}
        theirs = {text(a.name): a for a in other.nodes[counterpart].attribute}
        for part in dict.fromkeys([*mine, *theirs]):
            yield from self._attributes(name, part, mine.get(part), theirs.get(part))
        if one.count_of_outputs(number) != other.count_of_outputs(counterpart):
            yield Difference("node", one.path, name, "", node_line(one, number), node_line(other, counterpart))
        operands, others = one.names(number)[0], other.names(counterpart)[0]
        for position in range(max(len(operands), len(others))):
            before = operands[position] if position < len(operands) else ""
            after = others[position] if position < len(others) else ""
            yield from self._tensors("operand", name, str(position), before, after)

    def _attributes(
        self, name: str, part: str, before: onnx.AttributeProto | None, after: onnx.AttributeProto | None
    ) -> Iterator[Difference]:
        place = self.one.path
        if before is None or after is None:
            shown = tuple(None if a is None else attribute_text(a) for a in (before, after))
            yield Difference("attribute", place, name, part, shown[0], shown[1])
        elif before.HasField("g") and after.HasField("g"):
            prefix = "" if place == "main" else f"{place}/"
            bodies = [
                of_graph(a.g, f"{prefix}{name}.{part}", side.folder, side)
                for a, side in ((before, self.one), (after, self.other))
            ]
            yield from _graphs(bodies[0], bodies[1], self.same)
        elif attribute_digest(before, self.one) != attribute_digest(after, self.other):
            yield Difference("attribute", place, name, part, attribute_text(before), attribute_text(after))

    def _tensors(self, kind: str, name: str, part: str, before: str, after: str) -> Iterator[Difference]:
        """Two tensors at one place."""
        if self.same(before, after):
            return
        mine, theirs = self.one.constant(before), self.other.constant(after)
        if mine is None or theirs is None:
            shown = _tensor(self.one, before), _tensor(self.other, after)
            yield Difference(kind, self.one.path, name, part, *shown)
        elif (before, after) not in self._compared:
            self._compared.add((before, after))
            yield _constants(self.one.path, mine, theirs)

    def same(self, before: str, after: str) -> bool:
        """Whether two tensors are made by one pair of nodes, are the same input, or have the same values."""
        one, other = self.one, self.other
        if not before or not after:
            return before == after
        mine, theirs = one.makers.get(before), other.makers.get(after)
        if mine is not None and theirs is not None:
            return self.pairing.forth.get(mine[0]) == theirs[0] and mine[1] == theirs[1]
        if mine is not None or theirs is not None:
            return False
        if before in one.inputs or after in other.inputs:
            if self.one.positional and before in one.inputs and after in other.inputs:
                return one.inputs.index(before) == other.inputs.index(after)
            return before == after and before in one.inputs and after in other.inputs
        if before in one.constants or after in other.constants or self._outer is None:
            return one.digest(before) == other.digest(after)
        return self._outer(before, after)

    def _results(self) -> Iterator[Difference]:
        """The tensors that the outputs of the graphs are: by name in the model, by position elsewhere."""
        one, other = self.one, self.other
        if self.one.positional:
            for position in range(max(len(one.outputs), len(other.outputs))):
                before, after = ("".join(side.outputs[position : position + 1]) for side in (one, other))
                yield from self._tensors("result", after or before, str(position), before, after)
            return
        for name in one.outputs:
            if name in other.outputs:
                yield from self._tensors("result", name, "", name, name)

    def _unread(self) -> Iterator[Difference]:
        """Constants without a counterpart: which values one model has and the other has not."""
        counted = [{pair[side] for pair in self._compared} for side in (0, 1)]
        values = [{contents.digest for contents in side.constants.values()} for side in (self.one, self.other)]
        for contents in self.one.constants.values():
            if contents.digest not in values[1] and contents.name not in counted[0]:
                yield Difference("constant", self.one.path, contents.name, "", contents.type, None)
        for contents in self.other.constants.values():
            if contents.digest not in values[0] and contents.name not in counted[1]:
                yield Difference("constant", self.one.path, contents.name, "", None, contents.type)


def _constants(place: str, one: ConstantContents, other: ConstantContents) -> Difference:
    before, after = ((f"{c.type}, not readable: {c.problem}" if c.problem else c.type) for c in (one, other))
    found = None if one.problem or other.problem else statistics(one, other)
    name = one.name if one.name == other.name else f"{one.name} -> {other.name}"
    return Difference("constant", place, name, "", before, after, found)


def _name(side: Side, number: int) -> str:
    node = side.nodes[number]
    return message_name(node) or text(node.op_type)


def _tensor(side: Side, name: str) -> str | None:
    """A tensor with its origin: `h, made by Relu`, `w, float[5,3]`."""
    if not name:
        return None
    if name in side.makers:
        return f"{name}, made by {text(side.nodes[side.makers[name][0]].op_type)}"
    contents = side.constant(name)
    return f"{name}, {contents.type}" if contents is not None else f"{name}, an input" if name in side.inputs else name


def node_line(side: Side, number: int) -> str:
    """`y = Gemm<transB = 1>(x, w)`."""
    node = side.nodes[number]
    attributes = ", ".join(f"{text(a.name)} = {attribute_text(a)}" for a in node.attribute)
    operands, outputs = (", ".join(name or '""' for name in names) for names in side.names(number))
    domain, op, _ = key(node)
    return f"{outputs} = {f'{domain}.' if domain else ''}{op}{f'<{attributes}>' if attributes else ''}({operands})"
