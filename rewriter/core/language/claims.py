"""The demands of conditions, in one normal form.

Lint needs to know whether two rules exclude or imply each other, the engine what a model must have for a rule to fire anywhere,
and the verification which random models to draw. All of them read claims: a term, and the values that it may have.

A term is an expression as a plain tuple in which names are replaced by their meanings, since conditions of two rules can be
compared only if they refer to the same things. A tensor is a `TermRef` of its pattern, a label the `TermRef` of a node, a
captured attribute `("attr", node, name)`, and `let` names are written out. Constants are themselves; everything else is
`(head, part, ...)`. A name without a known meaning stays `("opaque", side, name)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from rewriter.core.language import ast
from rewriter.core.language.schema import DTYPES
from rewriter.core.record import field, record, replace

Term = Any
"""A constant (bool, number, text, None), `TermRef`, or a tuple (head, term, ...). Element types are `("element", name)`."""

TERM_LIMIT = 400  # parts of a term; `let` names multiply, and larger terms are not compared
ABSENT_TERM: Term = ("absent",)


@record(frozen=True, slots=True)
class TermRef:
    """A thing of one pattern. `kind` is node, made (an output of a pattern node), capture, any, const, run, open or model.

    `side` keeps the things of two patterns apart; `at` is a number of a node or a name, `part` an output or operand position.
    """

    kind: str
    side: str
    at: int | str
    part: int = 0

    def __hash__(self) -> int:
        return hash((self.kind, self.side, self.at, self.part))  # as a record's, without its calls: lint hashes millions


@record(slots=True)
class TermNames:
    """The meanings of the names of one rule. `lets` are written out when they are met."""

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
        """The name of the item makes no difference."""
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


def name_of(term: Term) -> str | None:
    """The name of a term that is a name without a known meaning."""
    return str(term[2]) if isinstance(term, tuple) and term[0] == "opaque" else None


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


def replace_parts(term: Term, change: Callable[[Term], Term]) -> Term:
    """The term with `change` applied to every part, inner ones first, and folded; a part that `change` returns is final."""
    if isinstance(term, tuple):
        term = fold((term[0], *(replace_parts(part, change) for part in term[1:])))
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
    if value == ABSENT_TERM:
        return False
    return True if isinstance(value, TermRef) and value.kind in ("made", "const", "any") else term


def _default(term: Term) -> Term:
    return term[2] if len(term) == 3 and term[1] == ABSENT_TERM else term


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


# Conditions as alternatives of plain facts, and what follows from them without a model.
#
# A `where` line becomes claims: a term and the values that it may have. Two rules exclude each other when no choice of their
# alternatives leaves every term a value; one implies the other when its facts leave the other's terms no freedom. Everything
# that is not plain stays a claim about a term of its own, and excludes only its own negation.

BRANCHES = 48  # alternatives of one rule; a condition that would make more is left out, and counts as possible

_FLIP = {"<": ">", ">": "<", "=": "="}
_OPPOSITE = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_RELATIONS = {"==": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_WHOLE = frozenset({"rank", "dim", "size", "len", "opset", "ir_version", "uses", "n_inputs", "n_outputs", "axis", "count"})


@record(frozen=True, slots=True)
class Domain:
    """The values that a term may have: `only` these (None: any) and `never` those, from `low` to `high`.

    An end is a number and whether that number itself is left out.
    """

    only: frozenset[Any] | None = None
    never: frozenset[Any] = frozenset()
    low: tuple[float, bool] | None = None
    high: tuple[float, bool] | None = None

    def __contains__(self, value: Any) -> bool:
        if (self.only is not None and value not in self.only) or value in self.never:
            return False
        if not isinstance(value, int | float):
            return True
        if self.low is not None and (value < self.low[0] or (self.low[1] and value == self.low[0])):
            return False
        return self.high is None or not (value > self.high[0] or (self.high[1] and value == self.high[0]))

    def meet(self, other: Domain) -> Domain:
        """The values that are in both."""
        only = self.only if other.only is None else other.only if self.only is None else self.only & other.only
        low = max((end for end in (self.low, other.low) if end is not None), default=None)
        highs = [end for end in (self.high, other.high) if end is not None]
        high = min(highs, key=lambda end: (end[0], not end[1]), default=None)
        return Domain(only, self.never | other.never, low, high)

    @property
    def is_empty(self) -> bool:
        if self.only is not None:
            return all(value not in self for value in self.only)
        if self.low is None or self.high is None:
            return False
        return self.low[0] > self.high[0] or (self.low[0] == self.high[0] and (self.low[1] or self.high[1]))

    def within(self, other: Domain) -> bool:
        """Whether every value of this one is in the other."""
        if self.only is not None:
            if other.only is not None and not other.never and other.low is other.high is None and self.only <= other.only:
                return True
            return all(value in other for value in self.only if value in self)
        if other.only is not None or any(value in self for value in other.never):
            return False
        low = other.low is None or (self.low is not None and self.low >= other.low)
        return low and (other.high is None or (self.high is not None and _below(self.high, other.high)))


TRUE = Domain(never=frozenset({False}))
FALSE = Domain(only=frozenset({False}))


@record(frozen=True, slots=True)
class Claim:
    """A term and its possible values. `maybe` also holds if the term is unknown. `("cmp", a, b)` has values of "<=>"."""

    term: Term
    domain: Domain
    maybe: bool = False


Branch = tuple[Claim, ...]


def equals(term: Term, *values: Term) -> Claim:
    """The term has one of these constant values."""
    return Claim(term, Domain(only=frozenset(values)))


def compare(one: Term, relation: str, other: Term, maybe: bool = False) -> Claim:
    """`relation` is made of the signs "<", "=" and ">" that may stand between the terms."""
    return Claim(("cmp", one, other), Domain(only=frozenset(relation)), maybe)


# --- From conditions -----------------------------------------------------------------------------------------------------


def alternatives(conditions: Iterable[ast.Expr], names: TermNames) -> list[Branch]:
    """The conditions' alternatives, each a conjunction of claims."""
    found: list[Branch] = [()]
    for condition in conditions:
        more = claims_of(names.term(condition))
        if len(found) * len(more) <= BRANCHES:
            found = [(*one, *other) for one in found for other in more]
    return found


