"""The names of one rule: what each stands for, what type it has, and whether anything uses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rewriter.language import ast
from rewriter.language.checks.context import CheckContext, did_you_mean
from rewriter.language.dtypes import DTYPES
from rewriter.record import field, record

KIND_WORDS = {
    "tensor": "a tensor",
    "variadic": "a run of tensors",
    "node": "a matched node",
    "attribute": "the value of an attribute",
    "dim": "a dimension",
    "let": "a computed value",
    "param": "a parameter",
    "made": "a new tensor",
    "made node": "a new node",
    "item": "one of several tensors or values",
}

_PYTHON = {"True": "true", "False": "false", "None": "none", "NaN": "nan", "Inf": "inf"}
_NUMPY = {"float32": "float", "float64": "double", "half": "float16", "int": "int64", "long": "int64", "uint": "uint64"}
_ELSEWHERE = {**_PYTHON, **_NUMPY}
"""Words of other languages for what has another name here."""


@record(slots=True)
class Binding:
    """One name.

    Attributes:
        kind: a key of `KIND_WORDS`.
        type: static type, see `types`; `const` for a tensor that the pattern requires to be constant.
        ops: for labels, the operators that the node may have.
        output: the tensor is made by a matched node.
        uses: how often the name is read.
    """

    name: str
    kind: str
    type: str
    span: ast.Span
    ops: tuple[ast.Op, ...] = ()
    output: bool = False
    uses: int = 0


@record
class NameScope:
    """The names visible at one place. `later` are names that a `let` further down will define."""

    context: CheckContext
    names: dict[str, Binding] = field(default_factory=dict)
    later: dict[str, ast.Span] = field(default_factory=dict)

    def child(self) -> NameScope:
        """A scope for one rewrite block: what it defines is not seen outside, what it uses is counted."""
        return NameScope(self.context, dict(self.names), self.later)

    @contextmanager
    def item(self, new: Binding) -> Iterator[None]:
        """The name of one of several, within a condition or a statement about each of them."""
        taken = self.names.get(new.name)
        self.define(new)
        yield
        if taken is None:
            del self.names[new.name]
            if not new.uses:
                helps = (f"ask something of `{new.name}`",)
                self.context.report("W201", f"`{new.name}` is never used", new.span, "the same for each", helps=helps)

    def define(self, new: Binding) -> Binding:
        """Adds a name and returns its binding; a name that is taken is reported and keeps its old meaning."""
        old = self.names.get(new.name)
        if old is None:
            self.names[new.name] = new
            return new
        message = f"`{new.name}` already stands for {KIND_WORDS[old.kind]}"
        self.context.report("E202", message, new.span, f"cannot be {KIND_WORDS[new.kind]} too")
        old.type = "any"  # no further complaints about what was meant
        return old

    def use(self, name: str, span: ast.Span) -> Binding | None:
        """The binding of a name that is read here; reported when there is none."""
        found = self.names.get(name)
        if found is not None:
            found.uses += 1
            return found
        if name in self.later:
            self.context.report(
                "E201", f"`{name}` is used before its `let`", span, "not known yet", helps=("move the `let` up",)
            )
        else:
            helps = did_you_mean(name, [*self.names, *DTYPES])
            helps = (f"write `{_ELSEWHERE[name]}`",) if name in _ELSEWHERE else helps
            self.context.report("E201", f"nothing in this rule binds `{name}`", span, "unknown name", helps=helps)
        return None
