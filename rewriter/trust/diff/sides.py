"""One graph of one model, with a digest of what each tensor is computed from."""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from rewriter.core.errors import RewriterError
from rewriter.core.graph.message_text import tensor_text
from rewriter.core.onnxfile.tensors import read_sparse, read_tensor, text
from rewriter.core.record import field, record

# Constants by their contents: initializers and `Constant` nodes alike.

Array = np.ndarray[Any, Any]
Tensor = onnx.TensorProto | onnx.SparseTensorProto

_PLAIN = {"value_float": 1, "value_floats": 1, "value_int": 7, "value_ints": 7, "value_string": 8, "value_strings": 8}


@record(frozen=True, slots=True)
class ConstantContents:
    """A constant: `type` reads "float[5,3]", `digest` is one of type and values; values that cannot be read have a digest of
    where they are, and `problem` says why.
    """

    name: str
    type: str
    digest: bytes
    tensor: Tensor
    folder: Path | None
    problem: str = ""

    def values(self) -> Array | None:
        """The values as an array, None where they cannot be read."""
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
    """The value of a `Constant` node; None for any other node, and for one that says nothing readable."""
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
            return None  # of a damaged model
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
    """None where they have no numbers, no common shape, or cannot be read. NaN equals NaN."""
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
        positional: whether inputs and outputs are given by position, as those of bodies and functions are, and not by name.
        nodes: without those that only hold a constant.
        made: (node, output position) of each tensor that a node makes, by name; `read` are its readers (node, position).
        digests: of each tensor known here, one of everything that it is computed from; equal digests mean equal values.
        held: constants by name.
    """

    path: str
    inputs: list[str]
    outputs: list[str]
    folder: Path | None
    outer: Side | None = None
    positional: bool = False
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    made: dict[str, tuple[int, int]] = field(default_factory=dict)
    read: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    digests: dict[str, bytes] = field(default_factory=dict)
    held: dict[str, ConstantContents] = field(default_factory=dict)

    def digest(self, name: str) -> bytes:
        """Of a tensor here or in a graph around this one."""
        side: Side | None = self
        while side is not None:
            if name in side.digests:
                return side.digests[name]
            side = side.outer
        return _digest(b"unresolved", name.encode(errors="replace")) if name else b""

    def constant(self, name: str) -> ConstantContents | None:
        side: Side | None = self
        while side is not None:
            if name in side.held:
                return side.held[name]
            if name in side.made or name in side.inputs:
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
    held = {name: constant(name, tensor, folder) for name, tensor in tensors}
    inputs = [name for value in graph.input if (name := text(value.name)) not in held]
    side = Side(path, inputs, [text(value.name) for value in graph.output], folder, outer, outer is not None, held=held)
    return _filled(side, graph.node)


def of_function(function: onnx.FunctionProto, path: str, folder: Path | None) -> Side:
    side = Side(path, list(map(text, function.input)), list(map(text, function.output)), folder, positional=True)
    return _filled(side, function.node)


def _filled(side: Side, nodes: Iterable[onnx.NodeProto]) -> Side:
    for position, name in enumerate(side.inputs):
        known = f"{_depth(side)} {position}" if side.positional else f"main {name}"
        side.digests[name] = _digest(b"input", known.encode(errors="replace"))
    side.digests.update({name: held.digest for name, held in side.held.items()})
    for node in nodes:
        value = of_node(node)
        if value is not None and len(node.output) == 1:
            name = text(node.output[0])
            side.held[name] = constant(name, value, side.folder)
            side.digests[name] = side.held[name].digest
            continue
        number = len(side.nodes)
        side.nodes.append(node)
        operands, outputs = side.names(number)
        head, domain, overload = (part.encode(errors="replace") for part in key(node))
        count = str(side.count_of_outputs(number)).encode()
        whole = _digest(head, domain, overload, count, *_attributes(node, side), *(side.digest(name) for name in operands))
        for position, name in enumerate(outputs):
            if name:
                side.made[name] = number, position
                side.digests[name] = _digest(whole, str(position).encode())
        for position, name in enumerate(operands):
            if name:
                side.read.setdefault(name, []).append((number, position))
    return side


def _depth(side: Side) -> int:
    """How many graphs stand around this one: inputs of bodies inside of each other are not the same."""
    depth = 0
    while side.outer is not None:
        side, depth = side.outer, depth + 1
    return depth


def _attributes(node: onnx.NodeProto, side: Side) -> list[bytes]:
    found = sorted(node.attribute, key=lambda attribute: text(attribute.name))
    return [text(a.name).encode(errors="replace") + attribute_digest(a, side) for a in found]


def attribute_digest(attribute: onnx.AttributeProto, side: Side) -> bytes:
    """Of an attribute's value: of tensors the contents, of bodies what their outputs are computed from."""
    if attribute.HasField("g"):
        body = of_graph(attribute.g, side.path, side.folder, side)
        return _digest(b"graph", *(body.digest(name) for name in body.outputs))
    if attribute.HasField("t"):
        return constant("", attribute.t, side.folder).digest
    plain = onnx.AttributeProto()
    plain.CopyFrom(attribute)
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
# First those that compute the same from the same. Then, of what is left, the makers of the outputs and, from pair to pair, the
# makers of their operands and the readers of their outputs, as long as the operator is the same. A name decides only among what
# structure does not tell apart.


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
        """Nodes of equal digests; of several, those of equal names first, then in their order."""
        there: dict[tuple[bytes, ...], list[int]] = defaultdict(list)
        for number in range(len(self.other.nodes)):
            there[self._outputs(self.other, number)].append(number)
        left = []
        for number, node in enumerate(self.one.nodes):
            alike = there.get(self._outputs(self.one, number), [])
            same = next((n for n in alike if _names(self.other, n) == _names(self.one, number)), None)
            if same is not None and self._pair(number, same):
                alike.remove(same)
            elif alike:
                left.append((number, node))
        for number, _ in left:
            alike = there[self._outputs(self.one, number)]
            if alike:
                self._pair(number, alike.pop(0))

    @staticmethod
    def _outputs(side: Side, number: int) -> tuple[bytes, ...]:
        return tuple(side.digest(name) for name in side.names(number)[1] if name)

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
        """Pairs the makers of two tensors, or, where a node was put in between, the next ones of the same operator."""
        mine, theirs = self.one.made.get(one), self.other.made.get(other)
        if mine is None and theirs is None:
            return
        if mine is not None and theirs is not None and (self._pair(mine[0], theirs[0]) or self._paired(mine[0], theirs[0])):
            return
        if mine is not None and theirs is not None and theirs[0] not in self.back:
            for name in self.other.names(theirs[0])[0]:
                behind = self.other.made.get(name)
                if behind is not None and self._pair(mine[0], behind[0]):
                    return
        if mine is not None and theirs is not None and mine[0] not in self.forth:
            for name in self.one.names(mine[0])[0]:
                behind = self.one.made.get(name)
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
        """What structure did not reach: nodes of one operator that make a tensor of one name."""
        for number in range(len(self.one.nodes)):
            if number not in self.forth:
                found = next((self.other.made[name] for name in _names(self.one, number) if name in self.other.made), None)
                if found is not None and self._pair(number, found[0]):
                    self._spread()


def _names(side: Side, number: int) -> list[str]:
    return [text(name) for name in side.nodes[number].output if name]
