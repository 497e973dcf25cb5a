"""`rewriter run` and `rewriter bench`: what a model gives, and how long it takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from tests.cli.call import Call

NET = """
<ir_version: 8, opset_import: ["": 17]>
g (float[N,4] "/x", bool c) => (float[N,4] y, string[2] s) <float[4] w = {1, 2, 3, 4}, string[2] t = {"a", "b"}> {
    [mul] h = Mul("/x", w)
    chosen = If(c) <then_branch = t () => (float[N,4] a) { a = Relu(h) },
                    else_branch = e () => (float[N,4] b) { b = Mul(h, w) }>
    y = Neg(chosen)
    s = Identity(t)
}
"""


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.onnx"
    onnx.save(parser.parse_model(NET), path)
    return path


def test_outputs_are_shown_and_kept(call: Call, net: Path, tmp_path: Path) -> None:
    done = call("run", net)
    assert done.code == 0 and "ONNX Runtime" in done.out and "y  float32[2,4]  min" in done.out, done.err
    out = tmp_path / "out.npz"
    done = call("run", net, "--static", "/x:3,4", "--dump", "mul,op:If", "-o", out, "--format", "json")
    told = json.loads(done.out)
    assert told["outputs"]["h"]["shape"] == [3, 4] and told["outputs"]["chosen"]["dtype"] == "float32"
    with np.load(out) as found:
        kept = {name: found[name] for name in found.files}
    assert sorted(kept) == ["/x", "c", "chosen", "h", "s", "y"]
    np.testing.assert_array_equal(kept["h"], kept["/x"] * np.float32([1, 2, 3, 4]))
    np.testing.assert_array_equal(kept["y"], -kept["chosen"])
    assert list(kept["s"]) == ["a", "b"]
    assert call("run", net, "-o", out).code == 2
    again = json.loads(call("run", net, "--inputs", out, "--format", "json").out)
    assert again["outputs"]["y"] == told["outputs"]["y"] and again["inputs"] == told["inputs"]
    assert call("run", net, "--inputs", out, "-o", out, "--force").code == 0


@pytest.mark.parametrize(("command", "name", "ending"), [("run", "out.txt", ".npz"), ("view", "net.svg", ".html")])
def test_a_file_of_another_format_is_not_written(call: Call, net: Path, command: str, name: str, ending: str) -> None:
    done = call(command, net, "-o", net.with_name(name))
    assert done.code == 2 and f"{net.with_name(name)}' does not end in {ending}; " in done.err
    assert not net.with_name(name).exists()


def test_what_is_not_finite_is_counted(call: Call, net: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", **{"/x": np.float32([[np.nan, np.inf, 0, 1]]), "c": np.array(True)})
    done = call("run", net, "--inputs", tmp_path / "in.npz")
    assert "min -4, max -0" in done.out.replace("max 0", "max -0") and "1 infinite" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--dump", "what"], "no tensor or node 'what'"),
        (["--static", "x:1,2"], "no such input"),
        (["--inputs", "{net}"], "no .npy or .npz file"),
        (["-o", "/nowhere/at/all.npz"], "the folder /nowhere/at does not exist"),
    ],
)
def test_what_cannot_be_run_is_one_line(call: Call, net: Path, options: list[str], words: str) -> None:
    done = call("run", net, *(option.format(net=net) for option in options))
    assert done.code == 2 and words in done.err and done.err.count("\n") == 1


def test_a_model_that_is_refused(call: Call) -> None:
    model = "tests/models/pytorch-2.13-max-pool-of-an-image/model.onnx"
    for command in ("run", "bench"):
        done = call(command, model)
        assert done.code == 2 and "Attribute dilations has incorrect size" in done.err and done.err.count("\n") == 1


def test_times_of_two_models(call: Call, net: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.onnx"
    assert call("edit", net, "--insert-after", "h=Exp(_)", "-o", other).code == 0
    done = call("bench", net, other, "--runs", "4", "--warmup", "1", "--as-it-is", "--nodes", "--threads", "1")
    assert done.code == 0 and "as fast as" in done.out and "(Exp)" in done.out and "4 runs" in done.out, done.err
    told = json.loads(call("bench", net, "--seconds", "0.01", "--format", "json").out)["models"][0]
    assert told["runs"] >= 3 and 0 < told["min"] <= told["median"] <= told["p95"]
    assert {node["operator"] for node in told["nodes"]} >= {"Mul", "If"}


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_integers_are_no_zeros_where_a_model_divides_by_them(call: Call, tmp_path: Path, op: str) -> None:
    """ONNX Runtime refuses to divide by a whole zero, which ordinary integers hold."""
    text = f"<ir_version: 8, opset_import: ['': 17]> g (int64[6] a, int64[6] b) => (int64[6] q) {{ q = {op}(a, b) }}"
    onnx.save(parser.parse_model(text.replace("'", '"')), tmp_path / "net.onnx")
    done = call("run", tmp_path / "net.onnx")
    assert done.code == 0 and "b  int64[6]  min 1, max 2" in done.out, done.err
