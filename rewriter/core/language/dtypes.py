"""The element types of ONNX under the names that its text format uses; in expressions these names are reserved words.

The numbers come from `TensorProto.DataType`, which counts from 1 in this order. They are repeated here because importing onnx
takes longer than reading a rule file.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_NAMES = (
    "float", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double", "uint32", "uint64",
    "complex64", "complex128", "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "uint4", "int4",
    "float4e2m1", "float8e8m0", "uint2", "int2",
)  # fmt: skip

DTYPES: Mapping[str, int] = MappingProxyType({name: number for number, name in enumerate(_NAMES, 1)})
DTYPE_NAMES: Mapping[int, str] = MappingProxyType({number: name for name, number in DTYPES.items()})
