"""`--report` and `--format`: files that are whole, in order, and never in place of something else."""

from __future__ import annotations

import json
import os
import re
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import jsonschema
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewriter.app.report.formats import ENDINGS
from tests.cli.call import GEMM, MODELS, POOL, Call, contents

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "schema" / "report.json").read_text(encoding="utf-8"))


def loaded(path: Path) -> Any:
    whole = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(whole, SCHEMA)
    return whole


def without_times(text: str) -> str:
    """A report without what differs from one call to the next."""
    text = re.sub(r'("(?:micro)?seconds": )[\d.e-]+', r"\1T", text)
    text = re.sub(r"<b>[\d.]+</b><span>seconds", "T", text)
    return re.sub(r'time="[\d.]+"|\d+\.\d s,|"\d+"\r|(?<="kept","",)"\d+"|\d[\d.,]* (?:s|ms|us|\u00b5s)\b', "T", text)


def hash_of(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def test_one_call_writes_all_formats(call: Call, tmp_path: Path) -> None:
    reports = [tmp_path / "reports" / f"r{number}{ending}" for number, ending in enumerate(ENDINGS)]
    options = [text for path in reports for text in ("--report", path)]
    done = call("fix", GEMM, "-o", tmp_path / "fixed.onnx", *options)
    assert done.code == 0
    assert done.out.startswith(f"{GEMM}: 1 rewrite -> ")
    assert sorted(path.name for path in (tmp_path / "reports").iterdir()) == sorted(path.name for path in reports)
    assert all("MX001" in path.read_text(encoding="utf-8") for path in reports)


def test_the_record_of_a_repair(call: Call, tmp_path: Path) -> None:
    fixed = tmp_path / "fixed.onnx"
    assert call("fix", GEMM, "-o", fixed, "--verify", "--report", tmp_path / "r.json").code == 0
    whole = loaded(tmp_path / "r.json")
    (model,) = whole["models"]
    files = {file["role"]: file for file in model["files"]}
    assert files["input"] == {"role": "input", "path": str(GEMM), "sha256": hash_of(GEMM), "bytes": GEMM.stat().st_size}
    assert files["output"]["sha256"] == hash_of(fixed)
    assert files["source"]["sha256"] == hash_of(GEMM.with_name(f"{GEMM.stem}-symbol.json"))
    assert (model["stop"], model["counts"]) == ("fixpoint", {"MX001": 1})
    assert [judged["refusal"] for judged in model["judged"]] == [""] * 5
    (firing,) = model["firings"]
    assert (firing["verdict"], firing["parents"], firing["matched"]) == ("kept", [], ["fc1"])
    assert firing["conditions"][0] == {
        "text": "rank(x) > 2",
        "value": "true",
        "found": "rank(x) is 4; x is 'data', an input of the graph",
    }
    assert [weight["type"] for weight in firing["weights"]] == ["float[5,324]", "float[5]"]
    assert [rule["code"] for rule in whole["rules"]] == ["MX001"]
    assert len(whole["rule_set"]["sha256"]) == 64


def test_a_check_judges_nothing(call: Call, tmp_path: Path) -> None:
    assert call("check", GEMM, "--report", tmp_path / "r.json").code == 1
    (model,) = loaded(tmp_path / "r.json")["models"]
    assert (model["status"], model["judged"], model["firings"][0]["verdict"]) == ("findings", [], "found")
    assert "output" not in {file["role"] for file in model["files"]}


def test_exact_rewrites_that_were_compared_are_verified(call: Call, tmp_path: Path) -> None:
    chain = MODELS / "pytorch-2.13-reshape-chain.onnx"
    options = ("--select", "PT001,GEN002", "--verify", "--report", tmp_path / "r.json")
    assert call("fix", chain, "-o", tmp_path / "fixed.onnx", *options).code == 0
    (model,) = loaded(tmp_path / "r.json")["models"]
    assert model["verification"]["verdict"] == "agree"
    assert {(firing["kind"], firing["verdict"]) for firing in model["firings"]} == {("exact", "verified")}


def test_the_format_json_is_the_report(call: Call, tmp_path: Path) -> None:
    printed = call("check", GEMM, "--format", "json", "--report", tmp_path / "r.json").out
    assert without_times(printed) == without_times((tmp_path / "r.json").read_text(encoding="utf-8"))


def test_processes_write_and_say_the_same(call: Call, tmp_path: Path) -> None:
    reports = [tmp_path / f"r{ending}" for ending in sorted(set(ENDINGS))]
    options = [option for report in reports for option in ("--report", report)]
    for folder in sorted(path for path in MODELS.iterdir() if path.is_dir())[::8]:
        shutil.copytree(folder, tmp_path / "in" / folder.name)
    results = []
    for jobs in (1, 2):
        done = call("fix", tmp_path / "in", "--out", tmp_path / "out", "--force", "--jobs", jobs, *options)
        texts = [without_times(report.read_bytes().decode("utf-8")) for report in reports]
        results.append((done.code, done.out, contents(tmp_path / "out"), texts))
        for report in reports:
            report.unlink()
    assert results[0] == results[1]


def test_models_that_fail_are_in_the_report(call: Call, tmp_path: Path) -> None:
    (tmp_path / "a.onnx").write_text("<html>not a model</html>")
    shutil.copy(GEMM, tmp_path / "b.onnx")
    assert call("check", tmp_path, tmp_path / "none.onnx", "--report", tmp_path / "r.json").code == 2
    whole = loaded(tmp_path / "r.json")
    assert [Path(model["path"]).name for model in whole["models"]] == ["a.onnx", "b.onnx", "none.onnx"]
    assert [(model["status"], model["stop"]) for model in whole["models"]] == [
        ("failed", None),
        ("findings", "fixpoint"),
        ("failed", None),
    ]
    assert whole["models"][2]["files"] == []


def test_weights_beside_the_model_are_hashed(call: Call, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    model = onnx.load(GEMM)
    for tensor in model.graph.initializer:  # only raw data are written beside the model
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))
    onnx.save(model, tmp_path / "in" / "net.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    options = ("--source", GEMM.with_name(f"{GEMM.stem}-symbol.json"), "--report", tmp_path / "r.json")
    assert call("fix", tmp_path / "in", "--out", tmp_path / "out", *options).code == 0
    files = {file["role"]: file for file in loaded(tmp_path / "r.json")["models"][0]["files"]}
    assert files["input data"]["path"] == "w.bin"
    assert files["input data"]["sha256"] == files["output data"]["sha256"] == hash_of(tmp_path / "out" / "w.bin")


def test_an_existing_report_is_replaced(call: Call, tmp_path: Path) -> None:
    (tmp_path / "r.md").write_text("old")
    call("check", GEMM, "--report", tmp_path / "r.md")
    assert (tmp_path / "r.md").read_text(encoding="utf-8").startswith("# rewriter check: 1 finding in 1 model\n")
    assert [path.name for path in tmp_path.iterdir()] == ["r.md"]


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        (["r.txt"], "r.txt: unsupported format; use .html, "),
        (["r.md", "./r.md"], "would overwrite"),
        (["out.json"], "would overwrite"),
        (["net.json"], "would overwrite"),
        (["file/r.md"], "file"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is_done(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reports: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(GEMM, tmp_path / "net.json")
    (tmp_path / "file").write_text("")
    options = [text for path in reports for text in ("--report", path)]
    done = call("fix", "net.json", "-o", "out.json", *options)
    assert done.code == 2
    assert words in done.err
    assert done.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "net.json"]


def test_a_source_that_was_found_is_not_overwritten(call: Call, tmp_path: Path) -> None:
    shutil.copy(GEMM, tmp_path / "net.onnx")
    source = tmp_path / "net-symbol.json"
    shutil.copy(GEMM.with_name(f"{GEMM.stem}-symbol.json"), source)
    before = source.read_bytes()
    done = call("check", tmp_path / "net.onnx", "--report", source)
    assert done.code == 2
    assert "the framework's own file" in done.err
    assert source.read_bytes() == before


def test_annotations_for_a_workflow(call: Call, tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_text("<html>")
    done = call("check", GEMM, tmp_path / "bad.onnx", "--format", "github", "--runtime", "no")
    assert done.code == 2
    first, second = done.out.splitlines()
    assert first.startswith(f"::error file={GEMM},title=MX001 ")
    assert first.endswith("::fc1 (Gemm)")
    assert second.startswith(f"::error file={tmp_path / 'bad.onnx'},title=cannot be worked on::")
    assert done.err.startswith("2 models: ")
    assert "bad.onnx" not in done.err


def test_names_of_a_hostile_model(call: Call, tmp_path: Path) -> None:
    name = "\x1b[2J::error::<script>alert(1)</script>\n=1+1"
    node = helper.make_node("AveragePool", ["x"], [name], name, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    shapes = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 1, 5, 5]) for n in ("x", name)]
    graph = helper.make_graph([node], "g", shapes[:1], shapes[1:])
    model = helper.make_model(graph, producer_name="mxnet", opset_imports=[helper.make_opsetid("", 7)])
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    reports = [tmp_path / f"r{number}{ending}" for number, ending in enumerate(ENDINGS)]
    options = [text for report in reports for text in ("--report", report)]
    done = call("check", path, "--format", "github", "--select", "MX061", *options)
    assert "MX061" in done.out
    for text in (done.out, done.err, *(report.read_text(encoding="utf-8") for report in reports)):
        assert "\x1b" not in text
        assert not any(line.startswith("::") and " file=" not in line for line in text.splitlines())
    for ending, report in zip(ENDINGS, reports, strict=True):
        if ending not in (".json", ".sarif", ".csv", ".md"):
            assert "<script>alert" not in report.read_text(encoding="utf-8")


def test_a_batch_report_is_in_the_order_of_the_input(call: Call, tmp_path: Path) -> None:
    call("check", POOL, GEMM, POOL.parent / "pytorch-2.13-reshape-chain.onnx", "--jobs", 3, "--report", tmp_path / "r.json")
    paths = [Path(model["path"]).name for model in loaded(tmp_path / "r.json")["models"]]
    assert paths == [POOL.name, GEMM.name, "pytorch-2.13-reshape-chain.onnx"]


def test_rules_that_were_not_tried_are_told_once_for_all_models(call: Call, tmp_path: Path) -> None:
    call("check", POOL, "--select", "PT", "--runtime", "no", "--report", tmp_path / "one.json")
    call("check", POOL, GEMM, "--select", "PT", "--runtime", "no", "--report", tmp_path / "r.json")
    whole, one = loaded(tmp_path / "r.json"), loaded(tmp_path / "one.json")
    by_reason = {skipped["reason"]: skipped for skipped in whole["skipped"]}
    other = by_reason["the exporter is mxnet, not pytorch; select a rule by its code to try it anyway"]
    assert other["models"] == 2 and "PT030" in other["rules"]
    assert [model["skipped"] for model in whole["models"]][:2] == [one["models"][0]["skipped"]] * 2
    assert len(json.dumps(one["skipped"])) < 4000
    assert one["schema"] == 2


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="the system has no folder that nobody can write to")
def test_a_folder_that_cannot_be_written_ends_the_call_before_any_work(call: Call) -> None:
    done = call("check", GEMM, "--report", "/proc/r.html")
    assert (done.code, done.out, done.err.startswith("rewriter: error: /proc/r.html: ")) == (2, "", True)
