"""The rules of the two cookbook pages are taken into other people's files as they stand, so they must be right as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rewriter.app.cli.main import main
from rewriter.rule_tools.lint.rule_set import lint
from rewriter.rule_tools.load_rules import load_rules

DOCS = Path(__file__).parent.parent / "docs"
PAGES = [(DOCS / name).read_text(encoding="utf-8") for name in ("cookbook.md", "cookbook-models.md")]
PARTS = [part for page in PAGES for part in page.split("\n## ")[1:]]
RECIPES = [re.findall(r"^```rules\n(.*?)^```$", part, re.DOTALL | re.MULTILINE) for part in PARTS]


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """Each block in a file of its own."""
    for number, (text,) in enumerate(RECIPES):
        (tmp_path / f"{number}.rules").write_text(text, encoding="utf-8")
    return tmp_path


def test_recipes_pass_their_tests(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", str(rules)]) == 0
    printed = capsys.readouterr()
    told = [word for word in ("error", "warning", "without a test") if word in printed.err]
    assert (printed.out, told) == ("", [])
    assert [problem.message for problem in lint(load_rules([rules]))] == []


def test_recipes_keep_what_they_promise(rules: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(rules), "--samples", "1", "--jobs", "1"]) == 0, capsys.readouterr()
