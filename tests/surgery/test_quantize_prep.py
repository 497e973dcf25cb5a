"""`rewriter quantize-prep`: what ONNX Runtime's quantizer is given."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.call import Call
from tests.surgery import texts

OLD = """<ir_version: 6, opset_import: ["": 11]>
  g (float[N,2,4,4] x) => (float[N,A] y)
  <float[3,2,1,1] w = {1,2,3,4,5,6}, float[3] s = {1,2,3}, float[3] b = {0,1,0}, float[3] m = {0,0,1}, float[3] v = {1,1,1}> {
    c = Conv<kernel_shape=[1,1]>(x, w)  n = BatchNormalization(c, s, b, m, v)  r = Relu(n)
    p = GlobalAveragePool(r)  q = Squeeze<axes=[2,3]>(p)  y = Softmax<axis=1>(q)
  }
"""


def test_a_model_of_old_operators_is_ready(call: Call, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    net, out = texts.written(tmp_path, OLD), tmp_path / "out.onnx"
    done = call("quantize-prep", net, "-o", out)
    assert done.code == 0 and "opset  11 -> 13" in done.out and "computes the same" in done.out, done.err
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    assert "BatchNormalization" not in {node.op_type for node in model.graph.node}
    declared = {info.name: info.type.tensor_type.shape.dim for info in (*model.graph.value_info, *model.graph.output)}
    assert {name for node in model.graph.node for name in node.output} <= set(declared)
    assert [dim.dim_param or dim.dim_value for dim in declared["r"]] == ["N", 3, 4, 4]
    quantization = pytest.importorskip("onnxruntime.quantization")
    with caplog.at_level(logging.WARNING):
        quantization.quantize_static(str(out), str(tmp_path / "quantized.onnx"), _Reader(), per_channel=True)
    assert not [record for record in caplog.records if "pre-process" in record.getMessage()]
    quantized = {node.op_type for node in onnx.load(tmp_path / "quantized.onnx").graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= quantized


def test_what_no_type_is_known_of_is_named(call: Call, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "acme": 1]> g (float[2] x) => (float[2] y) { h = acme.Do(x)  i = Abs(h)  y = Add(i, x) }"""
    done = call("quantize-prep", texts.written(tmp_path, text), "-o", tmp_path / "out.onnx")
    assert done.code == 0 and "because no type is known: h" in done.out, done.out + done.err


class _Reader:
    def __init__(self) -> None:
        self.feeds = iter([{"x": np.ones((1, 2, 4, 4), np.float32)}])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.feeds, None)
