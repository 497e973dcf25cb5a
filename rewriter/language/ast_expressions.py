"""The records of expressions: what stands in `where`, `let`, attribute values, edits and constants."""

from __future__ import annotations

from typing import Literal as OneOf

from rewriter.record import record


@record(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets into the text of one rule file."""

    start: int
    end: int


NOWHERE = Span(0, 0)


@record(frozen=True, slots=True)
class Literal:
    """`1`, `2.5`, `"text"`, `true`, `false`, `none`; element types (`float`, `int64`, ...) are names, see `language.dtypes`."""

    value: bool | int | float | str | None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Name:
    id: str
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Field:
    """`gemm.transB` (effective attribute), `gemm.inputs`, `x.shape`, `model.ir_version`, `outer.body`."""

    value: Expr
    name: str
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Range:
    """`1..`, `..3`, `1..3`: positions from start to stop, both included; an open end is None."""

    start: Expr | None
    stop: Expr | None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Index:
    """`p[0]`, `p[-1]`, `p[2..]`; `index` is a `Range` for the last form."""

    value: Expr
    index: Expr
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class ListOf:
    items: tuple[Expr, ...]
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Call:
    """A call of a function of `language.functions`; there are no others and no methods."""

    function: str
    args: tuple[Expr, ...]
    span: Span = NOWHERE
    name_span: Span = NOWHERE


@record(frozen=True, slots=True)
class Unary:
    op: OneOf["-", "not"]
    operand: Expr
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Binary:
    """Arithmetic on numbers, lists (`+` joins, `*` repeats) and constant arrays."""

    op: OneOf["+", "-", "*", "/", "//", "%", "**"]
    left: Expr
    right: Expr
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Compare:
    op: OneOf["==", "!=", "<", "<=", ">", ">=", "in", "not in"]
    left: Expr
    right: Expr
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Logic:
    """Kleene's three-valued `and`, `or` over two or more operands."""

    op: OneOf["and", "or"]
    operands: tuple[Expr, ...]
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Choice:
    """`a if test else b`."""

    then: Expr
    test: Expr
    other: Expr
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Quantified:
    """`any x in xs: condition`, `all x in ...`, `count x in ...`: of a run's or a node's operands, or a list."""

    quantifier: OneOf["any", "all", "count"]
    name: str
    over: Expr
    condition: Expr
    span: Span = NOWHERE
    name_span: Span = NOWHERE


Expr = Literal | Name | Field | Range | Index | ListOf | Call | Unary | Binary | Compare | Logic | Choice | Quantified
