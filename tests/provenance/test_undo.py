"""`rewriter undo`: a result without one of its rewrites, from the record in it."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest

import rewriter
from rewriter.trust.stamp import history, way_back, went_back
from tests.cli.call import Call
from tests.surgery import texts

MODELS = Path(__file__).parent.parent / "models"
GAMMA = MODELS / "mxnet-1.4.1-fix-gamma.onnx"
TWICE = """
<ir_version: 10, opset_import: ["": 17]>
g (float[2,4] x) => (float[2,4] y) <float[300] big, float[4] w = {1, 2, 3, 4}> {
  [p] a = Identity(x)  [q] b = Neg(a)  [r] c = Neg(b)  [s] d = Mul(c, w)  [t] e = Identity(d)  [u] y = Relu(e) }
"""


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return Call(capsys)


@pytest.fixture
def fixed(call: Call, tmp_path: Path) -> tuple[Path, Path]:
    before, after = texts.written(tmp_path, TWICE.replace("float[300] big, ", "")), tmp_path / "after.onnx"
    assert call("optimize", before, "-o", after, "--record", "full").code == 0
    return before, after


def test_one_is_taken_back_from_the_result_alone(call: Call, fixed: tuple[Path, Path], tmp_path: Path) -> None:
    before, after = fixed
    listed = json.loads(call("undo", after, "--format", "json").out)["firings"]
    assert len(listed) >= 2 and str(listed[0]["root"]) in call("undo", after).out
    out = tmp_path / "out.onnx"
    done = call("undo", after, listed[0]["number"], "-o", out)
    assert done.code == 0 and "undone  1" in done.out, done.err
    assert len(onnx.load(out).graph.node) > len(onnx.load(after).graph.node)
    assert call("audit", before, out).code == 0
    again = json.loads(call("undo", out, "--original", before, "--format", "json").out)["firings"]
    assert {one["root"] for one in again} == {one["root"] for one in listed[1:]}
    assert "--record full" in call("undo", out).err


def test_all_taken_back_are_the_input(call: Call, fixed: tuple[Path, Path], tmp_path: Path) -> None:
    before, after = fixed
    codes = {run for one in history(rewriter.load(after).metadata) for run in one.rules}
    out = tmp_path / "out.onnx"
    done = call("undo", after, *codes, "-o", out, "--no-stamp")
    assert done.code == 0, done.err
    restored = onnx.load(out)
    assert [node.op_type for node in restored.graph.node] == [node.op_type for node in onnx.load(before).graph.node]


def test_all_of_an_optimization_taken_back_are_the_input(call: Call, tmp_path: Path) -> None:
    """It tidies by default, which is nothing to record where it removed nothing."""
    before, after, back = (tmp_path / f"{name}.onnx" for name in ("before", "after", "back"))
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { h = Identity(x)  y = Neg(h) }'
    before.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    assert call("optimize", before, "--select", "GEN001", "-o", after).code == 0
    assert call("undo", after, "GEN001", "--original", before, "-o", back).code == 0
    assert back.read_bytes() == before.read_bytes()


def test_with_the_original_and_its_source(call: Call, tmp_path: Path) -> None:
    after, out = tmp_path / "after.onnx", tmp_path / "out.onnx"
    assert call("fix", GAMMA, "-o", after).code == 0
    assert "SHA-256" in call("undo", after).err
    done = call("undo", after, "MX002", "--original", GAMMA, "-o", out)
    assert done.code == 0 and "undone  1  MX002" in done.out, done.err
    assert set(history(rewriter.load(out).metadata)[-1].rules) == {"MX005"}
    assert call("audit", GAMMA, out).code == 0
    done = call("undo", after, "MX002", "MX005", "--original", GAMMA, "-o", out, "--force")
    assert done.code == 0 and out.read_bytes() == GAMMA.read_bytes()


def test_what_is_missing_is_said(call: Call, fixed: tuple[Path, Path], tmp_path: Path) -> None:
    before, after = fixed
    out = tmp_path / "out.onnx"
    assert "there is no record" in call("undo", before).err
    assert f"has no rewrite '77'; `rewriter undo {after}` lists its 2" in call("undo", after, "77", "-o", out).err
    assert "required: MODEL;" in call("undo").err  # FIRING is optional
    assert "is not the original model" in call("undo", after, "--original", GAMMA).err
    changed = tmp_path / "changed.onnx"
    model = onnx.load(after)
    model.graph.node[0].name = "other"
    onnx.save(model, changed)
    assert "differs from its record" in call("undo", changed).err
    model.graph.node[0].name, model.graph.node[-1].name = "", "other"
    onnx.save(model, changed)
    assert "differs from its record" in call("undo", changed, "--original", before).err
    model.metadata_props[-1].value = model.metadata_props[-1].value.replace('"way_back":"', '"way_back":"AAAA')
    onnx.save(model, changed)
    assert "does not make the original model again" in call("undo", changed).err
    edited = tmp_path / "edited.onnx"
    assert call("edit", after, "--doc", "x", "-o", edited).code == 0
    assert "was `rewriter edit" in call("undo", edited).err
    rules = tmp_path / "none.rules"
    rules.write_text((Path("rules/mxnet") / next(Path("rules/mxnet").glob("MX005*")).name).read_text())
    assert "not among the rules" in call("undo", after, "--rules", rules).err
    assert not out.exists()


def test_weights_that_are_gone_are_not_kept() -> None:
    import numpy as np
    from onnx import numpy_helper

    before = onnx.parser.parse_model(TWICE.replace("float[300] big, ", ""))
    after = onnx.ModelProto.FromString(before.SerializeToString())
    before.graph.initializer.append(numpy_helper.from_array(np.random.default_rng(0).random(300, np.float32), "gone"))
    kept = way_back(before.SerializeToString(), after.SerializeToString())
    assert kept is not None and went_back(kept, after.SerializeToString()) == before.SerializeToString()
    before.graph.initializer.append(numpy_helper.from_array(np.random.default_rng(0).random(100_000, np.float32), "large"))
    assert way_back(before.SerializeToString(), after.SerializeToString()) is None


def test_a_rewrite_of_the_whole_model_is_one_of_the_model(call: Call, tmp_path: Path) -> None:
    before, after = texts.written(tmp_path, TWICE.replace("[p] ", "")), tmp_path / "after.onnx"
    assert call("fix", before, "-o", after, "--record", "full", "--select", "HYG010").code == 0
    assert "undone  1  HYG010  model\n" in call("undo", after, "1", "-o", tmp_path / "out.onnx").out
