"""`--resume` and `--update`: a later run does what is left, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import onnx
import pytest

from rewriter.app.batch.journal import Journal
from tests.cli.call import GEMM, Call

NOTHING = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder of models: one with something to repair and its source file, two without, one that is none."""
    folder = tmp_path / "in"
    (folder / "net").mkdir(parents=True)
    shutil.copy(GEMM, folder / "net" / "model.onnx")
    shutil.copy(GEMM.with_name(f"{GEMM.stem}-symbol.json"), folder / "net" / "model-symbol.json")
    for name in ("a.onnx", "b.onnx"):
        onnx.save(onnx.parser.parse_model(NOTHING), folder / name)
    (folder / "c.onnx").write_bytes(b"no model")
    return folder


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """What is in a folder, and when it was written."""
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in found}


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in folder.with_name(f"{folder.name}.journal.jsonl").read_text().splitlines()]


def test_a_later_run_does_what_is_left(call: Call, models: Path, tmp_path: Path) -> None:
    out, call_ = tmp_path / "out", ("fix", models, "--out", tmp_path / "out")
    assert call(*call_).code == 2
    before = files(out)
    assert sorted(before) == ["a.onnx", "b.onnx", os.path.join("net", "model.onnx")]
    head, *entries = lines(out)
    assert (head["journal"], head["command"]) == (1, "fix")
    assert {entry["model"]: entry["verdict"] for entry in entries} == {
        "a.onnx": "unchanged",
        "b.onnx": "unchanged",
        "c.onnx": "failed",
        "net/model.onnx": "changed",
    }

    refused = call(*call_)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "3 of 4 results exist" in refused.err and "--update" in refused.err and "--resume" in refused.err

    (models / "c.onnx").unlink()
    again = call(*call_, "--update", "--report", tmp_path / "r.json")
    assert again.err.splitlines()[0] == "update: 1 removed, 3 as they were"
    assert again.err.splitlines()[1].startswith(
        "3 models: 1 repaired, 2 unchanged; 1 loads now that ONNX Runtime rejected before; 1 rewrite by 1 rule; "
    )
    assert (again.code, files(out)) == (0, before)
    report = json.loads((tmp_path / "r.json").read_text())
    assert [(Path(one["path"]).name, one["status"], one["earlier"]) for one in report["models"]] == [
        ("a.onnx", "unchanged", True),
        ("b.onnx", "unchanged", True),
        ("model.onnx", "changed", True),
    ]

    (out / "a.onnx").unlink()
    with open(out.with_name("out.journal.jsonl"), "a") as journal:
        journal.write('{"model": "b.o')  # a process ended in the midst of a line
    done = call(*call_, "--resume")
    assert done.err.splitlines()[0] == "resume: 2 of 3 are done, 1 left"
    assert {name: data for name, (data, _) in files(out).items()} == {name: data for name, (data, _) in before.items()}

    onnx.save(onnx.parser.parse_model(NOTHING.replace("Relu", "Abs")), models / "b.onnx")
    (models / "net" / "model-symbol.json").unlink()
    (models / "a.onnx").unlink()
    shutil.copy(GEMM, models / "new.onnx")
    done = call(*call_, "--update")
    assert done.err.splitlines()[0] == "update: 2 changed, 1 new, 1 removed, 0 as they were"
    assert sorted(files(out)) == ["b.onnx", os.path.join("net", "model.onnx"), "new.onnx"]

    other = call(*call_, "--resume", "--ignore", "MX001")
    assert (other.code, other.err.count("\n")) == (2, 1)
    assert "the finished results were made with other rules; --update makes them again" in other.err


def test_results_without_a_line_count_when_they_are_right(call: Call, models: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (models / "c.onnx").unlink()
    out.mkdir()
    shutil.copy(models / "a.onnx", out / "a.onnx")
    (out / "b.onnx").write_bytes(b"of somebody else")
    done = call("fix", models, "--out", out, "--resume")
    assert done.code == 2
    assert "b.onnx exists, and the journal does not list it as a result; --force overwrites it" in done.err
    assert (out / "b.onnx").read_bytes() == b"of somebody else"
    assert (out / "a.onnx").read_bytes() == (models / "a.onnx").read_bytes()
    assert "a.onnx" in Journal(tmp_path / "out.journal.jsonl")


@pytest.mark.parametrize("mode", ["--resume", "--update"])
def test_a_file_of_somebody_else_stays_in_each_later_run(call: Call, models: Path, tmp_path: Path, mode: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "b.onnx").write_bytes(b"of somebody else")
    for options in ([], [mode], [mode]):
        assert call("fix", models, "--out", out, *options).code == 2
        assert (out / "b.onnx").read_bytes() == b"of somebody else"
    assert call("fix", models, "--out", out, "--force").code == 2  # c.onnx
    assert (out / "b.onnx").read_bytes() == (models / "b.onnx").read_bytes()


def test_a_model_that_failed_in_between_replaces_its_older_result(call: Call, models: Path, tmp_path: Path) -> None:
    out, call_ = tmp_path / "out", ("fix", models, "--out", tmp_path / "out", "--update")
    (models / "c.onnx").unlink()
    for data, code in ((None, 0), (b"no model", 2), (GEMM.read_bytes(), 0)):
        if data is not None:
            (models / "b.onnx").write_bytes(data)
        assert call(*call_).code == code
    assert onnx.load(out / "b.onnx").graph.node[0].op_type == "Flatten"
    (models / "b.onnx").write_bytes(b"no model")
    assert call(*call_).code == 2
    (models / "b.onnx").unlink()
    assert "1 removed" in call(*call_).err and not (out / "b.onnx").exists()


def test_what_somebody_changed_is_not_removed(call: Call, models: Path, tmp_path: Path) -> None:
    shutil.rmtree(models / "net")
    (models / "c.onnx").unlink()
    out = tmp_path / "out"
    assert call("fix", models, "--out", out).code == 0
    for name in ("a.onnx", "b.onnx"):
        (models / name).rename(models / f"{name}.old")
    shutil.copy(models / "a.onnx.old", models / "d.onnx")
    (out / "b.onnx").write_bytes(b"mine")
    done = call("fix", models, "--out", out, "--update")
    assert done.err.splitlines()[0] == "update: 1 new, 1 removed, 0 as they were"
    assert "the model is gone, but somebody changed the result, so it stays" in done.err.splitlines()[1]
    assert sorted(path.name for path in out.iterdir()) == ["b.onnx", "d.onnx"]


def test_a_journal_is_a_journal(call: Call, models: Path, tmp_path: Path) -> None:
    (tmp_path / "out.journal.jsonl").write_text('{"a": 1}\n')
    done = call("fix", models, "--out", tmp_path / "out", "--update")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "this is no journal of rewriter" in done.err
    hostile = '{"journal": 1, "key": "k"}\n{"model": "../in/a.onnx", "input": "/none", "files": {}}\n[]\n'
    (tmp_path / "j").write_text(hostile)
    journal = Journal(tmp_path / "j")
    assert (len(journal), journal.entry("../in/a.onnx")) == (0, None)


def test_two_results_of_one_name_get_a_way_out(call: Call, models: Path, tmp_path: Path) -> None:
    (models / "net" / "a.onnx").write_bytes(b"")
    done = call("fix", models / "a.onnx", models / "net", "--out", tmp_path / "p")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "name the folder above both instead, " in done.err
