"""Records of the syntax tree as nested tuples of numbers and texts, and back.

`marshal` reads such tuples faster than anything else that Python has, and what it reads is plain data: unlike `pickle`, it
calls nothing.
"""

from __future__ import annotations

import marshal
from typing import Any

from rewriter.language import ast, diagnostics
from rewriter.language.ast import NOWHERE
from rewriter.language.header import Header
from rewriter.record import names

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

_NUMBERS = {kind: (_KINDS.index(kind), names(kind) or ()) for kind in _KINDS}
_PLAIN = frozenset({str, int, bool, float, type(None)})
_MADE_OF_PARTS = frozenset({tuple, list})
_NOWHERE = (0, NOWHERE.start, NOWHERE.end)


def pack(value: Any, *, places: bool = True) -> bytes:
    """A record, or tuples of records, numbers and texts, as bytes that mean something to `unpack` of the same version only.

    Without `places`, records no longer say where they stand.
    """
    return marshal.dumps(flat(value, places=places))


def unpack(data: bytes) -> Any:
    """What was packed. The bytes must be whole: whoever keeps them also keeps a checksum."""
    return built(marshal.loads(data))


def flat(value: Any, *, places: bool = True) -> Any:
    """Records become tuples, tuples lists; everything else that a record holds is taken by `marshal` as it is.

    Half of all records are places. At the end of a record, where they stand, those that say nothing are left out.
    """
    kind = value.__class__
    if kind is tuple:
        return [part if part.__class__ in _PLAIN else flat(part, places=places) for part in value]
    if kind is ast.Span:
        return (0, value.start, value.end) if places and value.end else _NOWHERE
    found = _NUMBERS.get(kind)
    if found is None:
        return value
    parts = [getattr(value, name) for name in found[1]]
    values = [part if part.__class__ in _PLAIN else flat(part, places=places) for part in parts]
    while values and values[-1] is _NOWHERE:
        values.pop()
    return (found[0], *values)


def built(value: Any) -> Any:
    """What was flat."""
    if type(value) is tuple:
        if value[0] == 0:
            return ast.Span(value[1], value[2])
        return _KINDS[value[0]](*[built(part) if type(part) in _MADE_OF_PARTS else part for part in value[1:]])
    return tuple([built(part) if type(part) in _MADE_OF_PARTS else part for part in value]) if type(value) is list else value
