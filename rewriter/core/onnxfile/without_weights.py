"""A large model without the data of its tensors, for those who only ask what it is made of."""

from __future__ import annotations

from rewriter.core.onnxfile import wire
from rewriter.core.onnxfile.wire import LENGTH_DELIMITED, Pieces, Source, Walk, fields

_DATA = frozenset((4, 5, 6, 7, 9, 10, 11))  # fields of a tensor that hold its items
_LEAST = 1 << 12


def without_weights(source: Source) -> bytes:
    """The bytes of a model whose tensors lack their large fields. Raises MalformedError when it is none."""

    def tensor(start: int, stop: int) -> Pieces:
        pieces, done = Pieces(), start
        for number, kind, at, value, end in fields(source, start, stop):
            if number in _DATA and kind == LENGTH_DELIMITED and end - value >= _LEAST:
                pieces.copy_range(done, at)
                done = end
        pieces.copy_range(done, stop)
        return pieces

    pieces = Walk(source, wire.LAZY, lambda start, stop: stop - start >= _LEAST, tensor).rewritten(wire.MODEL)
    if pieces is None:
        return source.bytes(0, source.size)
    return b"".join(piece if isinstance(piece, bytes) else source.bytes(*piece) for piece in pieces)
