"""Element types and ranks of the operands of each kind of node, followed through a census from the inputs on.

The forecast reads them before a graph is built. A type is known here only if the facts of the loaded model would also have it.
A rank contradicts no fact, but the facts may lack it at a node that is invalid. Types and ranks in subgraphs and functions are
unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rewriter.core.language.operator_traits import BODIES, BROADCAST_ALL, SAME_RANK, TYPED, pick, traits
from rewriter.core.language.schema import ANY, bits_of, history, possible_outputs
from rewriter.core.onnxfile.census import OPAQUE, VECTOR, Body, Census, NodeKind

# Which element types the operands of each kind of node can have, followed through a census from the inputs on.
#
# The answer may hold more types than can really occur, never fewer. It is `ANY` if a type or an operator is unknown, or if a
# name is read before it is defined. Sets of types are numbers, with a bit for each type.

_INT64, _BOOL, _FLOAT, _STRING = 1 << 7, 1 << 9, 1 << 1, 1 << 8
_CONSTANT = {
    "value_float": _FLOAT, "value_floats": _FLOAT, "value_int": _INT64, "value_ints": _INT64, "value_string": _STRING,
    "value_strings": _STRING,
}  # fmt: skip


MAX_OUTPUT_TYPES = 1 << 15
_output_types: dict[tuple[object, ...], tuple[int, ...]] = {}
"""The output types of nodes of one form with operands of these types, in models without functions."""


class _Conflict(Exception):
    """One name means tensors of several types."""


def follow_types(census: Census) -> bool:
    """Fills `output_types` and `declared_outputs` of all kinds. False if names are used in ways that cannot be followed; then
    the result is invalid.
    """
    columns = census.graph.columns
    if columns is not None and census.graph.orderly and not census.functions:
        from rewriter.core.facts.column_flow import settled

        flow = _TypeFlow(census)
        if settled(census.graph, _declared_outputs(census.graph), flow.output, flow.foreign):
            return True
    try:
        _TypeFlow(census).body(census.graph, {}, {})
        for function in census.functions.values():
            _TypeFlow(census).body(function, {}, {})
    except _Conflict:
        return False
    return True


def _declared_outputs(body: Body) -> dict[bytes, int]:
    """The declared types of the outputs of a graph, by name; both types if a name is declared twice."""
    found: dict[bytes, int] = dict.fromkeys([name for name, _ in body.outputs], 0)
    for name, dtype in (*body.infos, *body.outputs):
        if name in found:
            found[name] |= bits_of(dtype)
    return found


class _TypeFlow:
    def __init__(self, census: Census) -> None:
        self.census = census
        self.known: dict[bytes, int] = {b"": 0}

    def body(self, body: Body, input_types: Mapping[int, int], declared: Mapping[bytes, int]) -> None:
        """Follows one graph; `input_types` are types of inputs by position, `declared` the types that outer graphs declare."""
        declared = {**declared, **{name: bits_of(dtype) for part in (body.infos, body.outputs) for name, dtype in part}}
        for name, dtype in body.constants:
            self.define(name, bits_of(dtype))
        constant = {name for name, _ in body.constants}
        for i, (name, dtype) in enumerate(body.inputs):
            if name not in constant:
                bits = input_types.get(i)
                self.define(name, bits_of(dtype) if bits is None else bits | bits_of(dtype) if dtype else bits)
        known, define = self.known, self.define
        declared_outputs = _declared_outputs(body)
        for kind, inputs, outputs in body.nodes:
            operands = tuple([known.get(name, ANY) for name in inputs])
            output_types = kind.output_types.get(operands)
            if output_types is None or kind.bodies:
                output_types = kind.output_types[operands] = self.outputs(kind, operands, len(outputs), declared)
            for i, name in enumerate(outputs):
                if name:
                    bits = output_types[i] if i < len(output_types) else self.output(kind, operands, i)
                    written = declared.get(name)
                    if written is not None and written != bits:
                        bits = written if bits == ANY and self.foreign(kind) else bits | written
                    define(name, bits)
                    if name in declared_outputs:
                        kind.declared_outputs[i] = kind.declared_outputs.get(i, 0) | declared_outputs[name]

    def define(self, name: bytes, bits: int) -> None:
        if name and self.known.setdefault(name, bits) != bits:
            raise _Conflict

    def foreign(self, kind: NodeKind) -> bool:
        """Whether only a declaration gives the types of the outputs."""
        return bool(kind.domain) or (kind.domain, kind.op) in self.census.functions

    def outputs(self, kind: NodeKind, operands: tuple[int, ...], count: int, declared: Mapping[bytes, int]) -> tuple[int, ...]:
        if kind.bodies:
            return tuple(self.through(kind, operands, count, declared))
        if kind.form is None or self.census.functions:
            return tuple([self.output(kind, operands, i) for i in range(count)])
        key = kind.form, operands, count
        found = _output_types.get(key)
        if found is None:
            if len(_output_types) >= MAX_OUTPUT_TYPES:
                _output_types.clear()
            found = _output_types[key] = tuple([self.output(kind, operands, i) for i in range(count)])
        return found

    def output(self, kind: NodeKind, operands: tuple[int, ...], i: int) -> int:
        """The possible types of output i of an ordinary node."""
        if self.foreign(kind):
            return ANY
        if kind.op == "Constant":
            return bits_of(kind.dtype) if kind.dtype else next((_CONSTANT[n] for n in kind.attrs if n in _CONSTANT), ANY)
        if traits(kind.op).dtype == "to" and "to" not in kind.attrs:
            return ANY
        names, count = kind.attrs.keys(), len(operands)
        if not any(one.allows(count) and names <= one.attributes.keys() for one in history(kind.op) if not one.deprecated):
            return ANY  # inference fails here, as on every node whose form ONNX does not define
        outputs, repeats = possible_outputs(kind.op)
        if i >= len(outputs) and not (repeats and outputs):
            return ANY
        bits, sources = outputs[min(i, len(outputs) - 1)]
        if not sources:
            named = [kind.attrs[name] for name in TYPED if name in kind.attrs]
            if named:
                return bits_of(named[0]) if isinstance(named[0], int) and i == 0 else ANY if i == 0 else bits
            if traits(kind.op).dtype == "value":
                if operands != (_INT64,):
                    return ANY  # inference needs a list of lengths
                return bits_of(kind.dtype) if "value" in kind.attrs else _FLOAT
        for source in sources:
            for operand in operands[source : source + 1] if source >= 0 else operands[-1 - source :]:
                bits |= operand
        return bits or ANY

    def through(self, kind: NodeKind, operands: tuple[int, ...], count: int, declared: Mapping[bytes, int]) -> Iterable[int]:
        """The output types of a node with bodies, which are followed on the way."""
        loop, scan = (kind.op == op and not kind.domain for op in ("Loop", "Scan"))
        inner_types: dict[int, int] = {}
        if loop or scan:
            inner_types = dict(enumerate(operands))
        if loop:
            inner_types.update({0: _INT64, 1: _BOOL})
        for body in kind.bodies.values():
            self.body(body, inner_types, declared)
        if kind.domain or kind.op not in BODIES or kind.attrs.get("num_scan_inputs") is OPAQUE:
            return [ANY] * count
        found = []
        for i in range(count):
            bits = 0
            for body in kind.bodies.values():
                at = i + 1 if loop else i
                bits |= self.known.get(body.outputs[at][0], ANY) if at < len(body.outputs) else ANY
            if loop or scan:
                for operand in operands[i + 2 : i + 3] if loop else operands[i : i + 1]:
                    bits |= operand
            found.append(bits)
        return found


Rank = int | None
"""None for an unknown one, `OMITTED` for an operand that is left out, `VECTOR` + n for the rank 1 of a vector of n elements."""
Ranks = tuple[Rank, ...]
"""Of the operands."""

OMITTED = -1
MOST_AXES = 64
"""A rank above this is unknown: no runtime has it, and a stranger may declare a vector of a billion elements."""
_COUNTS_FROM_BEHIND = 11
"""The first opset in which a list of axes may have negative ones."""


def follow_ranks(census: Census) -> bool:
    """Fills `ranks` of all kinds. False if a name is defined twice; then the result is invalid."""
    known: dict[bytes, Rank] = {b"": OMITTED, **{name: _bounded(rank) for name, rank in census.graph.ranks.items()}}
    infos = {name for name, _ in census.graph.infos}
    for name, _ in census.graph.inputs:
        if name in infos:
            known[name] = None  # which of the two declarations counts is not decided here
    defined = {name for part in (census.graph.inputs, census.graph.constants) for name, _ in part}
    flow = _RankFlow(census)
    missing = object()
    for kind, inputs, outputs in census.graph.nodes:
        operands = tuple([known.get(name) for name in inputs])
        output_rank = kind.ranks.get(operands, missing)
        if output_rank is missing:
            output_rank = kind.ranks[operands] = _bounded(flow.rank(kind, operands))
        for name in outputs:
            if name:
                if name in defined:
                    return False
                defined.add(name)
                known[name] = output_rank  # type: ignore[assignment]
            if kind.op != "Split":
                output_rank = None
    for body in census.bodies:
        for kind, inputs, _ in body.nodes if body is not census.graph else ():
            kind.ranks[(None,) * len(inputs)] = None
    return True


class _RankFlow:
    def __init__(self, census: Census) -> None:
        self._functions = census.functions
        self._broadcasts = all(version >= BROADCAST_ALL for version in census.versions)
        self._from_front = any(version < _COUNTS_FROM_BEHIND for version in census.versions)

    def rank(self, kind: NodeKind, ranks: Ranks) -> Rank:
        """The rank of the first output."""
        if kind.domain or kind.bodies or ("", kind.op) in self._functions:
            return None
        form = traits(kind.op).shape
        if form in ("same", "sloped"):
            return None if ranks[:1] in ((), (OMITTED,)) else ranks[0]
        if form == "broadcast":
            return self._broadcast(kind, ranks)
        rule = pick(_RULES, kind.op)
        if rule is None:
            return _plain(ranks, 0) if form in SAME_RANK else None
        axes = kind.attrs.get("axes")
        if self._from_front and isinstance(axes, list) and any(axis < 0 for axis in axes):
            return None
        return rule(kind, ranks)

    def _broadcast(self, kind: NodeKind, ranks: Ranks) -> Rank:
        known = [rank for i in range(len(ranks)) if (rank := _plain(ranks, i)) is not None]
        if kind.attrs or not ranks or len(known) < len(ranks) or not (self._broadcasts or len(set(known)) == 1):
            return None
        rank = max(known)
        lengths = [length for i in range(len(ranks)) if (length := _length(ranks, i)) is not None]
        long = set(lengths) - {1}
        if rank == 1 and (len(long) == 1 or (not long and len(lengths) == known.count(1))):
            return VECTOR + max(long, default=1)
        return rank


def _bounded(rank: Rank) -> Rank:
    """The rank, if it is not too large, and a vector without its length, if that is."""
    if rank is None or rank <= MOST_AXES or VECTOR <= rank <= VECTOR + MOST_AXES:
        return rank
    return 1 if rank > VECTOR + MOST_AXES else None


def _plain(ranks: Ranks, position: int) -> int | None:
    """The rank of an operand, without the length of a vector; None if it is unknown or the operand is left out."""
    rank = ranks[position] if position < len(ranks) else None
    return None if rank is None or rank == OMITTED else 1 if rank >= VECTOR else rank


def _length(ranks: Ranks, position: int) -> int | None:
    """The length of an operand that is a vector."""
    rank = ranks[position] if position < len(ranks) else None
    return rank - VECTOR if rank is not None and rank >= VECTOR else None


def _constant(kind: NodeKind, ranks: Ranks) -> Rank:
    if len(kind.attrs) != 1:
        return None
    return kind.rank if "value" in kind.attrs else _OF_VALUES.get(next(iter(kind.attrs)))


_OF_VALUES = {"value_int": 0, "value_float": 0, "value_ints": 1, "value_floats": 1}


def _window(kind: NodeKind, ranks: Ranks) -> Rank:
    """A convolution or pool of an image of three dimensions or more, whose attributes agree with the number of its axes."""
    rank, convolution = _plain(ranks, 0), traits(kind.op).shape == "convolution"
    if rank is None or rank < 3 or (convolution and (_plain(ranks, 1) != rank)):
        return None
    sizes = {"kernel_shape": rank - 2, "strides": rank - 2, "dilations": rank - 2, "pads": 2 * (rank - 2)}
    if not convolution and "kernel_shape" not in kind.attrs:
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


def _global_pool(kind: NodeKind, ranks: Ranks) -> Rank:
    rank = _plain(ranks, 0)
    return rank if rank is not None and rank >= 2 else None


def _matrix_product(kind: NodeKind, ranks: Ranks) -> Rank:
    """A product of matrices or stacks of them."""
    one, other = _plain(ranks, 0), _plain(ranks, 1)
    return max(one, other) if len(ranks) == 2 and one and other and min(one, other) >= 2 else None


def _gemm(kind: NodeKind, ranks: Ranks) -> Rank:
    return 2 if _plain(ranks, 0) == _plain(ranks, 1) == 2 else None


def _shape(kind: NodeKind, ranks: Ranks) -> Rank:
    if len(ranks) != 1 or ranks[0] == OMITTED:
        return None
    rank, start, end = _plain(ranks, 0), kind.attrs.get("start", 0), kind.attrs.get("end", VECTOR)
    if rank is None or not isinstance(start, int) or not isinstance(end, int):
        return 1
    return VECTOR + len(range(rank)[start:end])


# Operators that move data, and those that make data of a shape.


def _reshape(kind: NodeKind, ranks: Ranks) -> Rank:
    """As many axes as the second operand has elements. A vector that becomes a vector keeps its length."""
    rank = _length(ranks, 1)
    if rank == 1 and _length(ranks, 0) is not None:
        return ranks[0]
    return None if ranks[:1] == (OMITTED,) else rank


def _transpose(kind: NodeKind, ranks: Ranks) -> Rank:
    rank, axes = _plain(ranks, 0), kind.attrs.get("perm")
    return rank if axes is None or (isinstance(axes, list) and len(axes) == rank) else None


def _axis_count(kind: NodeKind, ranks: Ranks, rank: int | None = None) -> int | None:
    """How many axes the attribute or the second operand lists. A node that has both, or lists an axis twice, is invalid.

    Args:
        rank: the axes of the list are axes of a tensor of this rank; by default, of the first operand with these axes added.
    """
    if len(ranks) > 1:
        return None if "axes" in kind.attrs else _length(ranks, 1)
    axes = kind.attrs.get("axes")
    if not isinstance(axes, list):
        return None
    if rank is None:
        rank = (_plain(ranks, 0) or 0) + len(axes)
    places = {axis % rank for axis in axes if -rank <= axis < rank}
    return len(axes) if len(places) == len(axes) else None


def _unsqueeze(kind: NodeKind, ranks: Ranks) -> Rank:
    rank, count = _plain(ranks, 0), _axis_count(kind, ranks)
    if rank is None or count is None:
        return None
    return VECTOR + 1 if rank == 0 and count == 1 else rank + count


def _squeeze(kind: NodeKind, ranks: Ranks) -> Rank:
    rank = _plain(ranks, 0)
    count = 1 if ranks == (VECTOR + 1,) and not kind.attrs else _axis_count(kind, ranks, rank)
    return rank - count if rank is not None and count is not None and rank >= count else None


def _concat(kind: NodeKind, ranks: Ranks) -> Rank:
    plain = {_plain(ranks, i) for i in range(len(ranks))}
    if len(plain) != 1:
        return None
    lengths = [length for i in range(len(ranks)) if (length := _length(ranks, i)) is not None]
    return VECTOR + sum(lengths) if len(lengths) == len(ranks) else plain.pop()


def _gather(kind: NodeKind, ranks: Ranks) -> Rank:
    data, places = _plain(ranks, 0), _plain(ranks, 1)
    if len(ranks) != 2 or not data or places is None:
        return None
    return ranks[1] if data == 1 else data + places - 1


def _expand(kind: NodeKind, ranks: Ranks) -> Rank:
    rank, count = _plain(ranks, 0), _length(ranks, 1)
    return None if rank is None or count is None else max(rank, count)


def _reduction(kind: NodeKind, ranks: Ranks) -> Rank:
    """A reduction of listed axes, or of all axes to a scalar."""
    rank, keeps = _plain(ranks, 0), kind.attrs.get("keepdims", 1)
    if rank is None or keeps == 1:
        return rank
    if keeps != 0 or kind.attrs.get("noop_with_empty_axes", 0):
        return None
    if "axes" not in kind.attrs and ranks[1:] in ((), (OMITTED,)):
        return 0
    count = _axis_count(kind, ranks, rank)
    return rank - count if count and rank >= count else None


_RULES: dict[str, Callable[[NodeKind, Ranks], Rank]] = {
    "concat": _concat,
    "constant": _constant,
    "constant_of_shape": lambda kind, ranks: _length(ranks, 0),
    "convolution": _window,
    "expand": _expand,
    "flatten": lambda kind, ranks: 2,
    "gather": _gather,
    "gemm": _gemm,
    "global_pool": _global_pool,
    "matrix_product": _matrix_product,
    "pool": _window,
    "range": lambda kind, ranks: 1,
    "reduction": _reduction,
    "reshape": _reshape,
    "shape": _shape,
    "squeeze": _squeeze,
    "transpose": _transpose,
    "unsqueeze": _unsqueeze,
}
"""By operator or form of operators, if their ranks are not simply those of the first operand."""
