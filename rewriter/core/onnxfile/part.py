"""A part of a model as a model of its own: tensors that its nodes read and do not make become inputs. And the size of the
whole.

`reduce` tries thousands of parts, `compare` runs parts to find where two models differ, and a runtime checks one node alone.
Parts are made of messages and by names, so that any broken model can be cut anywhere. Commands that cut a model and write the
rest of it as it was edit its graph instead (`keep_nodes` of surgery).

Checkers expand functions before anything else, and a kilobyte of functions that call each other twice expands to more nodes
than a machine holds. So the nodes are counted first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import onnx

from rewriter.core.onnxfile.tensors import TensorType, encode, text

Types = Mapping[str, bytes]
"""Serialised types by the names of tensors."""

_UNKNOWN = encode(TensorType(int(onnx.TensorProto.FLOAT)))  # a guess; running the result shows whether it holds


def bodies(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """The bodies of nodes, at any depth, the outer ones first."""
    for node in nodes:
        for body in bodies_of(node):
            yield body
            yield from bodies(body.node)


def bodies_of(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The bodies of a node, without those inside of them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The main graph of a model and all bodies in it."""
    yield model.graph
    yield from bodies(model.graph.node)


def read_by(node: onnx.NodeProto) -> dict[str, None]:
    """The names that a node reads, including names that its bodies capture."""
    found = dict.fromkeys(name for name in node.input if name)
    for body in bodies_of(node):
        own = {info.name for info in body.input} | initializers(body).keys()
        inner = _from_outside(body.node, [info.name for info in body.output])
        found.update(dict.fromkeys(name for name in inner if name not in own))
    return found


def _from_outside(nodes: Iterable[onnx.NodeProto], outputs: Iterable[str] = ()) -> dict[str, None]:
    """The names that nodes and the bodies inside them read, and that they do not make."""
    found = dict.fromkeys(name for name in outputs if name)
    output_names = set[str]()
    for node in nodes:
        found.update(read_by(node))
        output_names.update(node.output)
    return {name: None for name in found if name not in output_names}


