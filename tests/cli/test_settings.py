"""What a configuration does to the commands, on real exports."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.call import GEMM, MODELS, POOL, Call
from tests.surgery import texts


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two models, in which one works."""
    (tmp_path / ".git").mkdir()
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    for path in MODELS.glob(f"{GEMM.stem}*"):
        shutil.copy(path, tmp_path / "old" / path.name.replace(GEMM.stem, "gemm"))
    for path in MODELS.glob(f"{POOL.stem}*"):
        shutil.copy(path, tmp_path / "new" / path.name.replace(POOL.stem, "pool"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configure(project: Path, text: str) -> None:
    (project / "rewriter.toml").write_text(text)


def counts(call: Call, *arguments: object) -> dict[str, dict[str, int]]:
    done = call("check", ".", "--format", "json", *arguments)
    return {model["path"]: model["counts"] for model in json.loads(done.out)["models"]}


def test_the_file_decides_and_the_command_line_goes_before_it(call: Call, project: Path) -> None:
    assert counts(call) == {"new/pool.onnx": {"MX003": 1}, "old/gemm.onnx": {"MX001": 1}}
    configure(project, 'select = ["MX001"]')
    assert counts(call) == {"new/pool.onnx": {}, "old/gemm.onnx": {"MX001": 1}}
    assert counts(call, "--select", "MX003") == {"new/pool.onnx": {"MX003": 1}, "old/gemm.onnx": {}}
    assert counts(call, "--no-config")["new/pool.onnx"] == {"MX003": 1}
    (project / "other.toml").write_text('[tool.rewriter]\nignore = ["MX"]')
    assert counts(call, "--config", "other.toml") == {"new/pool.onnx": {}, "old/gemm.onnx": {}}


def test_settings_by_path(call: Call, project: Path) -> None:
    configure(project, '[[per-path]]\npath = "old/*"\nignore = ["MX001"]\n[[per-path]]\npath = "new/*"\nselect = ["NONE"]\n')
    assert counts(call) == {"new/pool.onnx": {}, "old/gemm.onnx": {}}
    assert counts(call, "--jobs", 2) == {"new/pool.onnx": {}, "old/gemm.onnx": {}}
    assert counts(call, "--select", "DEFAULT") == {"new/pool.onnx": {"MX003": 1}, "old/gemm.onnx": {}}
    configure(project, '[[per-path]]\npath = "old/*"\nignore = ["MX0O1"]')
    done = call("check", ".")
    assert done.code == 2
    assert done.err.startswith(f"rewriter: error: {project / 'rewriter.toml'}:3: no rule code starts with 'MX0O1'")


def test_settings_by_path_keep_the_recipe_of_a_target(call: Call, project: Path) -> None:
    text = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { t = Identity(x)  y = Relu(t) }'
    net = texts.written(project, text)
    configure(project, 'target = ["mnn"]')
    assert call("fix", net, "-o", "a.onnx", "--runtime", "no").code == 0
    assert (project / "a.onnx").read_bytes() != net.read_bytes()
    configure(project, 'target = ["mnn"]\n[[per-path]]\npath = "*"\nignore = ["TF001"]')
    assert call("fix", net, "-o", "b.onnx", "--runtime", "no").code == 0
    assert (project / "b.onnx").read_bytes() == (project / "a.onnx").read_bytes()


def test_suppressions(call: Call, project: Path) -> None:
    configure(
        project,
        '[[suppress]]\nrule = "MX001"\nnode = "fc*"\nreason = "the old runtime flattens"\n'
        '[[suppress]]\nrule = "MX003"\nnode = "conv*"\nreason = "none of these"\n'
        '[[suppress]]\nrule = "MX"\npath = "elsewhere/*"\nreason = "not here"\n',
    )
    done = call("fix", ".", "--out", project / "out", "--runtime", "no")
    assert done.code == 0
    assert "suppressed MX001 fc1 (Gemm): the old runtime flattens" in done.out
    assert (project / "out" / "old" / "gemm.onnx").read_bytes() == (project / "old" / "gemm.onnx").read_bytes()
    assert (project / "out" / "new" / "pool.onnx").read_bytes() != (project / "new" / "pool.onnx").read_bytes()
    warnings = [line for line in done.err.splitlines() if "warning" in line]
    assert warnings == [f"{project / 'rewriter.toml'}:5: warning: this suppression of MX003 has no effect"]
    why = call("why", "MX001", "old/gemm.onnx").out
    assert f"{project / 'rewriter.toml'}:1 suppresses MX001 at fc*: the old runtime flattens" in why
    found = json.loads(call("check", "old", "--format", "json").out)["models"][0]
    assert found["counts"] == {}
    assert [(one["rule"], one["root"], one["reason"]) for one in found["suppressed"]] == [
        ("MX001", "fc1", "the old runtime flattens")
    ]


def test_show_settings(call: Call, project: Path) -> None:
    configure(project, 'jobs = 2\nverify = true\n[[suppress]]\nrule = "MX001"\nreason = "so"\n')
    lines = [line.split("  ", 1) for line in call("fix", "--show-settings", "--no-verify", "--select", "PT").out.splitlines()]
    origins = {line[0].strip(): line[1].strip() for line in lines if len(line) == 2}
    assert origins["jobs = 2"] == f"{project / 'rewriter.toml'}:1"
    assert origins["verify = false"] == "--no-verify"
    assert origins['select = ["PT"]'] == "--select"
    assert origins['source = "auto"'] == "default"
    assert origins["suppress MX001: so"] == f"{project / 'rewriter.toml'}:3"
    told = json.loads(call("check", "--show-settings", "--format", "json").out)
    assert told["settings"]["jobs"] == {"value": 2, "origin": f"{project / 'rewriter.toml'}:1"}


def test_a_wrong_file_stops_a_call_in_one_line(call: Call, project: Path) -> None:
    configure(project, "jobs = 0")
    done = call("fix", "old", "--out", "out")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"rewriter: error: {project / 'rewriter.toml'}:1: `jobs` is a positive number\n"
    assert not (project / "out").exists()
    assert call("explain", "E103").code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('target = ["tensort"]', "there is no target 'tensort'; did you mean tensorrt?"),
        ('select = ["ZZZ1"]', "no rule code starts with 'ZZZ1'"),
        ('ignore = ["ZZZ1"]', "no rule code starts with 'ZZZ1'"),
        (
            "set = { SURG010.batches = 1 }",
            "cannot set SURG010.batches: rule SURG010 has no parameter 'batches'; it has batch, size",
        ),
        ("set = { SURG010.batch = [1] }", "SURG010.batch: '[1]' is not a length or a name"),
        ("set = { SURG010.batch = -1 }", "SURG010.batch: '-1' is not a length or a name"),
    ],
)
def test_a_wrong_word_is_named_with_its_line(call: Call, project: Path, text: str, message: str) -> None:
    configure(project, f"jobs = 1\n{text}")
    for done in (call("check", "old"), call("why", "MX001", "old/gemm.onnx")):
        assert (done.code, done.out) == (2, "")
        assert done.err == f"rewriter: error: {project / 'rewriter.toml'}:2: {message}\n"
    configure(project, "jobs = 1")
    assert call("check", "old", "--select", "ZZZ1").err == "rewriter: error: no rule code starts with 'ZZZ1'\n"


