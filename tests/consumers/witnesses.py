"""Models that a consumer, in a named version, rejects or computes wrongly until a rule of its target has fired."""

from __future__ import annotations

from rewriter import load_rules
from rewriter.core.record import record

GELU = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[2,3] x) => (float[2,3] y) <float half = {0.5}, float one = {1}, float root = {1.4142135}> {
    u = Div(x, root)  e = Erf(u)  p = Add(e, one)  h = Mul(half, p)  y = Mul(x, h)
  }"""
MASK = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[3,4] x) => (float[2,4] y) <int64[2,1] i = {2, 0}, float zero = {0}> {
    b = Greater(x, zero)  r = GatherND(b, i)  y = Cast<to=1>(r)
  }"""
NEGATIVE = """
  <ir_version: 8, opset_import: ["": 17]>
  g (int32[3,4] x) => (int32[3,4] y) { y = Neg(x) }"""
MAGNITUDE = """
  <ir_version: 8, opset_import: ["": 17]>
  g (int64[3,4] x) => (int64[3,4] y) { y = Abs(x) }"""
REMAINDER = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[3,4] x) => (float[3,4] y) <float m = {2}> { y = Mod<fmod=1>(x, m) }"""
NUMBER = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[3,4] x) => (float[3,4] y) { b = IsNaN(x)  y = Cast<to=1>(b) }"""
VIEW = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[2,3,4] x) => (float[2,12] y) <int64[2] s = {2, 12}> { y = Reshape<allowzero=1>(x, s) }"""
LENGTH = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[2,3,4,5] x) => (float[2,3,4,5] y) { s = Shape<start=3>(x)  f = Cast<to=1>(s)  y = Mul(x, f) }"""
UNEVEN = """
  <ir_version: 6, opset_import: ["": 11]>
  g (float[1,1,4,4] x) => (float[1,1,2,2] y) <float[1,1,3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}> {
    y = Conv<kernel_shape=[3,3], pads=[0,0,1,1], strides=[2,2]>(x, w)
  }"""


@record(frozen=True, slots=True)
class Witness:
    """A rule, the consumer and its version, and a model: its text, or the title of one of the rule's tests."""

    rule: str
    consumer: str
    version: str
    model: str


WITNESSES = (
    Witness("TGT001", "onnx2torch", "onnx2torch 1.5.15", VIEW),
    Witness("TGT004", "opencv", "OpenCV 4.14.0", "value_ints"),
    Witness("TGT005", "opencv", "OpenCV 4.8.1", LENGTH),
    Witness("TGT007", "opencv", "OpenCV 4.6.0", "two of four, as attribute"),
    Witness("TGT007", "tract", "tract 0.23.9", "two of four, as attribute"),
    Witness("TGT008", "qnn", "QNN 2.7.0", "one is left"),
    Witness("TGT013", "mnn", "MNN 3.6.1", NUMBER),
    Witness("TGT016", "opencv", "OpenCV 4.5.1", UNEVEN),
    Witness("TGT017", "mnn", "MNN 3.6.1", "AveragePool with more padding at the end"),
    Witness("TGT019", "onnxruntime", "onnxruntime 1.16.3", "the last window hangs over"),
    Witness("TGT021", "opencv", "OpenCV 4.6.0", "at most six"),
    Witness("TGT022", "opencv", "OpenCV 4.6.0", "with an operand"),
    Witness("TGT045", "ncnn", "ncnn 1.0.20261020", "one channel"),
    Witness("TGT045", "opencv", "OpenCV 4.5.1", "one channel"),
    Witness("TGT046", "qnn", "QNN 2.7.0", "opset 11"),
    Witness("TGT047", "qnn", "QNN 2.7.0", "two channels"),
    Witness("TGT049", "tract", "tract 0.23.9", "of the same type"),
    Witness("TGT054", "opencv", "OpenCV 4.14.0", GELU),
    Witness("TGT054", "opencv", "OpenCV 5.0.0", GELU),
    Witness("TGT055", "opencv", "OpenCV 5.0.0", MASK),
    Witness("TGT055", "qnn", "QNN 2.7.0", MASK),
    Witness("TGT056", "opencv", "OpenCV 5.0.0", NEGATIVE),
    Witness("TGT057", "opencv", "OpenCV 5.0.0", MAGNITUDE),
    Witness("TGT058", "mnn", "MNN 3.6.1", REMAINDER),
    Witness("TGT070", "ncnn", "ncnn 1.0.20261020", "along the channels"),
    Witness("TGT070", "tvm", "TVM 0.27.0.post1", "along the channels"),
)


def model_text(witness: Witness) -> str:
    """The model of a witness; the first test of its rule that has the title."""
    rule = load_rules().get(witness.rule)
    assert rule is not None
    return next((test.before for test in rule.ast.tests if test.title == witness.model), witness.model)
