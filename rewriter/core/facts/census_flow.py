"""Element types and ranks of the operands of each kind of node, followed through a census from the inputs on.

The forecast reads them before a graph is built. A type or rank is known here only if the facts of the loaded model would also
have it. All others are unknown, as are types and ranks in subgraphs and functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rewriter.core.language.cache.operator_table import ANY, bits_of
from rewriter.core.language.operator_traits import BODIES, TYPED, traits
from rewriter.core.onnxfile.census import OPAQUE, Body, Census, NodeKind

# Which element types the operands of each kind of node can have, followed through a census from the inputs on.
#
# The answer may hold more types than can really occur, never fewer. It is `ANY` if a type or an operator is unknown, or if a
# name is read before it is defined. Sets of types are numbers, with a bit for each type.

_INT64, _BOOL, _FLOAT, _STRING = 1 << 7, 1 << 9, 1 << 1, 1 << 8
_CONSTANT = {
    "value_float": _FLOAT, "value_floats": _FLOAT, "value_int": _INT64, "value_ints": _INT64, "value_string": _STRING,
    "value_strings": _STRING,
}  # fmt: skip


LONG = 1000
"""From this many nodes on, following all at once, in several rounds, is faster than one after the other."""


MAX_OUTPUT_TYPES = 1 << 15
_output_types: dict[tuple[object, ...], tuple[Mapping[str, Any], tuple[int, ...]]] = {}
"""The output types of nodes of one form with operands of these types, in models without functions."""


class _Conflict(Exception):
    """One name means tensors of several types."""


def follow_types(census: Census, table: Mapping[str, Any]) -> bool:
    """Fills `output_types` and `declared_outputs` of all kinds. False if names are used in ways that cannot be followed; then
    the result is invalid.

    Args:
        table: of `language.cache.operator_table`.
    """
    columns = census.graph.columns
    if columns is not None and len(columns) >= LONG and census.graph.orderly and not census.functions:
        from rewriter.core.facts.column_flow import settled

        flow = _TypeFlow(census, table)
        if settled(census.graph, _declared_outputs(census.graph), flow.output, flow.foreign):
            return True
    try:
        _TypeFlow(census, table).body(census.graph, {}, {})
        for function in census.functions.values():
            _TypeFlow(census, table).body(function, {}, {})
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
    def __init__(self, census: Census, table: Mapping[str, Any]) -> None:
        self.census = census
        self.table = table
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
        key = id(self.table), kind.form, operands, count
        found = _output_types.get(key)
        if found is None:
            if len(_output_types) >= MAX_OUTPUT_TYPES:
                _output_types.clear()
            output_types = tuple([self.output(kind, operands, i) for i in range(count)])
            found = _output_types[key] = self.table, output_types  # with the table, so that no other one gets its id()
        return found[1]

    def output(self, kind: NodeKind, operands: tuple[int, ...], i: int) -> int:
        """The possible types of output i of an ordinary node."""
        if self.foreign(kind):
            return ANY
        if kind.op == "Constant":
            return bits_of(kind.dtype) if kind.dtype else next((_CONSTANT[n] for n in kind.attrs if n in _CONSTANT), ANY)
        entry = self.table.get(kind.op)
        if entry is None or (traits(kind.op).dtype == "to" and "to" not in kind.attrs):
            return ANY
        _, outputs, repeats, forms, _ = entry
        names, count = kind.attrs.keys(), len(operands)
        if not any(least <= count <= most and names <= known for least, most, known in forms):
            return ANY  # inference fails here, as on every node whose form ONNX does not define
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


Ranks = tuple[int | None, ...]
"""Of the operands; None for an unknown one, `OMITTED` for one that is left out."""

OMITTED = -1
_BROADCASTS_ALL = 8
"""The first opset in which all operators that take several operands broadcast them against each other."""


def follow_ranks(census: Census) -> bool:
    """Fills `ranks` of all kinds. False if a name is defined twice; then the result is invalid."""
    known: dict[bytes, int | None] = {b"": OMITTED, **census.graph.ranks}
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
            output_rank = kind.ranks[operands] = flow.rank(kind, operands)
        for name in outputs:
            if name:
                if name in defined:
                    return False
                defined.add(name)
                known[name] = output_rank  # type: ignore[assignment]
            output_rank = None
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


class _RankFlow:
    def __init__(self, census: Census) -> None:
        self._functions = census.functions
        self._broadcasts = all(version >= _BROADCASTS_ALL for version in census.versions)

    def rank(self, kind: NodeKind, ranks: Ranks) -> int | None:
        """The rank of the first output."""
        if kind.domain or kind.bodies or ("", kind.op) in self._functions:
            return None
        form = traits(kind.op).shape
        if form in ("same", "sloped"):
            first = ranks[0] if ranks else None
            return None if first == OMITTED else first
        if form == "broadcast":
            return self._broadcast(kind, ranks)
        rule = _RULES.get(form)
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
    rank, convolution = ranks[0] if ranks else None, traits(kind.op).shape == "convolution"
    if rank is None or rank < 3 or (convolution and (len(ranks) < 2 or ranks[1] != rank)):
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
    "global_pool": _global_pool,
    "convolution": _window,
    "pool": _window,
    "constant": _constant,
    "flatten": lambda kind, ranks: 2,
    "matrix_product": _matrix_product,
    "shape": _of_one(1),
    "size": _of_one(0),
}
