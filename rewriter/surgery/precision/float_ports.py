"""Which operands and results of a node may have another floating-point type, as the schema of its operator has it."""

from __future__ import annotations

from functools import cache
from typing import Any

import onnx_graphsurgeon as gs

from rewriter.language import schema
from rewriter.language.dtypes import DTYPE_NAMES, DTYPES

FLOATS = frozenset(DTYPES[name] for name in ("float", "float16", "bfloat16", "double"))
TYPED = frozenset({"dtype", "output_datatype", "output_dtype", "to"})
"""Attributes that tell the element type of a result."""

_TELLING = {"ConstantOfShape": "value", "RandomNormal": "dtype", "RandomUniform": "dtype", "MelWeightMatrix": "output_datatype"}
_WINDOWS = ("BlackmanWindow", "HammingWindow", "HannWindow")
TELLING = {**_TELLING, **dict.fromkeys(_WINDOWS, "output_datatype")}
"""Operators whose result is float where this attribute is not written."""


_RUNTIME = "com.microsoft"
_HALF = frozenset(
    (
        "Attention", "BiasGelu", "EmbedLayerNormalization", "FastGelu", "FusedConv", "FusedGemm", "FusedMatMul", "Gelu",
        "GroupQueryAttention", "MultiHeadAttention", "QuickGelu", "RotaryEmbedding", "SkipLayerNormalization",
        "SkipSimplifiedLayerNormalization",
    )
)  # fmt: skip
"""Operators of ONNX Runtime, of which there are no schemas here, that have all their numbers in float16 or in float."""


@cache
def type_groups(op: str, domain: str, version: int) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """For operands and for results, the type variable of each place; None for an operator without a schema."""
    if domain == _RUNTIME and op in _HALF:
        return ("T", ""), ("T", "")
    found = schema.registered_at(op, domain, version)
    if found is None:
        return None
    free = {one.type_param_str for one in found.type_constraints}
    sides = [tuple(f.type_str if f.type_str in free else "" for f in side) for side in (found.inputs, found.outputs)]
    mixed = {f.type_str for f in found.inputs if f.option == f.option.Variadic and not f.is_homogeneous}
    return tuple("" if t in mixed else t for t in sides[0]), tuple("" if t in mixed else t for t in sides[1])


@cache
def type_variables(op: str, domain: str, version: int, target: int) -> tuple[Any, Any] | None:
    """For operands and for results, the type variable of each place, "" where it cannot be the target type; None for an
    operator without a schema. The last place of a list stands for all further ones.
    """
    if domain == _RUNTIME and op in _HALF and target == DTYPES["float16"]:
        return ("T",), ("T",)
    found = schema.registered_at(op, domain, version)
    if found is None:
        return None
    wanted = f"tensor({DTYPE_NAMES[target]})"
    free = {one.type_param_str for one in found.type_constraints if wanted in one.allowed_type_strs}
    sides = tuple(tuple(f.type_str if f.type_str in free else "" for f in side) for side in (found.inputs, found.outputs))
    return sides[0], sides[1]


def can_be(node: gs.Node, version: int, target: int, *, result: bool, place: int) -> bool:
    """Whether an operand, or a result, of a node may have the target type."""
    sides = type_variables(node.op, node.domain or "", version, target)
    names = () if sides is None else sides[1 if result else 0]
    return bool(names) and bool(names[min(place, len(names) - 1)])
