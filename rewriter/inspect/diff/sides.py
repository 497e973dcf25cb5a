"""One graph of one model, with a digest of what each tensor is computed from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import onnx

from rewriter.inspect.diff.constants import ConstantContents, constant, of_node
from rewriter.onnxfile.tensors import text
from rewriter.record import field, record


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
