"""What the README shows is so."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rewriter.cli.main import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
RULES = re.findall(r"^```rules\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(RULES)))
def test_the_rules_pass_their_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str], number: int) -> None:
    (tmp_path / "readme.rules").write_text(RULES[number])
    assert main(["test", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "error" not in printed.err


def test_the_first_command_prints_what_is_shown(tmp_path: Path) -> None:
    command = next(line for line in README.splitlines() if line.startswith("    pip install . && "))
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
        timeout=60,
    )
    assert done.returncode == 0
    assert done.stdout.replace(fixed, arguments[target]).rstrip() == expected


def test_every_command_is_named() -> None:
    for command in ("fix", "check", "picture", "rules", "rule", "test", "coverage", "fmt", "explain"):
        assert f"rewriter {command}" in README