def claims_of(term: Term, truth: bool = True, maybe: bool = False) -> list[Branch]:
    """The alternatives of one condition that is to be true, or false. A condition with too many alternatives makes no claim."""
    head = term[0] if isinstance(term, tuple) else ""
    if head == "not":
        return claims_of(term[1], not truth, maybe)
    if head == "maybe" and len(term) == 2:
        return claims_of(term[1], truth, truth or maybe)
    if head not in ("and", "or"):
        return [(_claim(term, truth, maybe),)]
    parts = [claims_of(part, truth, maybe) for part in term[1:]]
    if (head == "or") == truth:
        together = [branch for part in parts for branch in part]
        return together if len(together) <= BRANCHES else [()]
    if prod(map(len, parts)) > BRANCHES:
        return [()]
    return [tuple(claim for branch in choice for claim in branch) for choice in product(*parts)]


def _claim(term: Term, truth: bool, maybe: bool) -> Claim:
    head = term[0] if isinstance(term, tuple) else ""
    if head in _RELATIONS:
        relation = _RELATIONS[head]
        return compare(term[1], relation if truth else "".join(sign for sign in "<=>" if sign not in relation), term[2], maybe)
    if head in ("in", "not in"):
        inside = (head == "in") == truth
        if is_constant(term[2]) and isinstance(term[2], tuple) and term[2][0] == "list":
            values = frozenset(term[2][1:])
            return Claim(term[1], Domain(only=values) if inside else Domain(never=values), maybe)
        return Claim(("in", *term[1:]), TRUE if inside else FALSE, maybe)
    if head == "any" and len(term) == 2 and isinstance(term[1], tuple) and term[1][0] in _OPPOSITE:
        inner = term[1]
        return Claim(fold(("all", (_OPPOSITE[inner[0]], *inner[1:]))), FALSE if truth else TRUE, maybe)
    return Claim(term, TRUE if truth else FALSE, maybe)


# --- What is possible ----------------------------------------------------------------------------------------------------


def _unchanged(term: Term) -> Term:
    return term


