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
    good = bench.Row("a", 10, {"ours": 4, "onnxsim": 5, "onnxslim": 3}, {"onnxslim": "wrong"}, {"ours": 1.0, "before": 1.1})
    worse = bench.Row("b", 10, {"ours": 6, "onnxsim": 5}, {}, {"ours": 1.0, "onnxsim": 1.0})
    assert bench.summary([good]) == 0
    assert "ours <= best peer on 1 of 1 (100%)" in capsys.readouterr().out
    assert bench.summary([good, worse]) == 1
    shown = bench.lines([good, worse], markdown=True)
    assert shown[2] == "| a | 10 | 4 | 5 | 3 (wrong) | failed | yes | 1.000 | 1.100 | 0.91 |"
