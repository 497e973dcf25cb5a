"""The cells of the notebooks run, without the start of a kernel for each; docs/run_notebooks.py executes them in kernels."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from rewriter.app.cli.main import main

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))


def command(line: str) -> None:
    """What `!rewriter ...` is, within this process."""
    assert main(shlex.split(line)) in (0, 1), line


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_run(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(path.parent)  # cells change the folder; this brings the test back
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    known: dict[str, object] = {"command": command}
    for cell in cells:
        assert not cell.get("outputs"), "kept without outputs"
        if cell["cell_type"] == "code":
            text = re.sub(r"(?m)^!rewriter (.*)$", lambda found: f"command({found[1]!r})", "".join(cell["source"]))
            exec(compile(text, path.name, "exec"), known)
    assert "Traceback" not in capsys.readouterr().err


def test_there_are_five() -> None:
    assert len(NOTEBOOKS) == 5
