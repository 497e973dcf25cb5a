"""A condition means one thing: in whatever order conditions stand, and whether the model is loaded or only looked at."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import onnx
import pytest

from rewriter.app.cli.main import main
from tests.engine.helpers import rewrite_model, with_head
from tests.engine.random_rules import Asked, compiled, disagreement, outcome

RULE = """
rule T1 padded <kind: exact>
match {{ [n] y = Conv<pads=p>(x, w) }}
{}
rewrite {{ n.pads = [0] }}
"""
MODEL = """
g (float[1,1,5] x) => (float[N,M,K] y) <float[1,1,3] w = {1, 1, 1}> { y = Conv <pads = [1, 1]>(x, w) }
"""
FALSE, FAILS, TRUE = "len(p) == 3", "p[index(p, 7)] == 1", "len(p) == 2"


@pytest.fixture(scope="module")
def asked() -> Asked:
    return Asked()


@pytest.mark.parametrize("start", range(0, 500, 50))
def test_random_rules(asked: Asked, start: int) -> None:
    for seed in range(start, start + 50):
        difference, _ = disagreement(asked, seed)
        assert not difference, f"seed {seed}: {difference}"


def test_random_rules_come_to_everything(asked: Asked) -> None:
    assert {disagreement(asked, seed)[1] for seed in range(150)} == {"refused", "nothing", "fired", "unknown", "failed"}


@pytest.mark.parametrize("wheres", list(permutations([FALSE, FAILS, TRUE])))
def test_false_wins_over_what_fails(wheres: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.rules").write_text(RULE.format("\n".join(f"where {where}" for where in wheres)))
    onnx.save(onnx.parser.parse_model(with_head(MODEL)), tmp_path / "net.onnx")
    command = [
        "fix",
        str(tmp_path / "net.onnx"),
        "-o",
        str(tmp_path / "o.onnx"),
        "--force",
        "--rules",
        str(tmp_path / "t.rules"),
        "--select",
        "T1",
    ]
    assert [main([*command, *more]) for more in ([], ["--profile"])] == [0, 0]
    assert "failed" not in capsys.readouterr().out


@pytest.mark.parametrize("wheres", list(permutations([FAILS, TRUE])))
def test_what_fails_alone_is_an_error(wheres: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "t.rules").write_text(RULE.format("\n".join(f"where {where}" for where in wheres)))
    onnx.save(onnx.parser.parse_model(with_head(MODEL)), tmp_path / "net.onnx")
    command = ["fix", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "o.onnx"), "--force"]
    command += ["--rules", str(tmp_path / "t.rules"), "--select", "T1"]
    assert [main([*command, *more]) for more in ([], ["--profile"])] == [1, 1]


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (f"{FAILS} and {FALSE}", "nothing"),
        (f"{FALSE} and {FAILS}", "nothing"),
        (f"{FAILS} or {TRUE}", "fired"),
        (f"{FAILS} and {TRUE}", "failed"),
        (f"{FAILS} or {FALSE}", "failed"),
        (f"not ({FAILS} or {TRUE})", "nothing"),
    ],
)
def test_one_that_fails_within_another(condition: str, found: str) -> None:
    done = rewrite_model(onnx.parser.parse_model(with_head(MODEL)), RULE.format(f"where {condition}"), keep=False)
    assert outcome(done.log) == found


def test_a_rule_that_is_refused_is_none() -> None:
    assert compiled(RULE.format("where p")) is None
