"""The computed half of a rewrite: constants, attributes and positions, all found while the graph is as it was matched."""

from __future__ import annotations

from typing import Any

import onnx_graphsurgeon as gs

from rewriter.conditions.rule_values import ABSENT
from rewriter.language import ast
from rewriter.language.pattern import operator_names
from rewriter.record import record
from rewriter.rewriting.new_values import attribute_value, constant_array, operand_types, settled
from rewriter.rewriting.transaction import Rewriting


@record(frozen=True, slots=True)
class NewNode:
    """A node that is going to be built: `operands` holds what was computed for each, None for names and omitted ones."""

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
    """(value, position) of a statement: a `NewNode`, a constant, an attribute value, or None where nothing is computed.

    Raises Failure when a value is unknown or does not fit.
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
    """What is computed of each operand; a constant takes the element type that the others leave it."""
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
    """Element type of a captured operand, where it is known."""
    found = rewriting.names.bound.get(operand.name) if isinstance(operand, ast.Ref) else None
    return rewriting.context.facts.dtype(found) if isinstance(found, gs.Tensor) else None


def prepare_operand(rewriting: Rewriting, operand: Any, wanted: int | None = None) -> Any:
    """What is computed of an operand: (array, element type) of a constant, or ABSENT, a `NewNode`, or None."""
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
