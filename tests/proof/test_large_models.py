"""Judges get the outline of a large model: the same verdicts, and no weights in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from rewriter import Model, load
from rewriter.core.onnxfile import files, model_file
from rewriter.trust.proof.validity import JUDGES, Candidate


def write(path: Path, op: str = "MatMul", rows: int = 4) -> Path:
    node = helper.make_node(op, ["x", "w"], ["y"])
    weight = numpy_helper.from_array(np.ones((rows, 4), np.float32), "w")
    values = [helper.make_tensor_value_info(name, 1, ["N", 4]) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:], initializer=[weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


@pytest.mark.parametrize(("op", "rows"), [("MatMul", 4), ("MatMul", 5), ("Gather", 4), ("Nonsense", 4)])
def test_the_same_verdicts(op: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "m.onnx", op, rows)
    whole = Candidate(load(path))
    monkeypatch.setattr(files, "LARGE", 0)
    monkeypatch.setattr(model_file, "LEAST_FIELD", 1)
    apart = Candidate(load(path))
    assert list(apart.outline.files.values()) == [path.read_bytes().find(b"\x00\x00\x80\x3f") + rows * 16]
    assert [bool(apart.refusal(judge)) for judge in JUDGES] == [bool(whole.refusal(judge)) for judge in JUDGES]
    assert apart.data == whole.data


def test_the_weights_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGE", 0)
    monkeypatch.setattr(model_file, "LEAST_FIELD", 1)
    monkeypatch.setattr(Model, "to_proto", None)
    model = load(write(tmp_path / "m.onnx"))
    monkeypatch.setattr(model.graph.weights, "read_into", None)
    candidate = Candidate(model)
    assert candidate.first_refusal() is None and candidate.refusal(JUDGES[-1]) in ("", None)
