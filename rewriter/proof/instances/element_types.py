"""Element types for all tensors of an instance at once: the types that schemas allow, intersected over the whole pattern."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping
from itertools import accumulate

from rewriter.language.dtypes import DTYPES
from rewriter.proof.instances.dims import Dims
from rewriter.proof.instances.draft import Draft, Term
from rewriter.proof.instances.operator_types import RUNNABLE, at, formals

_LIKELY = {DTYPES["float"]: 24.0, DTYPES["int64"]: 6.0, DTYPES["double"]: 4.0, DTYPES["int32"]: 4.0, DTYPES["bool"]: 2.0}


class NoType(Exception):
    """No element type suits a tensor."""


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


def assign(drafts: Iterable[Draft], asked: Mapping[int, frozenset[int]], dims: Dims, *, override: bool) -> None:
    """Gives every term an element type.

    Args:
        drafts: the nodes.
        asked: what the rule asks of a term (by id).
        dims: the source of chance.
        override: what the rule asks wins over the schemas, as in repairs of models that no schema allows.

    Raises:
        NoType: the demands contradict each other.
    """
    groups = _Groups()
    terms: dict[int, Term] = {}
    for number, draft in enumerate(drafts):
        _demands(groups, terms, number, draft)
    for key, allowed in asked.items():
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
    known = formals(draft.op, draft.domain, draft.version)
    both: tuple[list[Term | None], list[Term | None]] = draft.inputs, [*draft.outputs]
    for side, members in enumerate(both):
        for position, term in enumerate(members):
            if term is None:
                continue
            terms[id(term)] = term
            if term.value is not None:
                groups.restrict(id(term), frozenset({_number(term)}))
            formal = at(known[side], position) if known else None
            if formal is None:
                groups.join((number, "unknown operator"), id(term))
                continue
            groups.restrict(id(term), formal.allowed)
            if formal.variable:
                groups.join((number, formal.variable), id(term))
    target = draft.attrs.get("to") if draft.op == "Cast" else None
    if isinstance(target, int):
        groups.restrict(id(draft.outputs[0]), frozenset({target}))


def _number(term: Term) -> int:
    import onnx

    assert term.value is not None
    return int(onnx.helper.np_dtype_to_tensor_dtype(term.value.dtype))


def _choose(allowed: frozenset[int], dims: Dims) -> int:
    if not allowed:
        raise NoType
    choices = sorted(allowed)
    bounds = list(accumulate(_LIKELY.get(choice, 1.0) for choice in choices))
    return choices[bisect([bound / bounds[-1] for bound in bounds], dims.rng.random())]
