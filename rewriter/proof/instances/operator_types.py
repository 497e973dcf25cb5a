"""Which element types an operator takes and gives, and which of its operands share theirs."""

from __future__ import annotations

import re
from functools import cache

from onnx import defs

from rewriter.language.dtypes import DTYPES
from rewriter.language.schema import registered_at
from rewriter.proof.instances import contrib_operators
from rewriter.record import record

_TENSOR = re.compile(r"tensor\((\w+)\)")
RUNNABLE = frozenset(
    DTYPES[name]
    for name in (
        "float", "double", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64",
        "bool", "string",
    )
)  # fmt: skip
"""Element types that instances are made of."""


@record(frozen=True, slots=True)
class TypedOperand:
    """One operand or result: the type variable that it shares with others ("" for none) and the types that it allows."""

    variable: str
    allowed: frozenset[int]
    variadic: bool


@cache
def formals(op: str, domain: str, version: int) -> tuple[tuple[TypedOperand, ...], tuple[TypedOperand, ...]] | None:
    """Operands and results of an operator in an opset; None when it has no schema there."""
    if contrib_operators.known(op, domain):
        whole = contrib_operators.INTEGER_OPERANDS.get(op, ())
        operands = [
            TypedOperand("", contrib_operators.INT32, False)
            if n in whole
            else TypedOperand("T", contrib_operators.FLOAT, False)
            for n in range(9)
        ]
        return tuple(operands), tuple(TypedOperand("T", contrib_operators.FLOAT, False) for _ in range(4))
    schema = registered_at(op, domain, version)
    if schema is None:
        return None
    constraints = {c.type_param_str: frozenset(_numbers(c.allowed_type_strs)) for c in schema.type_constraints}
    return tuple(tuple(_formal(p, constraints) for p in group) for group in (schema.inputs, schema.outputs))  # type: ignore[return-value]


def at(group: tuple[TypedOperand, ...], position: int) -> TypedOperand | None:
    """The formal of a position, the variadic last one for all beyond it."""
    if position < len(group):
        return group[position]
    return group[-1] if group and group[-1].variadic else None


def _formal(parameter: defs.OpSchema.FormalParameter, constraints: dict[str, frozenset[int]]) -> TypedOperand:
    variadic = parameter.option == defs.OpSchema.FormalParameterOption.Variadic
    variable = parameter.type_str if parameter.type_str in constraints and parameter.is_homogeneous else ""
    allowed = constraints.get(parameter.type_str) or frozenset(_numbers([parameter.type_str]))
    return TypedOperand(variable, allowed, variadic)


def _numbers(texts: object) -> set[int]:
    found = (_TENSOR.fullmatch(text) for text in texts)  # type: ignore[attr-defined]
    return {DTYPES[match.group(1)] for match in found if match and DTYPES.get(match.group(1)) in RUNNABLE}
