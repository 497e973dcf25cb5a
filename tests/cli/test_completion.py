"""Words that a shell may offer, asked for as argcomplete asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

POOL = Path(__file__).parent.parent / "models" / "pytorch-2.13-max-pool-of-an-image" / "model.onnx"


def offered(line: str, tmp_path: Path) -> list[str]:
    """What argcomplete writes when a shell completes a line."""
    answers = tmp_path / "answers"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answers),
        "_ARGCOMPLETE_SUPPRESS_SPACE": "1",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    done = subprocess.run([sys.executable, "-m", "rewriter"], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return answers.read_text().split("\n")


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("rewriter ch", "check"),
        ("rewriter fix --in-pl", "--in-place"),
        ("rewriter fix --select MX00", "MX001"),
        ("rewriter fix --select MX001,pt03", "MX001,pt030"),
        ("rewriter check --target ten", "tensorrt"),
        ("rewriter rule JAX", "JAX001"),
        ("rewriter explain e10", "e103"),
        ("rewriter help pla", "plan"),
        (f"rewriter why PT030 {POOL} /", "/MaxPool"),
    ],
)
def test_the_words_that_may_follow(line: str, word: str, tmp_path: Path) -> None:
    assert word in offered(line, tmp_path)


def test_a_model_that_cannot_be_read_has_no_nodes(tmp_path: Path) -> None:
    assert offered(f"rewriter why PT030 {__file__} /zz", tmp_path) == [""]
