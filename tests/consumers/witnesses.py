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
BOTH = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[2,3] x, float[2,3] z) => (float[2,3] y) <float zero = {0}> {
    a = Greater(x, zero)  b = Greater(z, zero)  c = And(a, b)  y = Where(c, x, z)
  }"""
EITHER = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[2,3] x, float[2,3] z) => (float[2,3] y) <float zero = {0}> {
    a = Greater(x, zero)  b = Greater(z, zero)  c = Or(a, b)  y = Where(c, x, z)
  }"""
CHOICE = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[2,3] x, float[2,3] z) => (float[2,3] y) <bool[3] mask = {0, 1, 1}> { y = Where(mask, x, z) }"""
ROWS = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[3,4] x) => (float[2,4] y) <int64[2,1] i = {2, 0}> { y = GatherND(x, i) }"""
PLACES = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[3,4] x) => (float[2] y) <int64[2,2] i = {2, 0, 1, 3}> { y = GatherND(x, i) }"""
WHOLE = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[3,4] x) => (float[3,4] y) { i = Cast<to=6>(x)  y = Cast<to=1>(i) }"""
THIRDS = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[3,4] x) => (float[3,4] y) <float three = {3}> { m = Mul(x, three)  i = Cast<to=6>(m)  y = Cast<to=1>(i) }"""
TRUTH = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[3,4] x) => (float[3,4] y) { b = Cast<to=9>(x)  y = Cast<to=1>(b) }"""
SLOPES = """
  <ir_version: 8, opset_import: ["": 9]>
  g (float[2,3,3,3] x) => (float[2,3,3,3] y) <float[3] s = {0.25, 0.5, 0.75}> { y = PRelu(x, s) }"""
BORDER = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[1,2,6,6] x) => (float[1,2,3,3] y) {
    y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2], count_include_pad=1>(x)
  }"""
OVERHANG = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[1,2,6,6] x) => (float[1,2,4,4] y) {
    y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2], count_include_pad=1, ceil_mode=1>(x)
  }"""
COLUMNS = """
  <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
  g (float[2,3] x) => (float[2,2] y) <int64[2] i = {0, 2}> { y = ai.onnx.ml.ArrayFeatureExtractor(x, i) }"""
LABELS = """
  <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
  g (float[2,3] x) => (float[1,2] y) <float[3] l = {5, 7, 9}> {
    m = ArgMax<axis=1, keepdims=0>(x)  y = ai.onnx.ml.ArrayFeatureExtractor(l, m)
  }"""
REGRESSION = """
  <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
  g (float[2,3] x) => (float[2,1] y) {
    y = ai.onnx.ml.LinearRegressor<coefficients=[1.0, 2.0, 3.0], intercepts=[0.5]>(x)
  }"""
CLASSES = """
  <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
  g (float[2,2] x) => (int64[2] l, float[2,2] y) {
    l, y = ai.onnx.ml.LinearClassifier
      <classlabels_ints=[4, 6], coefficients=[1.0, 2.0, 3.0, 1.0], intercepts=[0.5, 1.0], post_transform="SOFTMAX">(x)
  }"""
SCALES = """
  <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
  g (float[2,3] x) => (float[2,3] y) {
    y = ai.onnx.ml.Scaler<offset=[1.0, 2.0, 3.0], scale=[0.5, 1.5, 2.5]>(x)
  }"""
NORM1 = """
  <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
  g (float[2,3] x) => (float[2,3] y) { y = ai.onnx.ml.Normalizer<norm="L1">(x) }"""
NORM2 = """
  <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
  g (float[2,3] x) => (float[2,3] y) { y = ai.onnx.ml.Normalizer<norm="L2">(x) }"""
GAPS = """
  <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
  g (float[2,2] x) => (float[2,2] y) {
    y = ai.onnx.ml.Imputer<imputed_value_floats=[0.5, 1.0], replaced_value_float=nan>(x)
  }"""
CHANCES = """
  <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
  g (float[2,2] x) => (int64[2] l, float[2,2] y) {
    l, y = ai.onnx.ml.LinearClassifier
      <classlabels_ints=[4, 6], coefficients=[1.0, 2.0, 3.0, 1.0], intercepts=[0.5, 1.0], post_transform="LOGISTIC">(x)
  }"""
