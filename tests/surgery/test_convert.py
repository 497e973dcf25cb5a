"""`rewriter convert`: another floating-point type, with few casts, and what is lost is told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import rewriter
from rewriter.workbench.surgery import float_type
from tests.cli.call import Call
from tests.surgery import texts

NET = """<ir_version: 8, opset_import: ["": 17]>
  g (float[N,4] x) => (float[N,3] y)
  <float[4,3] w = {1,2,3,4,5,6,7,8,9,10,11,12}, float[3] b = {0.5,0.25,100000}, float e = {0.000000000001}> {
    m = MatMul(x, w)  a = Add(m, e)  s = Sub(a, b)  [act] r = Softmax<axis=-1>(s)  [out] y = Relu(r)
  }
"""

BODIES = """<ir_version: 8, opset_import: ["": 17]>
  g (float[2,3] x, bool c, int64 n) => (float[2,3] y)
  <float[3] w = {1,2,3}> {
    k = Mul(x, w)
    i = If(c) <then_branch = t () => (float[2,3] a) { a = Mul(k, x) },
               else_branch = e () => (float[2,3] b) { two = Constant<value = float {2}>()  b = Mul(k, two) }>
    l = Loop(n, c, i) <body = body (int64 j, bool go, float[2,3] p) => (bool gone, float[2,3] q) {
      gone = Identity(go)  f = Cast<to=1>(j)  h = Mul(f, k)  q = Add(p, h) }>
    y = Sigmoid(l)
  }
"""

FUNCTION = """<ir_version: 8, opset_import: ["": 17, "local": 1]>
  g (float[2] x) => (float[2] y) { y = local.F(x) }
  <domain: "local", opset_import: ["": 17]>
  F (a) => (b) { h = Constant<value = float {0.5}>()  m = Mul(a, h)  b = Relu(m) }
