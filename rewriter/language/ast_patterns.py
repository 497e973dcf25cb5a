"""The records of patterns: what stands in `match`, of nodes and of the model's interface."""

from __future__ import annotations

from types import EllipsisType
from typing import Literal as OneOf

from rewriter.language.ast_expressions import NOWHERE, Expr, Span
from rewriter.record import record


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

    With `either` it is an attribute, or the constant operand that later opsets have in its place; only rules as they are
    written have it (`expand/either_forms.py`). With `equals`, a `Name` that nothing bound before binds the effective value;
    every other expression is compared with it.
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
    """`{2.0}`, `{[0]}`, `int64{0}`: a compile-time constant equal to this value (and of this element type when given)."""

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

    Only rules as they are written have the last three (`expand/variants.py`): `maybe` the node is there, or its first operand
    stands for it; a `chain` `Mul*(a, b, c)` is the product in any grouping; `others` are further nodes of which one may be
    there instead, `h = P | Q`.
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
