"""Every row of docs/operations.md is a command line that works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from rewriter.app.cli.main import main

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
    "refused.onnx": """<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] y) {
        a = Abs(x)  n = Neg(a)  y = NoSuchOperator(n) }""",
}
MANY = """
<ir_version: 9, opset_import: ["": 20, "mine": 1]>
g (float[1,3,8,8] x, float[N,4] u, float[2] unread, float[4] r) => (float[1,4,8,8] a, float[N,4] e, float[N,4] f, float[N,2,2] v)
  <int64[8] pads = {0,0,1,1,0,0,1,1}, float[4] s = {1,2,3,4}, float[4] b = {0,1,0,1}, float[4] m = {1,1,1,1}, float[4] var = {1,1,1,1},
   float[4,3,3,3] w, float[4,4] q = {1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16},
   float[4] r = {1,2,3,4}, float[4] same = {0,1,0,1}, float root = {1.4142135}, float one = {1}, float half = {0.5}, float eps = {0.00001}, float two = {2}, int64[1] last = {-1},
   int64[2] flat = {-1, 4}, int64[3] cube = {-1, 2, 2}, bool yes = {1}> {
  p = Pad(x, pads)
  c = Conv<kernel_shape = [3,3]>(p, w)
  n = BatchNormalization(c, s, b, m, var)
  d = Dropout(n)
  t = Transpose<perm = [0,2,3,1]>(d)
  t2 = Transpose<perm = [0,3,1,2]>(t)
  a = Relu(t2)
  mm = MatMul(u, q)
  ma = Add(mm, b)
  k = Cast<to = 1>(ma)
  g1 = Div(k, root)  g2 = Erf(g1)  g3 = Add(g2, one)  g4 = Mul(k, g3)  g5 = Mul(g4, half)
  l1 = ReduceMean(g5, last)  l2 = Sub(g5, l1)  l3 = Pow(l2, two)  l4 = ReduceMean(l3, last)  l5 = Add(l4, eps)  l6 = Sqrt(l5)
  e = Div(l2, l6)
  b2 = Mul(same, b)
  o1 = Add(u, b2)  o2 = Add(u, b2)  o3 = mine.twice(o1)
  f1 = Mul(o3, o2)  f = Add(f1, r)
  v1 = Reshape(u, flat)  v2 = Reshape(v1, cube)
  i1 = If(yes) <then_branch = then_g () => (float[N,2,2] v3) { v3 = Neg(v2) }, else_branch = else_g () => (float[N,2,2] v4) { v4 = Abs(v2) }>
  v = Identity(i1)
}
<domain: "mine", opset_import: ["": 20]> twice (vv) => (rr) { rr = Add(vv, vv) }
"""
"""One place for each rule that the page names."""
MADE = (
    "run net.onnx -o x.npz",
    "convert net.onnx --layout nhwc -o last.onnx",
    "save net.onnx --external --threshold 16 -o apart.onnx",
    "fix many.onnx --select GEN002,OPT003 --record full -o fixed.onnx",
)
"""What rows read that commands make."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("operations")
    model = parser.parse_model(NET)
    weight = np.random.default_rng(0).random((4, 3, 3, 3), np.float32)
    many = parser.parse_model(MANY)
    for one, name in ((model, "net.onnx"), (many, "many.onnx")):
        one.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
        onnx.save(one, path / name)
    onnx.save(model, path / "twin.onnx")
    onnx.save(model, path / "net.json", format="json")
    for name, text in OTHERS.items():
        onnx.save(parser.parse_model(text), path / name)
    for name, text in TEXTS.items():
        (path / name).write_text(text)
    rng = np.random.default_rng(0)
    arrays = {"b": np.float32([1, 2, 3, 4]), "x": rng.random((1, 3, 8, 8), np.float32), "axis": np.array([0])}
    arrays |= {"mean": rng.random((3, 1, 1)), "deviation": rng.random((3, 1, 1)) + 0.5}
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    np.savez(path / "params.npz", b=arrays["b"])
    (path / "clip.rules").write_text(PAGE.split("```rules\n")[1].split("```")[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for command in MADE:
            assert main(shlex.split(command)) == 0, command
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
        code, printed = main([*words, *force]), capsys.readouterr()
        assert code == 0, printed.err
        if words[0] == "fix":
            assert "unchanged" not in printed.out
        target = words[words.index("-o") + 1] if "-o" in words else ""
        if target.endswith(".onnx") and words[1] != "refused.onnx":
            for made in folder.glob(target.replace("{}", "[0-9]")):
                onnx.checker.check_model(made, full_check=True)
