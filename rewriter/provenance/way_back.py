"""The way from a result back to the model that it was made of: which parts of the result that had, and those that are gone.

Files are cut into the fields of the model and of its graph (nodes, weights, declarations). What the result still has is told by
its place there; everything else is kept, packed. Where that is much, nothing is kept, and the input is needed.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator

from rewriter.onnxfile.wire import MalformedError, Source, entry, fields

MOST_BYTES = 1 << 18
"""Of what is kept, packed."""

MOST_UNPACKED = 1 << 26

_GRAPH = 7
_METADATA = 14


def way_back(before: bytes, after: bytes) -> str | None:
    """What a record has to keep, so that `before` can be made of `after`; None when that is too much."""
    try:
        places = {chunk: place for place, chunk in enumerate(_chunks(after))}
        steps: list[list[int] | str] = []
        for chunk in _chunks(before, whole=True):
            place = places.get(chunk)
            last = steps[-1] if steps else ""
            if place is None:
                steps.append(base64.b64encode(chunk).decode())
            elif isinstance(last, list) and sum(last) == place:
                last[1] += 1
            else:
                steps.append([place, 1])
    except MalformedError:
        return None
    packed = zlib.compress(json.dumps(steps, separators=(",", ":")).encode(), 9)
    return base64.b64encode(packed).decode() if len(packed) <= MOST_BYTES else None


def went_back(kept: str, after: bytes) -> bytes:
    """The model before. Raises ValueError, or an error of zlib, when what is kept is none of this result."""
    chunks = list(_chunks(after))
    steps = json.loads(zlib.decompressobj().decompress(base64.b64decode(kept), MOST_UNPACKED))
    found: list[bytes] = []
    for step in steps:
        if isinstance(step, str):
            found.append(base64.b64decode(step))
            continue
        start, count = step
        part = chunks[start : start + count]
        if start < 0 or len(part) != count:
            raise ValueError("it names parts that are not there")
        found += part
    return _joined(found)


def _chunks(data: bytes, *, whole: bool = False) -> Iterator[bytes]:
    """The fields of a model and of its graph, the latter behind a mark; metadata are passed over unless `whole`."""
    for number, _, start, value, stop in fields(Source.of(data), 0, len(data)):
        if number == _GRAPH:
            graph = data[value:stop]
            yield b"g"
            for _, _, begin, _, end in fields(Source.of(graph), 0, len(graph)):
                yield b"n" + graph[begin:end]
        elif number != _METADATA or whole:
            yield b"m" + data[start:stop]


def _joined(chunks: list[bytes]) -> bytes:
    parts: list[bytes] = []
    graph: list[bytes] | None = None
    for chunk in [*chunks, b"m"]:
        kind, content = chunk[:1], chunk[1:]
        if kind == b"n" and graph is not None:
            graph.append(content)
            continue
        if graph is not None:
            parts.append(entry(_GRAPH, b"".join(graph)))
            graph = None
        if kind == b"g":
            graph = []
        elif kind == b"m":
            parts.append(content)
        else:
            raise ValueError("a node stands outside of the graph")
    return b"".join(parts)
