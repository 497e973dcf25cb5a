"""`rewriter show --stats` and `--modules`: what a model costs, and what its weights hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

from rewriter.core.graph.model import Model
from rewriter.workbench.inspect.model_stats import SCOPES, macs, model_stats
from tests.cli.call import Call


@pytest.mark.parametrize(
    ("op", "attributes", "operands", "result", "count"),
    [
        ("Conv", {"group": 2}, [(1, 4, 8, 8), (6, 2, 3, 3)], (1, 6, 6, 6), 6 * 36 * 2 * 9),
        ("ConvTranspose", {}, [(1, 4, 8, 8), (4, 3, 2, 2)], (1, 3, 16, 16), 4 * 64 * 3 * 4),
        ("QLinearConv", {}, [(1, 4, 8, 8), (), (), (6, 4, 3, 3)], (1, 6, 6, 6), 6 * 36 * 36),
        ("MatMul", {}, [(5, 2, 3), (3, 7)], (5, 2, 7), 5 * 2 * 7 * 3),
        ("Gemm", {"transA": 1}, [(3, 2), (3, 7)], (2, 7), 42),
        ("LSTM", {}, [(10, 2, 4), (1, 32, 4), (1, 32, 8)], (10, 1, 2, 8), 20 * (128 + 256)),
        ("Einsum", {"equation": "bij,bjk->bik"}, [(2, 3, 4), (2, 4, 5)], (2, 3, 5), 2 * 3 * 4 * 5),
        ("Attention", {}, [(1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6)], (1, 2, 3, 6), 2 * 3 * 5 * 10),
        ("Conv", {}, [None, (6, 2, 3, 3)], None, None),
        ("Relu", {}, [None], None, 0),
    ],
)
def test_multiplications(op: str, attributes: dict, operands: list, result: tuple, count: int | None) -> None:
    assert macs(op, "", attributes, operands, [result]) == count
    assert macs(op, "of.mine", attributes, operands, [result]) == 0


def net() -> onnx.ModelProto:
    model = parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17]>
    g (float[N,4,8,8] x, bool c) => (float[N,6,8,8] y) <float[6,4,3,3] w, float[6] b, float[1] s = {0}> {
        ["/stem/conv/Conv"] h = Conv<pads = [1,1,1,1]>(x, w, b)
        ["/stem/Relu"] r = Relu(h)
        ["/head/If"] z = If(c) <then_branch = t () => (float[N,6,8,8] p) { p = Mul(r, s) },
                                else_branch = e () => (float[N,6,8,8] q) { q = Neg(r) }>
        k = Constant<value = float[2] {1, 2}>()
        y = Identity(z)
    }""")
    weight = np.ones((6, 4, 3, 3), np.float32)
    weight[2:4] = 0
    weight[4, 0, 0, 0] = 2
    weight[5, 0, 0, :2] = np.nan, np.inf
    bias = numpy_helper.from_array(np.arange(6, dtype=np.float32), "b")
    model.graph.initializer.extend([numpy_helper.from_array(weight, "w"), bias])
    return model


def test_costs_by_module() -> None:
    stats = model_stats(Model.from_proto(net()), [("x", (2, 4, 8, 8))])
    assert (stats.total.parameters, stats.total.weights) == (6 * 36 + 6 + 1 + 2, 4 * 225)
    assert stats.total.macs == 2 * 6 * 64 * 36 and not stats.open and not stats.total.unknown
    modules = {"/".join(path): cost for path, cost in stats.modules(2)}
    assert list(modules) == ["stem", "stem/conv", "head"]
    assert modules["stem"].nodes == 2 and modules["stem"].results == 2 * 2 * 6 * 64 * 4
    assert {node.place for node in stats.nodes} > {"main"}
    assert model_stats(Model.from_proto(net())).open == ["N"]


def test_what_weights_hold() -> None:
    stats = model_stats(Model.from_proto(net()))
    weight = next(weight for weight in stats.weights if weight.name == "w")
    assert (weight.min, weight.max, weight.nan, weight.inf) == (0.0, 2.0, 1, 1)
    assert (weight.channels, weight.constant, weight.dead) == (6, 4, 2)
    assert next(weight for weight in stats.weights if weight.name == "b").mean == 2.5


def test_modules_that_dynamo_records() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="node_relu")
    node.metadata_props.add(key=SCOPES, value="['', 'layer1', 'layer1.0', 'relu']")
    value = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [value("x", 1, [2])], [value("y", 1, [2])])
    assert [path for path, _ in model_stats(Model.from_proto(helper.make_model(graph))).modules(9)] == [
        ("layer1",),
        ("layer1", "0"),
    ]


def test_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    call, path = Call(capsys), tmp_path / "net.onnx"
    onnx.save(net(), path)
    done = call("show", path, "--stats", "--nodes", "--depth", "1")
    assert done.code == 0 and "in all" in done.out and "/stem/conv/Conv (Conv)" in done.out, done.err
    assert "4 of 6 channels hold one value, 2 of them 0" in done.out and "dimensions that count as 1: N" in done.out
    told = json.loads(call("show", path, "--modules", "--static", "x:3,4,8,8", "--format", "json").out)
    assert told["stats"]["total"]["macs"] == 3 * 6 * 64 * 36 and told["stats"]["weights"] == []
    assert "--static" not in call("show", path).out
    assert call("show", path, "--stats", "--static", "z:1").code == 2
