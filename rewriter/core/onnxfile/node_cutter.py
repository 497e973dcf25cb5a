"""Where the nodes stand in the bytes of a large graph: found by protobuf, which cuts as fast as memory can be read.

Protobuf is told of a message that has nothing but nodes, and these as bytes; so ONNX needs not be imported for it. It does not
say where the pieces stood, but where every exporter puts them: one after the other, each behind its key and its length.

A graph whose name stands behind two nodes of 12 and 11 bytes, `y = Relu(x)` and `z = Neg(y)`:

    0 | 0a 0c | 0a 01 78  12 01 79  22 04 52 65 6c 75     a node from 2 to 14
    14| 0a 0b | 0a 01 79  12 01 7a  22 03 4e 65 67        a node from 16 to 27
    27| 12 01 67                                          the name, "g"

>>> data = bytes.fromhex("0a0c 0a0178 120179 220452656c75 0a0b 0a0179 12017a 22034e6567 120167")
>>> starts, stops = cut(data, 0, len(data))
>>> starts.tolist(), stops.tolist()
([2, 16], [14, 27])
>>> cut(bytes.fromhex("120167") + data, 0, len(data) + 3) is None  # the first node is not where it was said to be
True
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from rewriter.core.onnxfile.name_index import IntArray
from rewriter.core.onnxfile.wire import entry

_KEY = 10
_MOST = 5  # bytes of a length


@cache
def _message() -> Any:
    """The class of `message Nodes { repeated bytes node = 1; }`."""
    from google.protobuf.descriptor_pool import DescriptorPool  # type: ignore[import-untyped]
    from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]

    field = entry(1, b"node") + bytes([3 << 3, 1, 4 << 3, 3, 5 << 3, 12])  # number, label, type
    message = entry(1, b"Nodes") + entry(2, field)
    pool = DescriptorPool()
    pool.AddSerializedFile(entry(1, b"rewriter/nodes.proto") + entry(4, message))
    return GetMessageClass(pool.FindMessageTypeByName("Nodes"))


def cut(data: bytes, i: int, end: int) -> tuple[IntArray, IntArray] | None:
    """Where the nodes of a graph begin and end, of which the first one's field begins at `i`; None when they stand otherwise.

    Raises:
        MemoryError: there is none left for a copy of the nodes.
    """
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        nodes = _message().FromString(memoryview(data)[i:end]).node[:]
    except DecodeError:
        return None
    sizes: IntArray = np.fromiter(map(len, nodes), np.intp, len(nodes))
    heads = 2 + sum((sizes >> 7 * count > 0).astype(np.intp) for count in range(1, _MOST))
    stops = i + np.cumsum(heads + sizes)
    return (stops - sizes, stops) if _stand(data, stops - sizes - heads, sizes) else None


def _stand(data: bytes, places: IntArray, sizes: IntArray) -> bool:
    """Whether there are fields of these lengths at these places; each shows where the next one is to stand."""
    octets = np.frombuffer(data, np.uint8)
    if (octets[places] != _KEY).any():
        return False
    while len(places):
        places = places + 1
        more = sizes > 127
        if (octets[places] != (sizes & 127 | more << 7)).any():
            return False
        places, sizes = places[more], sizes[more] >> 7
    return True