def normal(claim: Claim, change: Callable[[Term], Term] = _unchanged) -> Claim | bool:
    """The claim in other words: `change` replaces its terms. True or false if that decides it."""
    term = claim.term
    if isinstance(term, tuple) and term[0] == "cmp":
        one, other = change(term[1]), change(term[2])
        signs = claim.domain.only or frozenset()
        if one == other:
            return "=" in signs
        if is_constant(one) and not is_constant(other):
            one, other, signs = other, one, frozenset(_FLIP[sign] for sign in signs)
        if is_constant(other):
            claim = Claim(one, _against(other, signs), claim.maybe)
        else:
            if repr(one) > repr(other):
                one, other, signs = other, one, frozenset(_FLIP[sign] for sign in signs)
            return Claim(("cmp", one, other), Domain(only=signs), claim.maybe)
    else:
        claim = Claim(change(term), claim.domain, claim.maybe)
    if is_constant(claim.term):
        return claim.term in claim.domain
    if isinstance(claim.term, tuple) and claim.term[0] == "if" and is_constant(claim.term[1]) and is_constant(claim.term[3]):
        answers = {value in claim.domain for value in (claim.term[1], claim.term[3])}
        return answers.pop() if len(answers) == 1 else claim
    if isinstance(claim.term, tuple) and claim.term[0] in _WHOLE:
        return replace(claim, domain=_whole(claim.domain))
    return claim


def consistent(claims: Iterable[Claim | bool]) -> bool:
    """Whether every term is left a value; claims are normal ones."""
    hard: dict[Term, Domain] = {}
    soft: list[Claim] = []
    for claim in claims:
        if isinstance(claim, bool):
            if not claim:
                return False
        elif claim.maybe:
            soft.append(claim)
        else:
            hard[claim.term] = hard[claim.term].meet(claim.domain) if claim.term in hard else claim.domain
    hard = _spread(hard)
    if any(domain.is_empty for domain in hard.values()):
        return False
    return not any(hard[one.term].meet(one.domain).is_empty for one in soft if one.term in hard)


def implied(claim: Claim | bool, facts: Mapping[Term, Domain], soft: Sequence[Claim] = ()) -> bool:
    """Whether facts (terms with their values) leave a claim no choice."""
    if isinstance(claim, bool):
        return claim
    if claim.term in facts and facts[claim.term].within(claim.domain):
        return True
    return claim.maybe and any(one.term == claim.term and one.domain.within(claim.domain) for one in soft)


def facts_of(claims: Iterable[Claim | bool]) -> dict[Term, Domain]:
    """The hard claims as a table."""
    found: dict[Term, Domain] = {}
    for claim in claims:
        if isinstance(claim, Claim) and not claim.maybe:
            found[claim.term] = found[claim.term].meet(claim.domain) if claim.term in found else claim.domain
    return _spread(found)


def _spread(hard: dict[Term, Domain]) -> dict[Term, Domain]:
    """Terms that are claimed to be equal share their possible values. If terms differ, so do their single values."""
    known = dict(hard)
    for term, domain in hard.items():
        if not (isinstance(term, tuple) and term[0] == "cmp"):
            continue
        one, other = (known.get(side, Domain()) for side in term[1:])
        if domain.only == frozenset("="):
            known[term[1]] = known[term[2]] = one.meet(other)
        elif domain.only is not None and "=" not in domain.only:
            for mine, side in ((one, term[2]), (other, term[1])):
                if mine.only is not None and len(mine.only) == 1:
                    known[side] = known.get(side, Domain()).meet(Domain(never=mine.only))
    return known


def _against(value: Term, signs: frozenset[Any]) -> Domain:
    """The values that stand in one of these relations to a constant."""
    if signs == frozenset("="):
        return Domain(only=frozenset({value}))
    if signs == frozenset("<>") or not isinstance(value, int | float):
        return Domain() if "=" in signs else Domain(never=frozenset({value}))
    if "<" in signs:
        return Domain(high=(value, "=" not in signs))
    return Domain(low=(value, "=" not in signs))


def _whole(domain: Domain) -> Domain:
    """Open ends of whole numbers are closed ends one further."""
    low = (domain.low[0] + 1, False) if domain.low is not None and domain.low[1] else domain.low
    high = (domain.high[0] - 1, False) if domain.high is not None and domain.high[1] else domain.high
    return replace(domain, low=low, high=high)


def _below(one: tuple[float, bool], other: tuple[float, bool]) -> bool:
    return one[0] < other[0] or (one[0] == other[0] and (one[1] or not other[1]))
