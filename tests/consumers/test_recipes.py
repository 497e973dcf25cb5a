"""The recipes in targets/: each is for a consumer that can be asked, can be followed, and is told of on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

import rewriter
from rewriter import load_rules
from rewriter.core.errors import RewriterError
from rewriter.core.resources import resource
from rewriter.trust.consumers import target_recipes
from rewriter.trust.consumers.asking import known
from rewriter.trust.consumers.target_recipes import recipe_of, recipes_of
from tests.cli.call import Call
from tests.surgery import texts

RECIPES = sorted(path.stem for path in resource("targets").glob("*.toml") if path.stem != "messages")
PADDED = """
<ir_version: 8, opset_import: ["": 13]>
g (float[1,1,4,4] x) => (float[1,1,4,4] y) <float[1,1,3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}, int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}> {
  i = Identity(x)  p = Pad(i, pads)  y = Conv(p, w)
}
"""
PAGE = Path(__file__).parent.parent.parent / "docs" / "targets.md"


@pytest.mark.parametrize("target", RECIPES)
def test_a_recipe_is_about_a_target_and_known_rules(target: str) -> None:
    recipe, rules = recipe_of(target), load_rules()
    assert recipe.module in known()
    assert [code for code in (*recipe.ignore, *recipe.only_asked) if rules.get(code) is None] == []
    assert (recipe.steps[0].action == "rules") == any(target in rule.targets for rule in rules)
    assert all(step.reason for step in recipe.steps)


@pytest.mark.parametrize("target", RECIPES)
def test_the_page_has_the_steps(target: str) -> None:
    recipe = recipe_of(target)
    lines = PAGE.read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"| `{target}` |") and line.count("|") == 5)
    _, _, safe, asked, by_hand, _ = line.split("|")
    for step in recipe.steps:
        assert step.action.replace("static", "`--static`") in (
            safe if step.is_safe else by_hand if step.action == "static" else asked
        )


def test_a_target_may_have_a_recipe_alone() -> None:
    assert not any("iree" in rule.targets for rule in load_rules())
    assert load_rules().select(targets=["iree"]).rules == load_rules().select().rules
    with pytest.raises(RewriterError, match="there is no target 'messages'"):
        load_rules().select(targets=["messages"])


def test_a_target_without_a_recipe_has_only_rules() -> None:
    assert recipe_of("tensorrt").steps == ()
    assert recipes_of(["all"]) == []


@pytest.mark.parametrize("step", ['do = "shrink"', 'do = "opset 13"\nsafe = true', 'do = "dtype int8"'])
def test_what_is_no_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: str) -> None:
    (tmp_path / "acme.toml").write_text(f'title = "Acme"\n[[step]]\n{step}\nbecause = "so"\n')
    monkeypatch.setattr(target_recipes, "resource", lambda name: tmp_path / "acme.toml")
    with pytest.raises(RewriterError, match="no step of a recipe"):
        recipe_of.__wrapped__("acme")


def test_a_recipe_holds_in_every_command_and_in_python(call: Call, tmp_path: Path) -> None:
    """MNN's recipe optimizes, but leaves the Pad in front of a Conv (OPT045)."""
    net, out = texts.written(tmp_path, PADDED), tmp_path / "fixed.onnx"
    assert call("fix", net, "--target", "mnn", "-o", out).code == 0
    fixed = rewriter.fix(net, target="mnn")
    assert fixed.counts == {"GEN001": 1} and fixed.proto.SerializeToString() == out.read_bytes()
    assert call("plan", net, "--target", "mnn", "-o", tmp_path / "plan.toml").code == 0
    assert call("apply", tmp_path / "plan.toml", "-o", tmp_path / "planned.onnx").code == 0
    assert (tmp_path / "planned.onnx").read_bytes() == out.read_bytes()
    assert rewriter.check(net, target="mnn").counts == {}
    assert "OPT045" in rewriter.optimize(net).counts
    assert "OPT045" not in rewriter.optimize(net, target="mnn").counts
    assert "OPT045" not in call("optimize", net, "--target", "mnn", "-o", tmp_path / "small.onnx").out
    assert "OPT045" in rewriter.optimize(net, target="mnn", select="OPTIMIZE").counts
