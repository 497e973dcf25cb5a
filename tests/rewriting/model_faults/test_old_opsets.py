"""Models of opsets 1 to 6, in which ONNX Runtime lacks operators, run at opset 7 and give what their nodes meant; models whose opset
is lost get one where it cannot matter which.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.run import run
from rewriter.core.graph.model import Model
from rewriter.rule_tools.load_rules import load_rules

onnxruntime = pytest.importorskip("onnxruntime")

RULES = load_rules([Path(__file__).parents[3] / "rules"])
WEIGHTS = {
    "w": (4, 3),
    "s": (4,),
    "b": (4,),
    "m": (4,),
    "v": (4,),
    "each": (4,),
    "one": (1,),
    "slope": (4,),
    "g": (5, 81),
    "c": (5,),
}


def weights() -> dict[str, np.ndarray]:
    random = np.random.RandomState(0)
    made = {name: random.uniform(-1, 1, shape).astype(np.float32) for name, shape in WEIGHTS.items()}
    made["w"] = made["w"].reshape(4, 3, 1, 1)
    made["v"] = np.abs(made["v"]) + np.float32(0.5)
    return made


def old_model(opset: int) -> onnx.ModelProto:
    """A small network in the words of its opset, as Caffe2, CNTK and PyTorch 0.3 wrote them."""

    def consumed(*which: int) -> dict[str, list[int]]:
        return {"consumed_inputs": list(which)} if opset < 6 else {}

    node = helper.make_node
    made = weights()
    arrays = dict(made) if opset < 5 else {**made, "flat": np.array([0, -1])}
    nodes = [
        node("Conv", ["x", "w"], ["conv"], kernel_shape=[1, 1]),
        node("BatchNormalization", ["conv", "s", "b", "m", "v"], ["bn"], is_test=1, epsilon=1e-3, **consumed(0, 0, 0, 1, 1)),
        node("Relu", ["bn"], ["relu"], **consumed(0)),
        node("Add", ["relu", "each"], ["sum"], broadcast=1, axis=1),
        node("Mul", ["sum", "one"], ["product"], broadcast=1),
        node("PRelu", ["product", "slope" if opset == 6 else "one"], ["prelu"], **consumed(0, 0)),
        node("Dropout", ["prelu"], ["drop"], is_test=1, ratio=0.5),
        node("Concat", ["drop", "prelu"], ["both"], **({"axis": 1} if opset > 3 else {})),
        node("Pad", ["both"], ["pad"], mode="constant", **{"pads" if opset > 1 else "paddings": [0, 0, 0, 0, 0, 1, 0, 0]}),
        node("Reshape", ["pad", "flat"], ["row"]) if opset > 4 else node("Reshape", ["pad"], ["row"], shape=[0, -1]),
        node("Gemm", ["row", "g", "c"], ["y"], broadcast=1, transB=1),
    ]
    kept = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 3, 3])]
    inputs += [helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in kept]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 5])]
    graph = helper.make_graph(nodes, "old", inputs, outputs, kept)
    return helper.make_model(graph, ir_version=3, opset_imports=[helper.make_opsetid("", opset)])


def meant(x: np.ndarray, opset: int) -> np.ndarray:
    made = weights()
    at = {name: array.reshape(1, -1, 1, 1) for name, array in made.items() if array.ndim == 1}
    conv = np.einsum("nchw,oc->nohw", x, made["w"][:, :, 0, 0])
    normal = (conv - at["m"]) / np.sqrt(at["v"] + 1e-3) * at["s"] + at["b"]
    product = (np.maximum(normal, 0) + at["each"]) * at["one"]
    prelu = np.where(product < 0, product * at["slope" if opset == 6 else "one"], product)
    both = np.pad(np.concatenate([prelu, prelu], 1), ((0, 0), (0, 1), (0, 0), (0, 0)))
    return both.reshape(2, -1) @ made["g"].T + made["c"]


def repaired(model: onnx.ModelProto) -> onnx.ModelProto:
    read = Model.from_proto(model)
    run(read.graph, RULES, Knowledge(overridable=read.overridable))
    return read.to_proto()


@pytest.mark.parametrize("opset", [1, 2, 3, 4, 5, 6])
def test_an_old_network_gives_what_it_meant(opset: int) -> None:
    model = old_model(opset)
    onnx.checker.check_model(model)
    result = repaired(model)
    onnx.checker.check_model(result, full_check=True)
    assert [entry.version for entry in result.opset_import] == [7]
    x = np.random.RandomState(1).randn(2, 3, 3, 3).astype(np.float32)
    session = onnxruntime.InferenceSession(result.SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.allclose(session.run(None, {"x": x})[0], meant(x, opset), atol=1e-4)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("y = Dropout<is_test=0>(x)", "training"),
        ("y = Dropout(x)", "training"),
        ("y = PRelu(x, s)", "slope"),
    ],
)
def test_what_is_in_the_way_is_named(body: str, why: str) -> None:
    text = '<ir_version: 3, opset_import: ["": 5]> g (float[1,2,3,2] x, float[2] s) => (float[1,2,3,2] y) {' + body + "}"
    read = Model.from_proto(onnx.parser.parse_model(text))
    log = run(read.graph, RULES.select(["HYG040"]), Knowledge(overridable=read.overridable))
    assert not log.firings
    assert [why in blocked.reason for blocked in log.blocked] == [True]


def without_import(body: str, ir_version: int) -> onnx.ModelProto:
    text = f'<ir_version: {ir_version}, opset_import: ["": 7]> g (float[2,3] x) => (float[2,3] y) {{ {body} }}'
    model = onnx.parser.parse_model(text)
    del model.opset_import[:]
    return model


@pytest.mark.parametrize(("ir_version", "opset"), [(3, 8), (4, 9), (8, 18)])
def test_a_lost_opset_is_found_where_all_say_the_same(ir_version: int, opset: int) -> None:
    result = repaired(without_import("a = Relu(x)  y = Add(a, x)", ir_version))
    assert [entry.version for entry in result.opset_import] == [opset]
    onnx.checker.check_model(result, full_check=True)


def test_attributes_tell_between_opsets() -> None:
    result = repaired(without_import("a = Unsqueeze<axes=[0]>(x)  y = Squeeze<axes=[0]>(a)", 8))
    assert [entry.version for entry in result.opset_import] == [12]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("y = Softmax<axis=1>(x)", "another meaning"),
        ("a = Unsqueeze<axes=[0]>(x)  y = GroupNormalization<num_groups=1>(a, x, x)", "no opset of its time"),
    ],
)
def test_a_lost_opset_stays_lost_where_it_matters(body: str, why: str) -> None:
    read = Model.from_proto(without_import(body, 8))
    log = run(read.graph, RULES.select(["HYG041"]), Knowledge(overridable=read.overridable))
    assert not log.firings
    assert [why in blocked.reason for blocked in log.blocked] == [True]


def test_a_format_without_imports_means_opset_1() -> None:
    result = repaired(without_import("y = Relu(x)", 2))
    assert (result.ir_version, [entry.version for entry in result.opset_import]) == (3, [7])
