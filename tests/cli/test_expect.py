"""`check --expect`: the framework's own numbers say which model is right, and which rules mend one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.call import Call

pytest.importorskip("onnxruntime")

MODEL = """<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (float[4] y) { [before] t = Neg(x)  [odd] u = ACT(t)
 [behind] y = Add(u, x) }"""
RULES = """
/// Sinh where Cosh was meant.
rule TST001 sinh-for-cosh <kind: repair, evidence: refused, opset: 9..>
match { y = Sinh(x) }
rewrite { y = Cosh(x) }

/// Perhaps Relu where Abs was meant.
rule TST002 relu-for-abs <kind: repair, evidence: guess, question: "Is it the magnitude that was meant?">
match { y = Relu(x) }
rewrite { y = Abs(x) }
"""
X = np.array([-2, -1, 1, 2], np.float32)


def write(folder: Path, operator: str, meant: np.ndarray) -> Path:
    folder.mkdir()
    onnx.save(onnx.parser.parse_model(MODEL.replace("ACT", operator)), folder / "net.onnx")
    np.savez(folder / "data.npz", in_0=X, out_0=meant + X)
    return folder / "net.onnx"


def test_the_numbers_of_the_framework_decide(call: Call, tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_text(RULES)
    mended = write(tmp_path / "a", "Sinh", np.cosh(X))
    asked = write(tmp_path / "b", "Relu", np.abs(X))
    right = write(tmp_path / "c", "Relu", np.maximum(-X, 0))
    hopeless = write(tmp_path / "d", "Tanh", X)
    harmed = write(tmp_path / "e", "Sinh", np.sinh(-X))
    options = "--rules", tmp_path / "my.rules", "--runtime", "no", "--expect", "{dir}/data.npz"
    done = {}
    for path in (mended, asked, right, hopeless, harmed):
        done[path] = call("check", path, *options)
        data = path.with_name("data.npz")
        equal = f"output equals {data} (1 output, within 0.002 of the largest value)"
        assert f"{path}: {equal if path in (right, harmed) else f'does not match {data}: output '}" in done[path].out
    assert [done[path].code for path in (right, hopeless)] == [0, 1]
    assert [done[path].err.partition(";")[0] for path in (right, hopeless)] == [
        "1 model: 1 clean",
        "1 model: 1 not as expected",
    ]
    assert "  repaired by TST001: run `rewriter fix`" in done[mended].out
    assert (
        "  possibly repaired by TST002, a guess: add `--select DEFAULT,TST002` if its question is answered with yes"
        in done[asked].out
    )
    assert "  first wrong node: odd (Relu): " in done[asked].out
    assert "  no rule repairs it" in done[hopeless].out
    assert "  made wrong by TST001: output 'y' " in done[harmed].out


def test_a_report_has_it(call: Call, tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_text(RULES)
    path = write(tmp_path / "b", "Relu", np.abs(X))
    done = call("check", path, "--rules", tmp_path / "my.rules", "--expect", tmp_path / "b" / "data.npz", "--format", "json")
    found = json.loads(done.out)["models"][0]["expectation"]
    assert (found["questions"], found["rules"], found["data"]) == (["TST002"], [], str(tmp_path / "b" / "data.npz"))
    missing = call("check", path, "--rules", tmp_path / "my.rules", "--expect", "{dir}/{name}.npz")
    assert f"note: not compared with the framework: there is no {tmp_path / 'b' / 'net.npz'}" in missing.out


def test_names_that_were_expected_and_found(call: Call, tmp_path: Path) -> None:
    path, data = write(tmp_path / "b", "Relu", np.abs(X)), tmp_path / "b" / "data.npz"
    np.savez(data, in_0=X, out_y=X)
    done = call("check", path, "--expect", data)
    assert done.code == 2
    assert f"{data} has no output of {path}: expected an array named out_0 or 'y', found 'in_0', 'out_y'" in done.out + done.err


def test_data_that_are_not_there_are_an_error(call: Call, tmp_path: Path) -> None:
    """A model is not right because a name was mistyped."""
    done = call("check", write(tmp_path / "b", "Relu", np.abs(X)), "--expect", tmp_path / "none.npz")
    assert done.code == 2 and f"--expect {tmp_path / 'none.npz'}: no such file" in done.err


def test_a_file_of_another_model_is_said_to_be_one(call: Call, tmp_path: Path) -> None:
    path = write(tmp_path / "a", "Tanh", X)
    np.savez(tmp_path / "shape.npz", in_0=X, out_0=np.zeros(3, np.float32))
    done = call("check", path, "--expect", tmp_path / "shape.npz")
    assert "output 'y' has another type or shape: float32[4] instead of float32[3]" in done.out
    assert f"\n  is {tmp_path / 'shape.npz'} of another model? " in done.out
    np.savez(tmp_path / "names.npz", in_0=X, z=X)
    said = f"{tmp_path / 'names.npz'} has no output of {path}: expected an array named out_0 or 'y', found 'in_0', 'z'"
    assert said in call("check", path, "--expect", tmp_path / "names.npz").err
    np.savez(tmp_path / "inputs.npz", other=X, more=X, out_0=X)
    assert "inputs.npz has no input 'x' of the model: expected 'in_x', found 'more', 'other', 'out_0'" in (
        call("check", path, "--expect", tmp_path / "inputs.npz").err
    )


def test_a_rejected_model_that_no_rule_repairs_keeps_the_advice_on_its_error_message(call: Call, tmp_path: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { [odd] y = Foo(x) }'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    np.savez(tmp_path / "net.npz", x=X[:2], y=X[:2])
    alone = call("check", tmp_path / "net.onnx")
    assert "no rule repairs this (to write one: " in alone.out
    assert call("check", tmp_path / "net.onnx", "--expect", tmp_path / "net.npz").out == alone.out


@pytest.mark.parametrize("x", [np.zeros(5, np.float32), np.zeros((4, 1), np.float32), np.zeros(4, np.float64)])
def test_recorded_inputs_of_another_shape_or_type_are_questioned(call: Call, tmp_path: Path, x: np.ndarray) -> None:
    model = write(tmp_path / "a", "Relu", np.abs(X))
    np.savez(tmp_path / "net.npz", in_x=x, out_0=X)
    done = call("check", model, "--expect", tmp_path / "net.npz")
    assert done.out.splitlines()[-1].endswith("net.npz of another model? Shapes or types differ, and no rule changes that")


@pytest.mark.parametrize("template", ["{dri}/data.npz", "{dir}/{nmae}.npz", "{"])
def test_an_unknown_placeholder_is_an_error(call: Call, tmp_path: Path, template: str) -> None:
    done = call("check", tmp_path, "--expect", template)
    assert done.code == 2
    assert done.err == f"rewriter: error: --expect {template}: unknown placeholder; use {{dir}} or {{name}}\n"