"""


def _types(model: onnx.ModelProto) -> set[int]:
    return {tensor.data_type for tensor in model.graph.initializer}


def _casts(model: onnx.ModelProto) -> int:
    return len([node for node in model.graph.node if node.op_type == "Cast"])


def test_weights_are_converted_and_losses_are_told(call: Call, tmp_path: Path) -> None:
    net, out = texts.written(tmp_path, NET), tmp_path / "out.onnx"
    done = call("convert", net, "--dtype", "float16", "-o", out)
    assert done.code == 0 and "computes the same within 0.01" in done.out, done.err
    assert "5 nodes in float16, 0 as before, 2 casts more" in done.out
    assert "b: of 3 values 1 too large, now the largest value" in done.out
    assert "e: of 1 values too small, now the smallest value" in done.out
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    assert {t.name: t.data_type for t in model.graph.initializer} == {"w": 10, "b": 10, "e": 10}
    assert max(numpy_helper.to_array(t).max() for t in model.graph.initializer) == 65504
    assert [info.type.tensor_type.elem_type for info in (*model.graph.input, *model.graph.output)] == [1, 1]
    assert "convert --dtype float16" in call("history", out).out


def test_inputs_and_outputs_may_change_as_well(call: Call, tmp_path: Path) -> None:
    net, out = texts.written(tmp_path, NET), tmp_path / "out.onnx"
    done = call("convert", net, "--dtype", "float16", "--io", "convert", "-o", out)
    model = onnx.load(out)
    assert done.code == 0 and _casts(model) == 0 and "within 0.01" in done.out
    assert [info.type.tensor_type.elem_type for info in (*model.graph.input, *model.graph.output)] == [10, 10]
    again = rewriter.convert(model, "float32", io="convert", stamp=False).to_proto()
    assert _types(again) == {1} and _casts(again) == 0
    assert again.graph.input[0].type.tensor_type.elem_type == 1


@pytest.mark.parametrize(
    ("keep", "kept"),
    [("op:Softmax", {"Softmax"}), ("act,out", {"Softmax", "Relu"}), ("s..act", {"Sub", "Softmax"}), ("a*", {"Softmax"})],
)
def test_nodes_are_kept(tmp_path: Path, keep: str, kept: set[str]) -> None:
    model = rewriter.convert(texts.parsed(NET), "float16", keep=[keep]).to_proto()
    onnx.checker.check_model(model, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {info.name: info.type.tensor_type.elem_type for info in (*inferred.graph.value_info, *inferred.graph.output)}
    assert {node.op_type for node in model.graph.node if node.op_type != "Cast" and types[node.output[0]] == 1} == kept


def test_nothing_leads_there(call: Call, tmp_path: Path) -> None:
    net = texts.written(tmp_path, NET)
    assert (
        "no path leads from 'out' to 'act'" in call("convert", net, "--dtype", "float16", "--keep", "out..act", "--dry-run").err
    )
    assert "no node of the operator 'Conv'" in call("convert", net, "--dtype", "float16", "--keep", "op:Conv", "--dry-run").err


@pytest.mark.parametrize("dtype", ["float16", "double"])
def test_bodies_follow(call: Call, tmp_path: Path, dtype: str) -> None:
    net, out = texts.written(tmp_path, BODIES), tmp_path / "out.onnx"
    done = call("convert", net, "--dtype", dtype, "-o", out)
    assert done.code == 0 and "within 0.01" in done.out, done.err + done.out
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    assert _casts(model) == 2
    loop = next(node for node in model.graph.node if node.op_type == "Loop").attribute[0].g
    assert loop.input[2].type.tensor_type.elem_type == (10 if dtype == "float16" else 11)


def test_functions_are_written_out(call: Call, tmp_path: Path) -> None:
    net, out = texts.written(tmp_path, FUNCTION), tmp_path / "out.onnx"
    done = call("convert", net, "--dtype", "bfloat16", "-o", out, "--runtime", "no")
    assert done.code == 0 and "1 function written out" in done.out
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    assert not model.functions and _casts(model) == 2


def test_each_node_that_stays_has_a_reason(call: Call, tmp_path: Path) -> None:
    text = """<ir_version: 10, opset_import: ["": 20]>
      g (float[1,4,4,4] x, int64[4] n) => (float[1,4,4,4] y, float[4] q) <float[4,4,1,1] w = {1}, float h = {0.5}> {
        c = Conv(x, w)  t = Transpose(c)  y = HardSwish(t)  f = Cast<to=1>(n)  q = Mul(f, h) }"""
    text = text.replace("{1}", f"{{{', '.join(['1'] * 16)}}}")
    done = call("convert", texts.written(tmp_path, text), "--dtype", "bfloat16", "-o", tmp_path / "out.onnx", "--runtime", "no")
    assert done.code == 0, done.err
    lines = [line.strip() for line in done.out.splitlines() if "as before" in line]
    assert lines == [
        "2 nodes as before: opset 20 has no bfloat16 for Conv, HardSwish",
        "2 nodes as before: Cast, Mul, computed from integers alone",
        "1 node as before: Transpose, between such nodes",
        "0 nodes in bfloat16, 5 as before, 0 casts more",
    ]


def test_sizes_and_positions_stay_exact(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
      g (float[1,1,H,W] x, int64[4] n) => (float[1,1,A,B] y, float[1,1,1,4] p) <float[4] f = {1, 1, 2.5, 2.5}, float o = {0.001}> {
        h = Cast<to=1>(n)  m = Mul(h, f)  k = Floor(m)  s = Cast<to=7>(k)  r = Relu(x)
        y = Resize<mode="nearest">(r, , , s)
        a = Mul(h, o)  z = Sin(a)  c = Cos(z)  t = ReduceSum(r)  p = Mul(c, t)
      }"""
    model = rewriter.convert(texts.parsed(text), "float16").to_proto()
    onnx.checker.check_model(model, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(model)
    types = {info.name: info.type.tensor_type.elem_type for info in inferred.graph.value_info}
    assert [types[name] for name in "hmkaz"] == [1] * 5 and types["r"] == 10
    assert _casts(model) == 2 + 1 + 1 + 2  # those of the model, x, c, and the outputs


def test_operators_without_the_type_stay(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
      g (float[1,N,4] b, float[1,1,N] s) => (int64[M,3] y) { a = Relu(b)  y = NonMaxSuppression(a, s) }"""
    model = rewriter.convert(texts.parsed(text), "float16").to_proto()
    onnx.checker.check_model(model, full_check=True)
    assert _casts(model) == 2
    scaler = '<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]> g (float[1,2] x) => (float[1,2] y) { r = Relu(x)  y = ai.onnx.ml.Scaler<offset=[0.0,0.0], scale=[1.0,2.0]>(r) }'
    made = rewriter.convert(texts.parsed(scaler), "float16").to_proto()
    assert [node.op_type for node in made.graph.node].count("Cast") == 2


def test_large_weights_wait_on_the_disk(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    weight = numpy_helper.from_array(rng.standard_normal((512, 1024)).astype(np.float32), "w")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, [1, 512])],
        [onnx.helper.make_tensor_value_info("y", 1, [1, 1024])],
        [weight],
    )
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), tmp_path / "a.onnx"
    )
    rewriter.convert(tmp_path / "a.onnx", "float16", output=tmp_path / "b.onnx", stamp=False)
    assert (tmp_path / "b.onnx").stat().st_size < 0.51 * (tmp_path / "a.onnx").stat().st_size


def test_nodes_without_a_kernel_stay_where_the_runtime_is_asked(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    text = """<ir_version: 8, opset_import: ["": 17]>
      g (float[1,1,4,4] x) => (float[1,1,3,3] y) <float[1,1,2,2] w = {1,2,3,4}> { c = Conv(x, w)  y = Abs(c) }"""
    net, out = texts.written(tmp_path, text), tmp_path / "out.onnx"
    done = call("convert", net, "--dtype", "double", "-o", out)
    assert done.code == 0 and "ONNX Runtime has no double for Conv" in done.out and "within 0.01" in done.out, done.err
    assert {t.data_type for t in onnx.load(out).graph.initializer} == {1}
    assert call("convert", net, "--dtype", "double", "--runtime", "no", "-o", out, "--force").code == 0
    assert {t.data_type for t in onnx.load(out).graph.initializer} == {11}


def test_a_node_that_is_float_by_default_has_a_kernel_in_the_other_type_or_stays(call: Call, tmp_path: Path) -> None:
    """RandomNormal has no operands, and without a written type the question was about float."""
    pytest.importorskip("onnxruntime")
    text = """<ir_version: 8, opset_import: ["": 17]>
      g (float[2] x) => (float[2] y) { r = RandomNormal<shape=[2]>()  y = Add(x, r) }"""
    net, out = texts.written(tmp_path, text), tmp_path / "out.onnx"
    done = call("convert", net, "--dtype", "float16", "-o", out)
    assert done.code == 0 and "ONNX Runtime has no float16 for RandomNormal" in done.out, done.err
    assert call("run", out).code == 0


SCATTER = """<ir_version: 8, opset_import: ["": 16]>
  g (float[3] x, int64[3] i) => (float[3] y) { s = ScatterElements<reduction="add">(x, i, x)  y = Neg(s) }
"""


def test_a_kernel_that_refuses_when_it_runs_is_none(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    net, out = texts.written(tmp_path, SCATTER), tmp_path / "out.onnx"
    done = call("convert", net, "--dtype", "float16", "-o", out)
    assert done.code == 0, done.err
    assert "ONNX Runtime has no float16 for ScatterElements" in done.out and "within 0.01" in done.out


def test_a_result_that_does_not_run_is_not_written(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(float_type, "has_kernel", lambda model: True)
    net, out = texts.written(tmp_path, SCATTER), tmp_path / "out.onnx"
    done = call("convert", net, "--dtype", "float16", "-o", out)
    assert done.code == 2 and "no file was written, because the result does not run: " in done.err and not out.exists()
    assert call("convert", net, "--dtype", "float16", "-o", out, "--runtime", "no").code == 0


def test_casts_of_the_model_that_do_nothing_go(call: Call, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
      g (float[2,3] x, bool[2,3] m) => (float[2,3] y) <float l = {-1}> {
        s = Softmax(x)  c = Cast<to=1>(s)  d = Cast<to=1>(c)  [mask] b = Cast<to=9>(m)  w = Where(b, l, d)  y = Relu(w) }
    """
    done = call("convert", texts.written(tmp_path, text), "--dtype", "float16", "-o", tmp_path / "out.onnx")
    assert "3 casts to the same type removed" in done.out and _casts(onnx.load(tmp_path / "out.onnx")) == 2
    kept = rewriter.convert(texts.parsed(text), "float16", keep=["mask"], stamp=False).to_proto()
    assert _casts(kept) == 3 and "mask" in [node.name for node in kept.graph.node]


BITS = """<ir_version: 13, opset_import: ["": 26]>
  g (int64[2] x) => (double[2] y) { y = BitCast<to=11>(x) }
"""
EYE = """<ir_version: 8, opset_import: ["": 22]>
  g (int32[3,3] x) => (float[3,3] y) { y = EyeLike<dtype=1>(x) }
"""
MAPPED = """<ir_version: 9, opset_import: ["": 18]>
  g (float[N,2] a, float[N,2] b) => (float[M,2] y) {
    s = SequenceConstruct(a, b)
    t = SequenceMap(s) <body = body (float[P,2] e) => (float[P,2] f) { f = Relu(e) }>
    y = ConcatFromSequence<axis=0>(t)
  }
"""


@pytest.mark.parametrize("text", [BITS, EYE, MAPPED], ids=["bits", "no kernel", "sequences"])
def test_what_cannot_change_its_type_stays(call: Call, tmp_path: Path, text: str) -> None:
    done = call("convert", texts.written(tmp_path, text), "--dtype", "float16", "-o", tmp_path / "half.onnx")
    assert done.code == 0 and "0 nodes in float16" in done.out, done.err


def test_outputs_of_bodies_keep_their_declarations(call: Call, tmp_path: Path) -> None:
    net = texts.written(tmp_path, BODIES)
    assert call("convert", net, "--dtype", "float16", "--keep", "i,l", "-o", tmp_path / "half.onnx").code == 0
    assert call("convert", net, "--dtype", "float16", "-o", tmp_path / "half.onnx", "--force").code == 0
    for node in onnx.load(tmp_path / "half.onnx").graph.node:
        for attribute in node.attribute:
            assert all(info.type.tensor_type.elem_type for info in attribute.g.output), node.op_type


GIVEN_OUT = """<ir_version: 8, opset_import: ["": 17]>
  g (float[2] x) => (float[2] y, float[2] w, float[2] y, float[2] c) <float[2] w = {2, 3}> {
    c = Constant<value = float[2] {4, 5}>()  m = Mul(x, w)  a = Add(m, c)  y = Relu(a) }
"""
LISTED = """<ir_version: 8, opset_import: ["": 17]>
  g (float[2] w, float[2] x) => (float[2] y) <float[2] w = {2, 3}, float[2] v = {5, 7}> { t = Mul(x, w)  y = Mul(t, v) }
"""


@pytest.mark.parametrize("dtype", ["float16", "double"])
def test_outputs_keep_their_names(dtype: str) -> None:
    before = texts.parsed(GIVEN_OUT)
    model = rewriter.convert(before, dtype, stamp=False).to_proto()
    onnx.checker.check_model(model, full_check=True)
    assert list(model.graph.output) == list(before.graph.output)
    assert [int(tensor.data_type) for tensor in model.graph.initializer if tensor.name == "w"] == [1]


@pytest.mark.parametrize("keep", [[], ["m", "a"]])
def test_all_outputs_may_change_as_well(tmp_path: Path, keep: list[str]) -> None:
    text = GIVEN_OUT.replace("float[2] x)", "float[2] x, float[2] z)").replace("float[2] c)", "float[2] c, float[2] z)")
    model = rewriter.convert(texts.parsed(text), "float16", keep=keep, io="convert", output=tmp_path / "half.onnx").to_proto()
    onnx.checker.check_model(model, full_check=True)
    assert [(info.name, info.type.tensor_type.elem_type) for info in model.graph.output] == [(name, 10) for name in "ywycz"]
    assert _casts(model) == (2 if keep else 0)
    found = texts.ran(tmp_path / "half.onnx", {name: np.ones(2, np.float16) for name in "xz"})
    assert {name: array.tolist() for name, array in found.items()} == {"y": [6, 8], "w": [2, 3], "c": [4, 5], "z": [1, 1]}


@pytest.mark.parametrize(("io", "number"), [("keep", 1), ("convert", 10)])
def test_a_weight_that_callers_may_override_is_an_input(tmp_path: Path, io: str, number: int) -> None:
    half = tmp_path / "half.onnx"  # ONNX Runtime 1.23 crashes when it loads it with its default optimizations
    model = rewriter.convert(texts.parsed(LISTED), "float16", io=io, stamp=False, runtime="no", output=half).to_proto()
    onnx.checker.check_model(model, full_check=True)
    inputs = {info.name: info.type.tensor_type.elem_type for info in model.graph.input}
    assert inputs == {"w": number, "x": number} and list(inputs) == ["w", "x"]
    assert {tensor.name: tensor.data_type for tensor in model.graph.initializer} == {"w": number, "v": 10}
    given = np.array([10, 20], np.float16 if io == "convert" else np.float32)
    found = texts.ran(tmp_path / "half.onnx", {"x": np.ones_like(given), "w": given})["y"]
    assert found.tolist() == [50, 140] and found.dtype == given.dtype


def test_weights_that_are_all_listed_keep_their_places(call: Call, tmp_path: Path) -> None:
    net = texts.written(tmp_path, LISTED.replace(", float[2] v = {5, 7}", "").replace("Mul(t, v)", "Relu(t)"))
    half = tmp_path / "half.onnx"  # ONNX Runtime 1.23 crashes when it loads it with its default optimizations
    done = call("convert", net, "--dtype", "float16", "--runtime", "no", "-o", half)
    assert "1 weight in the list of inputs, now as float16" in done.out
    model = onnx.load(tmp_path / "half.onnx")
    assert [(info.name, info.type.tensor_type.elem_type) for info in model.graph.input] == [("w", 10), ("x", 1)]


def test_casts_of_an_old_opset_are_refused_with_the_way_out(call: Call, tmp_path: Path) -> None:
    old = texts.written(tmp_path, NET.replace('["": 17]', '["": 5]').replace("<axis=-1>", "<axis=1>"))
    done = call("convert", old, "--dtype", "float16", "-o", tmp_path / "out.onnx")
    assert (done.code, (tmp_path / "out.onnx").exists()) == (2, False)
    assert "2 casts would be needed, which opset 5 writes otherwise" in done.err and "`rewriter opset`" in done.err


@pytest.mark.parametrize(("rows", "words"), [(1 << 20, "within 0.01"), (1 << 21, "the inputs take more than 16 MiB")])
def test_a_model_with_large_inputs_is_compared(call: Call, tmp_path: Path, rows: int, words: str) -> None:
    text = f'<ir_version: 8, opset_import: ["": 17]> g (float[{rows},3] x) => (float[3] y) {{ y = ReduceMax<axes=[0], keepdims=0>(x) }}'
    done = call("convert", texts.written(tmp_path, text), "--dtype", "float16", "-o", tmp_path / "out.onnx")
    assert done.code == 0 and words in done.out, done.out + done.err
