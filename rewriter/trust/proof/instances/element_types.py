"""Element types for all tensors of an instance at once: the types that schemas allow, intersected over the whole pattern."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache, partial
from itertools import accumulate
from typing import Any

from rewriter.core.engine.compile import default_value
from rewriter.core.errors import RewriterError
from rewriter.core.language import ast, schema
from rewriter.core.language.ast import walk
from rewriter.core.language.claims import (
    TRUE,
    Branch,
    Claim,
    Domain,
    TermNames,
    claims_of,
    is_constant,
    name_of,
    normal,
    replace_parts,
)
from rewriter.core.language.claims import Term as ClaimTerm
from rewriter.core.language.meaning import takes, type_variables
from rewriter.core.language.operator_traits import traits
from rewriter.core.language.rules import Rule
from rewriter.core.language.schema import DTYPES
from rewriter.core.record import field, record
from rewriter.trust.proof.instances import contrib_operators
from rewriter.trust.proof.instances.draft import Dims, Draft, Rejected, Term

# The element types of an operator's operands and results, and the operands that share a type.

RUNNABLE = frozenset(
    DTYPES[name]
    for name in (
        "float", "double", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64",
        "bool", "string",
    )
)  # fmt: skip
"""Element types that instances are made of."""


@cache
def type_demand(op: str, domain: str, version: int, is_output: bool, position: int) -> tuple[str, frozenset[int]] | None:
    """The type variable that an operand or a result shares with others ("" for none), and the types that it allows; None if
    the operator has no schema, or no such operand.
    """
    if contrib_operators.known(op, domain):
        whole = not is_output and position in contrib_operators.INTEGER_OPERANDS.get(op, ())
        return ("", contrib_operators.INT32) if whole else ("T", contrib_operators.FLOAT)
    operator, variables = schema.schema(op, domain, version), type_variables(op, domain, version)
    if operator is None or variables is None or not variables[is_output]:
        return None
    most = operator.max_outputs if is_output else operator.max_inputs
    if most is not None and position >= most:
        return None
    allowed = frozenset(dtype for dtype in RUNNABLE if takes(op, domain, version, is_output, position, dtype))
    return variables[is_output][min(position, len(variables[is_output]) - 1)], allowed


_LIKELY = {DTYPES["float"]: 24.0, DTYPES["int64"]: 6.0, DTYPES["double"]: 4.0, DTYPES["int32"]: 4.0, DTYPES["bool"]: 2.0}


class _Groups:
    """Tensors that must have one type."""

    def __init__(self) -> None:
        self._parent: dict[object, object] = {}
        self.allowed: dict[object, frozenset[int]] = {}

    def find(self, key: object) -> object:
        self._parent.setdefault(key, key)
        while self._parent[key] != key:
            key = self._parent[key]
        return key

    def join(self, one: object, other: object) -> None:
        first, second = self.find(one), self.find(other)
        if first != second:
            self._parent[second] = first
            self.allowed[first] = self.allowed.get(first, RUNNABLE) & self.allowed.pop(second, RUNNABLE)

    def restrict(self, key: object, allowed: frozenset[int]) -> None:
        root = self.find(key)
        self.allowed[root] = self.allowed.get(root, RUNNABLE) & allowed


def assign(drafts: Iterable[Draft], types_by_term: Mapping[int, frozenset[int]], dims: Dims, *, override: bool) -> None:
    """Assigns an element type to every term.

    Args:
        drafts: the nodes.
        types_by_term: the types that the rule requires of a term (by id).
        dims: the source of randomness.
        override: the rule's requirements win over the schemas, as in repairs of models that no schema allows.

    Raises:
        Rejected: the demands contradict each other.
    """
    groups = _Groups()
    terms: dict[int, Term] = {}
    for number, draft in enumerate(drafts):
        _demands(groups, terms, number, draft)
    for key, allowed in types_by_term.items():
        if key in terms and override and not groups.allowed.get(groups.find(key), RUNNABLE) & allowed:
            groups.allowed[groups.find(key)] = allowed
        elif key in terms:
            groups.restrict(key, allowed)
    chosen: dict[object, int] = {}
    for key, term in terms.items():
        root = groups.find(key)
        if root not in chosen:
            chosen[root] = _choose(groups.allowed.get(root, RUNNABLE), dims)
        term.dtype = chosen[root]


def _demands(groups: _Groups, terms: dict[int, Term], number: int, draft: Draft) -> None:
    for is_output, members in ((False, draft.inputs), (True, draft.outputs)):
        for position, term in enumerate(members):
            if term is None:
                continue
            terms[id(term)] = term
            if term.value is not None:
                groups.restrict(id(term), frozenset({_number(term)}))
            demand = type_demand(draft.op, draft.domain, draft.version, is_output, position)
            if demand is None:
                groups.join((number, "unknown operator"), id(term))
                continue
            variable, allowed = demand
            groups.restrict(id(term), allowed)
            if variable:
                groups.join((number, variable), id(term))
    target = draft.attrs.get("to") if traits(draft.op).dtype == "to" else None
    if isinstance(target, int):
        groups.restrict(id(draft.outputs[0]), frozenset({target}))


def _number(term: Term) -> int:
    import onnx

    assert term.value is not None
    return int(onnx.helper.np_dtype_to_tensor_dtype(term.value.dtype))


def _choose(allowed: frozenset[int], dims: Dims) -> int:
    if not allowed:
        raise Rejected("no element type suits")
    choices = sorted(allowed)
    bounds = list(accumulate(_LIKELY.get(choice, 1.0) for choice in choices))
    return choices[bisect([bound / bounds[-1] for bound in bounds], dims.rng.random())]


# Requirements that the conditions of a rule state so plainly that instances can be made to meet them: types, ranks, equalities.
#
# Everything else is left to chance: instances that violate a condition are thrown away and counted.

RANKS = range(7)

MOST_ITEMS = 6
"""Operands of a run that conditions about all of them are read for."""


class Unsettled(Exception):
    """An expression has no value before the model is there."""


@record
class Hints:
    """The requirements on a tensor or a bound attribute, by its name.

    Attributes:
        same: the tensor with the same contents.
        alike: the tensor of the same shape.
        lengths: some of its dimensions, by position.
        bounds: the numbers that an attribute may have.
    """

    dtypes: dict[str, frozenset[int]] = field(default_factory=dict)
    ranks: dict[str, frozenset[int]] = field(default_factory=dict)
    contents: dict[str, Any] = field(default_factory=dict)
    equal: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    alike: dict[str, str] = field(default_factory=dict)
    lengths: dict[str, dict[int, int]] = field(default_factory=dict)
    bounds: dict[str, Domain] = field(default_factory=dict)


def hints(rule: Rule, dims: Dims) -> Hints:
    """The hints of a rule; if it offers alternatives, one is drawn."""
    found = Hints()
    names = TermNames("", lets={let.name: let.value for let in rule.ast.lets})
    any_of = 0
    for where in rule.ast.wheres:
        for claim in _drawn(names.term(where.condition), dims):
            head = claim.term[0] if isinstance(claim.term, tuple) else ""
            if head in ("all in", "any in") and claim.domain == TRUE:
                every = head == "all in"
                _read_items(claim.term, range(MOST_ITEMS) if every else (any_of,), dims, found)
                any_of += not every  # each `any` is about another operand
            elif not claim.maybe:
                _read(claim, found)
    return found


def _drawn(term: ClaimTerm, dims: Dims) -> Branch:
    """One of the alternatives of a condition."""
    branches = claims_of(term)
    return branches[dims.below(len(branches))] if len(branches) > 1 else branches[0]


def _read_items(quantified: ClaimTerm, items: Iterable[int], dims: Dims, found: Hints) -> None:
    """The operands of a run `xs` are drawn as `xs0`, `xs1` and so on."""
    run = name_of(quantified[1])
    for item in items if run is not None else ():
        for claim in _drawn(replace_parts(quantified[2], partial(_named, f"{run}{item}")), dims):
            _read(claim, found)


def _named(name: str, part: ClaimTerm) -> ClaimTerm:
    """The item of a run as a tensor of its own."""
    return ("opaque", "", name) if part == ("item of", 0) else part


def _read(claim: Claim, found: Hints) -> None:
    term = claim.term
    if not isinstance(term, tuple):
        return
    if term[0] == "cmp" and claim.domain.only == frozenset("="):
        _equal(term[1], term[2], found)
    elif term[0] == "all" and isinstance(term[1], tuple) and term[1][0] == "==" and claim.domain == TRUE:
        _same_contents(term[1][1], term[1][2], found)
    plain = normal(claim)
    if isinstance(plain, Claim):
        _limited(plain.term, plain.domain, found)


def _equal(one: ClaimTerm, other: ClaimTerm, found: Hints) -> None:
    """Two shapes, two axes or two names that are equal."""
    name, other_name = name_of(one), name_of(other)
    if name is not None and other_name is not None:
        found.equal[other_name] = name
    elif isinstance(one, tuple) and isinstance(other, tuple) and one[0] == other[0] and len(one) == len(other) > 1:
        name, other_name = name_of(one[1]), name_of(other[1])
        if name is None or other_name is None:
            return
        if one[0] == "shape":
            found.alike.update({name: other_name, other_name: name})
        elif one[0] == "axis":
            found.equal[other_name] = name


def _same_contents(one: ClaimTerm, other: ClaimTerm, found: Hints) -> None:
    name, other_name = name_of(one), name_of(other)
    if name is not None and other_name is not None:
        found.same.update({name: other_name, other_name: name})
    elif name is not None and is_constant(other):
        found.contents[name] = _value(other)


def _limited(term: ClaimTerm, domain: Domain, found: Hints) -> None:
    """The values that a term may have: the element type, rank or lengths of a tensor, or an attribute's bound value."""
    name = name_of(term)
    only = None if domain.only is None else [_value(value) for value in sorted(domain.only, key=repr)]
    if name is not None and only:
        found.values[name] = only
    elif name is not None:
        found.bounds[name] = found.bounds.get(name, Domain()).meet(domain)
    name = name_of(term[1]) if isinstance(term, tuple) and len(term) > 1 else None
    if name is None:
        return
    if term[0] == "dtype" and only:
        found.dtypes[name] = frozenset(only)
    elif term[0] == "rank":
        found.ranks[name] = frozenset(rank for rank in found.ranks.get(name, RANKS) if rank in domain)
    elif term[0] == "shape" and only and isinstance(only[0], list):
        found.ranks[name] = found.ranks.get(name, frozenset(RANKS)) & {len(only[0])}
        found.lengths[name] = dict(enumerate(only[0]))
    elif term[0] == "dim" and only and isinstance(term[2], int):
        found.lengths.setdefault(name, {})[term[2]] = only[0]


