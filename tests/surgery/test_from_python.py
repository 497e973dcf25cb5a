"""The same from Python: files or messages in, models out, and what is given stays as it is."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import rewriter
from tests.surgery import texts


def test_messages_are_cut_joined_and_edited(tmp_path: Path) -> None:
    whole = texts.parsed(texts.CHAIN)
    before = whole.SerializeToString(deterministic=True)
    head = rewriter.extract(whole, "b").to_proto()
    tail = rewriter.extract(whole, ["y", "m"], ["b"], output=tmp_path / "tail.onnx").to_proto()
    merged = rewriter.merge(head, tail, stamp=False).to_proto()
    onnx.checker.check_model(merged, full_check=True)
    assert [node.op_type for node in merged.graph.node] == [node.op_type for node in whole.graph.node]
    edited = rewriter.edit(tmp_path / "tail.onnx", ("rename", "b=features"), ("drop-output", "m"))
    assert [info.name for info in edited.to_proto().graph.input] == ["features"]
    parts = rewriter.split(whole, at=["b"], output=str(tmp_path / "part{}.onnx"))
    assert len(parts) == 2 and (tmp_path / "part2.onnx").exists()
    assert whole.SerializeToString(deterministic=True) == before


def test_what_cannot_be_done_is_an_error(tmp_path: Path) -> None:
    whole = texts.parsed(texts.CHAIN)
    with pytest.raises(rewriter.RewriterError, match="no tensor or node"):
        rewriter.extract(whole, "nothing")
    with pytest.raises(rewriter.RewriterError, match="there is no edit 'turn'"):
        rewriter.edit(whole, ("turn", "x"))
    with pytest.raises(rewriter.RewriterError, match="one of at, every"):
        rewriter.split(whole)
    with pytest.raises(rewriter.RewriterError, match="only one model"):
        rewriter.merge(whole)
