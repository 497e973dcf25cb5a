"""Where a dimension goes in a Reshape.

A Reshape keeps the order of elements, so a dimension is found again where the product of the dimensions before it is the same:
[8, 12, 64] with a batch of 8 in front becomes [8, 768], or [96, 64] with the batch in the first dimension, and not [12, 512].
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from rewriter.onnxfile.tensor_types import Dim

Product = tuple[int, tuple[str, ...]]


def aligned(
    before: Sequence[Dim], ratios: Sequence[Fraction], units: Sequence[int], after: Sequence[Dim], *, behind: bool = False
) -> list[Fraction] | None:
    """By what each dimension of the result grows.

    Args:
        before: the operand's shape at the old sizes.
        ratios: by what each of its dimensions grows (1: not at all).
        units: the old size of what makes it grow; a dimension of 24 may hold a batch of 8 and 3 more.
        after: the result's shape at the old sizes.
        behind: whether a dimension may also hold the growing one behind others, as [5, 8, 64] with a batch of 8 becomes
            [40, 64]. Its size is told so, and no longer that the first of the batch come first in it.

    Returns:
        A factor for each dimension of `after`; None where there is no place for one, or unknown dimensions hide it.
    """
    found = [Fraction(1)] * len(after)
    for position, (ratio, unit) in enumerate(zip(ratios, units, strict=True)):
        if ratio == 1:
            continue
        place = _place(before, position, unit, after, behind=behind)
        if place is None:
            return None
        found[place] *= ratio
    return found


def _place(before: Sequence[Dim], position: int, unit: int, after: Sequence[Dim], *, behind: bool) -> int | None:
    """The dimension of `after` that holds what makes dimension `position` of `before` grow.

    There may be several: before a size of 1 and behind it the product is the same, and inside of a dimension the growing part
    may come first or last. The same position is the likeliest, then one that has exactly this size, then the outermost.
    """
    size, start = before[position], _product(before[:position])
    if start is None or not isinstance(size, int) or size % unit:
        return None
    places = []
    for place, dim in enumerate(after):
        outer = _product(after[:place])
        if outer is None or not isinstance(dim, int) or dim % unit or not dim or outer[1] != start[1]:
            continue
        if behind and outer[0] < start[0] and start[0] % outer[0] == 0 and (outer[0] * dim) % (start[0] * unit) == 0:
            places.append(place)
            continue
        inside, rest = divmod(outer[0], start[0])
        if not rest and inside and (size // unit) % inside == 0:
            places.append(place)
    if position in places and before[: position + 1] == after[: position + 1]:
        return position
    exact = [place for place in places if after[place] == unit]
    return next(iter(exact or places), None)


def _product(dims: Sequence[Dim]) -> Product | None:
    number, names = 1, []
    for dim in dims:
        if dim is None:
            return None
        if isinstance(dim, int):
            number *= dim
        else:
            names.append(dim)
    return number, tuple(sorted(names))
