"""Goes through pairs of tensors, in the order of computation, and holds them against each other.

All intermediates of a model may be many times what memory holds. So as many pairs as a budget allows are made outputs at a
time, and values are dropped before the next ones are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rewriter.proof.layers.half import Half
from rewriter.proof.layers.layer_sizes import expected_sizes
from rewriter.proof.layers.result import LayerDifference, TensorPair
from rewriter.proof.models.model_inputs import Feed
from rewriter.proof.models.model_runs import CannotRun
from rewriter.proof.models.output_agreement import Bound, differences

UNKNOWN = 16
"""A tensor whose size cannot be told in advance is counted as the budget divided by this."""

MOST_AT_ONCE = 256
"""Pairs of one run; the first difference is found without running all of a deep model for it."""


class Search:
    """Compares pairs.

    Args:
        halves: the two models.
        feeds: what each is fed.
        bound: how far tensors may be apart.
        memory: bytes that fetched tensors of both models may take at a time.

    Attributes:
        held: the most bytes that fetched tensors took at a time.
    """

    def __init__(self, halves: tuple[Half, Half], feeds: tuple[Feed, Feed], bound: Bound, memory: int) -> None:
        self._halves = halves
        self._feeds = feeds
        self._bound = bound
        self._memory = memory
        self.held = 0

    def differences(self, pairs: Sequence[TensorPair]) -> Iterator[LayerDifference]:
        """Pairs that both models can compute, one after the other; lazily, so that who has seen enough stops the runs."""
        known = [pair for pair in pairs if self._halves[0].knows(pair.first) and self._halves[1].knows(pair.second)]
        for chunk in self._chunks(known):
            yield from self._compared(chunk)

    def _chunks(self, pairs: Sequence[TensorPair]) -> Iterator[list[TensorPair]]:
        sizes = [
            expected_sizes(half.model, feed, [pair[i] for pair in ((p.first, p.second) for p in pairs)])
            for i, (half, feed) in enumerate(zip(self._halves, self._feeds, strict=True))
        ]
        unknown = self._memory // (2 * UNKNOWN)
        chunk: list[TensorPair] = []
        total = 0
        for pair in pairs:
            size = sizes[0].get(pair.first, unknown) + sizes[1].get(pair.second, unknown)
            if chunk and (total + size > self._memory or len(chunk) >= MOST_AT_ONCE):
                yield chunk
                chunk, total = [], 0
            chunk.append(pair)
            total += size
        if chunk:
            yield chunk

    def _compared(self, chunk: Sequence[TensorPair]) -> Iterator[LayerDifference]:
        try:
            values = [
                half.values(list(dict.fromkeys(names)), feed)
                for half, feed, names in zip(
                    self._halves, self._feeds, ([p.first for p in chunk], [p.second for p in chunk]), strict=True
                )
            ]
        except CannotRun:
            if len(chunk) == 1:
                return  # a tensor that the runtime computes and does not give out, as one of type bfloat16
            middle = len(chunk) // 2
            yield from self._compared(chunk[:middle])
            yield from self._compared(chunk[middle:])
            return
        self.held = max(self.held, sum(_size(value) for side in values for value in side.values()))
        for pair in chunk:
            yield compared(pair, values[0], values[1], self._bound)


def compared(pair: TensorPair, one: Mapping[str, Any], other: Mapping[str, Any], bound: Bound) -> LayerDifference:
    """How the tensors of a pair differ."""
    value = one[pair.first]
    found = next(differences({pair.first: value}, {pair.first: other[pair.second]}, bound))
    shape = f"{value.dtype}[{','.join(map(str, value.shape))}]" if isinstance(value, np.ndarray) else ""
    return LayerDifference(pair, shape, found.largest, found.message)


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list | tuple) else 8
