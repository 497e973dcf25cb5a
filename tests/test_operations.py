"""Every row of docs/operations.md is a command line that works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from rewriter.cli.main import main

PAGE = (Path(__file__).parent.parent / "docs" / "operations.md").read_text(encoding="utf-8")
ROWS = {
    cells[0]: re.findall(r"`(rewriter [^`]*)`", cells[-1])
    for line in PAGE.splitlines()
    if line.startswith("| ") and "`rewriter " in line and (cells := [cell.strip() for cell in line.strip("|").split(" | ")])
}

NET = """
<ir_version: 8, opset_import: ["": 17]>
g (float[1,3,8,8] x) => (float[1,4,8,8] y, float[1,4,8,8] z) <float high = {6}, float low = {0}, float[4] b = {0, 0, 0, 0}, float[4,3,3,3] w> {
  [conv] h = Conv<pads = [1,1,1,1]>(x, w, b)  [fake] i = Identity(h)  [min] m = Min(i, high)  [max] r = Max(m, low)
  y = Relu(r)  z = Neg(r) }
"""
TEXTS = {
    "made.onnxtxt": '<ir_version: 8, opset_import: ["": 17]> g (float[N] x) => (float[N] y) { y = Relu(x) }',
    "weights.onnxtxt": '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Mul(x, w) }',
    "function.onnxtxt": """<ir_version: 8, opset_import: ["": 17, "mine": 1]> g (float[N] x) => (float[N] y) { y = mine.twice(x) }
        <domain: "mine", opset_import: ["": 17]> twice (v) => (r) { r = Add(v, v) }""",
}
OTHERS = {
    "a.onnx": '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] m) { m = Relu(x) }',
    "b.onnx": '<ir_version: 8, opset_import: ["": 17]> g (float[2] u) => (float[2] v) { v = Neg(u) }',
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("operations")
    model = parser.parse_model(NET)
    weight = np.random.default_rng(0).random((4, 3, 3, 3), np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    onnx.save(model, path / "net.onnx")
    onnx.save(model, path / "net.json", format="json")
    for name, text in OTHERS.items():
        onnx.save(parser.parse_model(text), path / name)
    for name, text in TEXTS.items():
        (path / name).write_text(text)
    np.save(path / "b.npy", np.float32([1, 2, 3, 4]))
    (path / "clip.rules").write_text(PAGE.split("```rules\n")[1].split("```")[0])
    return path


def test_all_are_there() -> None:
    examples, tools = (re.findall(r"^\| (\d[\d, ]*)", part, re.MULTILINE) for part in PAGE.split("\n## ")[1:3])
    assert sorted(int(number) for cell in examples for number in re.findall(r"\d+", cell)) == list(range(1, 13))
    assert [int(cell) for cell in tools] == list(range(1, 27))


@pytest.mark.parametrize("row", list(ROWS))
def test_a_row_works(row: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(folder)
    for command in ROWS[row]:
        words = shlex.split(command)[1:]
        force = ["--force"] if "-o" in words else []
        assert main([*words, *force]) == 0, capsys.readouterr().err
        if "-o" in words and words[words.index("-o") + 1].endswith(".onnx"):
            onnx.checker.check_model(words[words.index("-o") + 1], full_check=True)
