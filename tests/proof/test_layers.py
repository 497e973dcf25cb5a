"""`rewriter compare`: the planted first difference is found, whatever the names, the size, and what cannot be run."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewriter.core.errors import RewriterError
from rewriter.trust.proof.layer_comparison import Comparison, Half, compare_models
from rewriter.trust.proof.validity import REFERENCE

SIZES = (20, 40, 80, 150, 300, 600, 1000, 2000)
WIDTH = 8
BUDGET = 4096


def network(count: int, seed: int) -> onnx.ModelProto:
    """A graph of so many nodes with branches and joins, in which no number dies out or explodes."""
    draw = random.Random(seed)
    nodes, weights, made = [], [], ["x"]
    for number in range(count):
        source, name = made[-1] if draw.random() < 0.8 else draw.choice(made[-8:]), f"t{number}"
        kind = draw.choice(["MatMul", "Tanh", "Add", "Sigmoid", "LeakyRelu", "Mul", "Concat"])
        inputs, attributes = [source], {}
        if kind in ("MatMul", "Mul"):
            shape = (WIDTH, WIDTH) if kind == "MatMul" else (WIDTH,)
            values = np.random.default_rng([seed, number]).uniform(0.5, 1.0, shape) * (1 if kind == "Mul" else 1 / WIDTH)
            weights.append(numpy_helper.from_array(values.astype(np.float32), f"w{number}"))
            inputs.append(f"w{number}")
        elif kind == "Add":
            inputs.append(draw.choice(made[-4:]))
        elif kind == "LeakyRelu":
            attributes = {"alpha": 0.5}
        elif kind == "Concat":
            nodes.append(helper.make_node("Concat", [source, "x"], [f"c{number}"], f"join{number}", axis=1))
            weights.append(numpy_helper.from_array(np.full((2 * WIDTH, WIDTH), 0.08, np.float32), f"w{number}"))
            kind, inputs = "MatMul", [f"c{number}", f"w{number}"]
        nodes.append(helper.make_node(kind, inputs, [name], f"node{number}", **attributes))
        made.append(name)
    # Every end is an output, so that no node is in vain.
    read = {name for node in nodes for name in node.input}
    ends = [name for name in made[1:] if name not in read]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "network",
        [value("x", TensorProto.FLOAT, ["N", WIDTH])],
        [value(name, TensorProto.FLOAT, ["N", WIDTH]) for name in ends],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def plant(model: onnx.ModelProto, seed: int) -> tuple[onnx.ModelProto, str]:
    """The model with one fault, other names, and the tensor of the first model that comes out wrong first."""
    draw = random.Random(seed)
    other = onnx.ModelProto()
    other.CopyFrom(model)
    nodes = other.graph.node
    kind = draw.choice(["weight", "attribute", "operator", "between", "operand"])
    fits = {
        "weight": ("MatMul",),
        "attribute": ("LeakyRelu",),
        "operator": ("Tanh",),
        "between": ("Sigmoid",),
        "operand": ("Add",),
    }
    candidates = [n for n, node in enumerate(nodes) if node.op_type in fits[kind] and node.name.startswith("node")]
    number = candidates[len(candidates) // 2 :][draw.randrange(len(candidates) - len(candidates) // 2)]
    node = nodes[number]
    wrong = node.output[0]
    if kind == "weight":
        tensor = next(t for t in other.graph.initializer if t.name == node.input[1])
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1.5), tensor.name))
    elif kind == "attribute":
        node.attribute[0].f = 1.7
        source = helper.make_node("Neg", [node.input[0]], ["negated"], "negate")  # so that the slope is used for sure
        for side in (model, other):
            side.graph.node.insert(number, source)
            side.graph.node[number + 1].input[0] = "negated"
    elif kind == "operator":
        node.op_type = "Sigmoid"
    elif kind == "between":
        nodes.insert(number, helper.make_node("Neg", [node.input[0]], ["between"], "put_between"))
        nodes[number + 1].input[0] = "between"
    else:
        node.input[1] = "x" if node.input[1] != "x" else node.input[0]
        if node.input[0] == node.input[1] == "x":
            node.op_type, node.input[1] = "Sub", "x"
    renamed = {name: f"r_{name}" for n in nodes for name in n.output} | {t.name: f"v{t.name}" for t in other.graph.initializer}
    renamed = {old: new for old, new in renamed.items() if old not in {o.name for o in other.graph.output}}
    for node in nodes:
        node.name = f"{node.name}_b"
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    for tensor in other.graph.initializer:
        tensor.name = renamed[tensor.name]
    return other, wrong


def block(model: onnx.ModelProto, after: str) -> None:
    """Makes a node behind a tensor one that no runtime knows; nothing else is computed from what was wrong before."""
    names = [output.name for output in model.graph.output]
    model.graph.node.append(helper.make_node("Unheard", [after], ["unheard"], "blocked", domain="nowhere"))
    model.graph.output.append(helper.make_tensor_value_info("unheard", TensorProto.FLOAT, None))
    model.opset_import.append(helper.make_opsetid("nowhere", 1))
    assert "unheard" not in names


def compared(tmp_path: Path, one: onnx.ModelProto, other: onnx.ModelProto, **options: object) -> Comparison:
    onnx.save(one, tmp_path / "a.onnx")
    onnx.save(other, tmp_path / "b.onnx")
    given: dict[str, object] = {"inputs": None, "rtol": 1e-5, "atol": 1e-7, "memory": BUDGET, "layers": False, **options}
    return compare_models(tmp_path / "a.onnx", tmp_path / "b.onnx", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_the_planted_difference_is_found(tmp_path: Path, seed: int) -> None:
    one = network(SIZES[seed % len(SIZES)], seed)
    other, wrong = plant(one, seed)
    if seed % 3 == 0:
        block(one, one.graph.output[-1].name)
    if seed % 3 == 1:
        block(other, other.graph.output[-1].name)
    found = compared(tmp_path, one, other)
    assert found.first is not None and not found.same
    # A node put in between makes a tensor of its own, and that is held against what stood in its place.
    before = {name for node in one.graph.node if wrong in node.output for name in node.input}
    put_between = found.first.layer.pair.other_maker.node == "put_between_b"
    assert found.first.layer.pair.first in (before if put_between else {wrong})
    assert found.peak_bytes <= BUDGET
    blocked = [node.node for side in found.blocked for node in side]
    assert blocked == (["blocked"] if seed % 3 < 2 else [])


def test_models_that_are_the_same(tmp_path: Path) -> None:
    one = network(60, 1)
    found = compared(tmp_path, one, one, layers=True)
    assert found.same and found.first is None and found.compared == found.pairs == len(found.layers) > 60


def test_a_node_that_fails_only_when_it_runs(tmp_path: Path) -> None:
    one, other = network(40, 2), network(40, 2)
    shape = numpy_helper.from_array(np.array([3, 5], np.int64), "shape")
    other.graph.initializer.append(shape)
    other.graph.node.insert(20, helper.make_node("Reshape", [other.graph.node[19].output[0], "shape"], ["bent"], "bend"))
    other.graph.output.append(helper.make_tensor_value_info("bent", TensorProto.FLOAT, [3, 5]))
    found = compared(tmp_path, one, other)
    assert [node.node for node in found.blocked[1]] == ["bend"] and "Reshape" in found.blocked[1][0].reason
    assert found.first is None and not found.same


def test_a_model_that_is_refused_as_a_whole(tmp_path: Path) -> None:
    one, other = network(20, 3), network(20, 3)
    other.ir_version = 1000
    found = compared(tmp_path, one, other)
    assert [(node.node, "IR version" in node.reason) for node in found.blocked[1]] == [("", True)]


def test_nan_equals_nan_at_the_same_place_only(tmp_path: Path) -> None:
    def model(low: float) -> onnx.ModelProto:
        graph = onnx.parser.parse_graph(
            f"g (float[4] x) => (float[4] y) {{ a = Constant<value_float={low:.1f}>() b = Sub(x, a) y = Sqrt(b) }}"
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)

    np.savez(tmp_path / "x.npz", x=np.array([-1, 1, 2, 3], np.float32))
    assert compared(tmp_path, model(0), model(0), inputs=str(tmp_path / "x.npz")).same
    found = compared(tmp_path, model(0), model(1.5), inputs=str(tmp_path / "x.npz"))
    assert not found.same and found.outputs[0].message == "is NaN in 2 places instead of 1"


def test_other_input_names_and_inputs_without_counterpart(tmp_path: Path) -> None:
    one, other = network(20, 4), network(20, 4)
    other.graph.input[0].name = "data"
    for node in other.graph.node:
        node.input[:] = ["data" if name == "x" else name for name in node.input]
    assert compared(tmp_path, one, other).outputs[0].message == ""
    other.graph.input[0].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(RewriterError, match="input 'data' has no counterpart among 'x'"):
        compared(tmp_path, one, other)


def test_without_onnx_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewriter.trust.proof.layer_comparison.runtimes", lambda: [REFERENCE])
    one = network(40, 5)
    other, _ = plant(one, 11)
    found = compared(tmp_path, one, other)
    assert found.runtime.startswith(REFERENCE) and found.first is not None


def test_a_body_that_reads_from_outside(tmp_path: Path) -> None:
    text = """g (float[4] x, bool c) => (float[4] y) {{
      h = {op}(x)
      k = If (c) <then_branch = t () => (float[4] o) {{ o = Neg(h) }}, else_branch = e () => (float[4] o) {{ o = Abs(h) }}>
      y = Relu(k) }}"""
    models = [
        helper.make_model(
            onnx.parser.parse_graph(text.format(op=op)), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
        )
        for op in ("Tanh", "Sigmoid")
    ]
    found = compared(tmp_path, *models)
    assert found.first is not None and found.first.layer.pair.first == "h"


def test_external_data_stay_in_their_folder(tmp_path: Path) -> None:
    one = network(20, 6)
    tensor = one.graph.initializer[0]
    size = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../secret")
    tensor.external_data.add(key="length", value=str(size))
    with pytest.raises(RewriterError, match="leads out of the model's folder"):
        compared(tmp_path, one, one)


def test_inputs_of_a_model_that_has_many(tmp_path: Path) -> None:
    """Each has its counterpart by name without going over all others: 6,000 took more than a minute."""
    infos = [helper.make_tensor_value_info(f"x{number}", TensorProto.FLOAT, [1]) for number in range(4000)]
    nodes = [helper.make_node("Relu", ["x0"], ["y"])]
    graph = helper.make_graph(nodes, "g", infos, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])
    half = Half(helper.make_model(graph), tmp_path / "net.onnx", REFERENCE)
    values = {info.name: np.ones(1, np.float32) for info in infos}
    started = time.process_time()
    assert half.feed(values) == values
    assert time.process_time() - started < 1
