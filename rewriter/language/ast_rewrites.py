"""The records of rewrites: what a statement of a `rewrite` block makes, changes or takes away."""

from __future__ import annotations

from rewriter.language.ast_expressions import NOWHERE, Expr, Span
from rewriter.language.ast_patterns import Op, Output
from rewriter.record import record


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
    """`axis=1`; with `either` (`axes~[1]`, only in rules as they are written) an operand where the opset has that instead."""

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
    """`[label] outs = Op<attrs>(ins)`: a new node. Nested in an operand it has no outputs and stands for its single output.

    With `outlined`, the node calls a local function, of which the nodes that made the outputs are the body.
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
    """What an edit or a deletion names: `n`, `n.attr`, `n.inputs[i]`, `n.op`, `x.dtype`, `x.shape[i]`, `model.ir_version`.

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
    """`mend model.unsorted_nodes`: puts right all faults of one kind; `faults.py` has the kinds."""

    base: str
    fault: str
    span: Span = NOWHERE


@record(frozen=True, slots=True)
class Each:
    """`each x in n.inputs if test { x = Cast<to=float>(x) }`: puts a new tensor in the place of each operand that passes.

    `base` is the label of the node; without `inputs` it is a run `*xs`, which has the new tensors from there on.
    """

    name: str
    base: str
    inputs: bool
    test: Expr | None
    value: Build
    span: Span = NOWHERE
    name_span: Span = NOWHERE


@record(frozen=True, slots=True)
class AddOutput:
    """`output t`: the model gives out a tensor of its main graph, too."""

    name: str
    span: Span = NOWHERE


Statement = Build | Redirect | Edit | Delete | Inline | Mend | Each | AddOutput
