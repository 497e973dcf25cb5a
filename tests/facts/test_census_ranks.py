"""Ranks in a census contradict no fact of the loaded model, even if attributes and operands make no sense."""

from __future__ import annotations

import random

import onnx
import pytest
from onnx import TensorProto, helper

from rewriter.core.conditions.recorded_graph import COMPUTED
from rewriter.core.facts import census_flow
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.language.operator_traits import traits
from rewriter.core.language.schema import COMPUTED_FROM_OPERANDS
from rewriter.core.onnxfile.census import VECTOR
from rewriter.core.onnxfile.take_census import take_census

OPERATORS: dict[str, tuple[str, ...]] = {
    # operator: attributes that a node may have
    "Conv": ("kernel_shape", "strides", "pads", "dilations", "auto_pad", "group"),
    "MaxPool": ("kernel_shape", "strides", "pads", "dilations", "auto_pad", "ceil_mode"),
    "AveragePool": ("kernel_shape", "strides", "pads", "dilations", "auto_pad"),
    "LpPool": ("kernel_shape", "strides", "pads", "auto_pad"),
    "GlobalAveragePool": (),
    "Relu": ("axis",),
    "Softmax": ("axis",),
    "BatchNormalization": (),
    "Add": ("axis", "broadcast"),
    "Max": (),
    "Where": (),
    "Mod": ("fmod",),
    "Concat": ("axis",),
    "Gather": ("axis",),
    "Cast": ("to",),
    "Flatten": ("axis",),
    "MatMul": (),
    "Shape": ("start", "end"),
    "Size": (),
    "Constant": (),
    "Unsqueeze": ("axes",),
    "Squeeze": ("axes",),
    "Reshape": ("allowzero",),
    "Expand": (),
    "Transpose": ("perm",),
    "Slice": (),
    "Split": ("axis",),
    "Tile": (),
    "Gemm": ("transB",),
    "ReduceMean": ("axes", "keepdims"),
    "ReduceSum": ("keepdims", "noop_with_empty_axes"),
    "ArgMax": ("axis", "keepdims"),
    "ConstantOfShape": (),
    "NonZero": (),
    "LSTM": ("hidden_size",),
    "LayerNormalization": ("axis",),
}
MODELS = 600


def model(chance: random.Random) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(f"x{i}", chance.choice((1, 1, 7)), None if chance.random() < 0.1 else shape(chance, 5))
        for i in range(3)
    ]
    constants = [helper.make_tensor(f"c{i}", 1, dims, [1.0] * size(dims)) for i in range(3) for dims in [shape(chance, 4)]]
    for i in range(3):
        length = chance.randint(0, 4)
        constants.append(
            helper.make_tensor(f"v{i}", TensorProto.INT64, [length], [chance.choice((0, 1, 1, 2, -1)) for _ in range(length)])
        )
    names = [f"{kind}{i}" for kind in "xcv" for i in range(3)]
    nodes = []
    for i in range(8):
        op = chance.choice(sorted(OPERATORS))
        given = [chance.choice([*names, ""] if chance.random() < 0.1 else names) for _ in range(count(chance, op))]
        node = helper.make_node(op, given, [f"t{i}"])
        node.attribute.extend(attribute(chance, name) for name in OPERATORS[op] if chance.random() < 0.5)
        if op == "Constant":
            node.attribute.append(value(chance))
        nodes.append(node)
        names.append(f"t{i}")
    outputs = [helper.make_tensor_value_info(names[-1], 1, shape(chance, 4))]
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    for i in range(8):
        if chance.random() < 0.1:
            graph.value_info.append(helper.make_tensor_value_info(f"t{i}", 1, shape(chance, 5)))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", chance.choice((6, 7, 8, 11, 13, 18)))])


def shape(chance: random.Random, most: int) -> list[int]:
    return [chance.randint(1, 4) for _ in range(chance.randint(0, most))]


def size(dims: list[int]) -> int:
    total = 1
    for dim in dims:
        total *= dim
    return total


