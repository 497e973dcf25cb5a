"""`rewriter convert --layout`: inputs and outputs with their channels last, or first."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.cli.call import Call
from tests.surgery import texts

NET = """<ir_version: 8, opset_import: ["": 17]>
  g (float[N,3,8,6] x, float[N,2] k, float[N,2,5] s) => (float[N,4,8,6] y, float[N,2] l, float[N,2,5] t)
  <float[4,3,1,1] w = {1,2,3,4,5,6,7,8,9,10,11,12}> { c = Conv(x, w)  y = Relu(c)  l = Abs(k)  t = Neg(s) }
"""

CAPTURED = """<ir_version: 8, opset_import: ["": 17]>
  g (float[1,3,2,2] x, bool c) => (float[1,3,2,2] y, float[1,3,2,2] x) {
    y = If(c) <then_branch = t () => (float[1,3,2,2] a) { a = Abs(x) }, else_branch = e () => (float[1,3,2,2] b) { b = Neg(x) }>
  }
"""


def _shapes(path: Path) -> dict[str, list[int | str]]:
    graph = onnx.load(path).graph
    return {
        info.name: [dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim]
        for info in (*graph.input, *graph.output)
    }


def _ops(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def test_there_and_back(call: Call, tmp_path: Path) -> None:
    net, last, first = texts.written(tmp_path, NET), tmp_path / "last.onnx", tmp_path / "first.onnx"
    done = call("convert", net, "--layout", "nhwc", "-o", last)
    assert done.code == 0 and "computes the same" in done.out and "2 more" in done.out, done.err
    onnx.checker.check_model(onnx.load(last), full_check=True)
    assert _shapes(last) == {
        "x": ["N", 8, 6, 3], "k": ["N", 2], "s": ["N", 2, 5], "y": ["N", 8, 6, 4], "l": ["N", 2], "t": ["N", 2, 5],
    }  # fmt: skip
    assert _ops(last).count("Transpose") == 2
    done = call("convert", last, "--layout", "nchw", "-o", first)
    assert done.code == 0 and "computes the same" in done.out and "2 fewer" in done.out, done.err
    assert _shapes(first) == _shapes(net) and "Transpose" not in _ops(first)


def test_some_ports(call: Call, tmp_path: Path) -> None:
    net, out = texts.written(tmp_path, NET), tmp_path / "out.onnx"
    done = call("convert", net, "--layout", "nhwc", "--ports", "s,[t]", "-o", out)
    assert done.code == 0 and "computes the same" in done.out, done.err
    assert _shapes(out)["s"] == _shapes(out)["t"] == ["N", 5, 2] and _shapes(out)["x"] == ["N", 3, 8, 6]


def test_what_bodies_read_and_what_is_handed_on(call: Call, tmp_path: Path) -> None:
    net, out = texts.written(tmp_path, CAPTURED), tmp_path / "out.onnx"
    done = call("convert", net, "--layout", "nhwc", "-o", out)
    assert done.code == 0 and "computes the same" in done.out, done.err
    assert _shapes(out) == {"x": [1, 2, 2, 3], "c": [], "y": [1, 2, 2, 3]}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--layout", "nhwc", "--ports", "k"], "'k' has no layout"),
        (["--layout", "nhwc", "--ports", "none"], "there is no input or output 'none'"),
        (["--layout", "nhwc", "--io", "convert"], "--io has no effect without --dtype"),
        (["--dtype", "float16", "--ports", "x"], "--ports has no effect without --layout"),
    ],
)
def test_what_cannot_be_is_one_line(call: Call, tmp_path: Path, words: list[str], told: str) -> None:
    done = call("convert", texts.written(tmp_path, NET), *words, "--dry-run")
    assert done.code == 2 and told in done.err and done.err.count("\n") == 1