LIMITS = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[1,6,4] b, float[1,1,6] s) => (int64[K,3] y) <int64 most = {3}, float overlap = {0.5}> {
    y = NonMaxSuppression(b, s, most, overlap)
  }"""
CLIPPED = """
  <ir_version: 8, opset_import: ["": 9]>
  g (float[2,3,4,4] x) => (float[2,3,4,4] y) { y = Clip<min=-0.25, max=0.5>(x) }"""
CUT = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[N,2,8,8] x) => (float[N,2,8,6] y) <int64[8] l = {0, 0, 2, -1, 0, 0, -2, -1}> { y = Pad(x, l) }"""
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
COLUMN = """
  <ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 1]>
  g (float[2,3] x) => (float[2,2] y) <int64 i = {2}> {
    c = ai.onnx.ml.ArrayFeatureExtractor(x, i)  y = Concat<axis=1>(c, c)
  }"""
FEATURES = """
  <ir_version: 7, opset_import: ["ai.onnx.ml": 1]>
  g (float[2,3] x) => (float[2,3] y) {
    y = ai.onnx.ml.Scaler<offset=[1.0, 2.0, 3.0], scale=[0.5, 1.5, 2.5]>(x)
  }"""
LARGEST = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[4,8] x) => (float[4] y) {
    n = Neg(x)  a = Abs(n)  s = ReduceSum<keepdims=1>(a)  t = Add(n, s)  m = ArgMax<axis=1, keepdims=0>(t)  y = Cast<to=1>(m)
  }"""
POSITIONS = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[2,5] x) => (float[2,5] y) <float zero = {0}, int64 a = {1}> {
    m = Greater(x, zero)  i = Cast<to=7>(m)  c = CumSum(i, a)  y = Cast<to=1>(c)
  }"""
HALVES = """
  <ir_version: 8, opset_import: ["": 17]>
  g (float[2,6,8] x) => (float[2,12,2] y)
    <int64[3] s = {2, 12, 4}, int64[1] b = {0}, int64[1] e = {4}, int64[1] a = {2}, int64[1] t = {2}> {
    r = Reshape(x, s)  y = Slice(r, b, e, a, t)
  }"""

CONVOLVED_VOLUME = """
  <ir_version: 8, opset_import: ["": 13]>
  g (float[1,1,3,4,5] x) => (float[1,1,2,3,4] y) <float[1,1,2,2,2] w = {1, 2, -3, 4, 5, -6, 7, 8}, float[1] s = {2}, float[1] b = {1}> {
    c = Conv<kernel_shape=[2,2,2]>(x, w)  y = InstanceNormalization(c, s, b)
  }"""
HALVES_TO_EVEN = """
  <ir_version: 8, opset_import: ["": 13]>
  g (float[3,4] x) => (float[3,4] y) <float half = {0.5}> { r = Round(x)  h = Mul(r, half)  y = Round(h) }"""
LAST_OF_EACH = """
  <ir_version: 8, opset_import: ["": 13]>
  g (float[2,4] x) => (float[2,2] y) <int64[2,2] i = {-1, 2, 0, -4}> { y = GatherElements<axis=1>(x, i) }"""


@record(frozen=True, slots=True)
class Witness:
    """A rule, the consumer and its version, and a model: its text, or the title of one of the rule's tests.

    A rule that only begins a repair names the `others` that finish it.
    """

    rule: str
    consumer: str
    version: str
    model: str
    others: tuple[str, ...] = ()


GRU = "<float[1,3,2] w = {0.3, -0.5, 0.8, 0.1, -0.2, 0.6}, float[1,3,1] r = {0.2, 0.4, -0.6}, float[1,6] b = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}>"
LSTM = "<float[1,4,1] w = {0.3, -0.5, 0.8, 1}, float[1,4,1] r = {0.2, 0.4, -0.6, 1}, float[1,8] b = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8}>"
RNN = "<float[1,1,1] w = {0.3}, float[1,1,1] r = {-0.6}, float[1,2] b = {0.1, 0.2}>"
GRU_STEPS = f"""
  <ir_version: 8, opset_import: ["": 14]>
  g (float[5,2,2] x) => (float[5,1,2,1] y) {GRU} {{ y = GRU<hidden_size=1, linear_before_reset=1>(x, w, r, b) }}"""
