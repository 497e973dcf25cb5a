"""Operators by what becomes of the shapes of their operands; of ONNX's own domain, from its first opset to the last."""

from __future__ import annotations

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
