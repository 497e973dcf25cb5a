"""A model of some nodes of another one: what these read and do not make becomes inputs.

It works on messages and by names, so that a model of any brokenness can be cut anywhere, and thousands of times.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
import onnx_graphsurgeon as gs

from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.onnxfile.tensors import TensorType, encode, refine

Types = Mapping[str, bytes]
"""Serialised types by the names of tensors."""

_UNKNOWN = encode(TensorType(int(onnx.TensorProto.FLOAT)))  # as good a guess as any; who tries the result finds out


def known_types(model: Model) -> dict[str, bytes]:
    """What is known of each tensor of a model, and of those of its bodies."""
    index = GraphIndex(model.graph)
    facts = Facts(index, model.overridable)
    found: dict[str, bytes] = {}
    for node in index.all_nodes():
        for tensor in (*node.inputs, *node.outputs):
            if tensor.name and tensor.name not in found and (data := _type(facts, tensor)):
                found[tensor.name] = data
    return found


def _type(facts: Facts, tensor: gs.Tensor) -> bytes:
    known = facts.fact(tensor).type
    return encode(known if known.other else refine(known, TensorType(*facts.declared(tensor))))


def bodies(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.GraphProto]:
    """The bodies of nodes, at any depth, the outer ones first."""
    for node in nodes:
        for attribute in node.attribute:
            for body in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield body
                yield from bodies(body.node)


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The main graph of a model and all bodies in it."""
    yield model.graph
    yield from bodies(model.graph.node)


def reads(nodes: Sequence[onnx.NodeProto], outputs: Iterable[str] = ()) -> dict[str, None]:
    """The names that nodes and the bodies inside them read, and that they do not make."""
    made = {name for node in nodes for name in node.output}
    found = dict.fromkeys(name for name in outputs if name)
    for node in nodes:
        found.update(dict.fromkeys(name for name in node.input if name))
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                own = {info.name for info in body.input} | _held(body).keys()
                inner = reads(body.node, [info.name for info in body.output])
                found.update(dict.fromkeys(name for name in inner if name not in own))
    return {name: None for name in found if name not in made}


def some_nodes(model: onnx.ModelProto, kept: Iterable[int], types: Types) -> onnx.ModelProto:
    """The model of the nodes with these numbers. What they make and nobody reads is an output.

    Args:
        model: the whole.
        kept: places of nodes in its main graph.
        types: of tensors that become inputs and outputs; what is not told is taken for floats of any shape.
    """
    whole = model.graph
    nodes = [whole.node[place] for place in sorted(kept)]
    needed, made = reads(nodes), {name for node in nodes for name in node.output if name}
    held = _held(whole)
    infos = {info.name: info for info in whole.input}
    result = onnx.ModelProto(ir_version=model.ir_version) if model.HasField("ir_version") else onnx.ModelProto()
    for field, value in model.ListFields():
        if field.name not in ("graph", "ir_version"):
            _copy(result, field.name, value)
    graph = result.graph
    graph.name = whole.name
    graph.node.extend(nodes)
    graph.initializer.extend(tensor for tensor in whole.initializer if tensor.name in needed)
    graph.sparse_initializer.extend(tensor for tensor in whole.sparse_initializer if tensor.values.name in needed)
    graph.input.extend(info for info in whole.input if info.name in needed)
    graph.input.extend(_info(name, types, held.get(name)) for name in needed if name not in held and name not in infos)
    graph.output.extend(info for info in whole.output if info.name in made)
    listed = {info.name for info in graph.output}
    graph.output.extend(_info(name, types, None) for name in _ends(nodes, listed))
    ports = {info.name for info in (*graph.input, *graph.output)}
    graph.value_info.extend(info for info in whole.value_info if info.name in made and info.name not in ports)
    graph.quantization_annotation.extend(a for a in whole.quantization_annotation if a.tensor_name in made | needed.keys())
    return result


def _copy(result: onnx.ModelProto, name: str, value: object) -> None:
    if isinstance(value, str | int):
        setattr(result, name, value)
    else:
        getattr(result, name).extend(value)


def _held(graph: onnx.GraphProto) -> dict[str, onnx.TensorProto]:
    found = {tensor.name: tensor for tensor in graph.initializer}
    return found | {tensor.values.name: tensor.values for tensor in graph.sparse_initializer}


def _ends(nodes: Sequence[onnx.NodeProto], listed: Collection[str]) -> Iterator[str]:
    """Of each node that nobody reads, and that makes no output, what it makes first."""
    read = {name for node in nodes for name in node.input}
    for body in bodies(nodes):
        read.update(name for node in body.node for name in node.input)
        read.update(info.name for info in body.output)
    for node in nodes:
        names = [name for name in node.output if name]
        if names and not any(name in read or name in listed for name in names):
            yield names[0]


def _info(name: str, types: Types, tensor: onnx.TensorProto | None) -> onnx.ValueInfoProto:
    data = types.get(name, _UNKNOWN) if tensor is None else encode(TensorType(tensor.data_type, tuple(tensor.dims)))
    return onnx.ValueInfoProto(name=name, type=onnx.TypeProto.FromString(data))


def body_alone(model: onnx.ModelProto, number: int, types: Types) -> onnx.ModelProto:
    """The body of this number, in the order of `bodies`, as a model of its own; what it captures becomes inputs."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    whole = result.graph
    body = list(bodies(whole.node))[number]
    names = {info.name for info in body.input} | _held(body).keys()
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
    return some_nodes(result, range(len(graph.node)), types)


def body_of_nodes(model: onnx.ModelProto, number: int, kept: Iterable[int], types: Types) -> onnx.ModelProto:
    """The model with fewer nodes in one of its bodies; what these made becomes inputs of the model."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    body = list(bodies(result.graph.node))[number]
    nodes = [body.node[place] for place in sorted(kept)]
    left = onnx.GraphProto(node=nodes)
    body.ClearField("node")
    body.node.extend(left.node)
    return some_nodes(result, range(len(result.graph.node)), types)


def as_inputs(model: onnx.ModelProto, names: Collection[str], types: Types) -> onnx.ModelProto:
    """The model with inputs in the place of these initializers and constants of its main graph and of bodies."""
    told, gone = dict(types), set(names)
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for graph in graphs(result):
        for tensor in graph.initializer:
            if tensor.name in gone:
                told[tensor.name] = encode(TensorType(tensor.data_type, tuple(tensor.dims)))
        for sparse in graph.sparse_initializer:
            if sparse.values.name in gone:
                told[sparse.values.name] = encode(TensorType(sparse.values.data_type, tuple(sparse.dims)))
        _take_out(graph.initializer, lambda tensor: tensor.name in gone)
        _take_out(graph.sparse_initializer, lambda sparse: sparse.values.name in gone)
        _take_out(graph.node, lambda node: node.op_type == "Constant" and any(name in gone for name in node.output))
    return some_nodes(result, range(len(result.graph.node)), told)


def _take_out(items: Any, gone: Callable[[Any], bool]) -> None:
    for place in reversed([place for place, item in enumerate(items) if gone(item)]):
        del items[place]


__all__ = [
    "Types",
    "as_inputs",
    "bodies",
    "body_alone",
    "body_of_nodes",
    "graphs",
    "known_types",
    "reads",
    "some_nodes",
]
