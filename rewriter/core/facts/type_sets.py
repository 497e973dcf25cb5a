"""Sets of element types as numbers, a bit for each, and what a model declares in these terms."""

from __future__ import annotations

from collections.abc import Iterable

from rewriter.core.language.cache.operator_table import ANY
from rewriter.core.onnxfile.census import Body

__all__ = ["ANY", "bits_of", "declared_outputs", "union"]


def bits_of(dtype: int) -> int:
    """The set of types that a declared type stands for."""
    return 1 << dtype if 0 < dtype < 64 else ANY


def declared_outputs(body: Body) -> dict[bytes, int]:
    """What is declared of the outputs of a graph, by name; both where it is declared twice."""
    found: dict[bytes, int] = dict.fromkeys([name for name, _ in body.outputs], 0)
    for name, dtype in (*body.infos, *body.outputs):
        if name in found:
            found[name] |= bits_of(dtype)
    return found


def union(types: Iterable[int]) -> int:
    """All of these sets of types together; one that is left out may be anything."""
    bits = 0
    for one in types:
        bits |= one or ANY
    return bits
