"""The abstract syntax of a rule file, and going over it without recursion.

Everything behind the parser (checks, formatter, engine) works only on these frozen records, so that a rule is
plain data: comparable, hashable if its parts are, and free of behaviour that a stranger's file could trigger.

Every record carries the `Span` of the text that it was read from; line and column are computed from it only when a message
needs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from types import EllipsisType
from typing import Any
from typing import Literal as OneOf

from rewriter.core.record import getter, names, record, replace

# The records of expressions, which occur in `where`, `let`, attribute values, edits and constants.


@record(frozen=True, slots=True)
class Span:
    """Half-open range of character offsets into the text of one rule file."""

    start: int
    end: int


NOWHERE = Span(0, 0)


class Expression:
    """All expressions have, in addition to their fields, a slot for the function that computes them
    (`conditions.evaluate.meaning`). The function is made when it is first needed and is not part of the expression's content.
    """

    __slots__ = ("meaning",)
    meaning: Callable[..., Any]


@record(frozen=True, slots=True)
class Literal(Expression):
    """`1`, `2.5`, `"text"`, `true`, `false`, `none`; element types (`float`, `int64`, ...) are names, see `language.schema`."""

    value: bool | int | float | str | None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Name(Expression):
    id: str
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Field(Expression):
    """`gemm.transB` (effective attribute), `gemm.inputs`, `x.shape`, `model.ir_version`, `outer.body`."""

    value: Expr
    name: str
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Range(Expression):
    """`1..`, `..3`, `1..3`: positions from start to stop, both included; an open end is None."""

    start: Expr | None
    stop: Expr | None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Index(Expression):
    """`p[0]`, `p[-1]`, `p[2..]`; `index` is a `Range` for the last form."""

    value: Expr
    index: Expr
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class ListOf(Expression):
    items: tuple[Expr, ...]
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Call(Expression):
    """A call of a function of `language.functions`; there are no others and no methods."""

    function: str
    args: tuple[Expr, ...]
    span: Span = NOWHERE
    name_span: Span = NOWHERE


@record(frozen=True, slots=True)
class Unary(Expression):
    op: OneOf["-", "not"]
    operand: Expr
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Binary(Expression):
    """Arithmetic on numbers, lists (`+` joins, `*` repeats) and constant arrays."""

    op: OneOf["+", "-", "*", "/", "//", "%", "**"]
    left: Expr
    right: Expr
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Compare(Expression):
    op: OneOf["==", "!=", "<", "<=", ">", ">=", "in", "not in"]
    left: Expr
    right: Expr
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Logic(Expression):
    """Kleene's three-valued `and`, `or` over two or more operands."""

    op: OneOf["and", "or"]
    operands: tuple[Expr, ...]
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Choice(Expression):
    """`a if test else b`."""

    then: Expr
    test: Expr
    other: Expr
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Quantified(Expression):
    """`any x in xs: condition`, `all x in ...`, `count x in ...`: of a run's or a node's operands, or a list."""

    quantifier: OneOf["any", "all", "count"]
    name: str
    over: Expr
    condition: Expr
    span: Span = NOWHERE
    name_span: Span = NOWHERE


Expr = Literal | Name | Field | Range | Index | ListOf | Call | Unary | Binary | Compare | Logic | Choice | Quantified


# The records of patterns: the contents of `match`, for nodes and for the model's interface.


@record(frozen=True, slots=True)
class Op:
    """`Gemm`, `com.acme.FooOp`, or, with `param` set, `@name`: the operator that a parameter of type `op` names. `_` is any."""

    name: str
    domain: str = ""
    param: bool = False
    span: Span = NOWHERE

    @property
    def is_any(self) -> bool:
        return self.name == "_"


@record(frozen=True, slots=True)
class AttrPattern:
    """`axis=1` / `axis=a` (equals), `spatial` (present), `!count_include_pad` (absent), `axes~a` (either).

    `either` is an attribute, or the constant operand that later opsets have in its place. Only rules as they are written have
    it (`expand/rule_forms.py`). With `equals`, a `Name` that is not bound yet binds the effective value. Every other
    expression is compared with the effective value.
    """

    name: str
    mode: OneOf["equals", "present", "absent", "either"]
    value: Expr | None = None
    span: Span = NOWHERE
    name_span: Span = NOWHERE