LSTM_STEPS = f"""
  <ir_version: 8, opset_import: ["": 14]>
  g (float[5,2,1] x) => (float[5,1,2,1] y) {LSTM} {{ y = LSTM<hidden_size=1>(x, w, r, b) }}"""
GRU_BACKWARDS = f"""
  <ir_version: 8, opset_import: ["": 14]>
  g (float[5,2,2] x) => (float[5,1,2,1] y, float[1,2,1] h) {GRU} {{
    y, h = GRU<hidden_size=1, linear_before_reset=1, direction="reverse">(x, w, r, b)
  }}"""
LSTM_BACKWARDS = f"""
  <ir_version: 8, opset_import: ["": 14]>
  g (float[5,2,1] x) => (float[5,1,2,1] y, float[1,2,1] h) {LSTM} {{
    y, h, c = LSTM<hidden_size=1, direction="reverse">(x, w, r, b)
  }}"""
RNN_BACKWARDS = f"""
  <ir_version: 8, opset_import: ["": 14]>
  g (float[5,2,1] x) => (float[5,1,2,1] y, float[1,2,1] h) {RNN} {{ y, h = RNN<hidden_size=1, direction="reverse">(x, w, r, b) }}"""
WITH_TREES = (
    ("mnn", "MNN 3.6.1"),
    ("onnx2torch", "onnx2torch 1.5.15"),
    ("opencv", "OpenCV 4.14.0"),
    ("opencv", "OpenCV 5.0.0"),
    ("openvino", "OpenVINO 2026.4.1"),
    ("rknn", "RKNN 2.5.0"),
    ("tract", "tract 0.23.9"),
    ("tvm", "TVM 0.27.0.post1"),
)
CLASSIFIERS = {
    **dict.fromkeys(("TGT107", "TGT108", "TGT109"), "three classes"),
    **dict.fromkeys(("TGT173", "TGT174"), "two leaves"),
}


def _forest(trees: int) -> str:
    """A model of so many trees, each of one comparison."""
    pairs = ", ".join(f"{tree}, {tree}" for tree in range(trees))
    nodes = ", ".join(f"{tree}, {tree}, {tree}" for tree in range(trees))
    return f"""
  <ir_version: 8, opset_import: ["": 13, "ai.onnx.ml": 1]>
  g (float[3,2] x) => (float[3,1] y) {{
    y = ai.onnx.ml.TreeEnsembleRegressor
      <n_targets=1, nodes_falsenodeids={[2, 0, 0] * trees}, nodes_featureids={[0, 1, 1] * trees},
       nodes_modes=[{", ".join(['"BRANCH_LEQ"', '"LEAF"', '"LEAF"'] * trees)}], nodes_nodeids={[0, 1, 2] * trees},
       nodes_treeids=[{nodes}], nodes_truenodeids={[1, 0, 0] * trees}, nodes_values={[0.5, 0.0, 0.0] * trees},
       target_ids={[0, 0] * trees}, target_nodeids={[1, 2] * trees}, target_treeids=[{pairs}],
       target_weights={[0.25, 0.5] * trees}>(x)
  }}"""


MAP = """
  <ir_version: 8, opset_import: ["": 13]>
  g (float[1,2,3,3] x) => (float[1,2,3,3] y) <float[2,2,1,1] w = {0.5, -0.25, 0.75, 1}, float[1,2,1,1] v = {0.5, -0.75}> {
    c = Conv(x, w)  m = Conv(c, v)  e = Sigmoid(m)  y = OPERATOR(c, e)
  }"""
GROUPS_OF_ROWS = """
  <ir_version: 8, opset_import: ["": 13]>
  g (float[1,2,5] x) => (float[1,2,5] y)
    <float[2,2,1] w = {0.5, -0.25, 0.75, 1}, int64[3] t = {0, 1, -1}, float[1] one = {1}, float[1] zero = {0}, int64[3] u = {1, 2, 5},
     float[2,1] s = {1, 2}>
  {
    c = Conv(x, w)  g = Reshape(c, t)  i = InstanceNormalization(g, one, zero)  r = Reshape(i, u)  m = Mul(r, s)  y = Add(m, s)
  }"""