class Whole:
    """A model that is cut into parts, each chosen by the places of nodes in its main graph. It is not changed.

    Attributes:
        model: the message.
        nodes: of the main graph, in their order.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.nodes: list[onnx.NodeProto] = list(model.graph.node)
        self._reads = [read_by(node) for node in self.nodes]
        self._initializers = initializers(model.graph)

    def before(self, names: Iterable[str]) -> list[int]:
        """The places of the nodes that tensors are computed by."""
        makers: dict[str, list[int]] = {}
        for place, node in enumerate(self.nodes):
            for name in filter(None, node.output):
                makers.setdefault(name, []).append(place)
        return sorted(_reached((p for name in names for p in makers.get(name, ())), makers, lambda place: self._reads[place]))

    def behind(self, place: int) -> set[int]:
        """The place of a node, and the places of all nodes that are computed from it."""
        readers: dict[str, list[int]] = {}
        for reader, names in enumerate(self._reads):
            for name in names:
                readers.setdefault(name, []).append(reader)
        return _reached([place], readers, lambda place: self.nodes[place].output)

    def unread(self, places: Iterable[int]) -> list[str]:
        """The outputs of nodes that these nodes do not read; the last output if they read all."""
        kept = list(places)
        read = {name for place in kept for name in self._reads[place]}
        output_names = [name for place in kept for name in self.nodes[place].output if name]
        return [name for name in output_names if name not in read] or output_names[-1:]

    def part(
        self, places: Iterable[int], *, types: Types | None = None, outputs: Iterable[str] | None = None
    ) -> onnx.ModelProto:
        """The model of the nodes at these places.

        Args:
            places: of nodes in the main graph.
            types: of tensors that become inputs and outputs; a tensor that is not in it counts as floats of any shape. Without
                it, only inputs of the whole are inputs of the part.
            outputs: names of the outputs. The declared type of a tensor may be the defect of the model, so these have no types.
                None: the outputs of the whole, and the first output of each node that is not read.
        """
        kept = sorted(places)
        whole, nodes = self.model.graph, [self.nodes[place] for place in kept]
        read = {name: None for place in kept for name in self._reads[place]}
        output_names = {name for node in nodes for name in node.output if name}
        needed = [name for name in read if name not in output_names]
        result = onnx.ModelProto()
        for field, value in self.model.ListFields():
            if field.name != "graph":
                _copy(result, field.name, value)
        graph = result.graph
        graph.name = whole.name
        graph.node.extend(nodes)
        graph.initializer.extend(tensor for tensor in whole.initializer if tensor.name in read)
        graph.sparse_initializer.extend(tensor for tensor in whole.sparse_initializer if tensor.values.name in read)
        graph.input.extend(info for info in whole.input if info.name in read)
        if types is not None:
            known = {info.name for info in whole.input} | self._initializers.keys()
            graph.input.extend(_info(name, types) for name in needed if name not in known)
        if outputs is None:
            graph.output.extend(info for info in whole.output if info.name in output_names)
            listed = {info.name for info in graph.output}
            graph.output.extend(_info(name, types or {}) for name in _ends(nodes, read, listed))
        else:
            graph.output.extend(onnx.ValueInfoProto(name=name) for name in dict.fromkeys(outputs))
        ports = {info.name for info in (*graph.input, *graph.output)}
        inner = output_names if outputs is None else output_names.intersection(read)
        graph.value_info.extend(info for info in whole.value_info if info.name in inner and info.name not in ports)
        used = output_names | read.keys()
        graph.quantization_annotation.extend(a for a in whole.quantization_annotation if a.tensor_name in used)
        return result


def _reached(start: Iterable[int], places: Mapping[str, list[int]], names: Callable[[int], Iterable[str]]) -> set[int]:
    """The places that are reached from `start` through names."""
    found = set[int]()
    waiting = list(start)
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting.extend(other for name in names(place) for other in places.get(name, ()))
    return found


def part_of(model: onnx.ModelProto, places: Iterable[int], types: Types) -> onnx.ModelProto:
    """The model of the nodes at these places of the main graph, as `Whole.part` makes it."""
    return Whole(model).part(places, types=types)


def _copy(result: onnx.ModelProto, name: str, value: object) -> None:
    if isinstance(value, bytes):  # a text that is no UTF-8
        value = text(value)
    if isinstance(value, str | int):
        setattr(result, name, value)
    else:
        getattr(result, name).extend(value)


def initializers(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    """The initializers of a graph by name; of a sparse one, its values."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    return found | {tensor.values.name: tensor.values for tensor in graph.sparse_initializer}


def free_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """The inputs that a caller has to pass: those without an initializer."""
    known = initializers(graph)
    return [info for info in graph.input if info.name not in known]


def _ends(nodes: Sequence[onnx.NodeProto], read: Collection[str], listed: Collection[str]) -> Iterator[str]:
    """The first output of each node whose outputs are neither read nor listed as outputs of the graph."""
    for node in nodes:
        names = [name for name in node.output if name]
        if names and not any(name in read or name in listed for name in names):
            yield names[0]


def _info(name: str, types: Types) -> onnx.ValueInfoProto:
    return onnx.ValueInfoProto(name=name, type=onnx.TypeProto.FromString(types.get(name, _UNKNOWN)))


