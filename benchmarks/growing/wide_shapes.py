"""Models of any size that are large in one respect each, for command_growth.py: equal nodes, weights, inputs, functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOATS = TensorProto.FLOAT


def infos(names: Iterable[str]) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, FLOATS, [4, 4]) for name in names]


def model(
    nodes: list[onnx.NodeProto],
    inputs: Iterable[str],
    outputs: Iterable[str],
    weights: Iterable[onnx.TensorProto] = (),
    functions: Iterable[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), list(weights))
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=8)


def chained(count: int, node: Callable[[str, str, int], onnx.NodeProto]) -> tuple[list[onnx.NodeProto], str]:
    """Nodes behind each other, and the name of the last output. `node` makes one from operand, output and number."""
    names = ["x", *(f"t{number}" for number in range(count))]
    return [node(names[at], names[at + 1], at) for at in range(count)], names[-1]


def equal(size: int) -> onnx.ModelProto:
    """Nodes that all compute the same."""
    names = [f"t{number}" for number in range(size)]
    nodes = [helper.make_node("Relu", ["x"], [name], f"n_{name}") for name in names]
    return model([*nodes, helper.make_node("Sum", names, ["y"])], ["x"], ["y"])


def weights(size: int) -> onnx.ModelProto:
    """A weight for each node."""
    nodes, last = chained(size, lambda a, b, at: helper.make_node("Add", [a, f"w{at}"], [b]))
    tensors = (numpy_helper.from_array(np.full((4, 4), at, np.float32), f"w{at}") for at in range(size))
    return model(nodes, ["x"], [last], tensors)


def constants(size: int) -> onnx.ModelProto:
    """A Constant node for every second node."""
    value = numpy_helper.from_array(np.ones((4, 4), np.float32))
    held = [helper.make_node("Constant", [], [f"c{at}"], value=value) for at in range(size // 2)]
    nodes, last = chained(size // 2, lambda a, b, at: helper.make_node("Add", [a, f"c{at}"], [b]))
    return model([*held, *nodes], ["x"], [last])


def ports(size: int) -> onnx.ModelProto:
    """An input and an output for each node."""
    nodes = [helper.make_node("Relu", [f"x{at}"], [f"y{at}"]) for at in range(size)]
    return model(nodes, [f"x{at}" for at in range(size)], [f"y{at}" for at in range(size)])


def functions(size: int) -> onnx.ModelProto:
    """A function of its own for each node."""
    bodies = [
        helper.make_function(
            "own", f"F{at}", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 17)]
        )
        for at in range(size // 2)
    ]
    nodes, last = chained(size // 2, lambda a, b, at: helper.make_node(f"F{at}", [a], [b], domain="own"))
    return model(nodes, ["x"], [last], (), bodies)


def ifs(size: int) -> onnx.ModelProto:
    """Each third node is an If, whose branches have one node each."""

    def node(a: str, b: str, at: int) -> onnx.NodeProto:
        then, otherwise = (
            helper.make_graph([helper.make_node(op, [a], [f"{op}{at}"])], f"g{op}{at}", [], infos([f"{op}{at}"]))
            for op in ("Relu", "Neg")
        )
        return helper.make_node("If", ["c"], [b], then_branch=then, else_branch=otherwise)

    nodes, last = chained(size // 3, node)
    made = model(nodes, ["x"], [last])
    made.graph.input.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    return made


def dead(size: int) -> onnx.ModelProto:
    """Nodes that nobody reads."""
    nodes, _ = chained(size, lambda a, b, at: helper.make_node("Neg", [a], [b]))
    return model([helper.make_node("Relu", ["x"], ["y"]), *nodes], ["x"], ["y"])


def unsorted(size: int) -> onnx.ModelProto:
    """A chain in the opposite order."""
    nodes, last = chained(size, lambda a, b, at: helper.make_node("Relu", [a], [b]))
    return model(nodes[::-1], ["x"], [last])


SHAPES = {shape.__name__: shape for shape in (equal, weights, constants, ports, functions, ifs, dead, unsorted)}


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with other names of inner tensors."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    graph = copy.graph
    kept = {port.name for port in (*graph.input, *graph.output)} | {""}
    for node in graph.node:
        if not any(attribute.HasField("g") for attribute in node.attribute):
            node.input[:] = [name if name in kept else f"other_{name}" for name in node.input]
            node.output[:] = [name if name in kept else f"other_{name}" for name in node.output]
    for tensor in graph.initializer:
        tensor.name = f"other_{tensor.name}"
    return copy
