"""Which questions of a pattern are asked first: the cheap ones, and those that need nothing but what is already known."""

from __future__ import annotations

from typing import Any

from rewriter.language import ast
from rewriter.language.pattern import Made, Operand


def cost(operand: Operand) -> int:
    """Order of operand questions: structure first, then names, constants' contents last."""
    if isinstance(operand, Made):
        return 0
    return 2 if isinstance(operand, ast.ConstPattern) else 1


def is_late(attr: ast.AttrPattern) -> bool:
    """Whether an attribute is compared with something that the whole match binds."""
    return attr.mode == "equals" and not isinstance(attr.value, ast.Name) and not is_plain(attr.value)


def plain_value(value: ast.Expr) -> Any:
    """The value of a plain expression: a number, a text, a list of such; None for `none`."""
    if isinstance(value, ast.ListOf):
        return [plain_value(item) for item in value.items]
    if isinstance(value, ast.Unary):
        return -plain_value(value.operand) if value.op == "-" else not plain_value(value.operand)
    assert isinstance(value, ast.Literal)
    return value.value


def is_plain(value: ast.Expr | None) -> bool:
    """Whether an expression needs no name: a number, a text, a list of such."""
    if isinstance(value, ast.ListOf):
        return all(map(is_plain, value.items))
    return isinstance(value, ast.Literal) or (isinstance(value, ast.Unary) and is_plain(value.operand))