@record(frozen=True, slots=True)
class TypePattern:
    """`float[N,C,H,W]`, `tensor[...]`, `int64[]`; `dtype` None is any element type (`tensor`), `dims` None is any rank.

    A dim is an int (tested), a name (bound, or compared when bound before), `None` for `_`, or `...` (Ellipsis) for any run,
    once.
    """

    dtype: str | None
    dims: tuple[int | str | EllipsisType | None, ...] | None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Capture:
    """`x`, `b?`, `const w`, `const b?`, `float[N,3] x`."""

    name: str
    const: bool = False
    optional: bool = False
    type: TypePattern | None = None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Wildcard:
    """`_`: any operand, present, once."""

    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Variadic:
    """`*parts`: any number of operands up to the next one of the list, bound as a list of tensors."""

    name: str
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class ConstPattern:
    """`{2.0}`, `{[0]}`, `int64{0}`: a compile-time constant equal to this value (and of this element type, if written)."""

    value: Expr
    dtype: str | None = None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Output:
    """One output of a pattern line: a name, `_` (name None: present, anything) or `*parts` (variadic)."""

    name: str | None
    variadic: bool = False
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class NodePattern:
    """`[label] outs = ordered? (A | B)<attrs>(ins, ...)`; nested operands have no outputs of their own.

    Only rules as they are written have the last three fields (`expand/variants.py`). With `maybe`, the node can be missing;
    its first operand then takes its place. A `chain` `Mul*(a, b, c)` is the product in any grouping. `others` are the
    alternative nodes of `h = P | Q`.
    """

    ops: tuple[Op, ...]
    inputs: tuple[Operand, ...]
    outputs: tuple[Output, ...] = ()
    label: str | None = None
    attrs: tuple[AttrPattern, ...] = ()
    more_inputs: bool = False
    more_outputs: bool = False
    ordered: bool = False
    span: Span = NOWHERE
    ops_span: Span = NOWHERE
    maybe: bool = False
    chain: bool = False
    others: tuple[NodePattern, ...] = ()


Operand = Capture | Wildcard | Variadic | ConstPattern | NodePattern


@record(frozen=True, slots=True)
class Inside:
    """`match inside Loop.body`: only in that subgraph of that operator; the owner is bound as `outer`."""

    op: Op
    attr: str
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class GraphItem:
    """`input tensor[1, ...] x` or `output y` of a `match graph` block."""

    side: OneOf["input", "output"]
    name: str
    type: TypePattern | None = None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Match:
    """Either `nodes` (with an optional `inside`), or, when `graph` is true, the model's interface `items` (possibly none)."""

    nodes: tuple[NodePattern, ...] = ()
    inside: Inside | None = None
    graph: bool = False
    items: tuple[GraphItem, ...] = ()
    span: Span = NOWHERE


# The records of rewrites: the parts that a statement of a `rewrite` block makes, changes or removes.


@record(frozen=True, slots=True)
class Ref:
    """A tensor by name: captured, matched output, `*parts` (spread) or made earlier in the block."""

    name: str
    spread: bool = False
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Constant:
    """`{expr}`, `int64{expr}`, `int64[2]{0, -1}`: a new initializer; `dims` only for the last form."""

    value: Expr
    dtype: str | None = None
    dims: tuple[int, ...] | None = None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Absent:
    """`_` in a rewrite: an omitted optional input."""

    span: Span = NOWHERE


@record(frozen=True, slots=True)
class AttrSet:
    """`axis=1`; with `either` (`axes~[1]`, only in rules as they are written) an operand if the opset has that instead."""

    name: str
    value: Expr
    span: Span = NOWHERE
    name_span: Span = NOWHERE
    either: bool = False


@record(frozen=True, slots=True)
class AttrCopy:
    """`..conv`: the explicit attributes of a matched node; attributes written after it win."""

    label: str
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Build:
    """`[label] outs = Op<attrs>(ins)`: a new node. Nested in an operand it has no `outs` and means its single output.

    With `outlined`, the node calls a local function whose body are the nodes that made the outputs.
    """

    outputs: tuple[Output, ...]
    op: Op
    attrs: tuple[AttrSet | AttrCopy, ...]
    inputs: tuple[NewOperand, ...]
    label: str | None = None
    span: Span = NOWHERE
    outlined: bool = False


