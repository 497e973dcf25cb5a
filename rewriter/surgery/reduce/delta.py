"""Delta debugging: of many things those few that something needs, in as few trials as can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def minimized(items: Sequence[T], holds: Callable[[list[T]], bool]) -> list[T]:
    """The items of which none can be left out alone.

    Halves are tried first, then quarters, and so on down to single items, again until none of these goes.

    Args:
        items: for which `holds` is known to be true.
        holds: whether what is looked for is still there with these items alone.
    """
    kept, size = list(items), len(items)
    while kept:
        before, place = len(kept), 0
        while place < len(kept):
            rest = kept[:place] + kept[place + size :]
            if holds(rest):
                kept = rest
            else:
                place += size
        if size == 1 and len(kept) == before:
            break
        size = max(min(size, len(kept)) // 2, 1)
    return kept
