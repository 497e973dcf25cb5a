"""Whether anything fires is asked first, of the rules that the bytes of a model leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from rewriter import load
from rewriter.core.conditions.context import Context
from rewriter.core.engine import run as runs
from rewriter.core.engine.attempt import Attempt
from rewriter.core.log import Log
from rewriter.core.matching.forecast import Forecast
from rewriter.core.onnxfile.take_census import take_census
from tests.engine.helpers import rule_set, with_head

RULES = rule_set("rule A001 a <kind: exact> match { y = Mul(x, k) } where is_const(k) rewrite { y = Relu(x) }")
FIRES = "g (float[2] x) => (float[2] y) <float[2] k = {1, 2}> { y = Mul(x, k) }"
DOES_NOT = "g (float[2] x, float[2] k) => (float[2] y) { y = Mul(x, k) }"


def log_of(text: str, folder: Path) -> Log:
    data = onnx.parser.parse_model(with_head(text)).SerializeToString()
    path = folder / "model.onnx"
    path.write_bytes(data)
    return runs.run(load(path).graph, RULES, forecast=Forecast(take_census(data)))


def test_where_nothing_fires_the_look_is_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    begin = Attempt.__init__

    def noted(self: Attempt, context: Context, *, rewrites: bool = True, **more: Any) -> None:
        made.append("run" if rewrites else "look")
        begin(self, context, rewrites=rewrites, **more)

    monkeypatch.setattr(Attempt, "__init__", noted)
    first = log_of(DOES_NOT, tmp_path)
    assert (made, first.firings) == (["look"], [])
    made.clear()
    assert len(log_of(FIRES, tmp_path).firings) == 1
    assert made == ["look", "run"]
    made.clear()
    assert log_of(DOES_NOT, tmp_path) == first  # what the log says does not depend on the models before
    assert made == ["look"]
