"""Reads a census from the bytes of a model.

The reader is strict: bytes that are not written as every exporter writes them (fields in another order, names that are not
UTF-8, wrong lengths) raise `MalformedError`. The model is then read in the ordinary way, which reports the error.
"""

from __future__ import annotations

import struct
import sys
from typing import Any

from rewriter.core.onnxfile.census import LONGEST, OPAQUE, VECTOR, Body, Census, Form, NodeKind, keep, known_forms, known_types
from rewriter.core.onnxfile.wire import MalformedError, Source, fields, varint_at

__all__ = ["MalformedError", "take_census"]

Field = tuple[int, int, Any]
"""Number, wire type, and the number that a field holds, or the place of its value."""

MANY = 1000
"""Nodes from which on numpy reads them in columns; `MANY_AT_START` if numpy is not imported yet."""
MANY_AT_START = 10_000
MOST_LEVELS = 30
"""Subgraphs in each other; protobuf itself ends at about 33."""

_INT, _FLOAT, _STRING, _TENSOR, _GRAPH, _FLOATS, _INTS, _STRINGS, _SPARSE = 2, 1, 3, 4, 5, 6, 7, 8, 11
_OF_FORM = frozenset((4, 5, 7))  # of a node: operator, attributes, domain; what is left are texts about the node
_TENSOR_FIELDS = frozenset((1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16))
_ELSEWHERE = frozenset((13, 14))  # of a tensor: the place of its data
_OTHER_VALUE = frozenset((9, 10, 11, 14, 22, 23))  # of an attribute: TENSORS, GRAPHS, TYPE_PROTO and SPARSE_TENSOR


def take_census(data: bytes) -> Census:
    """Reads a serialised model. Raises MalformedError for everything out of the ordinary."""
    try:
        return _CensusReader(data).model()
    except (IndexError, UnicodeDecodeError, struct.error, OverflowError):
        raise MalformedError from None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


