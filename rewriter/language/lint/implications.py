"""Conditions as alternatives of plain facts, and what can be told of them without a model.

A `where` line becomes literals: a term and the values that it may have. Two rules exclude each other when no choice of their
alternatives leaves every term a value; one implies the other when its facts leave the other's terms no freedom. Everything that
is not plain stays a literal about a term of its own, and excludes only its own negation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

from rewriter.language import ast
from rewriter.language.lint.terms import Term, TermNames, fold, is_constant
from rewriter.record import record, replace

BRANCHES = 48  # alternatives of one rule; a condition that would make more is left out, and counts as possible

_FLIP = {"<": ">", ">": "<", "=": "="}
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
            return not any(value in self for value in self.only)
        if self.low is None or self.high is None:
            return False
        return self.low[0] > self.high[0] or (self.low[0] == self.high[0] and (self.low[1] or self.high[1]))

    def within(self, other: Domain) -> bool:
        """Whether every value of this one is in the other."""
        if self.only is not None:
            return all(value in other for value in self.only if value in self)
        if other.only is not None or any(value in self for value in other.never):
            return False
        low = other.low is None or (self.low is not None and self.low >= other.low)
        return low and (other.high is None or (self.high is not None and _below(self.high, other.high)))


TRUE = Domain(never=frozenset({False}))
FALSE = Domain(only=frozenset({False}))


@record(frozen=True, slots=True)
class Claim:
    """A term and its possible values; `maybe` holds also where the term is unknown. `("cmp", a, b)` has values of "<=>"."""

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


# --- From expressions ----------------------------------------------------------------------------------------------------


def alternatives(conditions: Iterable[ast.Expr], names: TermNames) -> list[Branch]:
    """The conditions' alternatives, each a conjunction of literals."""
    found: list[Branch] = [()]
    for condition in conditions:
        more = _read(condition, names, True, False)
        if len(found) * len(more) <= BRANCHES:
            found = [(*one, *other) for one in found for other in more]
    return found


def _read(expr: ast.Expr, names: TermNames, truth: bool, maybe: bool, depth: int = 0) -> list[Branch]:
    if isinstance(expr, ast.Unary) and expr.op == "not":
        return _read(expr.operand, names, not truth, maybe, depth)
    if isinstance(expr, ast.Call) and expr.function == "maybe" and len(expr.args) == 1:
        return _read(expr.args[0], names, truth, truth or maybe, depth)
    if isinstance(expr, ast.Name) and expr.id in names.lets and expr.id not in names.known and depth < 20:
        return _read(names.lets[expr.id], names, truth, maybe, depth + 1)
    if isinstance(expr, ast.Logic):
        parts = [_read(operand, names, truth, maybe, depth) for operand in expr.operands]
        if (expr.op == "or") == truth:
            together = [branch for part in parts for branch in part]
            return together if len(together) <= BRANCHES else [()]
        count = 1
        for part in parts:
            count *= len(part)
        if count > BRANCHES:
            return [()]
        return [tuple(literal for branch in choice for literal in branch) for choice in product(*parts)]
    return [(_literal(expr, names, truth, maybe),)]


def _literal(expr: ast.Expr, names: TermNames, truth: bool, maybe: bool) -> Claim:
    if isinstance(expr, ast.Compare) and expr.op in _RELATIONS:
        relation = _RELATIONS[expr.op]
        relation = relation if truth else "".join(sign for sign in "<=>" if sign not in relation)
        return compare(names.term(expr.left), relation, names.term(expr.right), maybe)
    if isinstance(expr, ast.Compare):
        left, right = names.term(expr.left), names.term(expr.right)
        inside = (expr.op == "in") == truth
        if is_constant(right) and isinstance(right, tuple) and right[0] == "list":
            values = frozenset(right[1:])
            return Claim(left, Domain(only=values) if inside else Domain(never=values), maybe)
        return Claim(("in", left, right), TRUE if inside else FALSE, maybe)
    if isinstance(expr, ast.Call) and expr.function == "any" and len(expr.args) == 1 and isinstance(expr.args[0], ast.Compare):
        inner = expr.args[0]
        opposite = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}.get(inner.op)
        if opposite is not None:
            term = ("all", (opposite, names.term(inner.left), names.term(inner.right)))
            return Claim(fold(term), FALSE if truth else TRUE, maybe)
    return Claim(names.term(expr), TRUE if truth else FALSE, maybe)


# --- What is possible ----------------------------------------------------------------------------------------------------


def normal(literal: Claim, change: Callable[[Term], Term]) -> Claim | bool:
    """The literal in other words: `change` replaces its terms. True or false when nothing is left to ask."""
    term = literal.term
    if isinstance(term, tuple) and term[0] == "cmp":
        one, other = change(term[1]), change(term[2])
        signs = literal.domain.only or frozenset()
        if one == other:
            return "=" in signs
        if is_constant(one) and not is_constant(other):
            one, other, signs = other, one, frozenset(_FLIP[sign] for sign in signs)
        if is_constant(other):
            literal = replace(literal, term=one, domain=_against(other, signs))
        else:
            if repr(one) > repr(other):
                one, other, signs = other, one, frozenset(_FLIP[sign] for sign in signs)
            return replace(literal, term=("cmp", one, other), domain=Domain(only=signs))
    else:
        literal = replace(literal, term=change(term))
    if is_constant(literal.term):
        return literal.term in literal.domain
    if (
        isinstance(literal.term, tuple)
        and literal.term[0] == "if"
        and is_constant(literal.term[1])
        and is_constant(literal.term[3])
    ):
        answers = {value in literal.domain for value in (literal.term[1], literal.term[3])}
        return answers.pop() if len(answers) == 1 else literal
    if isinstance(literal.term, tuple) and literal.term[0] in _WHOLE:
        return replace(literal, domain=_whole(literal.domain))
    return literal


def consistent(literals: Iterable[Claim | bool]) -> bool:
    """Whether every term is left a value; literals are normal ones."""
    hard: dict[Term, Domain] = {}
    soft: list[Claim] = []
    for literal in literals:
        if isinstance(literal, bool):
            if not literal:
                return False
        elif literal.maybe:
            soft.append(literal)
        else:
            hard[literal.term] = hard[literal.term].meet(literal.domain) if literal.term in hard else literal.domain
    hard = _spread(hard)
    if any(domain.is_empty for domain in hard.values()):
        return False
    return not any(hard[one.term].meet(one.domain).is_empty for one in soft if one.term in hard)


def implied(literal: Claim | bool, facts: Mapping[Term, Domain], soft: Sequence[Claim] = ()) -> bool:
    """Whether facts (terms with their values) leave a literal no choice."""
    if isinstance(literal, bool):
        return literal
    if literal.term in facts and facts[literal.term].within(literal.domain):
        return True
    return literal.maybe and any(one.term == literal.term and one.domain.within(literal.domain) for one in soft)


def facts_of(literals: Iterable[Claim | bool]) -> dict[Term, Domain]:
    """The hard literals as a table."""
    found: dict[Term, Domain] = {}
    for literal in literals:
        if isinstance(literal, Claim) and not literal.maybe:
            found[literal.term] = found[literal.term].meet(literal.domain) if literal.term in found else literal.domain
    return _spread(found)


def _spread(hard: dict[Term, Domain]) -> dict[Term, Domain]:
    """Lets terms that are said to be equal have their values in common, and single values differ where terms do."""
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
