"""The state that all checks of one rule share: the rule, the opsets that it claims, and the errors found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rewriter.core.language import ast, schema
from rewriter.core.language.ast import pattern_nodes
from rewriter.core.language.diagnostics import Diagnostic, suggest
from rewriter.core.language.header import Header, read_header
from rewriter.core.language.schema import DTYPES
from rewriter.core.record import field, record

_WORD = re.compile(r"\w+")


class CheckContext:
    """One rule that is being checked.

    Attributes:
        declared: the opsets of the default domain that the rule claims.
        reach: the declared opsets in which all operators of the pattern exist; the rule can fire only there. A rule of kind
            `repair` describes models that break the rules, so it reaches all that it declares.
        found: the diagnostics so far.
        defines: the defines that it may call, by name.
    """

    def __init__(self, rule: ast.Rule, rule_file: ast.RuleFile) -> None:
        self.rule = rule
        self.path = rule_file.path
        self.text = rule_file.text
        self.header: Header = read_header(rule.meta)
        self.found: list[Diagnostic] = []
        self.defines = {define.name: define for define in (*rule_file.shared, *rule_file.defines)}
        latest = schema.latest_opset()
        first = max(1, min(self.header.opset.first or 1, latest))
        last = min(self.header.opset.last or latest, latest)
        self.declared: tuple[int, ...] = tuple(range(first, last + 1)) or (first,)
        self.reach = self._reach()

    @property
    def is_repair(self) -> bool:
        return self.header.kind.name == "repair"

    @property
    def is_interface(self) -> bool:
        return self.header.kind.name == "interface"

    def report(
        self,
        code: str,
        message: str,
        span: ast.Span,
        label: str = "",
        notes: Iterable[str] = (),
        helps: Iterable[str] = (),
    ) -> None:
        """Adds a finding, unless the same one was added before."""
        found = Diagnostic(code, message, span, label, tuple(notes), tuple(helps), self.path)
        if found not in self.found:
            self.found.append(found)

    def narrow(self, span: ast.Span, word: str) -> ast.Span:
        """The first place of a word inside a span, for records whose parts have no span of their own."""
        found = next((one for one in _WORD.finditer(self.text, span.start, span.end) if one[0] == word), None)
        return ast.Span(*found.span()) if found else span

    def phrase(self, versions: Sequence[int]) -> str:
        """`13..`, `..8`, `9..12`, `7 and 13..`: open at the ends at which the rule's own range is open."""
        parts = []
        for first, last in _runs(versions):
            at_start = first == self.declared[0] and self._open_start()
            at_end = last == self.declared[-1] and self.header.opset.last is None
            if at_end:
                parts.append(f"{first}..")
            elif at_start:
                parts.append(f"..{last}")
            else:
                parts.append(str(first) if first == last else f"{first}..{last}")
        return " and ".join(parts)

    def limit(self, bad: Iterable[int]) -> str | None:
        """Advice to declare only the opsets that are not bad; None if none or no single range is left."""
        wrong = set(bad)
        good = [version for version in self.declared if version not in wrong]
        return f"limit the rule to `opset: {self.phrase(good)}`" if good and len(_runs(good)) == 1 else None

    def _open_start(self) -> bool:
        written = next((item.value for item in self.rule.meta if item.key == "opset"), None)
        return not isinstance(written, ast.OpsetRange) or written.first is None

    def _reach(self) -> tuple[int, ...]:
        if self.is_repair:
            return self.declared
        nodes = list(pattern_nodes(self.rule.match))
        return tuple(v for v in self.declared if all(any(_may_exist(op, v) for op in node.ops) for node in nodes))


def did_you_mean(word: str, candidates: Iterable[str]) -> tuple[str, ...]:
    """The help line for a misspelling, if a candidate is near enough."""
    near = suggest(word, candidates)
    return (f"did you mean `{near}`?",) if near else ()


def _may_exist(op: ast.Op, version: int) -> bool:
    """True unless ONNX knows the operator of the default domain and says that this opset does not have it."""
    known = not op.param and not schema.normal(op.domain) and schema.history(op.name, "")
    return not known or schema.exists(op.name, "", version)


def _runs(versions: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for version in sorted(versions):
        if runs and runs[-1][1] == version - 1:
            runs[-1] = (runs[-1][0], version)
        else:
            runs.append((version, version))
    return runs


# The names of one rule: the meaning and the type of each, and whether it is used.

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
"""Words of other languages for functions that have another name here."""


@record(slots=True)
class Binding:
    """One name.

    Attributes:
        kind: a key of `KIND_WORDS`.
        type: static type, see `types`; `const` for a tensor that the pattern requires to be constant.
        ops: for labels, the operators that the node may have.
        output: whether a matched node makes the tensor.
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
        """A scope for one rewrite block: its names are not visible outside, and uses inside it are counted."""
        return NameScope(self.context, dict(self.names), self.later)

    @contextmanager
    def item(self, new: Binding) -> Iterator[None]:
        """The name of one item, within a condition or a statement about each of several items."""
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
        message = f"`{new.name}` is already the name of {KIND_WORDS[old.kind]}"
        self.context.report("E202", message, new.span, f"cannot be {KIND_WORDS[new.kind]} too")
        old.type = "any"  # no further errors about the intended type
        return old

    def use(self, name: str, span: ast.Span) -> Binding | None:
        """The binding of a name that is read here; an unknown name is reported."""
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
            self.context.report("E201", f"`{name}` is not bound in this rule", span, "unknown name", helps=helps)
        return None
