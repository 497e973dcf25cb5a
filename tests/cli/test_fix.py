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
from onnx.reference import ReferenceEvaluator

import rewriter
from rewriter.trust.source import find as sources
from tests.cli.call import GAMMA, GEMM, MODELS, POOL, Call, contents


def outputs(model: Path, data: Path) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What ONNX Runtime computes for the recorded input, and what the framework computed."""
    runtime = pytest.importorskip("onnxruntime")
    runtime.set_default_logger_severity(4)
    recorded = np.load(data)
    session = runtime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    feed = {name[3:]: recorded[name] for name in recorded.files if name.startswith("in_")}
    feed = {i.name: feed[i.name] for i in session.get_inputs() if i.name in feed}
    return session.run(None, feed), [recorded[f"out_{i}"] for i in range(len(recorded.files) - len(feed))]


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
    assert done.out.startswith(f"{GEMM}: 1 rewrite -> {tmp_path / 'fixed.onnx'}\n  ONNX Runtime rejected it: ")
    assert "-> loads and runs now\n  MX001 " in done.out and "fc1 (Gemm)" in done.out
    assert done.err.startswith("1 model: 1 repaired; 1 rewrite by 1 rule; ")


def test_a_refused_model_that_cannot_be_written_has_a_summary(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "place").write_text("no folder")
    done = call("fix", GEMM, "--select", "NONE", "-o", tmp_path / "place" / "fixed.onnx")
    assert done.code == 2 and "1 failed" in done.err, done.err


def test_each_pattern_of_a_rule_has_its_title() -> None:
    for rule in rewriter.load_rules():
        assert {one.title for one in rule.variants} == {rule.title}


def test_without_rules_every_byte_is_kept(call: Call, tmp_path: Path) -> None:
    assert call("fix", MODELS, "--out", tmp_path / "out", "--select", "NONE", "--runtime", "no").code == 0
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


def test_json(call: Call, tmp_path: Path) -> None:
    done = call("fix", GEMM, tmp_path / "no.onnx", "--out", tmp_path / "out", "--format", "json")
    report = json.loads(done.out)
    assert (report["schema"], report["command"], report["exit_code"], done.code) == (2, "fix", 2, 2)
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
    assert call("fix", GEMM, "-o", tmp_path / "same.onnx", "--diff", "--select", "NONE", "--runtime", "no").out.count("\n") == 1


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
    said = f"source file not used: {tmp_path / 'symbol.json'} is not the file of this model: the input 'data' of the model"
    assert said in call("fix", tmp_path, "--select", "NONE").out
    named = call("fix", tmp_path, "--select", "NONE", "--force", "--source", tmp_path / "symbol.json")
    assert said in named.out
    assert named.code == 0
    (tmp_path / "symbol.json").write_text("{")
    assert "source file not used: " in call("fix", tmp_path, "--select", "NONE", "--force").out
    assert call("fix", tmp_path, "--force", "--source", tmp_path / "symbol.json").code == 2


def test_the_file_of_a_network_that_looks_alike_changes_nothing(call: Call, tmp_path: Path) -> None:
    shutil.copy(GAMMA, tmp_path / "net.onnx")
    text = GAMMA.with_name(f"{GAMMA.stem}-symbol.json").read_text()
    (tmp_path / "net-symbol.json").write_text(text)
    assert "MX002" in call("check", tmp_path, "--select", "MX002").out
    symbol = json.loads(text)
    norm = next(node for node in symbol["nodes"] if node["op"] == "BatchNorm")
    norm["attrs"] = {**norm.get("attrs", {}), "eps": "0.5"}
    (tmp_path / "net-symbol.json").write_text(json.dumps(symbol))
    done = call("check", tmp_path, "--select", "MX002")
    assert done.code == 0
    assert f"{norm['name']!r} is BatchNorm with eps 0.5, in the model" in done.out


def test_a_table_that_was_named_is_believed(call: Call, tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    table.write_text(json.dumps({"bn1": {"fix_gamma": True}, "a node of another model": {}}))
    norm = next(node.name for node in onnx.load(GAMMA).graph.node if node.op_type == "BatchNormalization")
    table.write_text(table.read_text().replace("bn1", norm))
    assert "MX002" in call("check", GAMMA, "--source", table, "--select", "MX002").out


def test_external_data_come_along(call: Call, tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.arange(600, dtype=np.float32), "w")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [600]) for name in "xy")
    model = helper.make_model(
        helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weight]), ir_version=8
    )
    model.opset_import[0].version = 17
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
    assert "tidied: 1 node, 1 initializer removed" in asked.out
    tidied = onnx.load(tmp_path / "tidy.onnx")
    assert tidied.graph.node == onnx.load(GEMM).graph.node
    assert "unused" not in {tensor.name for tensor in tidied.graph.initializer}
    assert call("fix", tmp_path / "net.onnx", "-o", tmp_path / "same.onnx", "--select", "NONE", "--runtime", "no").code == 0
    assert (tmp_path / "same.onnx").read_bytes() == (tmp_path / "net.onnx").read_bytes()


def test_limits(call: Call, tmp_path: Path) -> None:
    done = call("fix", GAMMA, "-o", tmp_path / "fixed.onnx", "--max-firings", 1)
    assert done.code == 1
    assert "stopped: the limit of 1 firings was reached" in done.out
    assert "1 unfinished" in done.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--select", "MX01x"], "did you mean"),
        (["--select", "NOPE"], "no rule code starts with 'NOPE'"),
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


def test_a_rule_that_cannot_decide_leaves_nothing_unfinished(call: Call, tmp_path: Path) -> None:
    """A reshape as attention layers have it: a length of another tensor and a -1, which cannot stand for both."""
    text = """<ir_version: 8, opset_import: ["": 13], producer_name: "pytorch">
      main_graph (float[N,4] z, float[P,8] x) => (float[A,B] y) <int64[1] zero = {0}, int64[1] rest = {-1}> {
        s = Shape(z)  n = Gather<axis=0>(s, zero)
        t = Concat<axis=0>(n, rest)
        y = Reshape(x, t)
      }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    done = call("fix", tmp_path / "net.onnx", "--select", "PT001")
    assert done.code == 0
    assert "blocked PT001 y (Reshape): more than one item of the shape is unknown" in done.out
    assert "failed" not in done.out + done.err
    assert "unfinished" not in done.err


