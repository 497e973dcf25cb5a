"""`rewriter new-pack`: what it writes is a package that installs, is found, tests itself, and is named in a record."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

from rewriter.app.cli.main import main
from rewriter.rule_tools.load_rules import packs
from tests.cli.call import Call
from tests.surgery import texts

ONE = Path(__file__).parent.parent.parent / "rules" / "mxnet" / "MX001_gemm-input-not-flattened.rules"
MODEL = '<ir_version: 8, opset_import: ["": 13]> g (float[N,4] x) => (float[N,4] y) { h = Relu(x)  y = Abs(h) }'


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packs") / "acme-rules"
    assert main(["new-pack", "acme", "-o", str(folder)]) == 0
    return folder


def test_it_passes_its_own_tests(pack: Path) -> None:
    pytest.importorskip("onnxruntime")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent.parent)}
    call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(call, cwd=pack, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout


def test_it_installs_and_runs_beside_the_shipped_rules(
    call: Call, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec("setuptools") is None:
        pytest.skip("setuptools is not installed")
    site = tmp_path / "site"
    install = ["install", "-q", "--no-build-isolation", "--no-index", "--target", str(site), str(pack)]
    done = subprocess.run([sys.executable, "-m", "pip", *install], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    assert [(one.name, one.distribution) for one in packs()] == [("acme", "acme-rules 0.1.0")]
    assert (site / "acme_rules" / "rules" / "verified.lock.json").is_file()

    monkeypatch.chdir(tmp_path)
    (tmp_path / "rewriter.toml").write_text('extend = ["pack:acme"]\n')
    assert {"ACME001", "MX001"} <= {line.split()[0] for line in call("rules").out.splitlines()}
    net, out = texts.written(tmp_path, MODEL), tmp_path / "out.onnx"
    assert call("fix", net, "-o", out, "--rules", ONE).code == 0
    assert [node.op_type for node in onnx.load(out).graph.node] == ["Relu"]
    assert "pack      acme-rules 0.1.0" in call("history", out).out
    assert call("audit", net, out, "--rules", ONE).code == 0
    without = call("audit", net, out, "--rules", ONE, "--no-config")
    assert without.code == 1 and "rules of acme-rules 0.1.0 fired" in without.out


def test_options_and_configuration_add_up(call: Call, pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = pack / "acme_rules" / "rules"
    found = call("rules", "--rules", ONE, "--extend", rules).out
    assert [line.split()[0] for line in found.splitlines()] == ["any", "ACME001", "mxnet:", "MX001"]
    monkeypatch.chdir(pack)
    assert f'extend = ["{rules}"]' in call("rules", "--show-settings").out


@pytest.mark.parametrize("name", ["Acme", "a_b", "a--b", "class", "x" * 41, "1st", "a/b", ""])
def test_names_that_are_none(call: Call, tmp_path: Path, name: str) -> None:
    done = call("new-pack", name, "-o", tmp_path / "there")
    assert done.code == 2 and "no name of a pack" in done.err and not (tmp_path / "there").exists()


def test_nothing_is_overwritten(call: Call, tmp_path: Path) -> None:
    done = call("new-pack", "acme", "-o", tmp_path)
    assert done.code == 2 and "exists" in done.err and not list(tmp_path.iterdir())


def test_its_readme_begins_a_second_rule(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "acme-rules"
    assert call("new-pack", "acme", "-o", folder).code == 0
    (line,) = (line for line in (folder / "README.md").read_text().splitlines() if line.startswith("    rewriter new "))
    texts.written(folder, MODEL).rename(folder / "net.onnx")
    monkeypatch.chdir(folder)
    done = call(*line.replace("NODE", "h").split()[1:])
    assert done.code == 0 and "ACME002" in done.err, done.err
