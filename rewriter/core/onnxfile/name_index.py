"""Looks up many names at once: by their numbers, in tables of numpy.

The number of a name is made of its bytes, eight at a time, and of a secret that each process draws for itself, so that no
file can be made in which different names get one number. Among a million names the chance that it happens anyway is below
one in ten million.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

IntArray = np.ndarray[Any, np.dtype[np.intp]]
Numbers = np.ndarray[Any, np.dtype[np.uint64]]

_SECRET = np.uint64(int.from_bytes(os.urandom(8), "little"))
_MIX, _SPREAD = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_KEEP = np.array([(1 << 8 * count) - 1 for count in range(9)], np.uint64)  # the first bytes of a word
_NOT_ASCII = np.uint64(0x8080808080808080)
PADDING = bytes(8)
"""The bytes that must follow the last name, so that a word can be read at each of its bytes."""


class Numbered(NamedTuple):
    """Numbers of names, and whether all names are ASCII."""

    numbers: Numbers
    ascii: bool


def number(octets: bytes, starts: IntArray, sizes: IntArray) -> Numbered:
    """The numbers of the names at these places of some bytes, which end with `PADDING`."""
    words: Numbers = np.ndarray((len(octets) - 7,), "<u8", octets, strides=(1,))
    result = found = _SECRET ^ (sizes.astype(np.uint64) * _SPREAD)
    where: IntArray | None = None
    seen = np.uint64(0)
    while len(starts):
        word = words[starts]
        if sizes.min() < 8:
            word &= _KEEP[np.minimum(sizes, 8)]
        seen |= np.bitwise_or.reduce(word)
        word ^= found
        word *= _MIX
        word ^= word >> _HALF
        if where is None:
            result = word
        else:
            result[where] = word
        more = np.flatnonzero(sizes > 8)
        if len(more) == len(starts):
            found, starts, sizes = word, starts + 8, sizes - 8
        else:
            where = more if where is None else where[more]
            found, starts, sizes = word[more], starts[more] + 8, sizes[more] - 8
    return Numbered(result, not seen & _NOT_ASCII)


def number_of(names: Iterable[bytes]) -> Numbers:
    """The numbers of these names."""
    listed = list(names)
    sizes = np.fromiter(map(len, listed), np.intp, len(listed))
    return number(b"".join((*listed, PADDING)), np.cumsum(sizes) - sizes, sizes).numbers


class NameIndex:
    """The place of each name in a list, found by number.

    Attributes:
        repeated: whether a name occurs in the list twice; then it is found at one of its places.
    """

    def __init__(self, numbers: Numbers) -> None:
        self.repeated = False
        self._numbers = numbers
        self._rounds: list[tuple[np.uint64, np.uint64, IntArray]] = []
        left: IntArray = np.arange(len(numbers))
        factor = int(_SPREAD)
        while len(left):  # if several names fall into one slot, one stays, and the others move to another table
            shift = np.uint64(62 - len(left).bit_length())
            table: IntArray = np.full(4 << len(left).bit_length(), -1, np.intp)
            slots = self._slots(numbers[left], np.uint64(factor), shift)
            table[slots] = left
            self._rounds.append((np.uint64(factor), shift, table))
            holders = table[slots]
            lost = np.flatnonzero(holders != left)
            same = numbers[holders[lost]] == numbers[left[lost]]
            self.repeated |= bool(same.any())
            left, factor = left[lost[~same]], factor * int(_MIX) % (1 << 64)

    @staticmethod
    def _slots(numbers: Numbers, factor: np.uint64, shift: np.uint64) -> IntArray:
        return ((numbers * factor) >> shift).astype(np.intp)

    def find(self, numbers: Numbers) -> IntArray:
        """The places of names in the list, -1 for names that are not in it."""
        result: IntArray = np.full(len(numbers), -1, np.intp)
        left: IntArray | slice = slice(None)
        for factor, shift, table in self._rounds:
            asked = numbers[left]
            holders = table[self._slots(asked, factor, shift)]
            right = (self._numbers[holders] == asked) & (holders >= 0)
            result[left] = np.where(right, holders, -1)
            wrong = np.flatnonzero(~right & (holders >= 0))
            if not len(wrong):
                break
            left = wrong if isinstance(left, slice) else left[wrong]
        return result
