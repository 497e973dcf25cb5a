"""A poison model through every command; `benchmarks/poison.py` does it with all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.call import Call
from tests.hostile.every_command import CALLS, arguments_of
from tests.hostile.poison_models import POISON

pytest.importorskip("onnxruntime")

RULES = next((Path(__file__).parents[2] / "rules").rglob("HYG003_*.rules"))


@pytest.fixture(autouse=True)
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return Call(capsys)


@pytest.mark.parametrize("name", ["endless-loop", "names-that-are-not-utf-8"])
def test_every_command_ends(name: str, call: Call, tmp_path: Path) -> None:
    POISON[name](tmp_path)
    (out := tmp_path / "out").mkdir()
    for words in CALLS:
        if words == "apply" and not (out / "plan.toml").exists():
            continue
        given = arguments_of(CALLS[words], tmp_path / f"{name}.onnx", out, RULES)
        done = call(words.split()[0], *given, "--time-limit", 3, "--memory-limit", "2G")
        said = done.out + done.err
        assert done.code in (0, 1, 2), f"{words}: {said}"
        assert "Traceback" not in said and "internal error" not in said and "has no option" not in said, f"{words}: {said}"
