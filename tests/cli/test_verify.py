"""`fix --verify`: what is said about the numbers before and after."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.call import GEMM, MODELS, POOL, Call

pytest.importorskip("onnxruntime")
CHAIN = MODELS / "pytorch-2.13-reshape-chain.onnx"


def save(path: Path, body: str, opset: int = 17) -> Path:
    onnx.save(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> g {body}'), path)
    return path


def test_what_promises_the_same_numbers_agrees(call: Call, tmp_path: Path) -> None:
    done = call("fix", CHAIN, "-o", tmp_path / "out.onnx", "--select", "PT001", "--verify")
    assert done.code == 0
    assert "  verified: 1 output agrees exactly on 2 inputs (ONNX Runtime " in done.out


def test_what_a_repair_changed_is_told(call: Call, tmp_path: Path) -> None:
    done = call("fix", POOL, "-o", tmp_path / "out.onnx", "--verify")
    assert done.code == 0
    assert "  verified: outputs differ as repair MX003 (MXNet averages over the padding" in done.out
    assert "largest difference 0." in done.out


def test_a_model_that_did_not_run_before(call: Call, tmp_path: Path) -> None:
    done = call("fix", GEMM, "-o", tmp_path / "out.onnx", "--verify")
    assert done.code == 0
    assert "  verified: the result runs; the model before did not (ONNX Runtime: " in done.out


def test_repairs_are_no_excuse_for_the_others(call: Call, tmp_path: Path) -> None:
    (tmp_path / "wrong.rules").write_text(
        "/// A little more.\nrule BAD001 more <kind: approx(rtol=1e-6), severity: error>\n"
        'match { [n] y = AveragePool(x) }\nwhere not ("Add" in users(y))\n'
        "rewrite { inner = AveragePool<..n>(x)  y = Add(inner, {full([1], 0.01)}) }\n"
    )
    rules = ("--rules", "shipped", "--rules", tmp_path / "wrong.rules", "--select", "DEFAULT,BAD001")
    done = call("fix", POOL, "-o", tmp_path / "out.onnx", "--verify", *rules)
    assert done.code == 1
    assert "rolled back BAD001" in done.out
    assert "differs by 0.01 where" in done.out


def test_inputs_of_a_file(call: Call, tmp_path: Path) -> None:
    done = call("fix", POOL, "-o", tmp_path / "out.onnx", "--verify", "--inputs", POOL.with_suffix(".npz"), "--format", "json")
    found = json.loads(done.out)["models"][0]["verification"]
    assert (found["verdict"], found["inputs"], found["largest"]) == ("differ", 1, None)
    np.savez(tmp_path / "other.npz", other=np.zeros(2))
    done = call("fix", POOL, "-o", tmp_path / "out.onnx", "--verify", "--inputs", tmp_path / "other.npz", "--force")
    assert done.code == 0
    assert "not verified: " in done.out
    assert "there is no input" in done.out
    assert call("fix", POOL, "--inputs", POOL.with_suffix(".npz")).code == 2


def test_random_outputs_are_not_compared(call: Call, tmp_path: Path) -> None:
    net = save(
        tmp_path / "net.onnx",
        "(float[64] x) => (float[64] y, float[64] z) { i = Identity(x) z = Neg(i) "
        "half = Constant<value = float {0.5}>() yes = Constant<value = bool {1}>() y = Dropout(i, half, yes) }",
    )
    done = call("fix", net, "--select", "GEN001", "--verify")
    assert done.code == 0
    assert "verified: random and not compared: 'y'" in done.out
    assert "1 output agrees exactly" in done.out


def test_unknown_dimensions_get_sizes_until_the_model_runs(call: Call, tmp_path: Path) -> None:
    body = "(float[N,3,H,W] x) => (float[N,3,A,B] y) { i = Identity(x) y = MaxPool<kernel_shape=[12,12]>(i) }"
    done = call("fix", save(tmp_path / "net.onnx", body), "--select", "GEN001", "--verify")
    assert "verified: 1 output agrees exactly on 2 inputs" in done.out


def test_nan_agrees_with_nan_only(call: Call, tmp_path: Path) -> None:
    net = save(tmp_path / "net.onnx", "(float[64] x) => (float[64] y) { i = Identity(x) y = Sqrt(i) }")
    done = call("fix", net, "--select", "GEN001", "--verify")
    assert (done.code, "1 output agrees exactly" in done.out) == (0, True)
    (tmp_path / "wrong.rules").write_text(
        "/// No NaN.\nrule BAD001 no-nan <kind: exact, severity: error>\nmatch { y = Sqrt(x) }\n"
        'where not ("Abs" == producer(x))\nrewrite { a = Abs(x) y = Sqrt(a) }\n'
    )
    done = call("fix", net, "--force", "--rules", tmp_path / "wrong.rules", "--verify")
    assert done.code == 1
    assert "output 'y' is not a number in 0 places instead of" in done.out


def test_float16_inside_counts(call: Call, tmp_path: Path) -> None:
    body = "(float[64] x) => (float[64] y) { h = Cast<to=10>(x) a = Exp(h) i = Identity(a) b = Exp(i) c = Log(b) y = Cast<to=1>(c) }"
    done = call("fix", save(tmp_path / "net.onnx", body), "--select", "GEN001", "--verify")
    assert (done.code, "rolled back" in done.out) == (0, False)
