"""`fix` runs what it changed, and `fix --verify` says what was compared and what was not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.call import GAMMA, POOL, Call

pytest.importorskip("onnxruntime")

HEAD = '<ir_version: 8, opset_import: ["": 17, "com.acme": 1]> g '
EXACT = "/// Twice is once.\nrule T001 twice <kind: exact, severity: error>\n"
ABS = f"{EXACT}match {{ y = Abs(z) z = Abs(x) }}\nrewrite {{ y = Abs(x) }}\n"
HALF = "/// Half.\nrule T002 half <kind: repair, evidence: refused, severity: error>\nmatch { y = Sign(x) }\nrewrite { y = Tanh(x) }\n"


def saved(folder: Path, text: str, rules: str) -> tuple[Path, Path]:
    onnx.save(onnx.parser.parse_model(HEAD + text), folder / "net.onnx")
    (folder / "some.rules").write_text(rules)
    return folder / "net.onnx", folder / "some.rules"


def findings(call: Call, tmp_path: Path, text: str, rules: str, *options: object) -> tuple[list[str], list[str], int]:
    """The findings, the verdict of each firing, and the exit code."""
    net, written = saved(tmp_path, text, rules)
    done = call("fix", net, "-o", tmp_path / "out.onnx", "--rules", written, "--verify", "--format", "json", *options)
    (model,) = json.loads(done.out)["models"]
    return model["verification"]["findings"], [firing["verdict"] for firing in model["firings"]], done.code


def test_a_result_that_loads_and_does_not_run_is_taken_back(call: Call, tmp_path: Path) -> None:
    text = "(float[N, 6] x) => (float[A, B] y) { c = Constant<value = int64[2] {-1, 3}>() y = Reshape(x, c) }"
    rule = (
        "/// Another length.\nrule BAD005 another-length <kind: repair, evidence: refused, severity: error>\n"
        'match { y = Reshape(x, s) }\nwhere not ("Mul" == producer(s))\nrewrite { t = Mul(s, s)  y = Reshape(x, t) }\n'
    )
    net, rules = saved(tmp_path, text, rule)
    done = call("fix", net, "-o", tmp_path / "out.onnx", "--rules", rules)
    assert done.code == 1
    assert "rolled back BAD005" in done.out and "ONNX Runtime does not run it: " in done.out
    assert (tmp_path / "out.onnx").read_bytes() == net.read_bytes()


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize(("before", "after"), [("Neg(x)", "Abs(x)"), ("Abs(x)", "x"), ("Relu(x)", "x"), ("Sign(x)", "Ceil(x)")])
def test_a_wrong_exact_rule_is_found_on_small_inputs(call: Call, tmp_path: Path, before: str, after: str, size: int) -> None:
    header = "/// Wrong.\nrule BAD006 abs <kind: exact, severity: error, opset: 9..>\n"
    rule = f"{header}match {{ y = {before} }}\nrewrite {{ y = {after} }}\n"
    net, rules = saved(tmp_path, f"(float[{size}] x) => (float[{size}] y) {{ z = {before} y = Identity(z) }}", rule)
    done = call("fix", net, "-o", tmp_path / "out.onnx", "--rules", rules, "--verify")
    assert done.code == 1 and "rolled back BAD006" in done.out and "verified" not in done.out


def test_what_a_repair_changes_is_never_verified(call: Call, tmp_path: Path) -> None:
    text = "(float[4] x) => (float[4] y) { y = Sign(x) }"
    (finding,), verdicts, code = findings(call, tmp_path, text, HALF)
    assert finding.startswith("outputs changed, as T002 says; whether they are now the framework's was not checked (")
    assert (verdicts, code) == (["kept"], 0)
    for kind in ("html", "md", "sarif", "csv", "xml"):
        call("fix", tmp_path / "net.onnx", "-o", tmp_path / "out.onnx", "--force", "--rules", tmp_path / "some.rules",
             "--verify", "--report", tmp_path / f"report.{kind}")  # fmt: skip
        body = (tmp_path / f"report.{kind}").read_text().split("</style>")[-1]
        assert "verified" not in body
        assert kind not in ("html", "md") or "was not checked" in body


def test_a_stretch_beside_a_repair_is_verified_by_itself(call: Call, tmp_path: Path) -> None:
    text = "(float[4] x) => (float[4] y) { a = Abs(x) b = Abs(a) y = Sign(b) }"
    found, verdicts, code = findings(call, tmp_path, text, ABS + HALF)
    assert any(text.startswith("outputs changed, as T002 says") for text in found)
    assert any(text.startswith("verified: T001: 1 output agrees exactly on ") for text in found)
    assert (sorted(verdicts), code) == (["kept", "verified"], 0)


def test_what_could_not_be_compared_is_not_verified(call: Call, tmp_path: Path) -> None:
    """The repair makes it run; the exact rule, which fired before, was never compared."""
    text = "(float[4] x) => (float[4] y) { a = Abs(x) b = Abs(a) y = com.acme.Sgn(b) }"
    rules = ABS.replace("kind: exact", "kind: exact, phase: canonical") + (
        "/// Unknown operator.\nrule T003 sgn <kind: repair, evidence: refused, severity: error, phase: cleanup, opset: 9..>\n"
        "match { y = com.acme.Sgn(x) }\nrewrite { y = Sign(x) }\n"
    )
    found, verdicts, _ = findings(call, tmp_path, text, rules)
    assert any(text.startswith("not verified: T001, because the model before does not run") for text in found)
    assert any(text.startswith("the result runs after T003; the input did not run (") for text in found)
    assert any(text.endswith("pass --inputs FILE with its outputs") for text in found)
    assert verdicts == ["kept", "kept"]


def test_recorded_outputs_are_the_framework(call: Call, tmp_path: Path) -> None:
    done = call("fix", POOL, "-o", tmp_path / "out.onnx", "--verify", "--inputs", POOL.with_suffix(".npz"))
    assert done.code == 0
    assert "outputs changed, as MX003 says (output" in done.out and "was not checked" not in done.out
    assert "verified: the outputs equal the framework's outputs, as recorded in " in done.out


def test_a_repair_away_from_recorded_outputs_is_taken_back(call: Call, tmp_path: Path) -> None:
    net, rules = saved(tmp_path, "(float[2] x) => (float[2] y) { y = Sign(x) }", HALF)
    x = np.array([-0.5, 2.0], np.float32)
    np.savez(tmp_path / "right.npz", x=x, y=np.sign(x))
    done = call("fix", net, "-o", tmp_path / "out.onnx", "--rules", rules, "--verify", "--inputs", tmp_path / "right.npz")
    assert done.code == 1 and "rolled back T002" in done.out and "right.npz before" in done.out
    np.savez(tmp_path / "other.npz", x=x, out_0=x)
    done = call("fix", net, "-o", tmp_path / "new.onnx", "--rules", rules, "--verify", "--inputs", tmp_path / "other.npz")
    assert done.code == 1 and "wrong outputs: they differ from the outputs in " in done.out


def test_outputs_that_the_model_gave_are_not_the_framework(call: Call, tmp_path: Path) -> None:
    net, rules = saved(tmp_path, "(float[2] x) => (float[2] y) { y = Sign(x) }", HALF)
    assert call("run", net, "-o", tmp_path / "own.npz").code == 0
    done = call("fix", net, "-o", tmp_path / "out.onnx", "--rules", rules, "--verify", "--inputs", tmp_path / "own.npz")
    assert done.code == 0 and "whether they are now the framework's was not checked" in done.out, done.out
    assert call("check", net, "--expect", tmp_path / "own.npz", "--rules", rules).code == 1


def test_a_model_that_runs_only_afterwards(call: Call, tmp_path: Path) -> None:
    done = call("fix", GAMMA, "-o", tmp_path / "out.onnx", "--verify")
    assert done.code == 0 and "the input did not run" in done.out and "  verified" not in done.out