def near_ends(domain: Domain | None, default: Any) -> list[float]:
    """Numbers of a domain next to its ends, if the default of the attribute is none of its numbers."""
    if domain is None or not isinstance(default, int | float) or default in domain:
        return []
    ends = [end[0] for end in (domain.low, domain.high) if end is not None]
    near = [number for end in ends for number in (end - 2, end - 1, end, end + 1, end + 2)] or [default + 1]
    return [number for number in near if number in domain]


def _value(term: ClaimTerm) -> Any:
    """A constant term as a value."""
    if not isinstance(term, tuple):
        return term
    return DTYPES[term[1]] if term[0] == "element" else [_value(part) for part in term[1:]]


def constant(expr: ast.Expr, names: dict[str, Any]) -> Any:
    """The value of an expression of literals and known names. Raises Unsettled."""
    if isinstance(expr, ast.Name) and expr.id in names:
        return names[expr.id]
    try:
        return default_value(expr)
    except RewriterError:
        raise Unsettled from None


@lru_cache(maxsize=64)
def source_questions(rule: Rule) -> tuple[tuple[str, str, list[Any]], ...]:
    """The questions of the rule to the framework's own file: (label, attribute, values that it compares the answer with)."""
    return tuple(_questions(rule))


def _questions(rule: Rule) -> Iterator[tuple[str, str, list[Any]]]:
    literals: list[Any] = [e.value for e in walk(rule.ast) if isinstance(e, ast.Literal) and isinstance(e.value, str | bool)]
    for expr in walk(rule.ast):
        if isinstance(expr, ast.Call) and expr.function == "source" and len(expr.args) >= 2:
            label, key = expr.args[:2]
            if isinstance(label, ast.Name) and isinstance(key, ast.Literal):
                yield label.id, str(key.value), [v for v in (True, False, *literals) if v != key.value]


@lru_cache(maxsize=64)
def numbers_of(rule: Rule) -> tuple[float, ...]:
    """The numbers in the rule, and numbers of common comparisons: constants that the rule may be for."""
    literals = (e.value for e in walk(rule.ast) if isinstance(e, ast.Literal))
    written = [float(value) for value in literals if isinstance(value, int | float) and not isinstance(value, bool)]
    return tuple(sorted({n for n in (*written, *(-n for n in written), 0.0, 1.0, -1.0, 2.0) if abs(n) < 1e6}))


def any_operators(rule: ast.Rule, operands: int, opset: int) -> list[tuple[str, str]]:
    """Operators for a node that may have any: those that the conditions speak of, or else common ones of so many operands."""
    said = {one.value for where in rule.wheres for one in walk(where) if isinstance(one, ast.Literal)}
    named = [word for word in sorted(said, key=str) if isinstance(word, str) and schema.exists(word, "", opset)]
    common = _COMMON.get(operands, ("Max", "Min", "Sum"))
    return [("", op) for op in named or common]


_COMMON = {1: ("Neg", "Relu", "Sigmoid", "Softmax", "Transpose"), 2: ("Add", "MatMul", "Mul", "Sub")}
