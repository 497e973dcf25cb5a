"""A rule that says which type a result has declares it only where something is declared."""

from __future__ import annotations

import onnx

from tests.engine.helpers import rewrite_text

RULE = "rule X1 real <kind: repair, evidence: refused> match { [n] y = Exp(x) } where dtype(x) == int64 rewrite { n.inputs[0] = Cast<to=float>(x) y.dtype = float }"


def test_an_inner_result_that_declares_nothing_goes_on_doing_so() -> None:
    model = rewrite_text("g (int64[2] x, int64[1] s) => (float[2] z) { r = Reshape(x, s) y = Exp(r) z = Neg(y) }", RULE)
    onnx.checker.check_model(model.proto)


def test_an_output_is_declared_anew() -> None:
    proto = rewrite_text("g (int64[2] x) => (int64[2] y) { y = Exp(x) }", RULE).proto
    assert proto.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT
