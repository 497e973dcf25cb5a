"""`rewriter compare`, on what `fix` made of recorded exports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rewriter.app.cli.options import size
from tests.cli.call import GAMMA, GEMM, POOL, Call


def test_a_repair_that_changes_numbers(call: Call, tmp_path: Path) -> None:
    call("fix", POOL, "-o", tmp_path / "fixed.onnx")
    done = call("compare", POOL, tmp_path / "fixed.onnx")
    assert done.code == 1
    lines = done.out.splitlines()
    assert "@@ first difference @@" in lines
    assert lines[-2:] == [" pool0: count_include_pad", "+1"]


def test_the_same_model(call: Call, tmp_path: Path) -> None:
    done = call("compare", POOL, POOL)
    assert done.code == 0 and "is the same, largest difference 0" in done.out
    done = call("compare", POOL, POOL, "--layers")
    assert done.code == 0 and "@@ tensors: " in done.out and "differs" not in done.out


def test_the_refusing_node_is_named(call: Call, tmp_path: Path) -> None:
    call("fix", GEMM, "-o", tmp_path / "fixed.onnx")
    done = call("compare", GEMM, tmp_path / "fixed.onnx", "--inputs", GEMM.with_suffix(".npz"))
    assert done.code == 1
    assert "A does not run: fc1 (Gemm): Node (fc1) Op (Gemm) [ShapeInferenceError] First input does not have rank 2" in done.out


def test_json(call: Call, tmp_path: Path) -> None:
    call("fix", GAMMA, "-o", tmp_path / "fixed.onnx")
    told = json.loads(call("compare", GAMMA, tmp_path / "fixed.onnx", "--format", "json", "--layers").out)
    assert (told["command"], told["same"], told["blocked"][0][0]["operator"]) == ("compare", False, "BatchNormalization")
    told = json.loads(call("compare", POOL, POOL, "--format", "json").out)
    assert told["same"] is True and told["first_difference"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rtol", "-1"), "'-1' is not a tolerance, as 1e-4"),
        (("--memory", "much"), "'much' is not a size, such as 256M"),
        (("--inputs", "nowhere.npz"), "nowhere.npz: no such file or directory"),
    ],
)
def test_bad_options(call: Call, arguments: tuple[str, ...], message: str) -> None:
    done = call("compare", POOL, POOL, *arguments)
    assert done.code == 2 and message in done.err


def test_sizes() -> None:
    assert [size(text) for text in ("7", "64K", "2g")] == [7, 64 << 10, 2 << 30]


def test_help(call: Call) -> None:
    assert "rewriter compare net.onnx net.fixed.onnx" in call("compare", "--help").out
