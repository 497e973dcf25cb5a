"""Where the dimensions of instances come from: small numbers, so that lengths are equal by accident as often as not.

The first draws can be given as digits, by which all shapes over {1, 2, 3} are tried where few dimensions are free.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_CHOICES = (1, 2, 2, 3, 3, 4)
_EMPTY = 0.05  # of dimensions have length 0


class Dims:
    """A source of lengths; `drawn` counts them."""

    def __init__(self, rng: np.random.Generator, digits: Sequence[int] = (), *, empty: bool = True) -> None:
        self.rng = rng
        self.drawn = 0
        self._digits = digits
        self._empty = empty

    def again(self) -> np.random.Generator:
        """A source of chance that is another one for other digits, whereas all that is drawn here stays the same."""
        return np.random.default_rng([self.below(1 << 30), *self._digits])

    def draw(self, least: int = 0) -> int:
        """A length of at least `least`."""
        self.drawn += 1
        if self.drawn <= len(self._digits):
            return max(int(self._digits[self.drawn - 1]), least)
        if self._empty and least == 0 and self.rng.random() < _EMPTY:
            return 0
        return max(_CHOICES[self.below(len(_CHOICES))], least)

    def shape(self, rank: int) -> list[int]:
        """A shape."""
        return [self.draw() for _ in range(rank)]

    def chance(self, part: float) -> bool:
        """True in that part of the cases."""
        return bool(self.rng.random() < part)

    def below(self, stop: int) -> int:
        """A whole number from 0 to before `stop`."""
        return int(self.rng.integers(0, max(stop, 1)))

    def pick(self, items: Sequence[object]) -> object:
        """One of the items."""
        return items[self.below(len(items))]