NewOperand = Ref | Constant | Absent | Build


@record(frozen=True, slots=True)
class Redirect:
    """`y = x` or `y = {expr}`: all uses of the matched output `y` take the other tensor."""

    output: str
    target: Ref | Constant
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Place:
    """The part that an edit or a deletion names.

    One of `n`, `n.attr`, `n.inputs[i]`, `n.op`, `x.dtype`, `x.shape[i]`, `model.ir_version`.
    `field` None is the bare name; `index` is set for `inputs[i]`, `outputs[i]`, `shape[i]` and `model.opset["domain"]`.
    """

    base: str
    field: str | None = None
    index: Expr | None = None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Edit:
    """`place = value`; for `n.inputs[i]` the value is a `Name` expression (a tensor), `Constant`, `Absent` or `Build`."""

    place: Place
    value: Expr | Constant | Absent | Build
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Delete:
    place: Place
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Inline:
    """`inline n.then_branch` or `inline n` (a call of a local function)."""

    label: str
    attr: str | None
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Mend:
    """`mend model.unsorted_nodes`: repairs all faults of one kind. `FAULTS` lists the kinds."""

    base: str
    fault: str
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Each:
    """`each x in n.inputs if test { x = Cast<to=float>(x) }`: puts a node before each operand that passes, or after outputs.

    `base` is the label of the node and `field` is `inputs` or `outputs`. Without a field, `base` is a run `*xs`, which has the
    new tensors from there on.
    """

    name: str
    base: str
    field: str | None
    test: Expr | None
    value: Build
    span: Span = NOWHERE
    name_span: Span = NOWHERE


@record(frozen=True, slots=True)
class AddOutput:
    """`output t`: a tensor of the main graph also becomes an output of the model."""

    name: str
    span: Span = NOWHERE


Statement = Build | Redirect | Edit | Delete | Inline | Mend | Each | AddOutput


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
    """Why a repair is certain: `refused`, `refused(onnxruntime)`, `contradiction`, `source`, `exporter`, `guess`.

    `runtime` is the runtime that rejects the model, "" if the specification forbids it.
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
    to the pattern as possible. `beside` are the codes of the rules that run together with this one.
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

    `others_span` are the parts of the written rule that are not this row's: the table, and tests of other rows. `doc` is
    the table's text before the doc comment of the rule, as `///` lines.
    """

    cells: tuple[tuple[str, str], ...]
    span: Span = NOWHERE
    others_span: tuple[Span, ...] = ()
    doc: str = ""


