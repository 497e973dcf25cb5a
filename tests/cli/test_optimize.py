"""`rewriter optimize`: what it selects, what it prints and records, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from tests.cli.call import Call

TEXT = """
  <ir_version: 8, opset_import: ["": 17], producer_name: "pytorch">
  g (float[N,4] x) => (float[N,2] y)
  <float[4] scale = {1, 1, 1, 1}, float[4] shift = {0.5, 1, 2, 3}, float[2,4] w = {1, 2, 3, 4, 5, 6, 7, 8}, float[3] dead = {1, 2, 3}> {
    a = Mul(x, scale)
    b = Add(a, shift)
    c = Add(x, shift)
    d = Sub(b, c)
    t = Transpose<perm=[1, 0]>(w)
    m = MatMul(d, t)
    h = Relu(m)
    y = Identity(h)
    unused = Neg(b)
  }
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(onnx.parser.parse_model(TEXT), path)
    return path


def ops(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


def outputs(path: Path, rows: int) -> np.ndarray:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((rows, 4), np.float32)
    found: np.ndarray = session.run(None, {"x": x})[0]
    return found


def test_equal_nodes_are_merged_when_nothing_else_fires(call: Call, tmp_path: Path) -> None:
    """A BatchNormalization is folded into the Conv that only it reads; merged Convs have two readers."""
    text = """<ir_version: 8, opset_import: ["": 13]>
      g (float[1,2,4,4] x) => (float[1,2,4,4] y, float[1,2,4,4] z, float[1,2,4,4] u, float[1,2,4,4] v)
      <float[2,2,1,1] w = {1, 2, 3, 4}, float[2] s = {1, 2}, float[2] b = {1, 2}, float[2] t = {3, 2}> {
        p = Conv(x, w)  y = BatchNormalization(p, s, b, b, s)
        q = Conv(x, w)  i = Identity(q)  z = BatchNormalization(i, t, b, b, s)
        e = Exp(x)  u = Relu(e)
        f = Exp(x)  v = Neg(f)
      }"""
    path = tmp_path / "twice.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    assert call("optimize", path, "-o", tmp_path / "once.onnx").code == 0
    assert sorted(ops(tmp_path / "once.onnx")) == ["Conv", "Conv", "Exp", "Neg", "Relu"]


def test_dead_readers_block_no_rule(call: Call, tmp_path: Path) -> None:
    """A BatchNormalization is folded into a Conv that only it reads, and nodes that nothing uses do not count."""
    text = """<ir_version: 8, opset_import: ["": 13]>
      g (float[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1, 2, 3, 4}, float[2] s = {1, 2}, float[2] b = {1, 2}> {
        p = Conv(x, w)  dead = Neg(p)  deader = Relu(dead)  y = BatchNormalization(p, s, b, b, s)
      }"""
    path, once, again = (tmp_path / name for name in ("net.onnx", "once.onnx", "again.onnx"))
    onnx.save(onnx.parser.parse_model(text), path)
    assert "tidied: 2 nodes" in call("optimize", path, "-o", once).out
    assert ops(once) == ["Conv"]
    assert call("audit", path, once).code == 0
    assert "unchanged" in call("optimize", once, "-o", again).out
    assert call("optimize", path, "-o", again, "--no-tidy", "--force").code == 0
    assert ops(again) == ["Conv", "Neg", "Relu", "BatchNormalization"]
    assert call("fix", path, "-o", again, "--force").code == 0
    assert again.read_bytes() == path.read_bytes()


def test_what_is_left_and_what_did_it(call: Call, model: Path) -> None:
    done = call("optimize", model)
    result = model.with_name("net.optimized.onnx")
    assert done.code == 0
    assert done.out.startswith(f"{model}: 9 nodes, 4 left; ") and f"-> {result}" in done.out
    assert "OPT032     1  Multiplication by one changes nothing" in done.out
    assert "OPT049     1  Equal nodes" in done.out and "OPT047     1  " in done.out
    assert ops(result) == ["Add", "Sub", "MatMul", "Relu"]
    assert [tensor.name for tensor in onnx.load(result).graph.initializer if tensor.name == "dead"] == []
    np.testing.assert_array_equal(outputs(model, 3), outputs(result, 3))
    assert call("audit", model, result).code == 0
    again = call("optimize", result, "-o", model.with_name("again.onnx"))
    assert "4 nodes, 4 left; unchanged" in again.out


def test_results_in_folders_are_left_alone(call: Call, model: Path) -> None:
    assert call("optimize", model.parent).code == 0
    assert call("optimize", model.parent, "--force").err.startswith("1 model: 1 changed")


def test_the_basic_level_has_exact_rules_only(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[N,2] x) => (float[N,2] y) <float[2] a = {0, 1}>
      { c = Cos(a) d = Abs(a) e = Add(c, d) y = Mul(x, e) }"""
    onnx.save(onnx.parser.parse_model(text), path)
    assert call("optimize", path, "-o", tmp_path / "all.onnx").code == 0
    assert call("optimize", path, "-o", tmp_path / "basic.onnx", "--level", "basic").code == 0
    assert ops(tmp_path / "all.onnx") == ["Mul"]
    assert ops(tmp_path / "basic.onnx") == ["Cos", "Add", "Mul"]


def test_selected_codes_take_the_place_of_the_level(call: Call, model: Path, tmp_path: Path) -> None:
    assert call("optimize", model, "-o", tmp_path / "a.onnx", "--select", "OPT032", "--no-tidy").code == 0
    assert len(ops(tmp_path / "a.onnx")) == 8
    assert call("optimize", model, "-o", tmp_path / "b.onnx", "--ignore", "OPT049,GEN001", "--no-tidy").code == 0
    assert ops(tmp_path / "b.onnx").count("Add") == 2 and "Identity" in ops(tmp_path / "b.onnx")


def test_what_a_configuration_selects_for_repairs_is_not_meant(call: Call, model: Path) -> None:
    model.with_name("rewriter.toml").write_text('select = ["NONE"]\ntidy = false\n')
    done = call("optimize", model, "--config", model.with_name("rewriter.toml"))
    assert "9 nodes, 4 left" in done.out


def test_a_fixed_shape_folds_what_hangs_on_it(call: Call, tmp_path: Path) -> None:
    path, result = tmp_path / "net.onnx", tmp_path / "static.onnx"
    text = """<ir_version: 8, opset_import: ["": 13]> g (float[N,4] x, float[N,4] z) => (float[N,4] y)
      <int64[1] i = {0}> { s = Shape(x) n = Gather(s, i) f = Cast<to=1>(n) a = Mul(x, f) y = Add(a, z) }"""
    onnx.save(onnx.parser.parse_model(text), path)
    done = call("optimize", path, "-o", result, "--static", "x:3,4")
    assert done.code == 0 and ops(result) == ["Mul", "Add"]
    graph = onnx.load(result).graph
    dims = [[dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in (*graph.input, *graph.output)]
    assert dims == [[3, 4]] * 3
    assert call("audit", path, result).code == 0
    assert "x got the shape 3, 4" in call("history", result).out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("q:1", "--static q: the model has no such input; it has x"),
        ("x:1", "--static x: the input has 2 dimensions, not 1"),
        ("x:1,5", "--static x: a dimension of the input is 4, and cannot become 5"),
        ("x", "'x' is not an input and its shape, such as x:1,3,224,224"),
        ("x:1,-4", "'x:1,-4' is not an input and its shape"),
    ],
)
def test_a_shape_that_cannot_be(call: Call, model: Path, given: str, told: str) -> None:
    done = call("optimize", model, "--static", given)
    assert done.code == 2 and told in done.err and not model.with_name("net.optimized.onnx").exists()


def test_one_name_of_two_lengths(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[N] x, float[N] z) => (float[N] y) { y = Add(x, z) }'
    onnx.save(onnx.parser.parse_model(text), path)
    done = call("optimize", path, "--static", "x:2", "--static", "z:3")
    assert done.code == 2 and "dimension N cannot have two lengths, 2 and 3" in done.err


def test_numbers_for_programs(call: Call, model: Path) -> None:
    report = json.loads(call("optimize", model, "--format", "json").out)
    assert report["command"] == "optimize" and report["models"][0]["nodes"] == [9, 4]


def test_targets_add_their_rules(call: Call, model: Path, tmp_path: Path) -> None:
    assert call("optimize", model, "-o", tmp_path / "t.onnx", "--target", "tensorrt").code == 0


def test_of_a_broken_model_it_says_where_the_repairs_are(call: Call, tmp_path: Path) -> None:
    """`optimize` runs no repairs, so it cannot print which of them would fire."""
    twice = TEXT.replace("a = Mul", "[same] a = Mul").replace("m = MatMul", "[same] m = MatMul")
    onnx.save(onnx.parser.parse_model(twice), tmp_path / "net.onnx")
    done = call("optimize", tmp_path / "net.onnx", "-o", tmp_path / "small.onnx", "--select", "OPT010")
    assert done.code == 1 and "still rejected by ONNX Runtime: " in done.out
    assert f"`rewriter optimize` does not repair it; next: rewriter check {tmp_path / 'net.onnx'}" in done.out
