"""Which operators of opsets 1 to 6 ONNX Runtime lacks; asked of a graph and of a census alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

SETTLED = 7
"""The first opset that every operator of ONNX Runtime is made for."""

FIRST_KERNEL: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("GlobalLpPool", "LpPool", "Pad", "Split"), 2),
        "Concat": 4,
        **dict.fromkeys(
            (
                "Abs", "Cast", "Ceil", "Clip", "Elu", "Exp", "Floor", "HardSigmoid", "InstanceNormalization", "LeakyRelu",
                "Log", "Max", "Mean", "Min", "Neg", "Reciprocal", "Relu", "Selu", "Sigmoid", "Sqrt", "Sum", "Tanh", "Tile",
            ),
            6,
        ),
        **dict.fromkeys(
            (
                "Add", "And", "AveragePool", "BatchNormalization", "Div", "Dropout", "Equal", "GRU", "Gemm", "Greater", "LSTM",
                "Less", "Mul", "Or", "PRelu", "Pow", "RNN", "Sub", "Upsample", "Xor",
            ),
            7,
        ),
    }
)  # fmt: skip
"""The operators of opsets 1 to 6 of which ONNX Runtime lacks a version, and the first that it has."""
