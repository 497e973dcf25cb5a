"""A batch that seems to flow and does not is found by running both halves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from rewriter.trust.proof import judges
from tests.cli.call import Call


def save(path: Path, text: str) -> Path:
    graph = onnx.parser.parse_graph(text)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(made, path)
    return path


def test_mixing_is_taken_back(call: Call, tmp_path: Path) -> None:
    source = save(
        tmp_path / "m.onnx",
        """g (float[2,3] x) => (float[2,3] y) <int64[2] s = {1, 6}, int64[2] t = {2, 3}> {
          f = Reshape(x, s)  n = Softmax<axis=1>(f)  y = Reshape(n, t) }""",
    )
    done = call("fix", source, "-o", tmp_path / "o.onnx", "--select", "SURG010", "--set", "SURG010.size=2")
    assert (tmp_path / "o.onnx").read_bytes() == source.read_bytes()
    assert done.code == 1


def test_the_result_runs_with_any_batch(call: Call, tmp_path: Path) -> None:
    source = save(
        tmp_path / "m.onnx",
        "g (float[1,3,4] x) => (float[1,12] y) <int64[2] s = {1, 12}> { y = Reshape(x, s) }",
    )
    assert call("fix", source, "-o", tmp_path / "o.onnx", "--select", "SURG010").code == 0
    session = judges.session((tmp_path / "o.onnx").read_bytes(), None)
    assert session.run(None, {"x": np.zeros((7, 3, 4), np.float32)})[0].shape == (7, 12)
