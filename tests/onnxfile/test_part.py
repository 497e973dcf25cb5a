"""A part of a model as a model of its own, whatever the whole is like."""

from __future__ import annotations

import onnx

from rewriter.core.onnxfile.part import part_of


def test_a_producer_name_that_is_no_utf8() -> None:
    text = '<ir_version: 8, opset_import: ["": 17], producer_name: "abc"> g (float[2] x) => (float[2] y) { h = Relu(x) y = Neg(h) }'
    octets = onnx.parser.parse_model(text).SerializeToString().replace(b"abc", b"a\xffc")
    part = part_of(onnx.ModelProto.FromString(octets), [0], {})
    assert part.producer_name == r"a\xffc"
    assert [node.op_type for node in part.graph.node] == ["Relu"]