def count(chance: random.Random, op: str) -> int:
    usual = {
        "Constant": 0,
        "Conv": 2,
        "Add": 2,
        "Gather": 2,
        "Where": 3,
        "Mod": 2,
        "MatMul": 2,
        "BatchNormalization": 5,
        "LSTM": 3,
    }
    usual.update(dict.fromkeys(("Reshape", "Expand", "Tile", "Squeeze", "Unsqueeze", "Gemm"), 2))
    return max(usual.get(op, chance.choice((1, 1, 2, 3))) + chance.choice((0, 0, 0, 0, 0, 1, -1)), 0)


def attribute(chance: random.Random, name: str) -> onnx.AttributeProto:
    if name == "auto_pad":
        return helper.make_attribute(name, chance.choice(("NOTSET", "VALID", "SAME_UPPER", "NONE")))
    if name in ("kernel_shape", "strides", "pads", "dilations", "axes", "perm"):
        usual = 2 * (1 + (name == "pads"))
        length = chance.choice((usual, usual, usual, 1, 3, 4))
        return helper.make_attribute(name, [chance.choice((0, 1, 1, 1, 2, 3, -1)) for _ in range(length)])
    return helper.make_attribute(name, chance.choice((0, 0, 1, 1, -1, 2, 7, 10, 99)))


def value(chance: random.Random) -> onnx.AttributeProto:
    tensor = helper.make_tensor("v", TensorProto.INT64, (dims := shape(chance, 2)), [1] * size(dims))
    name, found = chance.choice([("value", tensor), ("value_int", 1), ("value_ints", [1, 2]), ("value_float", 1.0)])
    return helper.make_attribute(name, found)


def compare(proto: onnx.ModelProto) -> int:
    """Compares the ranks of all nodes with the facts. Returns how many both know."""
    census = take_census(proto.SerializeToString())
    assert census_flow.follow_ranks(census)
    graph = Model.from_proto(proto).graph
    facts = Facts(GraphIndex(graph))
    declared = {info.name for part in (proto.graph.value_info, proto.graph.output) for info in part}
    known: dict[bytes, int | None] = {b"": census_flow.OMITTED, **census.graph.ranks}
    count = 0
    for (kind, inputs, outputs), node in zip(census.graph.nodes, graph.nodes, strict=True):
        rank = known[outputs[0]] = kind.ranks[tuple([known[name] for name in inputs])]
        shape = facts.shape(node.outputs[0])
        if rank is None or shape is None or outputs[0].decode() in declared:
            continue
        count += 1
        if rank >= VECTOR and traits(node.op).shape not in ("broadcast", "reshape") and isinstance(shape[0], int):
            assert len(shape) == 1 and shape[0] == rank - VECTOR, (node.op, dict(node.attrs), rank - VECTOR, shape)
        else:
            assert len(shape) == (1 if rank >= VECTOR else rank), (node.op, dict(node.attrs), rank, shape)
    return count


@pytest.mark.parametrize("start", range(0, MODELS, 50))
def test_ranks_contradict_no_fact(start: int) -> None:
    assert sum(compare(model(random.Random(seed))) for seed in range(start, start + 50)) > 40


def test_defaults_that_are_worked_out_have_one_list() -> None:
    assert set(COMPUTED) == COMPUTED_FROM_OPERANDS


def test_the_length_of_a_vector_is_no_rank_without_bounds() -> None:
    """A shape that is declared with a billion lengths, and a rank that would read as a vector."""
    for length in (1 << 20, 10**9, 1 << 62):
        shape = onnx.TensorProto(name="s", data_type=TensorProto.INT64, dims=[length])
        nodes = [helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Concat", ["s", "s"], ["t"], axis=0)]
        inputs = [helper.make_tensor_value_info("x", 1, ["N", 4])]
        graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("r", 1, None)], [shape])
        census = take_census(helper.make_model(graph).SerializeToString())
        assert census_flow.follow_ranks(census)
        assert [next(iter(kind.ranks.values())) for kind, _, _ in census.graph.nodes] == [None, 1]
