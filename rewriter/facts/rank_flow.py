"""Which ranks the operands of each kind of node have, followed through a census from the inputs on.

Only what the facts of a loaded model would say, too, is said here: of few operators, and of nodes whose attributes are
sound. Everything else is unknown, as is what stands in subgraphs and functions.
"""

from __future__ import annotations

from collections.abc import Callable

from rewriter.facts.operator_shapes import BROADCAST, GLOBAL_POOLS, POOLS, SAME_AS_FIRST
from rewriter.onnxfile.census import Body, Census, NodeKind

Ranks = tuple[int | None, ...]
"""Of the operands; None for an unknown one, `OMITTED` for one that is left out."""

OMITTED = -1
_BROADCASTS_ALL = 8
"""The first opset in which all operators that take several operands broadcast them against each other."""


def follow(census: Census) -> bool:
    """Fills `ranks` of all kinds. False where a name is defined twice; then it means nothing."""
    known: dict[bytes, int | None] = {b"": OMITTED, **census.graph.ranks}
    infos = {name for name, _ in census.graph.infos}
    for name, _ in census.graph.inputs:
        if name in infos:
            known[name] = None  # which of the two declarations counts is not for this to say
    defined = {name for part in (census.graph.inputs, census.graph.constants) for name, _ in part}
    flow = _Flow(census)
    missing = object()
    for kind, inputs, outputs in census.graph.nodes:
        operands = tuple([known.get(name) for name in inputs])
        made = kind.ranks.get(operands, missing)
        if made is missing:
            made = kind.ranks[operands] = flow.rank(kind, operands)
        for name in outputs:
            if name:
                if name in defined:
                    return False
                defined.add(name)
                known[name] = made  # type: ignore[assignment]
                made = None
            else:
                made = None
    for body in _inner([*census.graph.inner, *census.functions.values()]):
        for kind, inputs, _ in body.nodes:
            kind.ranks[(None,) * len(inputs)] = None
    return True


def _inner(waiting: list[Body]) -> list[Body]:
    found = []
    while waiting:
        found.append(waiting.pop())
        waiting.extend(found[-1].inner)
    return found


class _Flow:
    def __init__(self, census: Census) -> None:
        self._functions = census.functions
        self._broadcasts = all(version >= _BROADCASTS_ALL for version in census.versions)

    def rank(self, kind: NodeKind, ranks: Ranks) -> int | None:
        """The rank of the first output."""
        if kind.domain or kind.bodies or ("", kind.op) in self._functions:
            return None
        if kind.op in SAME_AS_FIRST:
            first = ranks[0] if ranks else None
            return None if first == OMITTED else first
        if kind.op in BROADCAST:
            return self._broadcast(kind, ranks)
        rule = _RULES.get(kind.op)
        return None if rule is None else rule(kind, ranks)

    def _broadcast(self, kind: NodeKind, ranks: Ranks) -> int | None:
        known = [rank for rank in ranks if rank is not None and rank >= 0]
        if kind.attrs or not ranks or len(known) < len(ranks) or not (self._broadcasts or len(set(known)) == 1):
            return None
        return max(known)


def _constant(kind: NodeKind, ranks: Ranks) -> int | None:
    if len(kind.attrs) != 1:
        return None
    return kind.rank if "value" in kind.attrs else _OF_VALUES.get(next(iter(kind.attrs)))


_OF_VALUES = {"value_int": 0, "value_float": 0, "value_ints": 1, "value_floats": 1}


def _window(kind: NodeKind, ranks: Ranks) -> int | None:
    """A convolution or pool of an image of three dimensions or more, whose attributes agree with the number of its axes."""
    rank = ranks[0] if ranks else None
    if rank is None or rank < 3 or (kind.op == "Conv" and (len(ranks) < 2 or ranks[1] != rank)):
        return None
    sizes = {"kernel_shape": rank - 2, "strides": rank - 2, "dilations": rank - 2, "pads": 2 * (rank - 2)}
    if kind.op != "Conv" and "kernel_shape" not in kind.attrs:
        return None
    for name, size in sizes.items():
        found = kind.attrs.get(name)
        if found is None:
            continue
        least = 0 if name == "pads" else 1
        if not isinstance(found, list) or len(found) != size or not all(isinstance(n, int) and n >= least for n in found):
            return None
    padding, group = kind.attrs.get("auto_pad", "NOTSET"), kind.attrs.get("group", 1)
    if padding not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER") or not isinstance(group, int) or group < 1:
        return None
    return rank if kind.attrs.keys() <= sizes.keys() | _OF_WINDOWS else None


_OF_WINDOWS = frozenset(("auto_pad", "group", "ceil_mode", "count_include_pad", "p", "storage_order"))


def _global_pool(kind: NodeKind, ranks: Ranks) -> int | None:
    rank = ranks[0] if ranks else None
    return rank if rank is not None and rank >= 2 else None


def _matrix_product(kind: NodeKind, ranks: Ranks) -> int | None:
    """A product of matrices or stacks of them."""
    known = [rank for rank in ranks if rank is not None and rank >= 2]
    return max(known) if len(known) == len(ranks) == 2 else None


def _of_one(rank: int) -> Callable[[NodeKind, Ranks], int | None]:
    return lambda kind, ranks: rank if len(ranks) == 1 and ranks[0] != OMITTED and not kind.attrs else None


_RULES: dict[str, Callable[[NodeKind, Ranks], int | None]] = {
    **dict.fromkeys(GLOBAL_POOLS, _global_pool),
    **dict.fromkeys(("Conv", *POOLS), _window),
    "Constant": _constant,
    "Flatten": lambda kind, ranks: 2,
    "MatMul": _matrix_product,
    "Shape": _of_one(1),
    "Size": _of_one(0),
}
