"""The abstract syntax of a rule file.

Everything behind the parser (checks, formatter, engine) works on these frozen records and on nothing else, so that a rule is
plain data: comparable, hashable where its parts are, and free of behaviour that a stranger's file could trigger.

Every record carries the `Span` of the text that it was read from; line and column are computed from it only when a message
needs them.
"""

from __future__ import annotations

from rewriter.language.ast_expressions import (
    NOWHERE,
    Binary,
    Call,
    Choice,
    Compare,
    Expr,
    Field,
    Index,
    ListOf,
    Literal,
    Logic,
    Name,
    Quantified,
    Range,
    Span,
    Unary,
)
from rewriter.language.ast_patterns import (
    AttrPattern,
    Capture,
    ConstPattern,
    GraphItem,
    Inside,
    Match,
    NodePattern,
    Op,
    Operand,
    Output,
    TypePattern,
    Variadic,
    Wildcard,
)
from rewriter.language.ast_rewrites import (
    Absent,
    AddOutput,
    AttrCopy,
    AttrSet,
    Build,
    Constant,
    Delete,
    Each,
    Edit,
    Inline,
    Mend,
    NewOperand,
    Place,
    Redirect,
    Ref,
    Statement,
)
from rewriter.record import record

__all__ = [
    "NOWHERE",
    "Absent",
    "AddOutput",
    "AttrCopy",
    "AttrPattern",
    "AttrSet",
    "Binary",
    "Build",
    "Call",
    "Capture",
    "Choice",
    "Compare",
    "ConstPattern",
    "Constant",
    "Delete",
    "Each",
    "Edit",
    "Expr",
    "Field",
    "GraphItem",
    "Index",
    "Inline",
    "Inside",
    "ListOf",
    "Literal",
    "Logic",
    "Match",
    "Mend",
    "Name",
    "NewOperand",
    "NodePattern",
    "Op",
    "Operand",
    "Output",
    "Place",
    "Quantified",
    "Range",
    "Redirect",
    "Ref",
    "Span",
    "Statement",
    "TypePattern",
    "Unary",
    "Variadic",
    "Wildcard",
]  # all of the syntax is to be had from here


# --- Rules ---------------------------------------------------------


@record(frozen=True, slots=True)
class Rewrite:
    """`rewrite opset 13.. { ... }`; `opset` None holds for the rule's whole range."""

    statements: tuple[Statement, ...]
    opset: OpsetRange | None = None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class OpsetRange:
    """Versions from `first` to `last`, both included; None is open."""

    first: int | None = None
    last: int | None = None
    span: Span = NOWHERE

    def __contains__(self, version: int) -> bool:
        return (self.first is None or version >= self.first) and (self.last is None or version <= self.last)


@record(frozen=True, slots=True)
class MetaItem:
    """One `key: value` of the rule's header. `value` is a str, an `OpsetRange`, a `Kind`, an `Evidence` or a tuple of str."""

    key: str
    value: str | OpsetRange | Kind | Evidence | tuple[str, ...]
    span: Span = NOWHERE
    value_span: Span = NOWHERE


@record(frozen=True, slots=True)
class Kind:
    """`exact`, `approx(rtol=1e-4, atol=1e-6)`, `repair`, `lossy`, `interface`."""

    name: str
    rtol: float = 0.0
    atol: float = 0.0
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Evidence:
    """What makes a repair certain: `refused`, `refused(onnxruntime)`, `contradiction`, `source`, `exporter`, `guess`.

    `runtime` is the runtime that refuses the model, "" where the specification does.
    """

    name: str
    runtime: str = ""
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Param:
    """`param batch: dim = "N"`; `type` is one of op, dim, int, float, bool, string, dtype, ints; no default means it must be
    set.
    """

    name: str
    type: str
    default: Expr | None = None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Where:
    condition: Expr
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Let:
    name: str
    value: Expr
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Private:
    """`private h`: the tensor may not be used outside the match."""

    names: tuple[str, ...]
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Test:
    """`test "title" [with CODE, ...] [set name = literal]* [source ~~~json~~~] ~~~model~~~ (becomes ~~~model~~~ | unchanged |
    twin)`.

    Texts are ONNX text format; `after` None means that the rule must not fire. `source` is a JSON table of source information
    ({"node": {"attr": value}}), `settings` are parameter values. A `twin` is a correct model of the rule's exporter, as close
    to the pattern as possible. `beside` are codes of rules that run together with this one.
    """

    title: str
    before: str
    after: str | None
    settings: tuple[tuple[str, Expr], ...] = ()
    source: str | None = None
    twin: bool = False
    span: Span = NOWHERE
    before_span: Span = NOWHERE
    after_span: Span = NOWHERE
    beside: tuple[str, ...] = ()


@record(frozen=True, slots=True)
class Cell:
    """One word, text in quotes or list of a table, as it is written."""

    text: str
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Table:
    """`table { code from title   TYP007 Max "..." }`: its first line, the cells of each row, and the `///` lines among them."""

    columns: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    span: Span = NOWHERE
    docs: tuple[Cell, ...] = ()


@record(frozen=True, slots=True)
class Row:
    """The row of a table that a rule comes from: (column, cell) in the order of the columns.

    `others_span` are the parts of the written rule that are not this row's: the table, and tests of other rows. `doc` is what
    the table says before the doc comment of the rule, as `///` lines.
    """

    cells: tuple[tuple[str, str], ...]
    span: Span = NOWHERE
    others_span: tuple[Span, ...] = ()
    doc: str = ""


@record(frozen=True, slots=True)
class Rule:
    """One rule as it was written. `doc` holds the lines of its `///` comment without the marks.

    A rule with a `table` stands for one rule a row, each of which knows its `row` and is in all else a rule like others. One
    whose pattern has a choice (`maybe`, `P | Q`, `Mul*`, `axes~a`) stands for several patterns: its `variants`, each a rule
    without doc comment and tests; by itself it has the pattern of the first.
    """

    code: str
    slug: str
    doc: tuple[str, ...]
    meta: tuple[MetaItem, ...]
    match: Match
    rewrites: tuple[Rewrite, ...]
    params: tuple[Param, ...] = ()
    privates: tuple[Private, ...] = ()
    wheres: tuple[Where, ...] = ()
    lets: tuple[Let, ...] = ()
    tests: tuple[Test, ...] = ()
    span: Span = NOWHERE
    code_span: Span = NOWHERE
    table: Table | None = None
    row: Row | None = None
    variants: tuple[Rule, ...] = ()


@record(frozen=True, slots=True)
class Define:
    """`define scalar_beside(c, x) = size(c) == 1 and rank(c) <= rank(x)`: a condition or value with a name, and its `text`."""

    name: str
    params: tuple[str, ...]
    body: Expr
    doc: tuple[str, ...] = ()
    text: str = ""
    span: Span = NOWHERE
    name_span: Span = NOWHERE


@record(frozen=True, slots=True)
class RuleFile:
    """All rules of one file, in its order: those that run, where each row of a table is one, and those that are `written`.

    `defines` are its own, `shared` those that its rules may call besides, from files of defines.
    """

    path: str
    text: str
    rules: tuple[Rule, ...] = ()
    written: tuple[Rule, ...] = ()
    defines: tuple[Define, ...] = ()
    shared: tuple[Define, ...] = ()
