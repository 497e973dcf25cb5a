"""The rules of docs/cookbook.md are taken into other people's files as they stand, so they must be right as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rewriter.cli.main import main
from rewriter.language.lint.rule_set import lint
from rewriter.language.load_rules import load_rules

PAGE = (Path(__file__).parent.parent / "docs" / "cookbook.md").read_text(encoding="utf-8")
RECIPES = {
    part.split("\n", 1)[0]: "".join(re.findall(r"^```rules\n(.*?)^```$", part, re.DOTALL | re.MULTILINE))
    for part in PAGE.split("\n## ")[1:]
}


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_stands_by_itself(title: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "recipe.rules"
    path.write_text(RECIPES[title], encoding="utf-8")
    assert main(["test", str(path)]) == 0
    printed = capsys.readouterr()
    assert (printed.out, "error" in printed.err, "warning" in printed.err, "without a test" in printed.err) == (
        "",
        False,
        False,
        False,
    )


def test_all_recipes_are_a_rule_set(tmp_path: Path) -> None:
    for number, text in enumerate(RECIPES.values()):
        (tmp_path / f"{number}.rules").write_text(text, encoding="utf-8")
    assert [problem.message for problem in lint(load_rules([tmp_path]))] == []


def test_recipes_keep_what_they_promise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cookbook.rules"
    path.write_text("\n".join(RECIPES.values()), encoding="utf-8")
    assert main(["verify", str(path), "--samples", "3", "--jobs", "1"]) == 0, capsys.readouterr()
