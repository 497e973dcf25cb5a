"""The computed half of a rewrite: constants, attributes and positions, all found while the graph is as it was matched."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.rule_values import ABSENT, UNKNOWN, Failure, Symbol, as_array, flat, show
from rewriter.core.conditions.value_functions import element_type
from rewriter.core.graph.objects import new_constant
from rewriter.core.language import ast, schema
from rewriter.core.language.pattern import operator_names
from rewriter.core.language.schema import DTYPES
from rewriter.core.onnxfile.model_file import LEAST_ASIDE
from rewriter.core.record import record
from rewriter.core.rewriting.transaction import Rewriting, Undecided

# Values of expressions in ONNX's types: attributes of the type that the operator needs, constants of the correct element
# type.
#
# A plain number in a rule has no element type of its own: `Add(x, {1.0})` means one of x's type, and in `Reshape(x, {[0, -1]})`
# the schema leaves only int64.

FLOAT, INT64, BOOL, STRING = DTYPES["float"], DTYPES["int64"], DTYPES["bool"], DTYPES["string"]


def attribute_value(op: str, domain: str, version: int, name: str, value: Any) -> Any:
    """A value as the graph stores it in attribute `name`. Raises Failure when it does not fit, Undecided when it is unknown."""
    if not isinstance(value, bool | int | float | str | list | np.ndarray) or isinstance(value, Symbol):
        if value is UNKNOWN or value is ABSENT or isinstance(value, Symbol):
            raise Undecided(f"the value of attribute `{name}` is not known")
        return value  # subgraphs, tensors and other values copied from a node
    declared = schema.attribute(op, domain, version, name)
    kind = declared.kind if declared is not None else _guess(value)
    try:
        return _AS[kind](value) if kind in _AS else value
    except (TypeError, ValueError) as error:
        raise Failure(f"{show(value)} does not fit attribute `{name}` of {op}, which is of type {kind}") from error


def settled(context: Context, op: str, domain: str, version: int, name: str, value: Any) -> Any:
    """A captured constant becomes its values, unless the attribute is a tensor. Raises Failure for other tensors."""
    declared = schema.attribute(op, domain, version, name)
    is_usable = not isinstance(value, gs.Tensor) or (declared is not None and declared.kind == "tensor")
    return value if is_usable else context.array(value)


def _guess(value: Any) -> str:
    """The type of an attribute that no schema declares: a number, a list, or a tensor for a value with more dimensions."""
    if isinstance(value, np.ndarray) and value.ndim > 1:
        return "tensor"

    items = value.ravel().tolist() if isinstance(value, np.ndarray) else value if isinstance(value, list) else [value]
    base = (
        "float"
        if any(isinstance(item, float) for item in items)
        else "string"
        if any(isinstance(i, str) for i in items)
        else "int"
    )
    return base + "s" if isinstance(value, list) or (isinstance(value, np.ndarray) and value.ndim) else base


def _items(value: Any) -> list[Any]:
    items = value.ravel().tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(items, list) or any(item is UNKNOWN or isinstance(item, Symbol) for item in items):
        raise TypeError
    return items


def _int(value: Any) -> int:
    if isinstance(value, np.ndarray):
        value = value.item()
    if not isinstance(value, int) and not (isinstance(value, float) and value.is_integer()):
        raise TypeError
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, str):
        raise TypeError
    return float(value.item() if isinstance(value, np.ndarray) else value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


_AS: dict[str, Any] = {
    "int": _int,
    "float": _float,
    "string": _text,
    "ints": lambda value: [_int(item) for item in _items(value)],
    "floats": lambda value: [_float(item) for item in _items(value)],
    "strings": lambda value: [_text(item) for item in _items(value)],
    "tensor": lambda value: new_constant("", as_array(value), _natural(value)),
}


def constant_array(operand: ast.Constant, context: Context, value: Any, wanted: int | None) -> tuple[np.ndarray[Any, Any], int]:
    """(values, TensorProto element type) of a new initializer.

    Arrays keep their type; plain numbers take the one written before the braces, else `wanted`, else float, int64 or bool.
    Raises Failure when the value has no constant form, Undecided when it is unknown.
    """
    if isinstance(value, gs.Tensor):
        dtype = context.facts.dtype(value)
        value = context.array(value)
        if operand.dtype is None and dtype:
            return value, dtype
    if isinstance(value, list) and any(item is UNKNOWN or isinstance(item, Symbol) for item in flat(value)):
        raise Undecided("an item of the constant is unknown")
    if value is ABSENT or not isinstance(value, bool | int | float | str | list | np.ndarray):
        raise Failure(f"{show(value)} is no constant")
    if operand.dtype is not None:
        dtype = DTYPES[operand.dtype]
    elif isinstance(value, np.ndarray):
        dtype = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    else:
        dtype = wanted if wanted is not None and _fits(value, wanted) else _natural(value)
    try:
        array = as_array(value)
        if dtype == STRING:
            array = np.asarray(value, dtype=object)
        else:
            # a larger view is put aside from where it is
            array = array.astype(element_type(dtype), copy=array.nbytes < LEAST_ASIDE)
        return (array if operand.dims is None else array.reshape(operand.dims)), dtype
    except (ValueError, TypeError, OverflowError) as error:
        raise Failure(f"{show(value)} cannot become a constant: {error}") from error


def _natural(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return int(onnx.helper.np_dtype_to_tensor_dtype(value.dtype))
    items = flat(value)
    if any(isinstance(item, str) for item in items):
        return STRING
    if any(isinstance(item, float) for item in items):
        return FLOAT
    return BOOL if items and all(isinstance(item, bool) for item in items) else INT64


def _fits(value: Any, dtype: int) -> bool:
    """A number with a fraction does not become an integer silently, nor a text a number."""
    kind = _natural(value)
    if kind == STRING or dtype == STRING:
        return kind == dtype
    return kind != FLOAT or element_type(dtype).kind not in "iub"


@cache
def _formals(op: str, domain: str, version: int) -> tuple[tuple[str, int | None, bool], ...]:
    """(type variable, the only type allowed, variadic) of each input; empty for operators without a schema."""
    found = schema.registered_at(op, domain, version)
    if found is None:
        return ()
    return tuple(
        (p.type_str, _only(tuple(p.types)), p.option == onnx.defs.OpSchema.FormalParameterOption.Variadic) for p in found.inputs
    )


def operand_types(op: str, domain: str, version: int, known: Sequence[int | None]) -> list[int | None]:
    """For each operand the element type that the schema and the other operands allow, None if they allow several."""
    formals = _formals(op, domain, version)
    found: list[int | None] = []
    for position in range(len(known)):
        formal = formals[min(position, len(formals) - 1)] if formals else None
        if formal is None or (position >= len(formals) and not formal[2]):
            found.append(None)
            continue
        same = (
            dtype
            for other, dtype in enumerate(known)
            if dtype and other != position and formals[min(other, len(formals) - 1)][0] == formal[0]
        )
        found.append(next(same, formal[1]))
    return found


def _only(types: tuple[str, ...]) -> int | None:
    """The single tensor type allowed, or int64 if int32 and int64 are allowed (shapes, axes)."""
    names = {text[7:-1] for text in types if text.startswith("tensor(")}
    if names == {"int64"} or names == {"int32", "int64"}:
        return INT64
    return DTYPES.get(next(iter(names))) if len(names) == 1 else None


@record(frozen=True, slots=True)
class NewNode:
    """A node that is going to be built: `operands` has the computed part of each, None for names and omitted ones."""

    op: str
    domain: str
    attributes: dict[str, Any]
    operands: list[Any]


NOTHING: tuple[Any, Any] = (None, None)


def computes(statement: ast.Statement) -> bool:
    """Whether anything of a statement has to be computed before the graph is changed."""
    if isinstance(statement, ast.Redirect):
        return isinstance(statement.target, ast.Constant | ast.Build)
    return isinstance(statement, ast.Build | ast.Edit | ast.Delete | ast.Each)


def prepare(rewriting: Rewriting, statement: ast.Statement) -> tuple[Any, Any]:
    """(value, position) of a statement: a `NewNode`, a constant, an attribute value, or None if it has no computed part.

    Raises Failure if a value is unknown or has the wrong type.
    """
    if isinstance(statement, ast.Build):
        return prepare_node(rewriting, statement), None
    if isinstance(statement, ast.Redirect):
        return prepare_operand(rewriting, statement.target), None
    if isinstance(statement, ast.Edit):
        return _prepare_edit(rewriting, statement)
    if isinstance(statement, ast.Delete) and statement.place.index is not None:
        return None, rewriting.value(statement.place.index)
    return NOTHING


def prepare_node(rewriting: Rewriting, build: ast.Build) -> NewNode:
    """The attributes of a new node as its operator wants them, and its constants in the element type of its other operands."""
    domain, op = operator_names(build.op, rewriting.names.bound)
    version = rewriting.scope.opsets.get(domain, 1)
    attributes = {
        name: attribute_value(op, domain, version, name, value)
        for name, value in _attributes(rewriting, build, op, domain, version).items()
    }
    return NewNode(op, domain, attributes, _operands(rewriting, build, op, domain, version))


def _operands(rewriting: Rewriting, build: ast.Build, op: str, domain: str, version: int) -> list[Any]:
    """The computed part of each operand. A constant gets the element type that follows from the other operands."""
    if not any(isinstance(operand, ast.Constant) for operand in build.inputs):
        return [prepare_operand(rewriting, operand) for operand in build.inputs]
    wanted = operand_types(op, domain, version, [_dtype(rewriting, operand) for operand in build.inputs])
    return [prepare_operand(rewriting, operand, dtype) for operand, dtype in zip(build.inputs, wanted, strict=True)]


def _attributes(rewriting: Rewriting, build: ast.Build, op: str, domain: str, version: int) -> dict[str, Any]:
    """Attributes as written, later ones winning; one whose value is absent is left out."""
    attributes: dict[str, Any] = {}
    for item in build.attrs:
        if isinstance(item, ast.AttrCopy):
            attributes.update(rewriting.node(item.label).attrs)
        elif (value := rewriting.value(item.value)) is ABSENT:
            attributes.pop(item.name, None)
        else:
            attributes[item.name] = settled(rewriting.context, op, domain, version, item.name, value)
    return attributes


def _dtype(rewriting: Rewriting, operand: Any) -> int | None:
    """Element type of a captured operand, if it is known."""
    found = rewriting.names.bound.get(operand.name) if isinstance(operand, ast.Ref) else None
    return rewriting.context.facts.dtype(found) if isinstance(found, gs.Tensor) else None


def prepare_operand(rewriting: Rewriting, operand: Any, wanted: int | None = None) -> Any:
    """The computed part of an operand: (array, element type) of a constant, or ABSENT, a `NewNode`, or None."""
    if isinstance(operand, ast.Constant):
        value = rewriting.value(operand.value)
        return ABSENT if value is ABSENT else constant_array(operand, rewriting.context, value, wanted)
    return prepare_node(rewriting, operand) if isinstance(operand, ast.Build) else None


def _prepare_edit(rewriting: Rewriting, edit: ast.Edit) -> tuple[Any, Any]:
    at = None if edit.place.index is None else rewriting.value(edit.place.index)
    if isinstance(edit.value, ast.Constant | ast.Build | ast.Absent):
        return prepare_operand(rewriting, edit.value), at
    if edit.place.field == "inputs":
        return None, at
    return rewriting.value(edit.value), at
