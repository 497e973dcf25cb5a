"""The element types of ONNX under the names that its text format uses; in expressions these names are reserved words.

The numbers are those of `TensorProto.DataType`, written down here because importing onnx costs more than reading a rule file.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

DTYPES: Mapping[str, int] = MappingProxyType(
    {
        "float": 1,
        "uint8": 2,
        "int8": 3,
        "uint16": 4,
        "int16": 5,
        "int32": 6,
        "int64": 7,
        "string": 8,
        "bool": 9,
        "float16": 10,
        "double": 11,
        "uint32": 12,
        "uint64": 13,
        "complex64": 14,
        "complex128": 15,
        "bfloat16": 16,
        "float8e4m3fn": 17,
        "float8e4m3fnuz": 18,
        "float8e5m2": 19,
        "float8e5m2fnuz": 20,
        "uint4": 21,
        "int4": 22,
        "float4e2m1": 23,
        "float8e8m0": 24,
        "uint2": 25,
        "int2": 26,
    }
)

DTYPE_NAMES: Mapping[int, str] = MappingProxyType({number: name for name, number in DTYPES.items()})