COLUMN = """
  <ir_version: 8, opset_import: ["": 13]>
  g (float[2,3] x) => (float[6,1] y) { r = Relu(x)  y = Flatten<axis=2>(r) }"""
LOWEST = """
  <ir_version: 8, opset_import: ["": 13]>
  g (float[4] x) => (float[4] y) <double d = {0.5}> { l = Cast<to=1>(d)  y = Clip(x, l) }"""
RAW_CLASSES = CLASSES.replace("SOFTMAX", "NONE")
SPATIAL = {"TGT176": "Mul", "TGT177": "Add", "TGT178": "Div", "TGT179": "Sub"}

WITNESSES = (
    Witness("TGT001", "onnx2torch", "onnx2torch 1.5.15", VIEW),
    Witness("TGT004", "opencv", "OpenCV 4.14.0", "value_ints"),
    Witness("TGT005", "opencv", "OpenCV 4.8.1", LENGTH),
    Witness("TGT007", "opencv", "OpenCV 4.6.0", "two of four, as attribute"),
    Witness("TGT007", "tract", "tract 0.23.9", "two of four, as attribute"),
    Witness("TGT008", "qnn", "QNN 2.7.0", "one is left"),
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
    Witness("TGT013", "opencv", "OpenCV 4.14.0", NUMBER),
    Witness("TGT019", "opencv", "OpenCV 4.14.0", OVERHANG),
    Witness("TGT019", "opencv", "OpenCV 5.0.0", OVERHANG),
    Witness("TGT019", "openvino", "OpenVINO 2026.4.1", OVERHANG),
    Witness("TGT029", "opencv", "OpenCV 4.14.0", CHOICE),
    Witness("TGT029", "opencv", "OpenCV 5.0.0", CHOICE),
    Witness("TGT054", "opencv", "OpenCV 4.14.0", GELU),
    Witness("TGT054", "opencv", "OpenCV 5.0.0", GELU),
    Witness("TGT055", "opencv", "OpenCV 5.0.0", MASK),
    Witness("TGT055", "qnn", "QNN 2.7.0", MASK),
    Witness("TGT056", "opencv", "OpenCV 5.0.0", NEGATIVE),
    Witness("TGT057", "opencv", "OpenCV 5.0.0", MAGNITUDE),
    Witness("TGT058", "mnn", "MNN 3.6.1", REMAINDER),
    Witness("TGT070", "ncnn", "ncnn 1.0.20261020", "along the channels"),
    Witness("TGT070", "tvm", "TVM 0.27.0.post1", "along the channels"),
    Witness("TGT060", "opencv", "OpenCV 4.14.0", BOTH),
    Witness("TGT061", "opencv", "OpenCV 4.14.0", EITHER),
    Witness("TGT062", "opencv", "OpenCV 4.14.0", ROWS),
    Witness("TGT063", "opencv", "OpenCV 4.14.0", PLACES),
    Witness("TGT064", "opencv", "OpenCV 4.14.0", WHOLE),
    Witness("TGT064", "qnn", "QNN 2.7.0", THIRDS),
    Witness("TGT065", "mnn", "MNN 3.6.1", TRUTH),
    Witness("TGT065", "opencv", "OpenCV 4.14.0", TRUTH),
    Witness("TGT066", "mnn", "MNN 3.6.1", SLOPES),
    Witness("TGT066", "ncnn", "ncnn 1.0.20261020", SLOPES),
    Witness("TGT066", "opencv", "OpenCV 4.14.0", SLOPES),
    Witness("TGT066", "opencv", "OpenCV 5.0.0", SLOPES),
    Witness("TGT066", "openvino", "OpenVINO 2026.4.1", SLOPES),
    Witness("TGT067", "opencv", "OpenCV 4.14.0", BORDER),
    Witness("TGT068", "mnn", "MNN 3.6.1", COLUMNS),
    Witness("TGT068", "onnx2torch", "onnx2torch 1.5.15", COLUMNS),
    Witness("TGT068", "opencv", "OpenCV 4.14.0", COLUMNS),
    Witness("TGT068", "opencv", "OpenCV 5.0.0", COLUMNS),
    Witness("TGT068", "openvino", "OpenVINO 2026.4.1", COLUMNS),
    Witness("TGT069", "mnn", "MNN 3.6.1", LABELS),
    Witness("TGT069", "onnx2torch", "onnx2torch 1.5.15", LABELS),
    Witness("TGT069", "opencv", "OpenCV 4.14.0", LABELS),
    Witness("TGT069", "opencv", "OpenCV 5.0.0", LABELS),
    Witness("TGT069", "openvino", "OpenVINO 2026.4.1", LABELS),
    Witness("TGT080", "mnn", "MNN 3.6.1", REGRESSION),
    Witness("TGT080", "onnx2torch", "onnx2torch 1.5.15", REGRESSION),
    Witness("TGT080", "opencv", "OpenCV 4.14.0", REGRESSION),
    Witness("TGT080", "opencv", "OpenCV 5.0.0", REGRESSION),
    Witness("TGT080", "openvino", "OpenVINO 2026.4.1", REGRESSION),
    Witness("TGT080", "qnn", "QNN 2.7.0", REGRESSION),
    Witness("TGT081", "mnn", "MNN 3.6.1", CLASSES),
    Witness("TGT081", "onnx2torch", "onnx2torch 1.5.15", CLASSES),
    Witness("TGT081", "opencv", "OpenCV 4.14.0", CLASSES),
    Witness("TGT081", "opencv", "OpenCV 5.0.0", CLASSES),
    Witness("TGT081", "openvino", "OpenVINO 2026.4.1", CLASSES),
    Witness("TGT082", "mnn", "MNN 3.6.1", CHANCES),
    Witness("TGT082", "onnx2torch", "onnx2torch 1.5.15", CHANCES),
    Witness("TGT082", "opencv", "OpenCV 4.14.0", CHANCES),
    Witness("TGT082", "opencv", "OpenCV 5.0.0", CHANCES),
    Witness("TGT082", "openvino", "OpenVINO 2026.4.1", CHANCES),
    Witness("TGT083", "mnn", "MNN 3.6.1", SCALES),
    Witness("TGT083", "onnx2torch", "onnx2torch 1.5.15", SCALES),
    Witness("TGT083", "opencv", "OpenCV 4.14.0", SCALES),
    Witness("TGT083", "opencv", "OpenCV 5.0.0", SCALES),
    Witness("TGT083", "openvino", "OpenVINO 2026.4.1", SCALES),
    Witness("TGT083", "qnn", "QNN 2.7.0", SCALES),
    Witness("TGT083", "tract", "tract 0.23.9", SCALES),
    Witness("TGT084", "mnn", "MNN 3.6.1", NORM1),
    Witness("TGT084", "onnx2torch", "onnx2torch 1.5.15", NORM1),
    Witness("TGT084", "opencv", "OpenCV 4.14.0", NORM1),
    Witness("TGT084", "opencv", "OpenCV 5.0.0", NORM1),
    Witness("TGT085", "mnn", "MNN 3.6.1", NORM2),
    Witness("TGT085", "onnx2torch", "onnx2torch 1.5.15", NORM2),
    Witness("TGT085", "opencv", "OpenCV 4.14.0", NORM2),
    Witness("TGT085", "opencv", "OpenCV 5.0.0", NORM2),
    Witness("TGT086", "mnn", "MNN 3.6.1", GAPS),
    Witness("TGT086", "onnx2torch", "onnx2torch 1.5.15", GAPS),
    Witness("TGT086", "opencv", "OpenCV 4.14.0", GAPS),
    Witness("TGT086", "opencv", "OpenCV 5.0.0", GAPS),
    Witness("TGT086", "openvino", "OpenVINO 2026.4.1", GAPS),
    Witness("TGT086", "qnn", "QNN 2.7.0", GAPS),
    Witness("TGT086", "tract", "tract 0.23.9", GAPS),
    Witness("TGT087", "tract", "tract 0.23.9", LIMITS),
    Witness("TGT088", "qnn", "QNN 2.7.0", CLIPPED),
    Witness("TGT089", "mnn", "MNN 3.6.1", CUT),
    Witness("TGT089", "tract", "tract 0.23.9", CUT),
    Witness("TGT090", "mnn", "MNN 3.6.1", "along the channels"),
    Witness("TGT091", "mnn", "MNN 3.6.1", "a row of a ring"),
    Witness("TGT091", "opencv", "OpenCV 4.14.0", "a row of a ring"),
    Witness("TGT091", "openvino", "OpenVINO 2026.4.1", "a row of a ring"),
    Witness("TGT091", "tract", "tract 0.23.9", "a row of a ring"),
    Witness("TGT092", "mnn", "MNN 3.6.1", "the border of a torus", ("TGT091",)),
    Witness("TGT092", "opencv", "OpenCV 4.14.0", "the border of a torus", ("TGT091",)),
    Witness("TGT092", "openvino", "OpenVINO 2026.4.1", "the border of a torus", ("TGT091",)),
    Witness("TGT092", "tract", "tract 0.23.9", "the border of a torus", ("TGT091",)),
    Witness("TGT068", "tract", "tract 0.23.9", COLUMN),
    Witness("TGT094", "mnn", "MNN 3.6.1", FEATURES, ("TGT083",)),
    Witness("TGT094", "opencv", "OpenCV 4.14.0", FEATURES, ("TGT083",)),
    Witness("TGT094", "opencv", "OpenCV 5.0.0", FEATURES, ("TGT083",)),
    Witness("TGT094", "openvino", "OpenVINO 2026.4.1", FEATURES, ("TGT083",)),
    Witness("TGT094", "tract", "tract 0.23.9", FEATURES, ("TGT083",)),
    Witness("TGT095", "mnn", "MNN 3.6.1", "the trace of each matrix"),
    Witness("TGT095", "opencv", "OpenCV 4.14.0", "the trace of each matrix", ("TGT096",)),
    Witness("TGT095", "opencv", "OpenCV 5.0.0", "the trace of each matrix", ("TGT096",)),
    Witness("TGT096", "opencv", "OpenCV 4.14.0", "sum over the middle, then transpose"),
    Witness("TGT096", "opencv", "OpenCV 5.0.0", "sum over the middle, then transpose"),
    Witness("TGT097", "opencv", "OpenCV 5.0.0", "an image halved"),
    Witness("TGT098", "opencv", "OpenCV 5.0.0", "an excitation"),
    Witness("TGT099", "mnn", "MNN 3.6.1", "two operands"),
    Witness("TGT100", "mnn", "MNN 3.6.1", "a column and a row"),
    Witness("TGT101", "mnn", "MNN 3.6.1", "four operands"),
    Witness("TGT102", "mnn", "MNN 3.6.1", "four operands"),
    Witness("TGT103", "opencv", "OpenCV 4.14.0", LARGEST, ("TGT022",)),
    Witness("TGT104", "tract", "tract 0.23.9", "turned weights"),
    Witness("TGT105", "tract", "tract 0.23.9", POSITIONS),
    Witness("TGT106", "tract", "tract 0.23.9", HALVES),
    Witness("TGT012", "mnn", "MNN 3.6.1", "it looks for both infinities"),
    Witness("TGT059", "mnn", "MNN 3.6.1", "axes as an operand"),
    *(Witness(f"TGT{number}", "mnn", "MNN 3.6.1", "the last axis") for number in range(110, 114)),
    *(Witness(f"TGT{number}", "openvino", "OpenVINO 2026.4.1", "the last axis") for number in range(114, 121)),
    *(Witness(code, "openvino", "OpenVINO 2026.4.1", "an attribute of opset 13") for code in ("TGT110", "TGT112", "TGT113")),
    Witness("TGT121", "mnn", "MNN 3.6.1", "a column and a row"),
    Witness("TGT122", "mnn", "MNN 3.6.1", "a column and a row"),
    Witness("TGT123", "mnn", "MNN 3.6.1", "two parts of five rows"),
    Witness("TGT124", "tract", "tract 0.23.9", "two vectors"),
    Witness("TGT043", "mnn", "MNN 3.6.1", "four channels in two groups"),
    Witness("TGT140", "mnn", "MNN 3.6.1", "the last axis"),
    Witness("TGT141", "mnn", "MNN 3.6.1", "an activation"),
    Witness("TGT142", "mnn", "MNN 3.6.1", "a column"),
    *(Witness(f"TGT{number}", "opencv", "OpenCV 5.0.0", "the mean of a group") for number in range(143, 147)),
    Witness("TGT097", "mnn", "MNN 3.6.1", "more at the beginning"),
    Witness("TGT125", "openvino", "OpenVINO 2026.4.1", "two axes"),
    Witness("TGT125", "opencv", "OpenCV 5.0.0", "two axes"),
    Witness("TGT126", "mnn", "MNN 3.6.1", "two axes"),
    Witness("TGT126", "opencv", "OpenCV 5.0.0", "two axes"),
    Witness("TGT127", "mnn", "MNN 3.6.1", "a batch of volumes"),
    Witness("TGT127", "opencv", "OpenCV 5.0.0", "a batch of volumes"),
    Witness("TGT128", "mnn", "MNN 3.6.1", "a batch of volumes"),
    Witness("TGT128", "opencv", "OpenCV 5.0.0", "a batch of volumes"),
    Witness("TGT129", "tract", "tract 0.23.9", "alpha 0.5"),
    Witness("TGT130", "opencv", "OpenCV 5.0.0", "an image halved"),
    Witness("TGT130", "mnn", "MNN 3.6.1", "more at the beginning"),
    Witness("TGT131", "opencv", "OpenCV 5.0.0", "an image halved"),
    Witness("TGT131", "mnn", "MNN 3.6.1", "more at the beginning"),
    Witness("TGT132", "mnn", "MNN 3.6.1", "the size of the output"),
    Witness("TGT132", "opencv", "OpenCV 5.0.0", "the size of the output"),
    Witness("TGT132", "openvino", "OpenVINO 2026.4.1", "the size of the output"),
    Witness("TGT132", "tract", "tract 0.23.9", "the size of the output"),
    Witness("TGT133", "mnn", "MNN 3.6.1", "windows of three"),
    Witness("TGT134", "mnn", "MNN 3.6.1", "a turned matrix"),
    Witness("TGT135", "opencv", "OpenCV 5.0.0", GRU_STEPS),
    Witness("TGT136", "mnn", "MNN 3.6.1", LSTM_STEPS),
    Witness("TGT137", "mnn", "MNN 3.6.1", GRU_BACKWARDS),
    Witness("TGT137", "opencv", "OpenCV 5.0.0", GRU_BACKWARDS),
    Witness("TGT137", "tract", "tract 0.23.9", GRU_BACKWARDS),
    Witness("TGT138", "mnn", "MNN 3.6.1", LSTM_BACKWARDS),
    Witness("TGT138", "opencv", "OpenCV 5.0.0", LSTM_BACKWARDS),
    Witness("TGT138", "tract", "tract 0.23.9", LSTM_BACKWARDS),
    Witness("TGT139", "mnn", "MNN 3.6.1", RNN_BACKWARDS),
    Witness("TGT139", "tract", "tract 0.23.9", RNN_BACKWARDS),
    Witness("TGT147", "opencv", "OpenCV 5.0.0", CONVOLVED_VOLUME),
    Witness("TGT148", "opencv", "OpenCV 5.0.0", "twice as large"),
    Witness("TGT148", "mnn", "MNN 3.6.1", "twice as large"),
    Witness("TGT149", "opencv", "OpenCV 5.0.0", "seven rows"),
    Witness("TGT150", "mnn", "MNN 3.6.1", "padding and strides of each axis"),
    Witness("TGT151", "mnn", "MNN 3.6.1", "padding and strides of each axis"),
    Witness("TGT152", "tract", "tract 0.23.9", "seven rows become three"),
    Witness("TGT153", "mnn", "MNN 3.6.1", NUMBER),
    Witness("TGT154", "mnn", "MNN 3.6.1", HALVES_TO_EVEN),
    Witness("TGT155", "mnn", "MNN 3.6.1", "a threshold"),
    Witness("TGT156", "openvino", "OpenVINO 2026.4.1", "features"),
    Witness("TGT157", "mnn", "MNN 3.6.1", LAST_OF_EACH),
    Witness("TGT158", "mnn", "MNN 3.6.1", "the last column"),
    Witness("TGT159", "mnn", "MNN 3.6.1", "the last rows"),
    Witness("TGT159", "opencv", "OpenCV 5.0.0", "the last rows"),
    Witness("TGT159", "tract", "tract 0.23.9", "the last rows"),
    Witness("TGT160", "tract", "tract 0.23.9", "the last row"),
    Witness("TGT161", "mnn", "MNN 3.6.1", "every second place"),
    Witness("TGT162", "opencv", "OpenCV 4.14.0", "five steps"),
    Witness("TGT162", "opencv", "OpenCV 5.0.0", "five steps"),
    Witness("TGT162", "tract", "tract 0.23.9", "five steps"),
    Witness("TGT163", "opencv", "OpenCV 4.14.0", "two heads"),
    Witness("TGT163", "opencv", "OpenCV 5.0.0", "two heads"),
    Witness("TGT164", "mnn", "MNN 3.6.1", "a length"),
    Witness("TGT165", "mnn", "MNN 3.6.1", "two operands"),
    *(Witness(code, "mnn", "MNN 3.6.1", "an image of one pixel") for code in ("TGT166", "TGT167")),
    *(Witness(code, "opencv", "OpenCV 4.14.0", "an image of one pixel") for code in ("TGT166", "TGT167")),
    *(Witness(code, "opencv", "OpenCV 5.0.0", "an image of one pixel") for code in ("TGT166", "TGT167")),
    *(
        Witness(f"TGT{number}", "opencv", "OpenCV 5.0.0", "the mean of a group", (f"TGT{number - 25}",))
        for number in range(168, 172)
    ),
    Witness("TGT172", "mnn", "MNN 3.6.1", "two channels"),
    *(Witness(code, "opencv", "OpenCV 5.0.0", MAP.replace("OPERATOR", operator)) for code, operator in SPATIAL.items()),
    Witness("TGT182", "tract", "tract 0.23.9", "whole numbers"),
    *(
        Witness("TGT188", *consumer, "a condition that a counter decides")
        for consumer in (("opencv", "OpenCV 4.14.0"), ("opencv", "OpenCV 5.0.0"), ("tract", "tract 0.23.9"))
    ),
    *(
        Witness(code, *consumer, "the last window begins in the padding")
        for code in ("TGT186", "TGT187")
        for consumer in (("mnn", "MNN 3.6.1"), ("opencv", "OpenCV 5.0.0"))
    ),
    Witness("TGT034", "onnx2torch", "onnx2torch 1.5.15", LOWEST),
    Witness("TGT035", "onnx2torch", "onnx2torch 1.5.15", "an upper bound"),
    Witness("TGT036", "onnx2torch", "onnx2torch 1.5.15", "a bound from outside"),
    Witness("TGT189", "onnx2torch", "onnx2torch 1.5.15", COLUMN),
    Witness("TGT190", "onnx2torch", "onnx2torch 1.5.15", "the attribute is absent"),
    *(Witness("TGT189", "opencv", f"OpenCV {release}", COLUMN) for release in ("4.5.1", "4.6.0", "4.8.1")),
    Witness("TGT183", "opencv", "OpenCV 5.0.0", "a comparison"),
    Witness("TGT183", "tract", "tract 0.23.9", "a comparison"),
    *(Witness("TGT184", *consumer, RAW_CLASSES) for consumer in WITH_TREES if consumer[0] not in ("rknn", "tract", "tvm")),
    Witness("TGT033", "tract", "tract 0.23.9", "two comparisons"),
    Witness("TGT185", "tract", "tract 0.23.9", "positions from one on"),
    Witness("TGT180", "opencv", "OpenCV 5.0.0", GROUPS_OF_ROWS),
    Witness("TGT181", "opencv", "OpenCV 5.0.0", "after a convolution"),
    *(Witness("TGT175", *consumer, _forest(400), ("TGT093",)) for consumer in WITH_TREES),
    *(Witness("TGT093", *consumer, "a tree of two comparisons") for consumer in WITH_TREES),
    *(
        Witness(code, *consumer, model, ("TGT093", "TGT103", "TGT022"))
        for code, model in CLASSIFIERS.items()
        for consumer in WITH_TREES
        if consumer[0] != "tract"  # which has the classifier, and not the regressor
    ),
)


def model_text(witness: Witness) -> str:
    """The model of a witness; the first test of its rule that has the title."""
    rule = load_rules().get(witness.rule)
    assert rule is not None
    return next((test.before for test in rule.ast.tests if test.title == witness.model), witness.model)