def test_a_folder_that_is_made_for_the_result_is_named(call: Call, tmp_path: Path) -> None:
    done = call("fix", GEMM, "-o", tmp_path / "new" / "fixed.onnx", "--runtime", "no")
    said = f"rewriter: note: the folder {tmp_path / 'new'} does not exist and is created for the result\n"
    assert (done.code, done.err.startswith(said), (tmp_path / "new" / "fixed.onnx").is_file()) == (0, True, True)
    assert "note" not in call("fix", GEMM, "-o", tmp_path / "new" / "again.onnx", "--runtime", "no").err


REFUSED = '<ir_version: 8, opset_import: ["": 13, "acme": 1]> g (float[2] x) => (float[2] y) { t = acme.Foo(x)  y = Relu(t) }'
HALF = """<ir_version: 8, opset_import: ["": 13, "acme": 1]>
g (float[2] x) => (float[2] y) { t = acme.Foo(x)  u = Neg(t)  v = Dropout(u)  y = Relu(v) }"""


def test_what_onnx_runtime_still_refuses_is_named_and_counted(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "in").mkdir()
    for name, text in (("mended", None), ("refused", REFUSED), ("half", HALF), ("right", REFUSED.replace("acme.Foo", "Abs"))):
        onnx.save(onnx.load(GEMM) if text is None else onnx.parser.parse_model(text), tmp_path / "in" / f"{name}.onnx")
    command = ("fix", tmp_path / "in", "--select", "DEFAULT,GEN002", "--force", "--out", tmp_path / "out")
    for jobs in (1, 2):
        done = call(*command, "--jobs", jobs)
        assert done.code == 1
        assert done.out.count("still rejected by ONNX Runtime: ") == 2
        lines = done.out.splitlines()
        named = next(at for at, line in enumerate(lines) if line.startswith(f"{tmp_path / 'in' / 'refused.onnx'}: unchanged"))
        assert any("still rejected by ONNX Runtime: " in line and "acme" in line for line in lines[named + 1 :])
        counts = (
            "4 models: 1 repaired, 2 still rejected by ONNX Runtime, 1 unchanged; 1 loads now that ONNX Runtime rejected before"
        )
        assert counts in done.err
    report = json.loads(call(*command, "--format", "json").out)
    assert (report["exit_code"], report["summary"]["refused"]) == (1, 2)
    found = {Path(model["path"]).stem: (model["status"], bool(model["remaining"])) for model in report["models"]}
    assert found == {
        "half": ("changed", True), "mended": ("changed", False), "refused": ("refused", True), "right": ("unchanged", False)
    }  # fmt: skip
    unasked = call(*command, "--runtime", "no")
    assert (unasked.code, "rejected by" in unasked.out + unasked.err) == (0, False)


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (
            "GEN060",
            """<ir_version: 8, opset_import: ["": 17]>
            g (float[2,5,4] x, float[1,12,4] w, float[1,12,3] r, float[2,1,3] h) => (float[2,5,1,3] y, float[2,1,3] cell) {
              y, , cell = LSTM<hidden_size=3, layout=1>(x, w, r, , , h, h)
            }""",
        ),
        (
            "GEN061",
            """<ir_version: 10, opset_import: ["": 22]>
            g (float[1,2,4,4] x, float[3,4] regions) => (float[3,2,2,2] y) <int64[3] images = {0, 0, 0}> {
              y = RoiAlign<output_height=2, output_width=2>(x, regions, images)
            }""",
        ),
    ],
)
def test_what_onnx_runtime_has_no_kernel_for_gives_the_outputs_of_the_reference(
    call: Call, tmp_path: Path, rule: str, text: str
) -> None:
    """ONNX Runtime rejects such a node as it loads the model."""
    runtime = pytest.importorskip("onnxruntime")
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    done = call("fix", tmp_path / "net.onnx", "-o", tmp_path / "fixed.onnx")
    assert done.code == 0 and f"  {rule} " in done.out and "-> loads and runs now" in done.out
    rng = np.random.default_rng(0)
    session = runtime.InferenceSession(tmp_path / "fixed.onnx")
    feed = {one.name: rng.uniform(0, 3, one.shape).astype(np.float32) for one in session.get_inputs()}
    reference = ReferenceEvaluator(str(tmp_path / "net.onnx")).run(None, feed)
    for found, wanted in zip(session.run(None, feed), reference, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "gates", "made"), [("LSTM", 4, "y, h, c"), ("GRU", 3, "y, h")])
def test_a_double_layer_with_a_bias_is_repaired(call: Call, tmp_path: Path, op: str, gates: int, made: str) -> None:
    """As PyTorch writes it; ONNX Runtime loads the model, and refuses to run it."""
    pytest.importorskip("onnxruntime")
    text = f"""<ir_version: 8, opset_import: ["": 17]>
      g (double[3,2,6] x, double[1,{gates * 5},6] w, double[1,{gates * 5},5] r, double[1,{gates * 10}] b)
        => (double[3,1,2,5] y) {{ {made} = {op}<hidden_size=5>(x, w, r, b) }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    assert "does not support double" in call("run", tmp_path / "net.onnx").err
    done = call("fix", tmp_path / "net.onnx", "-o", tmp_path / "fixed.onnx")
    assert done.code == 0 and "  TYP039 " in done.out
    assert "  ONNX Runtime failed to run it: " in done.out and "-> runs now" in done.out
    assert call("run", tmp_path / "fixed.onnx").code == 0
