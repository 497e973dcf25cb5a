"""Records of the syntax tree as JSON, and back.

What is kept between processes is read by every command. JSON is read almost as fast as `marshal` and, unlike it and `pickle`,
can neither run code nor break the interpreter, whoever wrote it.
"""

from __future__ import annotations

import json
from math import inf, nan
from typing import Any

from rewriter.language import ast, diagnostics
from rewriter.language.ast import NOWHERE
from rewriter.language.header import Header
from rewriter.record import getter, names

_KINDS: tuple[Any, ...] = (
    ast.Span,
    *(
        kind
        for module in (ast, diagnostics)
        for kind in vars(module).values()
        if isinstance(kind, type) and names(kind) is not None
    ),
    Header,
)
"""Every record that can be packed; a packed one begins with its position in this table."""

_NUMBERS = {kind: (number, getter(names(kind) or ())) for number, kind in enumerate(_KINDS)}
_PLAIN = frozenset({str, int, bool, float, type(None)})
_NOWHERE = [0, NOWHERE.start, NOWHERE.end]
_TUPLE, _SET, _ELLIPSIS = -1, -2, -3
"""What stands in the place of a position in the table for what is no record."""

_decode = json.JSONDecoder(parse_constant={"NaN": nan, "Infinity": inf, "-Infinity": -inf}.__getitem__).decode
"""One NaN, which is equal to itself as part of a record."""


def pack(value: Any, *, places: bool = True) -> str:
    """A record, or tuples of records, numbers and texts, as one line that means something to `unpack` of the same version only.

    Without `places`, records no longer say where they stand.
    """
    return json.dumps(flat(value, places=places), separators=(",", ":"))


def unpack(data: str) -> Any:
    """What was packed. It must be whole: whoever keeps it also keeps a checksum."""
    return built(_decode(data))


def flat(value: Any, *, places: bool = True) -> Any:
    """Records, tuples and sets (of tuples of texts) become lists that begin with a number; everything else is left as it is.

    Half of all records are places. At the end of a record, where they stand, those that say nothing are left out.
    """
    kind = value.__class__
    if kind is tuple:
        return [_TUPLE, *[part if part.__class__ in _PLAIN else flat(part, places=places) for part in value]]
    if kind is ast.Span:
        return [0, value.start, value.end] if places and value.end else _NOWHERE
    found = _NUMBERS.get(kind)
    if found is None:
        return [_SET, *sorted(value)] if kind is frozenset else [_ELLIPSIS] if value is ... else value
    values = [part if part.__class__ in _PLAIN else flat(part, places=places) for part in found[1](value)]
    while values and values[-1] is _NOWHERE:
        values.pop()
    return [found[0], *values]


def built(value: Any) -> Any:
    """What was flat."""
    if type(value) is not list:
        return value
    number = value[0]
    if number == 0:
        return ast.Span(value[1], value[2])
    if number == _SET:
        return frozenset([tuple(part) for part in value[1:]])
    parts = [built(part) if type(part) is list else part for part in value[1:]]
    return _KINDS[number](*parts) if number > 0 else tuple(parts) if number == _TUPLE else ...
