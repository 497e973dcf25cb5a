"""What the README shows is so."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rewriter
from rewriter.app.cli.main import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
FIRST = '    pip install ".[verify]" && '
RULES = re.findall(r"^```rules\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(RULES)))
def test_the_rules_pass_their_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int) -> None:
    (tmp_path / "readme.rules").write_text(RULES[number])
    assert main(["test", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "error" not in printed.err


def test_the_first_command_prints_what_is_shown(tmp_path: Path) -> None:
    command = next(line for line in README.splitlines() if line.startswith(FIRST))
    arguments = shlex.split(command.split("&& rewriter")[1])
    target = arguments.index("-o") + 1
    shown = re.search(r"^    tests/models/.*?(?=^\S)", README, re.DOTALL | re.MULTILINE)
    assert shown is not None
    expected = re.sub(r"^    ", "", shown[0].rstrip(), flags=re.MULTILINE)
    fixed = str(tmp_path / arguments[target])
    done = subprocess.run(
        [sys.executable, "-m", "rewriter", *arguments[:target], fixed, *arguments[target + 1 :]],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    printed = (done.stdout + done.stderr).replace(fixed, arguments[target])
    assert re.sub(r"[\d.]+ s$", "0.3 s", printed.rstrip()) == re.sub(r"[\d.]+ s$", "0.3 s", expected)


def test_the_model_of_the_first_command_is_refused_before_and_right_after(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    command = next(line for line in README.splitlines() if line.startswith(FIRST))
    path = ROOT / command.split()[6]
    result = rewriter.fix(path, tmp_path / "fixed.onnx")
    assert f'rejected it: "{result.refused_before}"' in README
    assert result.refused_after == ""
    recorded = np.load(path.with_name("data.npz"))
    session = runtime.InferenceSession(str(tmp_path / "fixed.onnx"), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {entry.name: recorded[f"in_{entry.name}"] for entry in session.get_inputs()})
    np.testing.assert_array_equal(found, recorded["out_0"])


def test_the_example_in_python_does_what_the_command_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    gamma = ROOT / "tests" / "models" / "mxnet-1.4.1-fix-gamma.onnx"
    shutil.copy(gamma, tmp_path / "net.onnx")
    shutil.copy(gamma.with_name(f"{gamma.stem}-symbol.json"), tmp_path / "net-symbol.json")
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "net.onnx", "-o", "command.onnx"]) == 0
    exec(compile(example, "README.md", "exec"), {})
    assert Path("net.python.onnx").read_bytes() == Path("command.onnx").read_bytes()


def test_the_message_of_the_first_model_leads_to_its_rule(capsys: pytest.CaptureFixture[str]) -> None:
    (message,) = re.findall(r'rejected it: "(Node \(.*incorrect size)"', README)
    assert main(["rules", "--symptom", message]) == 0
    assert "PT030" in capsys.readouterr().out


def test_what_the_first_command_writes_is_not_for_git() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    assert subprocess.run(["git", "check-ignore", "-q", "fixed.onnx"], cwd=ROOT).returncode == 0


def test_how_many_tests_there_are(request: pytest.FixtureRequest) -> None:
    """The number is that of the last line of pytest, rounded down; a run of a part cannot say."""
    (said,) = re.findall(r"More than ([\d,]+)00 tests take \d+ minutes", README)
    count = len(request.session.items)
    files = {item.path for item in request.session.items}
    if len(files) < len([*(ROOT / "tests").rglob("test_*.py")]) - 2 or request.config.option.keyword:  # two may skip as a whole
        pytest.skip("a part of the tests")
    assert int(said.replace(",", "")) <= count // 100 <= 1.1 * int(said.replace(",", ""))


def test_it_is_short() -> None:
    assert README.count("\n") <= 120


def test_every_command_is_named() -> None:
    for command in ("fix", "check", "picture", "rules", "rule", "test", "coverage", "fmt", "explain"):
        assert f"rewriter {command}" in README
