"""`rewriter picture`: the right part of a model in the right file."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.call import GEMM, Call


def chain(path: Path, count: int) -> Path:
    nodes = [helper.make_node("Relu", [f"t{i}"], [f"t{i + 1}"], f"relu{i}") for i in range(count)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("t0", f"t{count}")]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:])), path)
    return path


def test_a_firing(call: Call, tmp_path: Path) -> None:
    done = call("picture", GEMM, "--firing", 1, "-o", tmp_path / "p.svg")
    assert (done.code, done.out, done.err) == (0, "", "")
    text = (tmp_path / "p.svg").read_text(encoding="utf-8")
    ElementTree.fromstring(text)
    for words in ("MX001 at fc1 (Gemm)", "Before", "After", "Flatten", "float[2,324]", "float[5,324] #5f78ee2069b5"):
        assert words in text


def test_around_a_node(call: Call, tmp_path: Path) -> None:
    model = chain(tmp_path / "m.onnx", 100)
    assert call("picture", model, "--around", "relu50", "--hops", 3, "-o", tmp_path / "p.mmd").code == 0
    lines = (tmp_path / "p.mmd").read_text(encoding="utf-8").splitlines()
    assert [line.split("<br>")[1].split('"')[0] for line in lines if "<br>" in line] == [f"relu{i}" for i in range(47, 54)]
    assert [line for line in lines if ":::matched" in line and "relu50" in line]


def test_the_whole_of_a_small_model(call: Call, tmp_path: Path) -> None:
    assert call("picture", chain(tmp_path / "m.onnx", 60), "-o", tmp_path / "p.dot").code == 0
    assert (tmp_path / "p.dot").read_text(encoding="utf-8").count("Relu\\n") == 60


def test_two_thousand_nodes_are_drawn_and_of_more_it_says_what_to_do(call: Call, tmp_path: Path) -> None:
    assert call("picture", chain(tmp_path / "m.onnx", 2000), "-o", tmp_path / "p.svg").code == 0
    assert (tmp_path / "p.svg").read_text(encoding="utf-8").count(">Relu<") == 2000
    done = call("picture", chain(tmp_path / "more.onnx", 2001), "-o", tmp_path / "q.svg")
    assert done.code == 2
    assert "2,001 nodes are too many for one picture; `rewriter view` shows a model of any size" in done.err
    assert not (tmp_path / "q.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-o", "p.png"], "unsupported format; use .svg, .dot, .mmd"),
        (["--firing", "1", "-o", "p.svg"], "there is no firing 1; there are 0 firings"),
        (["--hops", "3", "-o", "p.svg"], "--hops has no effect without --around"),
        (["--around", "relu5O", "-o", "p.svg"], "did you mean 'relu5'"),
        (["--around", "relu1", "-o", "m.onnx.svg"], "exists; --force overwrites it"),
        (["--around", "relu1", "-o", "none/p.svg"], "the folder none does not exist; create it first: mkdir -p none"),
    ],
)
def test_what_cannot_be_drawn(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    chain(Path("m.onnx"), 100)
    Path("m.onnx.svg").write_text("mine")
    done = call("picture", "m.onnx", *arguments)
    assert done.code == 2
    assert words in done.err
    assert Path("m.onnx.svg").read_text() == "mine"
    assert not Path("p.svg").exists()
