"""Operators by what becomes of the shapes of their operands; of ONNX's own domain, from its first opset to the last."""

from __future__ import annotations

from collections.abc import Mapping

CASTS_BY_NUMBER = 6
"""From this opset on a Cast names its type by a number."""

SAME_AS_FIRST = frozenset(
    {
        "Abs", "Acos", "Acosh", "Affine", "Asin", "Asinh", "Atan", "Atanh", "BatchNormalization", "BitwiseNot", "Ceil",
        "Celu", "Clip", "Cos", "Cosh", "CumSum", "Dropout", "Elu", "Erf", "Exp", "Floor", "Gelu", "GroupNormalization",
        "HardSigmoid", "HardSwish", "Hardmax", "Identity", "ImageScaler", "InstanceNormalization", "LRN",
        "LayerNormalization", "LeakyRelu", "Log", "LogSoftmax", "LpNormalization", "MeanVarianceNormalization", "Mish",
        "Neg", "Not", "PRelu", "ParametricSoftplus", "RMSNormalization", "Reciprocal", "Relu", "ReverseSequence",
        "Round", "ScaledTanh", "Scale", "Scatter", "ScatterElements", "ScatterND", "Selu", "Shrink", "Sigmoid", "Sign",
        "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu", "Trilu",
    }
)  # fmt: skip
"""Operators whose first output has the element type and shape of the first operand, whatever else is wrong with them."""

BOOLEAN = frozenset(("And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Or", "Xor"))
BROADCAST = BOOLEAN | {"Add", "Div", "Max", "Mean", "Min", "Mod", "Mul", "Pow", "Sub", "Sum", "Where"}
"""Operators that broadcast all their operands against each other; the first ones say true or false."""

GLOBAL_POOLS = frozenset(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"))
"""Operators that make one of all places of an image."""

POOLS = frozenset(("AveragePool", "LpPool", "MaxPool"))
"""Operators that make one of the places under a window."""

SIZE_OPERANDS: Mapping[str, tuple[int, ...]] = {
    **dict.fromkeys(("Reshape", "Expand", "Tile", "TopK", "OneHot", "Split", "Unsqueeze", "Upsample"), (1,)),
    "ConstantOfShape": (0,),
    "Slice": (1, 2, 3, 4),
    "Pad": (1, 3),
    "Resize": (1, 2, 3),
    "Range": (0, 1, 2),
}
"""Operands whose values, not only types, decide how large the outputs are."""

SHAPE_OPERANDS: Mapping[str, tuple[int, ...]] = {
    **SIZE_OPERANDS,
    **dict.fromkeys(("SplitToSequence", "Squeeze", "CenterCropPad", "AffineGrid"), (1,)),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax"), (1,)),
    **dict.fromkeys(("ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"), (1,)),
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow"), (0,)),
    "Col2Im": (1, 2),
    "DFT": (1, 2),
    "STFT": (1, 3),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
}
"""Operands whose values decide the shapes of the outputs, be it only their ranks."""
