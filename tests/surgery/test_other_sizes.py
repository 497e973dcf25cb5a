"""`rewriter edit --shape` with heights and widths: what takes other sizes gets them, what holds an old one is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.call import Call, Done

TAKES = {
    "a border is left out": "g (float[1,3,32,32] x) => (float[1,4,30,30] y) <float[4,3,3,3] w> { t = Conv(x, w)  y = Relu(t) }",
    "an odd size is halved": "g (float[1,3,32,32] x) => (float[1,4,15,15] y) <float[4,3,3,3] w> { y = Conv<strides=[2,2]>(x, w) }",
    "nothing is left of it": """g (float[1,3,32,32] x) => (float[1,4] y) <float[4,3,3,3] w> {
        t = Conv(x, w)  g = GlobalMaxPool(t)  y = Flatten(g) }""",
    "a mean": "g (float[1,3,32,32] x) => (float[1,3] y) { y = ReduceMean<axes=[2,3], keepdims=0>(x) }",
    "attention over places": """g (float[1,3,32,32] x) => (float[1,900,900] y) <float[4,3,3,3] w, int64[3] s = {1, 4, -1}> {
        t = Conv(x, w)  k = Reshape(t, s)  q = Transpose<perm=[0,2,1]>(k)  m = MatMul(q, k)  y = Softmax<axis=-1>(m) }""",
    "a fixed shape that can be opened": """g (float[1,3,32,32] x) => (float[1,3,1024] y) <int64[3] s = {1, 3, 1024}> {
        y = Reshape(x, s) }""",
}
HOLDS = {
    "something for each place": """g (float[1,3,8,8] x) => (float[1,4,6,6] y) <float[4,3,3,3] w, float[1,1,6,6] p> {
        t = Conv(x, w)  y = Add(t, p) }""",
    "a shape": """g (float[1,3,8,8] x) => (float[1,144] y) <float[4,3,3,3] w, int64[2] s = {1, 144}> {
        t = Conv(x, w)  y = Reshape(t, s) }""",
    "a matrix": """g (float[1,3,8,8] x) => (float[1,2] y) <float[4,3,3,3] w, float[144,2] m> {
        t = Conv(x, w)  f = Flatten(t)  y = Gemm(f, m) }""",
    "a matrix behind no Conv": "g (float[1,3,8,8] x) => (float[1,2] y) <float[192,2] m> { f = Flatten(x)  y = MatMul(f, m) }",
    "two sizes for one open place": """g (float[1,4,6,6] x) => (float[1,2,2,6,6] y) <int64[5] s = {1, 2, 2, 6, -1}> {
        y = Reshape(x, s) }""",
    "a matrix beside what grows": """g (float[1,3,8,8] x) => (float[1,4,6,2] y) <float[4,3,3,3] w, float[6,2] m> {
        t = Conv(x, w)  y = MatMul(t, m) }""",
    "a map beside what grows": """g (float[1,3,8,8] x) => (float[1,5,6,6] y) <float[4,3,3,3] w, float[1,1,6,6] m> {
        t = Conv(x, w)  y = Concat<axis=1>(t, m) }""",
    "a pool over everything": """g (float[1,3,8,8] x) => (float[1,4,1,1] y) <float[4,3,3,3] w> {
        t = Conv(x, w)  y = AveragePool<kernel_shape=[6,6]>(t) }""",
    "a border that is added, and a matrix": """g (float[1,3,8,8] x) => (float[1,2] y) <float[4,3,3,3] w, float[256,2] m> {
        t = Conv<pads=[1,1,1,1]>(x, w)  f = Flatten(t)  y = Gemm(f, m) }""",
    "the end of a part": """g (float[1,3,8,8] x) => (float[1,3,4,8] y) <int64[1] b = {0}, int64[1] e = {4}, int64[1] a = {2}> {
        y = Slice(x, b, e, a) }""",
}


def model(text: str) -> onnx.ModelProto:
    """The model of a text; weights that it only declares are random."""
    made = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> {text}')
    draw = np.random.default_rng(1)
    for info in made.graph.value_info:
        dims = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
        made.graph.initializer.append(onnx.numpy_helper.from_array(draw.random(dims, np.float32), info.name))
    del made.graph.value_info[:]
    return made


def edited(call: Call, folder: Path, before: onnx.ModelProto, shape: str) -> Done:
    onnx.save(before, folder / "net.onnx")
    return call("edit", folder / "net.onnx", "--shape", shape, "-o", folder / "out.onnx", "--force")


@pytest.mark.parametrize("name", TAKES)
def test_heights_and_widths_need_not_reach_the_results(call: Call, tmp_path: Path, name: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    before, after = model(TAKES[name]), {}
    for shape in ("x:1,3,H,W", "x:1,3,41,48"):
        assert edited(call, tmp_path, before, shape).code == 0
        after[shape] = onnx.load(tmp_path / "out.onnx")
        onnx.checker.check_model(after[shape], full_check=True)
    named, sized = after.values()
    assert [dim.dim_param for dim in named.graph.input[0].type.tensor_type.shape.dim] == ["", "", "H", "W"]
    old, new = (np.random.default_rng(0).random((1, 3, *size), np.float32) for size in ((32, 32), (41, 48)))

    def result(made: onnx.ModelProto, feed: np.ndarray) -> np.ndarray:
        return np.asarray(runtime.InferenceSession(made.SerializeToString()).run(None, {"x": feed})[0])

    np.testing.assert_array_equal(result(named, old), result(before, old))
    np.testing.assert_array_equal(result(named, new), result(sized, new))
    declared = [dim.dim_value for dim in sized.graph.output[0].type.tensor_type.shape.dim]
    assert declared == list(result(sized, new).shape)


@pytest.mark.parametrize("name", HOLDS)
def test_what_holds_an_old_size_is_named(call: Call, tmp_path: Path, name: str) -> None:
    before = model(HOLDS[name])
    channels = before.graph.input[0].type.tensor_type.shape.dim[1].dim_value
    done = edited(call, tmp_path, before, f"x:1,{channels},H,W")
    last = before.graph.node[-1].op_type
    assert (done.code, f"the shape cannot be changed: the dimension does not flow through {last} 'y'" in done.err) == (
        2,
        True,
    ), done.err
    assert not (tmp_path / "out.onnx").exists()


def test_a_batch_that_is_copied_stays_so(call: Call, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    before = model("g (float[1,4,6,6] x) => (float[1,4,36] y) <int64[3] s = {1, 4, 36}> { y = Reshape(x, s) }")
    assert edited(call, tmp_path, before, "x:N,4,H,W").code == 0
    (result,) = runtime.InferenceSession(tmp_path / "out.onnx").run(None, {"x": np.zeros((5, 4, 7, 9), np.float32)})
    assert result.shape == (5, 4, 63)


def test_a_batch_that_has_a_name_already(call: Call, tmp_path: Path) -> None:
    before = model("g (float[B,4,6,6] x) => (float[B,4,36] y) <int64[3] s = {0, 4, -1}> { y = Reshape(x, s) }")
    assert edited(call, tmp_path, before, "x:B,4,H,W").code == 0
    assert [dim.dim_param for dim in onnx.load(tmp_path / "out.onnx").graph.input[0].type.tensor_type.shape.dim][2:] == [
        "H",
        "W",
    ]


def test_a_batch_has_to_reach_the_results(call: Call, tmp_path: Path) -> None:
    before = model("g (float[2,3,8,8] x) => (float[1,3,8,8] y) { y = ReduceMean<axes=[0]>(x) }")
    assert edited(call, tmp_path, before, "x:N,3,H,W").code == 2