class _CensusReader:
    """Reads bytes at any place. Raises IndexError or struct.error if the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.source = Source.of(data)
        self.kinds: dict[bytes, NodeKind] = {}
        self.by_form: dict[Form, NodeKind] = {}
        self.single: list[NodeKind] = []
        self.names: list[bytes] = []
        self.types: dict[bytes, tuple[int, int | None]] = {}
        self.rank: int | None = None  # of the tensor, or of the declaration, that was read last
        self.refers = False
        self.latest_type = 0  # of the tensors

    def model(self) -> Census:
        graphs, strings, ir_version = [], {2: "", 3: ""}, None
        imports: dict[str, int] = {}
        functions = []
        for number, wire, value in self.fields(0, len(self.data)):
            if number == 7 and wire == 2:
                graphs.append(value)
            elif number == 1 and wire == 0:
                ir_version = value
            elif number in strings and wire == 2:
                strings[number] = self.text(value)
            elif number == 8 and wire == 2:
                self.imported(value, imports)
            elif number == 25 and wire == 2:
                functions.append(value)
            elif number == 20:
                self.refers = True  # training information is not read
            elif number not in (4, 5, 6, 14, 26):
                raise MalformedError
        if len(graphs) != 1:
            raise MalformedError
        graph = self.graph(graphs[0][0], graphs[0][1], 0)
        found: dict[tuple[str, str], Body] = {}
        for start, stop in functions:
            key, body = self.function(start, stop)
            if key in found:
                raise MalformedError
            found[key] = body
        b"\n".join(self.names).decode()
        kinds = [*dict.fromkeys(self.kinds.values()), *self.single]
        latest = max(self.latest_type, max((dtype for dtype, _ in self.types.values()), default=0))
        return Census(graph, kinds, ir_version, strings[2], strings[3], imports, found, self.refers, latest)

    # --- fields ------------------------------------------------------------------------------------------------------------

    def text(self, place: tuple[int, int]) -> str:
        return self.data[place[0] : place[1]].decode()

    def head(self, i: int) -> tuple[int, int, int]:
        """Key and length of a field with a length, and the place of its content."""
        key, i = varint_at(self.data, i)
        size, i = varint_at(self.data, i)
        if key & 7 != 2:
            raise MalformedError
        return key, size, i

    def fields(self, i: int, end: int) -> list[Field]:
        """The fields of a message."""
        data = self.data
        return [
            (number, wire, (place, stop) if wire else varint_at(data, place)[0])
            for number, wire, _, place, stop in fields(self.source, i, end)
        ]

    def packed(self, i: int, end: int) -> list[int]:
        found = []
        while i < end:
            value, i = varint_at(self.data, i)
            found.append(_signed(value))
        if i != end:
            raise MalformedError
        return found

    # --- messages ----------------------------------------------------------------------------------------------------------

    def graph(self, i: int, end: int, level: int) -> Body:
        """A GraphProto between two places."""
        if level > MOST_LEVELS:
            raise MalformedError
        data, body = self.data, Body()
        node, info = self.node, self.info
        is_first = level == 0
        while i < end:
            if is_first and data[i] == 10:
                is_first = False
                if self.has_nodes(i, end, MANY if "numpy" in sys.modules else MANY_AT_START):
                    i = self.columns(i, end, body)
                    if i == end:
                        break
            key, size = data[i], data[i + 1]
            i += 2
            if key > 127 or size > 127:
                key, size, i = self.head(i - 2)
            stop = i + size
            if stop > end:
                raise MalformedError
            if key == 10 and body.columns is None:
                node(i, stop, body, level)
            elif key == 106:
                body.infos.append(info(i, stop))
            elif key == 42:
                body.constants.append(self.tensor(i, stop))
                body.ranks[body.constants[-1][0]] = self.rank
            elif key == 90:
                body.inputs.append(info(i, stop))
                body.ranks.setdefault(body.inputs[-1][0], self.rank)
            elif key == 98:
                body.outputs.append(info(i, stop))
            elif key == 18:
                body.name = data[i:stop].decode()
            elif key == 122:
                body.constants.append(self.sparse(i, stop))
                body.ranks[body.constants[-1][0]] = None
            elif key not in (82, 114, 130):
                raise MalformedError
            i = stop
        self.names += body.names
        if body.columns is not None:
            from rewriter.core.onnxfile.columns import settle

            settle(body)
        return body

    def has_nodes(self, i: int, end: int, count: int) -> bool:
        """Whether so many nodes follow each other from a place on."""
        for _ in range(count):
            if i >= end or self.data[i] != 10:
                return False
            size = self.data[i + 1]
            i += 2
            if size > 127:
                _, size, i = self.head(i - 2)
            i += size
        return True

    def columns(self, i: int, end: int, body: Body) -> int:
        """Reads all nodes at once, if they allow it. Returns the place behind them."""
        from rewriter.core.onnxfile.columns import read_columns

        columns, stop = read_columns(self.data, i, end)
        if columns is None:
            return i
        for rest in columns.rests:
            kind = self.kinds.get(rest)
            if kind is None and (form := known_forms.get(rest)) is not None:
                kind = self.kinds[rest] = self.kind_of(form)
            if kind is None:
                alone = _CensusReader(rest)
                kind = alone.kind(0, len(rest), 0)
                if kind.bodies:  # such a node is a kind of its own
                    return i
                self.names += alone.names
                self.refers |= alone.refers
                self.latest_type = max(self.latest_type, alone.latest_type)
                kind = self.kinds[rest] = kind if kind.form is None else self.kind_of(kind.form)
            columns.kinds.append(kind)
        for at, listed, used_count in columns.arities():
            columns.kinds[at].arities.add((listed, used_count))
        body.columns = columns
        return stop

    def node(self, i: int, end: int, body: Body, level: int) -> None:
        """A NodeProto, whose fields stand in the order of their numbers."""
        data = self.data
        inputs: list[bytes] = []
        outputs: list[bytes] = []
        named = False
        while i < end:
            key = data[i]
            if key > 26:
                break
            size = data[i + 1]
            i += 2
            if size > 127:
                _, size, i = self.head(i - 2)
            stop = i + size
            if stop > end:
                raise MalformedError
            if key == 10:
                inputs.append(data[i:stop])
            elif key == 18:
                outputs.append(data[i:stop])
            elif key == 26:
                if named:
                    raise MalformedError
                named = size > 0
                if named:
                    body.names.append(data[i:stop])
            else:
                raise MalformedError
            i = stop
        tail = data[i:end]
        kind = self.kinds.get(tail)
        if kind is None:
            form = known_forms.get(tail)
            kind = self.kind(i, end, level) if form is None else self.kind_of(form)
            if kind.bodies:
                self.single.append(kind)
            else:
                self.kinds[tail] = kind
        count = len(inputs)
        while count and not inputs[count - 1]:
            count -= 1
        kind.arities.add((len(inputs), count))
        self.names += inputs
        self.names += outputs
        body.naming.add((kind.op, named))
        body.inner += kind.bodies.values()
        body.listed.append((kind, inputs, outputs))

    def kind_of(self, form: Form) -> NodeKind:
        """The kind of the nodes of a form."""
        found = self.by_form.get(form)
        if found is None:
            found = self.by_form[form] = form.kind()
        return found

    def kind(self, i: int, end: int, level: int) -> NodeKind:
        """The kind of a node: the part behind its names."""
        found = []
        for number, wire, start, place, stop in fields(self.source, i, end):
            if wire != 2 or number not in (4, 5, 6, 7, 9, 10):
                raise MalformedError
            if number in _OF_FORM:
                found.append((number, start, place, stop))
        content = b"\0".join([b"", *[self.data[start:stop] for _, start, _, stop in found]])  # no node begins with this byte
        form = known_forms.get(content)
        if form is not None:
            return self.kind_of(form)
        op = domain = None
        kind = NodeKind("", "", {})
        opaque = []
        for number, _, place, stop in found:
            if number == 4 and op is None:
                op = self.text((place, stop))
            elif number == 5:
                name = self.attribute(place, stop, kind, level)
                if kind.attrs[name] is OPAQUE:
                    opaque.append((name, kind.dtype, kind.rank))
            elif number == 7 and domain is None:
                domain = self.text((place, stop))
            else:
                raise MalformedError
        kind.op = op or ""
        kind.domain = "" if domain in (None, "ai.onnx") else domain
        if opaque:
            content = b"\0%a" % ((kind.op, kind.domain, kind.attrs, opaque),)
        if kind.bodies or len(content) > LONGEST:
            return kind
        form = keep(known_forms, content, Form(kind.op, kind.domain, kind.attrs, kind.dtype, kind.rank))
        if not opaque:
            keep(known_forms, self.data[i:end], form)
        return self.kind_of(form)

    def attribute(self, i: int, end: int, kind: NodeKind, level: int) -> str:
        """Reads an attribute, and returns its name."""
        name, form, reference = "", 0, False
        values: dict[int, list[Any]] = {}
        for number, wire, value in self.fields(i, end):
            if number == 1 and wire == 2:
                name = self.text(value)
            elif number == 20 and wire == 0:
                form = value
            elif number == 21 and wire == 2:
                reference = True
            elif number in (2, 3, 4, 5, 6, 7, 8):
                values.setdefault(number, []).extend(self.items(number, wire, value))
            elif number in _OTHER_VALUE:
                self.refers = True  # it may hold tensors
            elif number != 13:
                raise MalformedError
        if name in kind.attrs or not name:
            raise MalformedError
        kind.attrs[name] = OPAQUE if reference else self.value(form, values, name, kind, level)
        return name

    def value(self, form: int, values: dict[int, list[Any]], name: str, kind: NodeKind, level: int) -> Any:
        if form in (_INT, _FLOAT, _STRING):
            found = values.get({_FLOAT: 2, _INT: 3, _STRING: 4}[form], [0])
            if len(found) != 1:
                raise MalformedError
            return found[0] if form != _STRING else self.text(found[0]) if found[0] else ""
        if form in (_INTS, _FLOATS):
            return values.get(7 if form == _FLOATS else 8, [])
        if form in (_TENSOR, _GRAPH):
            found = values.get(5 if form == _TENSOR else 6, [])
            if len(found) != 1:
                raise MalformedError
            if form == _GRAPH:
                kind.bodies[name] = self.graph(found[0][0], found[0][1], level + 1)
            else:
                kind.dtype = self.tensor(*found[0])[1]
                kind.rank = self.rank
        elif form != _STRINGS and form not in (9, 10, 11, 12, 13, 14):
            raise MalformedError
        return OPAQUE

    def items(self, number: int, wire: int, value: Any) -> list[Any]:
        """The items in one field of an attribute: floats, integers, or the place of a text, tensor or graph."""
        if number in (2, 7):
            if wire == 5 or (number == 7 and wire == 2):
                start, stop = value
                return list(struct.unpack(f"<{(stop - start) // 4}f", self.data[start:stop]))
        elif number in (3, 8):
            if wire == 0:
                return [_signed(value)]
            if number == 8 and wire == 2:
                return self.packed(*value)
        elif wire == 2:
            return [value]
        raise MalformedError

    def tensor(self, i: int, end: int) -> tuple[bytes, int]:
        """Name and element type of a TensorProto."""
        name, dtype, rank, length = b"", 0, 0, 0
        for number, wire, value in self.fields(i, end):
            if number == 8 and wire == 2:
                name = self.data[value[0] : value[1]]
            elif number == 2 and wire == 0:
                dtype = value
            elif number == 1 and wire == 0:
                rank, length = rank + 1, value
            elif number == 1 and wire == 2:
                lengths = self.packed(*value)
                rank, length = rank + len(lengths), lengths[-1] if lengths else length
            elif number in _ELSEWHERE:
                self.refers = True
            elif number not in _TENSOR_FIELDS:
                raise MalformedError
        self.names.append(name)
        self.rank = VECTOR + length if rank == 1 and length >= 0 else rank
        if dtype > self.latest_type:
            self.latest_type = dtype
        return name, dtype

    def sparse(self, i: int, end: int) -> tuple[bytes, int]:
        self.refers = True  # the positions are not read
        for number, wire, value in self.fields(i, end):
            if number == 1 and wire == 2:
                return self.tensor(*value)
        raise MalformedError

    def info(self, i: int, end: int) -> tuple[bytes, int]:
        """Name and element type of a ValueInfoProto; 0 if it has no element type."""
        data = self.data
        if data[i] != 10:
            raise MalformedError
        _, size, i = self.head(i)
        if i + size > end:
            raise MalformedError
        name = data[i : i + size]
        self.names.append(name)
        i += size
        rest = data[i:end]
        known = self.types.get(rest)
        if known is None:
            known = known_types.get(rest) or self.declared(i, end)
            self.types[rest] = keep(known_types, rest, known)
        self.rank = known[1]
        return name, known[0]

    def declared(self, i: int, end: int) -> tuple[int, int | None]:
        """Element type and rank of a type."""
        dtype, rank = 0, None
        for number, wire, value in self.fields(i, end):
            if number == 2 and wire == 2:
                for kind, inner_wire, inner in self.fields(*value):
                    if inner_wire != 2 and kind == 1:
                        raise MalformedError
                    if kind == 1:
                        said = self.fields(*inner)
                        dtype = next((v for n, w, v in said if n == 1 and w == 0), 0)
                        shapes = [v for n, w, v in said if n == 2 and w == 2]
                        rank = sum(1 for n, _, _ in self.fields(*shapes[0]) if n == 1) if len(shapes) == 1 else None
                    elif kind != 6:
                        rank = None
            elif number not in (3, 4):
                raise MalformedError
        return dtype, rank

    def imported(self, place: tuple[int, int], imports: dict[str, int]) -> None:
        domain, version = "", 0
        for number, wire, value in self.fields(*place):
            if number == 1 and wire == 2:
                domain = self.text(value)
            elif number == 2 and wire == 0:
                version = _signed(value)
        domain = "" if domain == "ai.onnx" else domain
        if imports.setdefault(domain, version) != version:
            raise MalformedError

    def function(self, i: int, end: int) -> tuple[tuple[str, str], Body]:
        body, name, domain = Body(), "", ""
        for number, wire, value in self.fields(i, end):
            if wire != 2:
                raise MalformedError
            if number == 7:
                self.node(value[0], value[1], body, 0)
            elif number in (4, 5):
                (body.inputs if number == 4 else body.outputs).append((self.data[value[0] : value[1]], 0))
            elif number == 1:
                name = self.text(value)
            elif number == 10:
                domain = self.text(value)
            elif number == 9:
                self.imported(value, body.imports)
            elif number == 12:
                body.infos.append(self.info(*value))
            elif number == 11:
                self.refers = True  # attributes by default are not looked into
            elif number not in (6, 8, 13, 14):
                raise MalformedError
        self.names += body.names
        return (domain, name), body
