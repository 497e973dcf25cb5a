"""The ONNX operators that an operator of MXNet is exported to, by any exporter from 1.3 to 1.9.

Two checks use it: whether a symbol file belongs to a model (`acceptance`), and whether a matched node implements the
framework's node, or only has its name (`source_functions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rewriter.core.framework.source_info import SourceNode

# Operator of MXNet: the operators that may make its result.
_MADE_BY = """
BatchNorm: BatchNormalization
BlockGrad MakeLoss identity _copy: Identity ConstantFill
Cast: Cast
Concat concat _rnn_param_concat stack: Concat
Convolution: Conv
Crop: Crop Slice
Deconvolution: ConvTranspose
Dropout: Dropout Identity
Embedding: Gather
Flatten flatten: Flatten Reshape
FullyConnected: Gemm MatMul Add Reshape
InstanceNorm: InstanceNormalization
L2Normalization: LpNormalization
LRN: LRN
LayerNorm: Add Sub LayerNormalization
LogisticRegressionOutput: Sigmoid
LinearRegressionOutput MAERegressionOutput: Identity
Pad pad: Pad
RNN: LSTM GRU RNN Squeeze Concat Transpose Reshape
ROIPooling: MaxRoiPool
Reshape reshape reshape_like: Reshape
SequenceMask: Where Identity
SequenceReverse: ReverseSequence Identity
SliceChannel split _split_v2: Split Squeeze Identity
SoftmaxOutput Softmax SoftmaxActivation: Softmax Reshape
SwapAxis: Transpose Reshape
UpSampling: Upsample Resize ConvTranspose
_arange _contrib_arange_like: Range Reshape Mul Add
_contrib_AdaptiveAvgPooling2D: GlobalAveragePool AveragePool
_contrib_BilinearResize2D: Resize Upsample
_contrib_ROIAlign: RoiAlign Where Mul
_contrib_box_decode: Concat
_contrib_box_nms: NonMaxSuppression ScatterND Reshape
_contrib_div_sqrt_dim: Div
_contrib_interleaved_matmul_selfatt_qk _contrib_interleaved_matmul_selfatt_valatt: MatMul Reshape
_div_scalar _rdiv_scalar elemwise_div broadcast_div: Div
_mul_scalar elemwise_mul broadcast_mul: Mul
_plus_scalar elemwise_add broadcast_add _plus _Plus: Add
_minus_scalar _rminus_scalar elemwise_sub broadcast_sub: Sub
_power_scalar _power broadcast_power: Pow
_equal_scalar broadcast_equal: Equal Cast
_greater_scalar broadcast_greater: Greater Cast
_lesser_scalar broadcast_lesser: Less Cast
broadcast_greater_equal: GreaterOrEqual Cast
broadcast_lesser_equal: LessOrEqual Cast
broadcast_not_equal: Not Cast
broadcast_logical_and: And Cast
broadcast_logical_or: Or Cast
broadcast_logical_xor: Xor Cast
logical_not: Not Cast
_maximum _maximum_scalar broadcast_maximum: Max
_minimum _minimum_scalar broadcast_minimum: Min
broadcast_mod: Mod Sub Where
_linalg_gemm2: MatMul Mul
dot: MatMul
batch_dot: MatMul Reshape
_zeros _ones zeros_like ones_like: ConstantOfShape
_random_normal: RandomNormal
_random_uniform: RandomUniform
_random_uniform_like: RandomUniformLike
_sample_multinomial: Multinomial
abs: Abs
add_n: Sum
arccos: Acos
arcsin: Asin
arctan: Atan
argmax: ArgMax Cast
argmin: ArgMin Cast
argsort: TopK Cast Gather
broadcast_axis broadcast_like broadcast_to: Expand
ceil: Ceil
clip: Clip
cos: Cos
depth_to_space: DepthToSpace
exp: Exp
expand_dims: Unsqueeze
floor: Floor
gather_nd: GatherND
hard_sigmoid: HardSigmoid
log: Log
log2: Div
log_softmax: LogSoftmax Log
max: ReduceMax Reshape Squeeze
mean: ReduceMean Reshape Squeeze
min: ReduceMin Reshape Squeeze
norm: ReduceL1 ReduceL2 Reshape Squeeze
prod: ReduceProd Reshape Squeeze
sum sum_axis: ReduceSum Reshape Squeeze
negative: Neg
one_hot: OneHot Cast
reciprocal: Reciprocal
relu: Relu
repeat: Reshape Tile
reverse: Reshape Gather Transpose
shape_array: Shape
sigmoid: Sigmoid
sin: Sin
size_array: Size Reshape
slice slice_axis slice_like: Slice
softmax: Softmax Div Mul
space_to_depth: SpaceToDepth
sqrt: Sqrt
square: Pow Mul
squeeze: Squeeze
take: Gather
tan: Tan
tanh: Tanh
tile: Tile Reshape
topk: TopK Cast
transpose: Transpose
where: Where
"""

_ACTIVATIONS = {"relu": "Relu", "sigmoid": "Sigmoid", "softrelu": "Softplus", "softsign": "Softsign", "tanh": "Tanh"}
_LEAKY = {"elu": "Elu", "leaky": "LeakyRelu", "prelu": "PRelu", "selu": "Selu", "gelu": "Mul", "rrelu": "LeakyRelu"}
_POOLS = {"max": "MaxPool", "avg": "AveragePool", "lp": "LpPool", "sum": "AveragePool"}

_HELPERS = """
Abs Add And Cast Concat Constant ConstantOfShape Div Equal Erf Exp Expand Flatten Gather GatherND Greater Identity Less Log
MatMul Max Mod Mul Neg NonMaxSuppression Not Or Pad Pow Range ReduceMean ReduceProd ReduceSum Relu Reshape ScatterND Shape
Size Slice Split Sqrt Squeeze Sub Tanh Tile TopK Transpose Unsqueeze Where Xor
"""
HELPERS = frozenset(_HELPERS.split())
"""Operators that exporters write in addition to the nodes of a result: arithmetic on shapes, and decomposed operators."""


def exported_to(node: SourceNode) -> frozenset[str]:
    """The ONNX operators that may make the result of a framework node; none for an operator that no exporter supports."""
    kind = _kind(node.operator, node.attributes)
    if kind is not None:
        return kind
    return _made_by().get(node.operator, frozenset())


@cache
def _made_by() -> Mapping[str, frozenset[str]]:
    lines = (line.partition(":") for line in _MADE_BY.strip().splitlines())
    return {name: frozenset(operators.split()) for names, _, operators in lines for name in names.split()}


def may_become(node: SourceNode, operator: str) -> bool | None:
    """Whether an ONNX operator may make the result of a framework node; None for an operator that no exporter supports."""
    operators = exported_to(node)
    return operator in operators if operators else None


def _kind(operator: str, attributes: Mapping[str, str]) -> frozenset[str] | None:
    """For operators whose export depends on an attribute."""
    if operator == "Activation":
        return _chosen(_ACTIVATIONS, attributes.get("act_type", ""))
    if operator == "LeakyReLU":
        return _chosen(_LEAKY, attributes.get("act_type", "leaky"))
    if operator == "Pooling":
        found = _chosen(_POOLS, attributes.get("pool_type", "max"))
        is_global = attributes.get("global_pool", "False") in ("True", "1")
        return frozenset(f"Global{name}" for name in found) if is_global else found
    if operator == "norm":
        return _made_by()[operator] - {"ReduceL2" if attributes.get("ord", "2") == "1" else "ReduceL1"}
    return None


def _chosen(table: Mapping[str, str], choice: str) -> frozenset[str]:
    return frozenset((table[choice],)) if choice in table else frozenset(table.values())