def body_alone(model: onnx.ModelProto, number: int, types: Types) -> onnx.ModelProto:
    """The body of this number, in the order of `bodies`, as a model of its own; captured tensors become inputs."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    whole = result.graph
    body = list(bodies(whole.node))[number]
    names = {info.name for info in body.input} | initializers(body).keys()
    graph = onnx.GraphProto(name=whole.name, node=body.node, input=body.input, output=body.output)
    graph.value_info.extend(body.value_info)
    for outer in (body, whole):
        graph.initializer.extend(t for t in outer.initializer if outer is body or t.name not in names)
        graph.sparse_initializer.extend(t for t in outer.sparse_initializer if outer is body or t.values.name not in names)
    graph.input.extend(info for info in whole.input if info.name not in names)
    for info in graph.output:
        if not info.HasField("type") and info.name in types:
            info.type.ParseFromString(types[info.name])
    whole.CopyFrom(graph)
    return part_of(result, range(len(graph.node)), types)


def body_of_nodes(model: onnx.ModelProto, number: int, kept: Iterable[int], types: Types) -> onnx.ModelProto:
    """The model with fewer nodes in one of its bodies; outputs of removed nodes become inputs of the model."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    body = list(bodies(result.graph.node))[number]
    nodes = [body.node[place] for place in sorted(kept)]
    left = onnx.GraphProto(node=nodes)
    body.ClearField("node")
    body.node.extend(left.node)
    return part_of(result, range(len(result.graph.node)), types)


def as_inputs(model: onnx.ModelProto, names: Collection[str], types: Types) -> onnx.ModelProto:
    """The model with inputs in the place of these initializers and constants of its main graph and of bodies."""
    known, gone = dict(types), set(names)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for graph in graphs(result):
        for tensor in graph.initializer:
            if tensor.name in gone:
                known[tensor.name] = encode(TensorType(tensor.data_type, tuple(tensor.dims)))
        for sparse in graph.sparse_initializer:
            if sparse.values.name in gone:
                known[sparse.values.name] = encode(TensorType(sparse.values.data_type, tuple(sparse.dims)))
        _take_out(graph.initializer, lambda tensor: tensor.name in gone)
        _take_out(graph.sparse_initializer, lambda sparse: sparse.values.name in gone)
        _take_out(graph.node, lambda node: node.op_type == "Constant" and any(name in gone for name in node.output))
    return part_of(result, range(len(result.graph.node)), known)


def _take_out(items: Any, gone: Callable[[Any], bool]) -> None:
    for place in reversed([place for place, item in enumerate(items) if gone(item)]):
        del items[place]


MOST = 100_000
"""The most nodes that a checker gets; ONNX Runtime takes hours for them."""

TOLD = f"the functions of the model expand to more than {MOST:,} nodes"

Key = TypeVar("Key", bound=Hashable)  # of a function and of an operator that may be one: domain and name


def expands_too_much(model: onnx.ModelProto) -> bool:
    """Whether the calls of local functions stand for more than `MOST` nodes, or for more of themselves."""
    if not model.functions:
        return False
    bodies = {(function.domain, function.name): list(_operators(function.node)) for function in model.functions}
    return expanded(bodies, _operators(model.graph.node)) > MOST


def expanded(bodies: Mapping[Key, Iterable[Key]], main: Iterable[Key]) -> float:
    """The number of nodes to which the calls in `main` expand; infinite if a function calls itself.

    Args:
        bodies: the operators in the body of each function.
        main: the operators outside of functions.
    """
    sizes: dict[Key, float] = {}
    for key in bodies:
        _measure(key, bodies, sizes)
    return sum(sizes[key] for key in main if key in sizes)


def _measure(first: Key, bodies: Mapping[Key, Iterable[Key]], sizes: dict[Key, float]) -> None:
    """Finds the size of a function after the sizes of its callees; a chain of calls may be longer than Python's stack."""
    waiting, entered = [first], set()
    while waiting:
        key = waiting[-1]
        missing = [called for called in bodies[key] if called in bodies and called not in sizes]
        if key in sizes or not missing or key in entered:
            sizes.setdefault(key, sum(sizes.get(called, float("inf") if called in bodies else 1) for called in bodies[key]))
            waiting.pop()
            continue
        entered.add(key)
        waiting.extend(dict.fromkeys(missing))


def _operators(nodes: Iterable[onnx.NodeProto]) -> Iterator[tuple[str, str]]:
    """The operators of nodes and of the nodes in their bodies."""
    for graph in (nodes, *(body.node for body in bodies(nodes))):
        yield from ((node.domain, node.op_type) for node in graph)
