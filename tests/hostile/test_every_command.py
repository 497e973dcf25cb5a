"""A poison model through every command; `benchmarks/poison.py` does it with all of them."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.cli.call import Call
from tests.hostile.every_command import CALLS, arguments_of
from tests.hostile.poison_models import POISON

pytest.importorskip("onnxruntime")

RULES = next((Path(__file__).parents[2] / "rules").rglob("HYG001_*.rules"))


@pytest.fixture(autouse=True)
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return Call(capsys)


ODD = [
    "endless-loop",
    "functions-doubled-40-times",
    "dims-of-0-and-2-62",
    "sparse-external-data",
    "names-that-are-not-utf-8",
    "operators-that-are-not-utf-8",
    "opset-of-2-62",
]
"""Models on which some command besides `fix`, `check`, `show` and `compare` ended in an internal error, or might."""

MOST_SECONDS = 30
"""Of the processor, for one command. Alone it takes a second. In the process of a whole run of the tests, 6 seconds were seen."""


@pytest.mark.parametrize("name", ODD)
def test_every_command_ends(name: str, call: Call, tmp_path: Path) -> None:
    POISON[name](tmp_path)
    (out := tmp_path / "out").mkdir()
    for words in CALLS:
        if words == "apply" and not (out / "plan.toml").exists():
            continue
        given = arguments_of(CALLS[words], tmp_path / f"{name}.onnx", out, RULES)
        started = time.process_time()
        done = call(words.split()[0], *given, "--time-limit", 0.5, "--memory-limit", "2G")
        assert time.process_time() - started < MOST_SECONDS, f"{words} does not end within its limit"
        said = done.out + done.err
        assert done.code in (0, 1, 2), f"{words}: {said}"
        assert "Traceback" not in said and "internal error" not in said and "has no option" not in said, f"{words}: {said}"


def test_a_file_of_holes_is_not_read(call: Call, tmp_path: Path) -> None:
    """64 GiB of nothing, which are where they are to be copied to already."""
    POISON["sparse-external-data"](tmp_path)
    (out := tmp_path / "out").mkdir()
    for name in ("a", "b"):
        done = call("fix", tmp_path / "sparse-external-data.onnx", "-o", out / f"{name}.onnx", "--runtime", "no")
        assert "1 model: 1 repaired" in done.err and sum(path.stat().st_blocks for path in out.iterdir()) < 1000
    with open(out / "sparse.bin", "r+b") as file:
        file.seek(2**35)
        file.write(b"1")
    done = call("fix", tmp_path / "sparse-external-data.onnx", "-o", out / "c.onnx", "--runtime", "no")
    assert done.code == 2 and "sparse.bin exists with other content, which another model may read" in done.err


def test_a_version_that_nobody_knows_is_not_counted_down_to(call: Call, tmp_path: Path) -> None:
    POISON["opset-of-2-62"](tmp_path)
    for more in ((), ("--restamp",)):
        done = call("opset", tmp_path / "opset-of-2-62.onnx", 18, "-o", tmp_path / "o.onnx", *more)
        assert done.code == 2 and f"the model imports version {2**62} of ONNX's operators" in done.err
