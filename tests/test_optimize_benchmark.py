"""What benchmarks/optimize.py counts, compares and concludes; it runs by hand, over exports that are not in the repository."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx.parser
import pytest


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "optimize_benchmark", Path(__file__).parents[1] / "benchmarks" / "optimize.py"
    )
    assert spec is not None and spec.loader is not None
    module = sys.modules["optimize_benchmark"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nodes_are_counted_without_constants_and_with_bodies(bench: ModuleType) -> None:
    text = """<ir_version: 8, opset_import: ["": 13]> g (float[2] x, bool c) => (float[2] y) {
      k = Constant<value=float[1]{1}>() a = Add(x, k)
      y = If(c) <then_branch = t () => (float[2] r) { r = Relu(a) }, else_branch = e () => (float[2] s) { s = Neg(a) }> }"""
    assert bench.count(onnx.parser.parse_model(text).graph) == 4


def test_outputs_that_differ(bench: ModuleType) -> None:
    x = np.array([1, np.nan, np.inf], np.float32)
    assert bench.differ([x], [x + np.float32(1e-5)]) == ""
    assert "differs by 0.5" in bench.differ([x], [x + np.float32(0.5)])
    assert "is float32[3, 1], not float32[3]" in bench.differ([x], [x[:, None]])
    assert bench.differ([np.arange(3)], [np.arange(3) + 1]) == "output 0 differs"


def test_what_the_rows_come_to(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    times = {"ours": [1.0, 3.0, 1.0], "onnxsim": [1.1, 3.3, 1.1], "before": [2.0, 2.0, 2.0]}
    good = bench.Row("a", 10, {"ours": 4, "onnxsim": 5, "onnxslim": 3}, {"onnxslim": "wrong"}, [], times)
    worse = bench.Row("b", 10, {"ours": 6, "onnxsim": 5}, {}, [], {"ours": [1.0], "onnxsim": [1.0], "before": [1.0]})
    assert bench.summary([good]) == 0
    assert "ours <= best peer on 1 of 1 (100%)" in capsys.readouterr().out
    assert bench.summary([good, worse]) == 1
    shown = bench.lines([good, worse], markdown=True)
    assert shown[2] == "| a | 10 | 4 | 5 | 3 (wrong) | failed | yes | 2.000 | 1.000 | 1.100 | 0.91 |"


def test_a_peer_counts_only_with_operators_that_the_model_has(bench: ModuleType) -> None:
    times = {"ours": [2.0], "onnxsim": [1.0], "onnxslim": [2.0]}
    row = bench.Row("a", 10, {"ours": 5, "onnxsim": 3, "onnxslim": 6}, {}, ["onnxsim"], times)
    assert (row.best, row.fastest, row.ratio) == (6, "onnxslim", 1.0)
    text = """<ir_version: 8, opset_import: ["": 13, "own": 1, "com.microsoft": 1]>
      g (float[2] x) => (float[2] y) { h = own.F(x) y = com.microsoft.Gelu(h) }
      <domain: "own", opset_import: ["": 13]> F (a) => (b) { b = Relu(a) }"""
    assert bench.domains(onnx.parser.parse_model(text)) == {"com.microsoft"}


def test_the_latency_of_all_models_is_a_geometric_mean(bench: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        bench.Row(name, 9, {"ours": 4, "onnxsim": 4}, {}, [], {"ours": [ours], "onnxsim": [1.0]})
        for name, ours in (("a", 0.5), ("b", 2.0))
    ]
    assert bench.summary(rows) == 0
    out = capsys.readouterr().out
    assert "geometric mean 1.000, 1 of 2 above 1.05" in out
    assert "b: 2.00 of onnxsim" in out
    assert bench.summary(rows[1:]) == 1
