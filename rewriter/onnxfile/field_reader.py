"""Fields of a message of protobuf, read strictly off bytes in memory: what `take_census` is built on."""

from __future__ import annotations

import struct
from typing import Any

from rewriter.onnxfile.wire import MalformedError, varint_at

Field = tuple[int, int, Any]


class FieldReader:
    """Reads at places of the bytes that it is given. IndexError, struct.error: the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def text(self, place: tuple[int, int]) -> str:
        return self.data[place[0] : place[1]].decode()

    def head(self, i: int) -> tuple[int, int, int]:
        """Key and length of a field with a length, and where its content begins."""
        key, i = varint_at(self.data, i)
        size, i = varint_at(self.data, i)
        if key & 7 != 2:
            raise MalformedError
        return key, size, i

    def fields(self, i: int, end: int) -> list[Field]:
        """The fields of a message: number, wire type, and the number or the place that it holds."""
        data, found = self.data, []
        while i < end:
            key = data[i]
            i += 1
            if key > 127:
                key, i = varint_at(data, i - 1)
            wire = key & 7
            value: Any
            if wire == 2:
                size = data[i]
                i += 1
                if size > 127:
                    size, i = varint_at(data, i - 1)
                value = (i, i + size)
                i += size
            elif wire == 0:
                value = data[i]
                i += 1
                if value > 127:
                    value, i = varint_at(data, i - 1)
            elif wire == 5:
                (value,) = struct.unpack_from("<f", data, i)
                i += 4
            elif wire == 1:
                value = None
                i += 8
            else:
                raise MalformedError
            found.append((key >> 3, wire, value))
        if i != end:
            raise MalformedError
        return found

    def packed(self, i: int, end: int) -> list[int]:
        found = []
        while i < end:
            value, i = varint_at(self.data, i)
            found.append(signed(value))
        if i != end:
            raise MalformedError
        return found


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
