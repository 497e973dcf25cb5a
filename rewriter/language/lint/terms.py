"""Expressions as terms: plain tuples in which names are replaced by what they stand for.

Two conditions of two rules can be held against each other only when they speak of the same things. In a term a tensor is a
`TermRef` of its pattern, a label is the `TermRef` of a node, a captured attribute is `("attr", node, name)`, and `let` names
are written out. Constants are themselves; everything else is `(head, part, ...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rewriter.language import ast
from rewriter.language.dtypes import DTYPES
from rewriter.record import field, record

Term = Any
"""A constant (bool, number, text, None), `TermRef`, or a tuple (head, term, ...). Element types are `("element", name)`."""

TERM_LIMIT = 400  # parts of a term; `let` names multiply, and a larger one is compared with nothing
ABSENT: Term = ("absent",)


@record(frozen=True, slots=True)
class TermRef:
    """A thing of one pattern. `kind` is node, made (an output of a pattern node), capture, any, const, run, open or model.

    `side` keeps the things of two patterns apart; `at` is a number of a node or a name, `part` an output or operand position.
    """

    kind: str
    side: str
    at: int | str
    part: int = 0


@record(slots=True)
class TermNames:
    """What the names of one rule stand for. `lets` are written out when they are met."""

    side: str
    known: dict[str, Term] = field(default_factory=dict)
    lets: Mapping[str, ast.Expr] = field(default_factory=dict)
    done: dict[str, Term] = field(default_factory=dict)

    def term(self, expr: ast.Expr) -> Term:
        """The term of an expression."""
        return fold(_TERMS[type(expr)](self, expr))

    def _range(self, expr: ast.Range) -> Term:
        return ("range", *(None if end is None else self.term(end) for end in (expr.start, expr.stop)))

    def _sides(self, expr: ast.Binary | ast.Compare) -> Term:
        return (expr.op, self.term(expr.left), self.term(expr.right))

    def _choice(self, expr: ast.Choice) -> Term:
        return ("if", self.term(expr.then), self.term(expr.test), self.term(expr.other))

    def _quantified(self, expr: ast.Quantified) -> Term:
        """What the item is called makes no difference."""
        over, outer = self.term(expr.over), self.known
        depth = sum(isinstance(term, tuple) and term[0] == "item of" for term in outer.values())
        self.known = {**outer, expr.name: ("item of", depth)}
        inner = self.term(expr.condition)
        self.known = outer
        return (f"{expr.quantifier} in", over, inner)

    def _name(self, expr: ast.Name) -> Term:
        name = expr.id
        if name in self.known:
            return self.known[name]
        if name in self.lets and name not in self.done:
            self.done[name] = ("opaque", self.side, name)  # a `let` that reads itself is an error elsewhere
            found = self.term(self.lets[name])
            if size(found) <= TERM_LIMIT:
                self.done[name] = found
        if name in self.done:
            return self.done[name]
        return ("element", name) if name in DTYPES else ("opaque", self.side, name)

    def _field(self, expr: ast.Field) -> Term:
        if isinstance(expr.value, ast.Name) and expr.value.id == "model":
            return ("opset",) if expr.name == "opset" else ("model", expr.name)
        value = self.term(expr.value)
        if isinstance(value, TermRef) and value.kind == "node":
            return ("op", value) if expr.name == "op" else ("attr", value, expr.name)
        return (expr.name, value)

    def _index(self, expr: ast.Index) -> Term:
        value, index = self.term(expr.value), self.term(expr.index)
        if isinstance(value, tuple) and value[0] == "shape" and not isinstance(index, tuple):
            return ("dim", value[1], index)
        return ("item", value, index)


_TERMS: Mapping[type, Callable[[TermNames, Any], Term]] = {
    ast.Literal: lambda names, expr: expr.value,
    ast.Name: TermNames._name,
    ast.Field: TermNames._field,
    ast.Range: TermNames._range,
    ast.Index: TermNames._index,
    ast.ListOf: lambda names, expr: ("list", *map(names.term, expr.items)),
    ast.Call: lambda names, expr: (expr.function, *map(names.term, expr.args)),
    ast.Unary: lambda names, expr: (expr.op if expr.op == "not" else "minus", names.term(expr.operand)),
    ast.Binary: TermNames._sides,
    ast.Compare: TermNames._sides,
    ast.Logic: lambda names, expr: (expr.op, *map(names.term, expr.operands)),
    ast.Choice: TermNames._choice,
    ast.Quantified: TermNames._quantified,
}


def is_constant(term: Term) -> bool:
    """Whether a term is a value: a number, a text, an element type, a list of such."""
    if isinstance(term, tuple):
        return term[0] in ("element", "absent") or (term[0] == "list" and all(map(is_constant, term[1:])))
    return not isinstance(term, TermRef)


def size(term: Term) -> int:
    """Number of parts, counted up to a little more than `TERM_LIMIT`."""
    count, waiting = 0, [term]
    while waiting and count <= TERM_LIMIT:
        top = waiting.pop()
        count += 1
        if isinstance(top, tuple):
            waiting.extend(top[1:])
    return count


def heads(term: Term) -> set[str]:
    """The functions and operators in a term."""
    found: set[str] = set()
    waiting = [term]
    while waiting:
        top = waiting.pop()
        if isinstance(top, tuple):
            found.add(top[0])
            waiting.extend(top[1:])
    return found


def replace(term: Term, change: Callable[[Term], Term]) -> Term:
    """The term with `change` applied to every part, inner ones first, and folded; a part that `change` returns is final."""
    if isinstance(term, tuple):
        term = fold((term[0], *(replace(part, change) for part in term[1:])))
    return change(term)


def fold(term: Term) -> Term:
    """The term in its shortest form, as far as a few rules of arithmetic and of this language go."""
    if not isinstance(term, tuple):
        return term
    rule = _FOLDS.get(term[0])
    return rule(term) if rule is not None else term


def _len(term: Term) -> Term:
    inner = term[1] if len(term) > 1 else None
    if isinstance(inner, tuple) and inner[0] == "shape":
        return ("rank", inner[1])
    return len(inner) - 1 if isinstance(inner, tuple) and inner[0] == "list" else term


def _minus(term: Term) -> Term:
    value = term[1]
    return -value if isinstance(value, int | float) else term


def _present(term: Term) -> Term:
    value = term[1] if len(term) > 1 else None
    if value == ABSENT:
        return False
    return True if isinstance(value, TermRef) and value.kind in ("made", "const", "any") else term


def _default(term: Term) -> Term:
    return term[2] if len(term) == 3 and term[1] == ABSENT else term


def _producer(term: Term) -> Term:
    value = term[1] if len(term) > 1 else None
    if isinstance(value, TermRef) and value.kind == "made":
        return ("op", TermRef("node", value.side, value.at))
    return "" if isinstance(value, TermRef) and value.kind == "const" else term


def _is_const(term: Term) -> Term:
    value = term[1] if len(term) > 1 else None
    return True if isinstance(value, TermRef) and value.kind == "const" else term


def _is_input(term: Term) -> Term:
    value = term[1] if len(term) > 1 else None
    return False if isinstance(value, TermRef) and value.kind in ("made", "const") else term


def _like(term: Term) -> Term:
    """rank, dtype, size and len of arrays that are made in the form of another one."""
    value = term[1] if len(term) > 1 else None
    if not isinstance(value, tuple):
        return term
    if value[0] in ("ones_like", "zeros_like", "full_like"):
        return fold((term[0], value[1], *term[2:]))
    if value[0] == "cast" and len(value) == 3:
        return value[2] if term[0] == "dtype" else fold((term[0], value[1], *term[2:]))
    if value[0] == "list" and term[0] == "rank":
        return 1
    return _len(term) if term[0] == "len" else term


def _all(term: Term) -> Term:
    inner = term[1] if len(term) > 1 else None
    if isinstance(inner, bool):
        return inner
    if isinstance(inner, tuple) and inner[0] in ("==", "!=") and is_constant(inner[1]) and is_constant(inner[2]):
        many = inner[1][1:] if isinstance(inner[1], tuple) and inner[1][0] == "list" else (inner[1],)
        return all((one == inner[2]) == (inner[0] == "==") for one in many)
    if isinstance(inner, tuple) and inner[0] == "==" and isinstance(inner[1], tuple) and inner[2] in (0, 1):
        known = {"ones_like": 1, "zeros_like": 0}.get(inner[1][0])
        return term if known is None else known == inner[2]
    return term


def _count(term: Term) -> Term:
    listed = term[1] if len(term) == 3 else None
    countable = isinstance(listed, tuple) and listed[0] == "list" and is_constant(listed) and is_constant(term[2])
    return listed[1:].count(term[2]) if countable and isinstance(listed, tuple) else term


def _plus(term: Term) -> Term:
    numbers = [part for part in term[1:] if isinstance(part, int | float)]
    return sum(numbers) if len(numbers) == 2 else term


_FOLDS: Mapping[str, Callable[[Term], Term]] = {
    "len": _like, "rank": _like, "dtype": _like, "size": _like, "minus": _minus, "present": _present, "default": _default,
    "producer": _producer, "is_const": _is_const, "is_input": _is_input, "all": _all,
    "count": _count, "+": _plus,
}  # fmt: skip
