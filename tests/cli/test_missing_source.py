"""What `fix` and `check` say where the symbol file of an MXNet model is missing, or is that of another model."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

import pytest

from tests.cli.call import GAMMA, GEMM, MODELS, POOL, Call

NEEDED = "3 rules for MXNet need the symbol file"
BESIDE = f"{NEEDED}: put net-symbol.json next to the model or pass --source net-symbol.json"


@pytest.fixture
def net(tmp_path: Path) -> Path:
    return Path(shutil.copy(GAMMA, tmp_path / "net.onnx"))


def test_the_file_is_missing(call: Call, net: Path) -> None:
    assert f"note: {BESIDE}\n" in call("check", net).out
    assert f"note: {BESIDE}\n" in call("fix", net, "-o", net.with_name("fixed.onnx")).out


def test_a_name_with_a_space_is_quoted_in_commands(call: Call, tmp_path: Path) -> None:
    net = Path(shutil.copy(GAMMA, tmp_path / "my net.onnx"))
    assert "put my net-symbol.json next to the model or pass --source 'my net-symbol.json'\n" in call("check", net).out
    assert f"rewriter fix '{net}' -o '{net.with_name('my net.fixed.onnx')}'" in call(net).err
    (tmp_path / "a folder").mkdir()
    assert f"rewriter fix '{tmp_path}/a folder' --out '{tmp_path}/a folder.fixed'" in call(tmp_path / "a folder").err


def test_a_model_that_does_not_change_is_told_too(call: Call, net: Path) -> None:
    done = call("fix", net, "-o", net.with_name("fixed.onnx"), "--ignore", "MX005")
    assert "unchanged" in done.out and BESIDE in done.out


def test_the_file_is_that_of_another_model(call: Call, net: Path) -> None:
    shutil.copy(POOL.with_name(f"{POOL.stem}-symbol.json"), net.with_name("net-symbol.json"))
    said = call("check", net).out
    assert "source file not used: " in said and f"note: {NEEDED} of this model\n" in said


def test_the_file_is_there_or_is_not_wanted(call: Call, net: Path) -> None:
    assert NEEDED not in call("check", net, "--source", "none").out
    shutil.copy(GAMMA.with_name(f"{GAMMA.stem}-symbol.json"), net.with_name("net-symbol.json"))
    assert NEEDED not in call("check", net).out


def test_only_rules_whose_operators_the_model_has_are_counted(call: Call, tmp_path: Path) -> None:
    assert "need the symbol file" not in call("check", MODELS / "pytorch-2.13-max-pool-of-an-image" / "model.onnx").out
    said = call("check", shutil.copy(GEMM, tmp_path / "gemm.onnx")).out
    assert (
        "rules for MXNet need the symbol file" not in said and "1 rule for MXNet needs the symbol file: put gemm-symbol" in said
    )


def test_no_rule_that_runs_needs_it(call: Call, net: Path) -> None:
    assert "symbol file" not in call("check", net, "--select", "MX005").out


def test_a_model_of_the_standard_input_has_no_folder(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GAMMA.read_bytes())))
    assert f"note: {NEEDED}: pass --source NET-symbol.json\n" in call("check", "-").out
