"""What other tools read of this repository: the hooks of pre-commit and the GitHub action run as they are written."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parent.parent
EXPORT = ROOT / "tests" / "models" / "pytorch-2.13-max-pool-of-an-image" / "model.onnx"
RULE = ROOT / "rules" / "pytorch" / "PT030_pool-of-an-image-without-batch.rules"
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())


@pytest.fixture
def tools(tmp_path: Path) -> dict[str, str]:
    """An environment in which `rewriter` is this checkout's."""
    script = tmp_path / "bin" / "rewriter"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m rewriter "$@"\n')
    script.chmod(0o755)
    return {**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(
    ("hook", "file", "code", "said"),
    [
        ("rewriter-check", EXPORT, 1, "PT030"),
        ("rewriter-fmt", RULE, 0, ""),
        ("rewriter-test", RULE, 0, "passed"),
    ],
)
def test_a_hook_runs_on_its_files(hook: str, file: Path, code: int, said: str, tools: dict[str, str], tmp_path: Path) -> None:
    (entry,) = [one for one in HOOKS if one["id"] == hook]
    copy = shutil.copy(file, tmp_path)
    done = subprocess.run([*shlex.split(entry["entry"]), copy], env=tools, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == code and said in done.stdout + done.stderr
    assert Path(copy).read_bytes() == file.read_bytes()


def test_the_action_annotates_and_writes_sarif(tools: dict[str, str], tmp_path: Path) -> None:
    action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    (step,) = [step for step in action["runs"]["steps"] if "rewriter check" in step.get("run", "")]
    assert set(step["env"]) == {"PATHS", "OPTIONS", "SARIF"}
    (tmp_path / "exported").mkdir()
    shutil.copy(EXPORT, tmp_path / "exported")
    given = {"PATHS": "exported", "OPTIONS": "--select DEFAULT --no-config", "SARIF": "out.sarif"}
    done = subprocess.run(["bash", "-c", step["run"]], env={**tools, **given}, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "::error file=exported/model.onnx" in done.stdout
    report = json.loads((tmp_path / "out.sarif").read_text())
    assert "PT030" in {result["ruleId"] for result in report["runs"][0]["results"]}


def test_what_the_version_is_called_agrees() -> None:
    import rewriter

    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == rewriter.__version__
    assert f"## [{rewriter.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