def test_a_path_without_rules_is_an_error(call: Call, project: Path) -> None:
    (project / "empty").mkdir()
    (project / "comment.rules").write_text("# nothing\n")
    for path in ("empty", "comment.rules"):
        for options in (("--extend", path), ("--rules", path), ("--rules", "shipped", "--rules", path)):
            done = call("check", "old", *options)
            assert (done.code, done.err) == (2, f"rewriter: error: {path}: there is no rule in it\n")


@pytest.mark.parametrize("text", [None, "[tool.ruff]\nline-length = 100\n"])
def test_without_a_table_no_toml_is_parsed(project: Path, text: str | None) -> None:
    if text is not None:
        (project / "pyproject.toml").write_text(text)
    program = (
        "import sys, rewriter.app.cli.main as m\n"
        "assert m.main(['fix', '--show-settings']) == 0\n"
        "assert not {'tomllib', 'tomli'} & set(sys.modules)\n"
    )
    path = [str(Path(__file__).parents[2])]
    done = subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {path!r}\n{program}"], capture_output=True)
    assert done.returncode == 0, done.stderr


def test_rules_beside_the_file(call: Call, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "mine").mkdir()
    (project / "mine" / "one.rules").write_text(
        "/// Nothing.\nrule ACME001 nothing <kind: exact>\nmatch { y = Identity(x) }\nrewrite { y = x }\n"
    )
    configure(project, 'rules = ["mine"]')
    monkeypatch.chdir(project / "old")
    assert [line.split()[0] for line in call("rules").out.splitlines()] == ["any", "ACME001*"]
    assert call("rule", "MX001", "--rules", "shipped").code == 0
