"""Records of the syntax tree as nested tuples of numbers and texts, and back.

`marshal` reads such tuples faster than anything else that Python has, and what it reads is plain data: unlike `pickle`, it
calls nothing.
"""

from __future__ import annotations

import marshal
from typing import Any

from rewriter.language import ast, diagnostics
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


def pack(value: Any) -> bytes:
    """A record, or tuples of records, numbers and texts, as bytes that mean something to `unpack` of the same version only."""
    return marshal.dumps(_flat(value))


def unpack(data: bytes) -> Any:
    """What was packed. The bytes must be whole: whoever keeps them also keeps a checksum."""
    return _built(marshal.loads(data))


def _flat(value: Any) -> Any:
    """Records become tuples, tuples lists; everything else that a record holds is taken by `marshal` as it is."""
    if isinstance(value, tuple):
        return [_flat(item) for item in value]
    found = _NUMBERS.get(type(value))
    return value if found is None else (found[0], *[_flat(getattr(value, name)) for name in found[1]])


def _built(value: Any) -> Any:
    if type(value) is tuple:
        if value[0] == 0:  # half of all records are spans, which hold two numbers
            return ast.Span(value[1], value[2])
        return _KINDS[value[0]](*map(_built, value[1:]))
    return tuple(map(_built, value)) if type(value) is list else value
