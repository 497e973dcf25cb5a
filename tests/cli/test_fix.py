"""`rewriter fix` on real exports: what is written where, and what is said about it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewriter.cli import sources
from tests.cli.call import GAMMA, GEMM, MODELS, POOL, Call


def outputs(model: Path, data: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What ONNX Runtime computes for the recorded input, and what the framework computed."""
    runtime = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(4)
    recorded = np.load(data)
    session = runtime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    feed = {name[3:]: recorded[name] for name in recorded.files if name.startswith("in_")}
    feed = {i.name: feed[i.name] for i in session.get_inputs() if i.name in feed}
    return session.run(None, feed), [recorded[f"out_{i}"] for i in range(len(recorded.files) - len(feed))]


def contents(folder: Path) -> dict[str, bytes]:
    """The files of a folder and of those in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", sorted(path.stem for path in MODELS.glob("*.onnx")))
def test_every_shipped_export_computes_what_its_framework_computed(call: Call, tmp_path: Path, name: str) -> None:
    fixed = tmp_path / "fixed.onnx"
    assert call("fix", MODELS / f"{name}.onnx", "-o", fixed).code == 0
    found, wanted = outputs(fixed, MODELS / f"{name}.npz")
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-4)
    assert call("check", fixed, "--source", "none").code == 0


def test_the_export_that_the_readme_repairs_was_refused_before() -> None:
    with pytest.raises(Exception, match=r"First input does not have rank 2|expected to have rank 2"):
        outputs(GEMM, GEMM.with_suffix(".npz"))


def test_results_on_stdout_and_the_summary_on_stderr(call: Call, tmp_path: Path) -> None:
    done = call("fix", GEMM, "-o", tmp_path / "fixed.onnx")
    assert done.out.startswith(f"{GEMM}: 1 rewrite -> {tmp_path / 'fixed.onnx'}\n  MX001 ")
    assert "fc1 (Gemm)" in done.out
    assert done.err.startswith("1 model: 1 changed; 1 rewrite by 1 rule; ")


def test_without_rules_every_byte_is_kept(call: Call, tmp_path: Path) -> None:
    assert call("fix", MODELS, "--out", tmp_path / "out", "--select", "NONE").code == 0
    assert contents(tmp_path / "out") == {name: data for name, data in contents(MODELS).items() if name.endswith(".onnx")}


def test_the_result_goes_beside_the_input(call: Call, tmp_path: Path) -> None:
    shutil.copy(GEMM, tmp_path / "net.onnx")
    before = (tmp_path / "net.onnx").read_bytes()
    assert call("fix", tmp_path).code == 0
    assert (tmp_path / "net.onnx").read_bytes() == before
    first = (tmp_path / "net.fixed.onnx").read_bytes()
    assert first != before
    again = call("fix", tmp_path)
    assert again.code == 2
    assert "net.fixed.onnx exists; --force overwrites it" in again.err
    assert call("fix", tmp_path, "--force").code == 0
    assert (tmp_path / "net.fixed.onnx").read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.fixed.onnx", "net.onnx"]


def test_in_place_writes_only_what_changes(call: Call, tmp_path: Path) -> None:
    shutil.copy(GEMM, tmp_path / "broken.onnx")
    shutil.copy(MODELS / "pytorch-2.13-reshape-chain.onnx", tmp_path / "good.onnx")
    os.utime(tmp_path / "good.onnx", (1, 1))
    assert call("fix", tmp_path, "--in-place", "--select", "MX001").code == 0
    assert (tmp_path / "broken.onnx").read_bytes() != GEMM.read_bytes()
    assert (tmp_path / "good.onnx").stat().st_mtime == 1


def test_one_bad_model_does_not_stop_the_rest(call: Call, tmp_path: Path) -> None:
    (tmp_path / "in" / "deep").mkdir(parents=True)
    (tmp_path / "in" / "a.onnx").write_text("<html>not a model</html>")
    shutil.copy(GEMM, tmp_path / "in" / "deep" / "b.onnx")
    done = call("fix", tmp_path / "in", tmp_path / "missing.onnx", "--out", tmp_path / "out")
    assert done.code == 2
    assert done.err.count("error: ") == 2
    assert (tmp_path / "out" / "deep" / "b.onnx").exists()
    assert not (tmp_path / "out" / "a.onnx").exists()


def test_a_model_that_cannot_be_repaired_is_written_as_it_is(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object) -> None:
        raise ZeroDivisionError("a mistake")

    monkeypatch.setattr(sources, "source_of", explode)
    done = call("fix", GEMM, "-o", tmp_path / "fixed.onnx")
    assert done.code == 3
    assert (tmp_path / "fixed.onnx").read_bytes() == GEMM.read_bytes()
    assert "internal error: ZeroDivisionError: a mistake; written unchanged to" in done.err
    assert "Traceback" not in done.err
    assert "Traceback" in call("fix", GEMM, "-o", tmp_path / "second.onnx", "--debug").err


def test_processes_write_the_same_bytes_and_say_the_same(call: Call, tmp_path: Path) -> None:
    alone = call("fix", MODELS, "--out", tmp_path / "out")
    first = contents(tmp_path / "out")
    together = call("fix", MODELS, "--out", tmp_path / "out", "--jobs", 2, "--force")
    assert contents(tmp_path / "out") == first
    assert (together.code, together.out) == (alone.code, alone.out)


def test_json(call: Call, tmp_path: Path) -> None:
    done = call("fix", GEMM, tmp_path / "no.onnx", "--out", tmp_path / "out", "--format", "json")
    report = json.loads(done.out)
    assert (report["schema"], report["command"], report["exit_code"], done.code) == (1, "fix", 2, 2)
    assert report["summary"]["statuses"] == {"changed": 1, "failed": 1}
    good, bad = report["models"]
    assert good["status"] == "changed"
    assert good["counts"] == {"MX001": 1}
    assert good["source"] == str(GEMM.with_name("mxnet-1.3.1-fully-connected-symbol.json"))
    assert good["exporter"].startswith("mxnet")
    assert good["firings"][0]["changes"][0].keys() == {"name", "before", "after"}
    assert bad["status"] == "failed"
    assert bad["output"] is None
    assert "no.onnx" in bad["error"]


def test_diff(call: Call, tmp_path: Path) -> None:
    lines = call("fix", GEMM, "-o", tmp_path / "fixed.onnx", "--diff").out.splitlines()
    assert f"--- {GEMM}" in lines
    assert lines[lines.index("@@ nodes: 1 @@") + 1 :] == [
        "+fc1_flat = Flatten<axis = 1>(data)",
        "@@ operands: 1 @@",
        " fc1: operand 0",
        "-data, an input",
        "+fc1_flat, made by Flatten",
    ]
    assert call("fix", GEMM, "-o", tmp_path / "same.onnx", "--diff", "--select", "NONE").out.count("\n") == 1


def test_the_source_decides(call: Call, tmp_path: Path) -> None:
    for name, source, fires in (
        ("a", "auto", True),
        ("b", "none", False),
        ("c", GAMMA.with_name(f"{GAMMA.stem}-symbol.json"), True),
    ):
        done = call("fix", GAMMA, "-o", tmp_path / f"{name}.onnx", "--source", source, "--select", "MX002")
        assert ("1 rewrite" in done.out) is fires
        assert done.code == 0


def test_a_source_file_that_is_not_about_the_model_is_not_used(call: Call, tmp_path: Path) -> None:
    shutil.copy(GAMMA, tmp_path / "net.onnx")
    (tmp_path / "symbol.json").write_text('{"nodes": [{"op": "BatchNorm", "name": "other", "inputs": []}]}')
    assert "source file not used: no node of the model" in call("fix", tmp_path, "--select", "NONE").out
    (tmp_path / "symbol.json").write_text("{")
    assert "source file not used: " in call("fix", tmp_path, "--select", "NONE", "--force").out
    assert call("fix", tmp_path, "--force", "--source", tmp_path / "symbol.json").code == 2


def test_external_data_come_along(call: Call, tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.arange(600, dtype=np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [600]) for name in "xy")
    model = helper.make_model(helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weight]))
    (tmp_path / "in" / "data").mkdir(parents=True)
    onnx.save(model, tmp_path / "in" / "net.onnx", save_as_external_data=True, location="data/net.bin", size_threshold=0)
    assert call("fix", tmp_path / "in", "--out", tmp_path / "out").code == 0
    assert (tmp_path / "out" / "data" / "net.bin").read_bytes() == (tmp_path / "in" / "data" / "net.bin").read_bytes()
    onnx.checker.check_model(str(tmp_path / "out" / "net.onnx"))


def test_names_cannot_steer_the_terminal(call: Call, tmp_path: Path) -> None:
    model = onnx.load(GEMM)
    model.graph.node[0].name = "\x1b[2Jevil\u202e"
    onnx.save(model, tmp_path / "net.onnx")
    done = call("fix", tmp_path / "net.onnx", "--diff")
    assert "\x1b" not in done.out + done.err
    assert "\u202e" not in done.out
    assert "\\x1b[2Jevil\\u202e (Gemm)" in done.out


def test_tidy_removes_what_was_dead_before(call: Call, tmp_path: Path) -> None:
    model = onnx.load(GEMM)
    model.graph.node.append(helper.make_node("Relu", ["data"], ["nowhere"]))
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(3, np.float32), "unused"))
    onnx.save(model, tmp_path / "net.onnx")
    asked = call("fix", tmp_path / "net.onnx", "-o", tmp_path / "tidy.onnx", "--tidy", "--select", "NONE")
    assert asked.out.startswith(f"{tmp_path / 'net.onnx'}: tidied -> ")
    assert "tidied: 1 nodes, 1 initializers, 0 imports removed" in asked.out
    tidied = onnx.load(tmp_path / "tidy.onnx")
    assert tidied.graph.node == onnx.load(GEMM).graph.node
    assert "unused" not in {tensor.name for tensor in tidied.graph.initializer}
    assert call("fix", tmp_path / "net.onnx", "-o", tmp_path / "same.onnx", "--select", "NONE").code == 0
    assert (tmp_path / "same.onnx").read_bytes() == (tmp_path / "net.onnx").read_bytes()


def test_limits(call: Call, tmp_path: Path) -> None:
    done = call("fix", GAMMA, "-o", tmp_path / "fixed.onnx", "--max-firings", 1)
    assert done.code == 1
    assert "stopped Budget: the limit of 1 firings was reached" in done.out
    assert "1 unfinished" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--select", "MX01x"], "did you mean"),
        (["--select", "NOPE"], "no rule is called 'NOPE'"),
        (["--set", "MX001"], "is not a setting"),
        (["--rules", "nowhere"], "no such file or directory"),
        (["--source", "nowhere.json"], "no such source file"),
        (["--jobs", "0"], "not a positive number"),
        (["--timeout", "-1"], "not a time"),
        (["--out", "a", "--in-place"], "not allowed with"),
    ],
)
def test_bad_options(call: Call, options: list[str], message: str) -> None:
    done = call("fix", POOL, *options)
    assert done.code == 2
    assert message in done.err
    assert not done.out


def test_a_profile_says_where_the_time_went(call: Call, tmp_path: Path) -> None:
    done = call("fix", GEMM, POOL, "--out", tmp_path / "out", "--profile", "--jobs", "2")
    lines = [line.split() for line in done.err.splitlines()]
    stages = [line[0] for line in lines if len(line) == 3 and line[2].endswith("%")]
    assert {"load", "match", "rewrite", "guard", "save"} <= set(stages)
    whole = next(float(line[1]) for line in lines if line[0] == "all")
    parts = sum(float(line[-2]) for line in lines if line[-1].endswith("%"))
    assert abs(whole - parts) < 0.01 * len(lines)
    rules = {line[0]: line[1:] for line in lines if len(line) == 5 and line[0] != "rule"}
    assert rules["MX001"][1] == rules["MX003"][1] == "1"
