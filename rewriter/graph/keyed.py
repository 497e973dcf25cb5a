"""Names of tensors with their length in front: how protobuf writes them, and how nodes in columns hold them."""

from __future__ import annotations


def keyed(name: bytes) -> bytes:
    """A name with its length in front, as protobuf writes it."""
    size, head = len(name), bytearray()
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    head.append(size)
    return bytes(head) + name
