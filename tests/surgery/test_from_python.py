"""The same from Python: files or messages in, models out, and what is given stays as it is."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import rewriter
from tests.cli.call import Call
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


def test_types_and_layouts(call: Call, tmp_path: Path) -> None:
    net = texts.written(tmp_path, texts.CHAIN)
    image = texts.parsed("""<ir_version: 8, opset_import: ["": 17]>
  g (float[1,3,8,6] x, float[1,2,5] s) => (float[1,3,8,6] y, float[1,2,5] t) { y = Relu(x)  t = Neg(s) }
""")
    half = rewriter.convert(net, "float16", stamp=False, output=tmp_path / "python.onnx")
    assert half.to_proto().graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert call("convert", net, "--dtype", "float16", "--no-stamp", "-o", tmp_path / "command.onnx").code == 0
    assert (tmp_path / "python.onnx").read_bytes() == (tmp_path / "command.onnx").read_bytes()
    last = rewriter.convert(image, layout="nhwc").to_proto()
    assert [dim.dim_value for dim in last.graph.input[0].type.tensor_type.shape.dim] == [1, 8, 6, 3]
    some = rewriter.convert(image, layout="nhwc", ports="s").to_proto()
    shapes = [[dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in some.graph.input]
    assert shapes == [[1, 3, 8, 6], [1, 5, 2]]
    for wrong in (
        {},
        {"dtype": "float16", "layout": "nhwc"},
        {"layout": "nhwc", "keep": "a"},
        {"dtype": "double", "ports": "x"},
    ):
        with pytest.raises(rewriter.RewriterError, match="convert takes a dtype"):
            rewriter.convert(image, **wrong)


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