@record(frozen=True, slots=True)
class Rule:
    """One rule as it was written. `doc` holds the lines of its `///` comment without the marks.

    A rule with a `table` is short for one rule per row. Each of these has its `row` and is otherwise an ordinary rule. A rule
    whose pattern has a choice (`maybe`, `P | Q`, `Mul*`, `axes~a`) is short for several patterns: its `variants`, each a rule
    without doc comment and tests. The rule itself has the pattern of the first variant.
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
    """All rules of one file, in its order: the rules that run (one for each row of a table), and the rules as `written`.

    `defines` are the file's own. `shared` come from files of defines; its rules may also call them.
    """

    path: str
    text: str
    rules: tuple[Rule, ...] = ()
    written: tuple[Rule, ...] = ()
    defines: tuple[Define, ...] = ()
    shared: tuple[Define, ...] = ()


LATER = frozenset({"maybe", "chain", "others", "either", "variants", "beside", "outlined"})
"""Fields that were added to records later. The text of a rule without them stays the same."""

_PLAIN = frozenset({str, int, bool, float, type(None)})
_WORDS = re.compile(r"\w+").findall
_NO_RECORDS = frozenset({"str", "int", "bool", "float", "None", "tuple"})
"""Words of the annotation of a field that never holds a record."""


@cache
def said(kind: Any) -> tuple[str, ...] | None:
    """The fields of a record except its place; None for a value that is no record."""
    found = names(kind)
    return None if found is None else tuple(name for name in found if not name.endswith("span"))


@cache
def _values(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """A function that returns the values of the fields that `said` names."""
    return getter(said(kind) or ())


@cache
def _inner(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """The same of those fields that can hold records."""
    types = {name: text for base in reversed(kind.__mro__) for name, text in vars(base).get("__annotations__", {}).items()}
    return getter(tuple([name for name in said(kind) or () if not _NO_RECORDS.issuperset(_WORDS(types[name]))]))


def children(node: Any) -> list[Any]:
    """The records directly inside one record, in the order of the text."""
    found: list[Any] = []
    for value in _inner(node.__class__)(node):
        kind = value.__class__
        if kind is tuple:
            found += [item for item in value if said(item.__class__) is not None]
        elif said(kind) is not None:
            found.append(value)
    return found


def walk(node: Any) -> Iterator[Any]:
    """The record (or each of a tuple of records) itself and every record inside it, outer ones first, in the order of the
    text.
    """
    stack = list(reversed(node)) if isinstance(node, tuple) else [node]
    while stack:
        top = stack.pop()
        yield top
        stack += reversed(children(top))


def size(node: Any) -> int:
    """How many records there are in a record, itself included."""
    count, level = 0, [node]
    while level:
        count += len(level)
        level = [child for one in level for child in children(one)]
    return count


def depth(node: Any) -> int:
    """How deep records nest; 1 for a record without records inside."""
    deepest = 0
    stack = [(node, 1)]
    while stack:
        top, level = stack.pop()
        deepest = max(deepest, level)
        stack.extend((child, level + 1) for child in children(top))
    return deepest


def pattern_nodes(match: Match) -> Iterator[NodePattern]:
    """Every node of a pattern, nested operands right after the node that reads them."""
    stack = list(reversed(match.nodes))
    while stack:
        node = stack.pop()
        yield node
        stack += [operand for operand in reversed(node.inputs) if isinstance(operand, NodePattern)]


def bound(part: Any) -> set[str]:
    """Every name that a pattern or one of its parts may bind."""
    from rewriter.core.language.schema import DTYPES

    names: set[str] = set()
    for one in walk(part):
        if isinstance(one, Capture | Variadic | GraphItem | Output):
            names.add(one.name or "")
        elif isinstance(one, NodePattern) and one.label is not None:
            names.add(one.label)
        elif isinstance(one, AttrPattern) and isinstance(one.value, Name) and one.value.id not in DTYPES:
            names.add(one.value.id)
        elif isinstance(one, TypePattern):
            names |= {dim for dim in one.dims or () if isinstance(dim, str)}
    return names - {""}


def canonical(value: Any, without: Collection[str] = ()) -> str:
    """A text that is the same for the same tree, independent of its place in the file.

    Fields `without` are left out. Fields that a later version of the language added are left out if they are empty.
    """
    if value.__class__ is tuple:
        return f"({','.join([canonical(part, without) for part in value])})"
    fields = said(value.__class__)
    if fields is None:
        return repr(value)
    parts = []
    for name, part in zip(fields, _values(value.__class__)(value), strict=True):
        if name not in without and (part or name not in LATER):
            parts.append(f"{name}={repr(part) if part.__class__ in _PLAIN else canonical(part, without)}")
    return f"{value.__class__.__name__}({','.join(parts)})"


# A syntax tree with some of its parts replaced.

Change = Callable[[Any], Any]


def rebuild(node: Any, change: Change) -> Any:
    """The record (or tuple of records) with `change` applied to every record in it, inner ones first.

    If `change` returns None, the record is left out of its tuple, or the field is None.
    """
    if type(node) is tuple:
        parts = [rebuild(part, change) for part in node]
        kept = tuple(part for part, old in zip(parts, node, strict=True) if part is not None or old is None)
        return node if len(kept) == len(node) and all(new is old for new, old in zip(kept, node, strict=True)) else kept
    fields = said(node.__class__)
    if fields is None:
        return node
    changed: dict[str, Any] = {}
    for name in fields:
        old = getattr(node, name)
        if type(old) is tuple or said(old.__class__) is not None:
            new = rebuild(old, change)
            if new is not old:
                changed[name] = new
    return change(replace(node, **changed) if changed else node)
