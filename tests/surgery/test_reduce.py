"""`rewriter reduce`: the small model still shows what the large one showed, and has nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

from rewriter.core.graph.model import Model
from rewriter.core.onnxfile.tensors import read_sparse
from rewriter.rule_tools.load_rules import load_rules
from rewriter.workbench.surgery.reduction import Reduction, Trials, minimized
from tests.cli.call import GAMMA, Call
from tests.surgery import texts

DEEP = """
<ir_version: 8, opset_import: ["": 17, "local": 1]>
g (float[1,64,8,8] x, bool c) => (float[1,64,8,8] y, float[1,64,8,8] z) <float[64] b = ONES> {
    h = Relu(x)
    k = local.twice(h)
    z = Sigmoid(k)
    m = If(c) <then_branch = t () => (float[1,64,8,8] u) { v = Neg(h)  w = Neg(v)  u = Abs(w) },
               else_branch = e () => (float[1,64,8,8] u2) { u2 = Identity(k) }>
    s = Constant <value = int64[4] {1, 64, 8, 8}> ()
    r = Reshape(m, s)
    y = Add(r, z)
}
<domain: "local", opset_import: ["": 17]>
twice (v) => (r) { r = Add(v, v) }
""".replace("ONES", f"{{{', '.join(['1'] * 64)}}}")

CANCEL = """
/// Two negations cancel.
rule MY001 negated-twice
<kind: exact, opset: 7..>
match { t = Neg(x)  y = Neg(t) }
rewrite { y = x }
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "small.onnx"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "my.rules"
    path.write_text(CANCEL)
    return path


def test_what_is_needed_is_found_wherever_it_is() -> None:
    for wanted in ({3}, {0, 99}, {7, 8, 50}, set[int]()):
        trials = 0

        def holds(items: list[int], wanted: set[int] = wanted) -> bool:
            nonlocal trials
            trials += 1
            return wanted <= set(items)

        assert set(minimized(range(100), holds)) == wanted
        assert trials < 60


def test_a_rule_that_fires_in_a_body(call: Call, tmp_path: Path, out: Path, rules: Path) -> None:
    net = texts.written(tmp_path, DEEP)
    done = call("reduce", net, "--keep", "rule: my001", "--rules", rules, "-o", out)
    assert done.code == 0, done.err
    small = onnx.load(out)
    onnx.checker.check_model(small, full_check=True)
    assert [node.op_type for node in small.graph.node] == ["Neg", "Neg"]
    assert not small.functions and not small.graph.initializer and [o.domain for o in small.opset_import] == [""]
    assert max(dim.dim_value for dim in small.graph.input[0].type.tensor_type.shape.dim) < 8
    assert "MY001" in call("check", out, "--rules", rules, "--select", "ALL").out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("u = NoSuchOperator(w)", "NoSuchOperator"),
        ("q = Constant <value = int64[1] {7}> ()  u = Reshape(w, q)", "reshape"),
    ],
    ids=["refused", "fails when it is run"],
)
def test_a_model_that_is_refused(call: Call, tmp_path: Path, out: Path, line: str, words: str) -> None:
    pytest.importorskip("onnxruntime")
    net = texts.written(tmp_path, DEEP.replace("u = Abs(w)", line))
    done = call("reduce", net, "--keep", f"refused: {words}", "-o", out)
    assert done.code == 0, done.err
    ops = [node.op_type for node in onnx.load(out).graph.node]
    assert len(ops) <= 2 and ops[-1] in ("NoSuchOperator", "Reshape")


