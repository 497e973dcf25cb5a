"""Edits of a graph that transforms are made of: fresh names, nodes put in between, lists of what is inside."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

import onnx
from onnx import helper, shape_inference


def fresh_name(name: str, taken: set[str]) -> str:
    """The name, or the name with the first number that makes it a new one."""
    found, numbers = name, count()
    while found in taken:
        found = f"{name}_{next(numbers)}"
    taken.add(found)
    return found


def all_names(graph: onnx.GraphProto) -> set[str]:
    names = {name for node in all_nodes(graph) for name in (*node.input, *node.output)}
    return names | {init.name for init in graph.initializer} | {info.name for info in (*graph.input, *graph.output)}


def all_nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs) if attribute.type in (5, 10) else ():
                yield from all_nodes(inner)


def has_subgraphs(graph: onnx.GraphProto) -> bool:
    return any(attribute.type in (5, 10) for node in graph.node for attribute in node.attribute)


def data_inputs(graph: onnx.GraphProto) -> list[str]:
    weights = {init.name for init in graph.initializer}
    return [info.name for info in graph.input if info.name not in weights and info.type.HasField("tensor_type")]


def inner_tensors(graph: onnx.GraphProto) -> list[str]:
    """Tensors that a node of the main graph computes and another reads."""
    ends = {info.name for info in graph.output}
    read = {name for node in graph.node for name in node.input}
    return [name for node in graph.node for name in node.output if name in read and name not in ends]


def inner_info(model: onnx.ModelProto, rng: random.Random) -> onnx.ValueInfoProto | None:
    """An inner tensor of known element type, declared without a shape."""
    inner = set(inner_tensors(model.graph))
    try:
        infos = list(shape_inference.infer_shapes(model).graph.value_info)
    except Exception:
        infos = list(model.graph.value_info)
    infos = [info for info in infos if info.name in inner and info.type.tensor_type.elem_type]
    if not infos:
        return None
    info = rng.choice(sorted(infos, key=lambda one: one.name))
    return helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type, None)


def insert_after(graph: onnx.GraphProto, name: str, operator: str) -> bool:
    """An unnamed node reads this tensor in place of the main graph's nodes."""
    fresh = fresh_name(f"{name}_same", all_names(graph))
    for node in graph.node:
        for k, one in enumerate(node.input):
            if one == name:
                node.input[k] = fresh
    place = next((k + 1 for k, node in enumerate(graph.node) if name in node.output), 0)
    graph.node.insert(place, helper.make_node(operator, [name], [fresh]))
    return True


def insert_before_output(graph: onnx.GraphProto, operator: str) -> bool:
    """An unnamed node gives the first output; what gave it gives an inner tensor."""
    name = graph.output[0].name
    node = next((node for node in graph.node if name in node.output), None)
    if node is None or not graph.output[0].type.HasField("tensor_type"):
        return False
    fresh = fresh_name(f"{name}_inner", all_names(graph))
    node.output[list(node.output).index(name)] = fresh
    for other in graph.node:
        for k, one in enumerate(other.input):
            if one == name:
                other.input[k] = fresh
    if any(name in node.input for node in all_nodes(graph)):
        return False  # a subgraph reads it
    graph.node.append(helper.make_node(operator, [fresh], [name]))
    return True


def rename(graph: onnx.GraphProto, names: dict[str, str]) -> None:
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
    for item in (*graph.initializer, *graph.input, *graph.value_info):
        item.name = names.get(item.name, item.name)
    for annotation in graph.quantization_annotation:
        annotation.tensor_name = names.get(annotation.tensor_name, annotation.tensor_name)


def unlist(model: onnx.ModelProto) -> None:
    weights = {init.name for init in model.graph.initializer}
    listed = [info for info in model.graph.input if info.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(listed)
    model.ir_version = max(model.ir_version, 4)


def shapeless(info: onnx.ValueInfoProto) -> None:
    if info.type.HasField("tensor_type"):
        info.type.tensor_type.ClearField("shape")
