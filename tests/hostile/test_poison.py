"""Every poison model through the commands: each call ends within its limits, says who gave up, and is no internal error."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from pathlib import Path

import pytest

from tests.cli.call import Call, Done
from tests.hostile import poison_models
from tests.hostile.poison_models import POISON, sick_model, write_all

pytest.importorskip("onnxruntime")

LIMITS = "--time-limit", "240", "--memory-limit", "2G"
"""The time is for a busy machine: none of these calls needs more than seconds, and it is the model that ends them."""

LESS = "--time-limit", "240", "--memory-limit", "1G"
"""For the model that takes all memory that it may have: half of it is filled in half the time."""

SOON = "--time-limit", "2", "--memory-limit", "2G"
"""For what would go on without end."""

ENDS = {
    "functions-doubled-18-times": "not checked: ONNX Runtime did not run, because the functions of the model expand to more than",
    "functions-doubled-40-times": "not checked: ONNX Runtime did not run, because the functions of the model expand to more than",
    "names-that-are-not-utf-8": "error: ",
    "operators-that-are-not-utf-8": "error: ",
    "locations-of-100-000-characters": "error: ",
}
"""What `fix` has to say of a model besides of its rewrites."""

HEAVY = {"functions-in-a-chain", "bodies-24-deep"}
"""Megabytes, which take minutes; they are tried once."""

ENDLESS = {"endless-loop", "many-loops"}
"""Runs of these are ended by the limit: that of the run, or on a busy machine that of the whole call."""

GROWING = {"concat-doubled-40-times"}

COMPARED = {
    **dict.fromkeys(ENDLESS, "did not answer within|not done within the time limit"),
    "constant-of-2-31": "needs more than the memory limit of 2 GiB",
    "functions-doubled-18-times": "expand to more than 100,000 nodes",
    "functions-doubled-40-times": "expand to more than 100,000 nodes",
    "locations-of-100-000-characters": "is no usable file name: it has 100,000 characters",
    "names-that-are-not-utf-8": "in this model is not valid UTF-8",
    "operators-that-are-not-utf-8": "in this model is not valid UTF-8",
}
"""What `compare` of such a model with itself says, which runs it."""

MODELS_OF = sorted(POISON)


@pytest.fixture(autouse=True)
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    return Call(capsys)


def limits_of(name: str, soon: Collection[str] = ()) -> tuple[str, ...]:
    """The limits of a call with a model, which are shorter for the models of `soon`."""
    return SOON if name in soon else LESS if name in GROWING else LIMITS


def sound(done: Done) -> str:
    """What was printed by a call that ended as it should."""
    said = done.out + done.err
    assert done.code in (0, 1, 2), said
    assert "Traceback" not in said and "internal error" not in said
    return said


@pytest.mark.parametrize("name", MODELS_OF)
def test_fix(name: str, call: Call, tmp_path: Path) -> None:
    POISON[name](tmp_path)
    assert (tmp_path / f"{name}.onnx").is_file()
    (out := tmp_path / "out").mkdir()
    said = sound(call("fix", tmp_path / f"{name}.onnx", "-o", out / "o.onnx", *limits_of(name, HEAVY)))
    assert ENDS.get(name, "") in said
    if name not in HEAVY and "error: " not in ENDS.get(name, ""):
        assert re.search("1 model: 1 (repaired|still rejected by ONNX Runtime)", said)
    assert sum(path.stat().st_blocks * 512 for path in out.rglob("*")) < 20_000_000
    assert not [path for path in out.rglob("*") if path.name.endswith(".tmp")]


@pytest.mark.parametrize("name", sorted(set(MODELS_OF) - HEAVY))
def test_check_and_show(name: str, call: Call, tmp_path: Path) -> None:
    POISON[name](tmp_path)
    done = call("check", tmp_path / f"{name}.onnx", *limits_of(name), "--format", "json")
    sound(done)
    assert json.loads(done.out)["models"][0]["path"].endswith(f"{name}.onnx")
    assert call("show", tmp_path / f"{name}.onnx", "--nodes").code == 0


@pytest.mark.parametrize("name", sorted(COMPARED))
def test_compare(name: str, call: Call, tmp_path: Path) -> None:
    POISON[name](tmp_path)
    path = tmp_path / f"{name}.onnx"
    if "error: " not in ENDS.get(name, ""):
        call("fix", path, "-o", tmp_path / "o.onnx", "--runtime", "no", *LIMITS)  # with its nodes in order
        path = tmp_path / "o.onnx"
    said = sound(call("compare", path, path, *(SOON if name in ENDLESS else LIMITS)))
    assert any(wanted in said for wanted in COMPARED[name].split("|"))


@pytest.mark.parametrize("name", ["endless-loop", "constant-of-2-31", "concat-doubled-40-times", "sparse-external-data"])
def test_verify(name: str, call: Call, tmp_path: Path) -> None:
    POISON[name](tmp_path)
    (out := tmp_path / "out").mkdir()
    said = sound(call("fix", tmp_path / f"{name}.onnx", "-o", out / "o.onnx", "--verify", *limits_of(name, ENDLESS)))
    assert ("1 model: 1 repaired" in said and "not verified: " in said) or (
        name in ENDLESS and "not done within the time limit" in said
    )


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_batch_with_poison_in_it(jobs: int, call: Call, tmp_path: Path) -> None:
    """All other models are repaired."""
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for name in (
        "functions-doubled-18-times",
        "endless-loop",
        "sparse-external-data",
        "names-that-are-not-utf-8",
        "symbol-nested",
    ):
        POISON[name](folder)
    good = sick_model().SerializeToString()
    for number in range(12):
        (folder / f"good{number}.onnx").write_bytes(good)
    said = sound(call("fix", folder, "--out", out, "--jobs", jobs, *LIMITS))
    assert "17 models: 16 repaired, 1 failed, 1 not checked; 16 rewrites by 1 rule" in said
    assert sorted(os.listdir(out)) == sorted(
        {*os.listdir(folder)} - {"symbol-nested-symbol.json", "names-that-are-not-utf-8.onnx"}
    )
    repaired = {(out / f"good{number}.onnx").read_bytes() for number in range(12)}
    assert len(repaired) == 1 and repaired != {good}


def test_all_of_them_are_written_into_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here two; each is written by a test above."""
    monkeypatch.setattr(poison_models, "POISON", {name: POISON[name] for name in ("endless-loop", "opset-of-2-62")})
    written = write_all(tmp_path)
    assert len(written) == 2 and all(path.is_file() for path in written)