def test_without_a_wish_only_weights_go(call: Call, tmp_path: Path, out: Path, rules: Path) -> None:
    weights = ", ".join(map(str, range(64 * 64)))
    net = texts.written(
        tmp_path,
        f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[N,64] x) => (float[N,64] y) <float[64,64] w = {{{weights}}}> {{
            a = MatMul(x, w)  b = Neg(a)  y = Neg(b) }}""",
    )
    done = call("reduce", net, "--rules", rules, "-o", out)
    assert done.code == 0, done.err
    small = onnx.load(out)
    onnx.checker.check_model(small, full_check=True)
    assert len(small.graph.node) == 3 and [list(t.dims) for t in small.graph.initializer] == [[2, 2]]
    assert texts.ran(out, {"x": np.ones((1, 2), np.float32)})["y"].shape == (1, 2)


def test_a_rule_that_asks_the_source(call: Call, out: Path) -> None:
    done = call("reduce", GAMMA, "--keep", "rule: MX002", "-o", out)
    assert done.code == 0 and "--source" in done.out
    nodes = [node.op_type for node in onnx.load(out).graph.node]
    # This BatchNormalization runs only because ONNX Runtime folds it into the Conv, so the Conv stays where it does that.
    assert nodes in (["BatchNormalization"], ["Conv", "BatchNormalization"])


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("refused: nothing of the sort", "no tool rejects it"),
        ("rule: MX001", "`rewriter why MX001 MODEL` prints the reason"),
        ("rule: XX999", "there is no rule 'XX999'"),
        ("slow", '"refused: TEXT" or "rule: CODE"'),
    ],
)
def test_one_line_says_what_is_wrong(call: Call, tmp_path: Path, out: Path, wish: str, words: str) -> None:
    done = call("reduce", texts.written(tmp_path, texts.CHAIN), "--keep", wish, "-o", out)
    assert (done.code, done.err.count("\n"), out.exists()) == (2, 1, False)
    assert words in done.err


def test_it_ends_when_the_time_is_over(rules: Path) -> None:
    model = Model.from_proto(texts.parsed(DEEP))
    work = Reduction(model, Trials(model, ["rule: MY001"], load_rules([rules]), runtime=False), end=0)
    work.fewer_nodes()
    assert work.late and len(work.finished().graph.node) == len(model.sketch().graph.node)


SQUARE = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) + 0.125
ROW = SQUARE[1].tobytes()


def product(*nodes: onnx.NodeProto, functions: Sequence[onnx.FunctionProto] = ()) -> onnx.ModelProto:
    """A model that makes `y` of two rows `x`."""
    ports = [[onnx.helper.make_tensor_value_info(name, 1, [2, 64])] for name in "xy"]
    imports = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("local", 1)]
    graph = onnx.helper.make_graph(nodes or [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])], "g", *ports)
    return onnx.helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=10)


def in_a_function() -> onnx.ModelProto:
    value = onnx.numpy_helper.from_array(SQUARE)
    nodes = [onnx.helper.make_node("Constant", [], ["k"], value=value), onnx.helper.make_node("MatMul", ["u", "k"], ["r"])]
    function = onnx.helper.make_function("local", "f", ["u"], ["r"], nodes, [onnx.helper.make_opsetid("", 17)])
    function.doc_string = "a secret"
    nodes[0].attribute[0].t.doc_string = "a secret"
    return product(onnx.helper.make_node("f", ["x"], ["y"], domain="local"), functions=[function])


def as_a_list() -> onnx.ModelProto:
    model = product(
        onnx.helper.make_node("Constant", [], ["flat"], value_floats=SQUARE.ravel().tolist()),
        onnx.helper.make_node("Reshape", ["flat", "s"], ["w"]),
        onnx.helper.make_node("MatMul", ["x", "w"], ["y"]),
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([64, 64]), "s"))
    return model


def as_a_bias() -> onnx.ModelProto:
    return product(
        onnx.helper.make_node("Constant", [], ["b"], value_floats=SQUARE[1].tolist()),
        onnx.helper.make_node("Add", ["x", "b"], ["y"]),
    )


def sparse(rank: int) -> onnx.ModelProto:
    model = product()
    places = np.arange(64 * 64) if rank == 1 else np.argwhere(np.ones((64, 64)))
    values = onnx.numpy_helper.from_array(SQUARE.ravel(), "w")
    tensor = onnx.helper.make_sparse_tensor(values, onnx.numpy_helper.from_array(places, "p"), [64, 64])
    model.graph.sparse_initializer.append(tensor)
    return model


def in_training() -> onnx.ModelProto:
    model = product()
    model.graph.initializer.append(onnx.numpy_helper.from_array(SQUARE, "w"))
    model.training_info.add().initialization.initializer.append(onnx.numpy_helper.from_array(SQUARE, "first"))
    return model


@pytest.mark.parametrize(
    "model",
    [in_a_function(), as_a_list(), as_a_bias(), sparse(1), sparse(2), in_training()],
    ids=["function", "list", "short list", "sparse", "sparse by coordinates", "training"],
)
def test_no_weight_is_overlooked(call: Call, tmp_path: Path, out: Path, model: onnx.ModelProto) -> None:
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    done = call("reduce", tmp_path / "net.onnx", "-o", out, "--no-stamp")
    assert done.code == 0 and "stay" not in done.out, done.err
    small = out.read_bytes()
    assert len(small) < 400 and ROW not in small and b"secret" not in small
    assert ("training information is left out" in done.out) == bool(model.training_info)


def test_sparse_weights_keep_what_is_still_inside(call: Call, tmp_path: Path, out: Path) -> None:
    for rank in (1, 2):
        (tmp_path / "net.onnx").write_bytes(sparse(rank).SerializeToString())
        assert call("reduce", tmp_path / "net.onnx", "-o", out, "--force").code == 0
        left = onnx.load(out).graph.sparse_initializer[0]
        assert np.array_equal(read_sparse(left, None), SQUARE[:2, :2])


def test_weights_that_stay_are_told(call: Call, tmp_path: Path, out: Path) -> None:
    table = onnx.helper.make_node("Mine", ["x"], ["y"], domain="local", learned=SQUARE.ravel().tolist())
    (tmp_path / "net.onnx").write_bytes(product(table).SerializeToString())
    done = call("reduce", tmp_path / "net.onnx", "-o", out)
    assert done.code == 0, done.err
    assert "weights of 16,384 bytes stay, with their values: 'learned'" in done.out


def test_no_file_of_weights_goes_along(call: Call, tmp_path: Path) -> None:
    model, folder = in_a_function(), tmp_path / "small"
    tensor = model.functions[0].node[0].attribute[0].t
    (tmp_path / "net.weights").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="net.weights")
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    folder.mkdir()
    done = call("reduce", tmp_path / "net.onnx", "-o", folder / "out.onnx")
    assert done.code == 0, done.err
    assert [path.name for path in folder.iterdir()] == ["out.onnx"]
