"""`rewriter reduce`: the small model still shows what the large one showed, and has nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from rewriter.graph.model import Model
from rewriter.language.load_rules import load_rules
from rewriter.surgery.reduce.delta import minimized
from rewriter.surgery.reduce.reduction import Reduction
from rewriter.surgery.reduce.trials import Trials
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
    assert len(onnx.load(out).graph.node) == 1


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("refused: nothing of the sort", "nobody refuses it"),
        ("rule: MX001", "`rewriter why MX001 MODEL` says why"),
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
