"""Operators of ONNX Runtime that onnx has no schema of: their element types, shapes that they work with, their results.

Without these, nearly every draft of a pattern with one of them is rejected before the rewrite, and does not test the rule.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

import numpy as np

from rewriter.core.language.schema import DTYPES
from rewriter.trust.proof.instances.draft import Draft

DOMAIN = "com.microsoft"
FLOAT, INT32 = frozenset({DTYPES["float"]}), frozenset({DTYPES["int32"]})
INTEGER_OPERANDS = MappingProxyType({"Attention": (3,), "EmbedLayerNormalization": (0, 1, 7), "RotaryEmbedding": (1,)})
"""Operands that are not floating-point numbers; the CPU has most of these operators for float alone."""


def known(op: str, domain: str) -> bool:
    """Whether the operator is one of these."""
    return domain == DOMAIN and op in RECIPES


def attention(draft: Draft) -> None:
    """Queries, keys and values in one matrix, of as many columns as three times heads times the size of a head."""
    _, hidden = _heads(draft)
    shape = draft.known(0) or [draft.dims.draw(1), draft.dims.draw(1), hidden if draft.dims.chance(0.7) else draft.dims.draw(1)]
    draft.want(0, shape)
    draft.want(1, [shape[-1], 3 * hidden])
    draft.want(2, [3 * hidden])
    if draft.there(3):
        draft.give(3, np.ones(shape[:2], dtype=np.int32))


def multi_head_attention(draft: Draft) -> None:
    """Queries, keys and values apart, each as wide as heads times the size of a head."""
    _, hidden = _heads(draft)
    shape = draft.known(0) or [draft.dims.draw(1), draft.dims.draw(1), hidden]
    draft.want(0, shape)
    length = draft.dims.draw(1)
    for position in (1, 2):
        draft.want(position, [shape[0], length, shape[-1]])
    draft.want(3, [3 * shape[-1]])


def _heads(draft: Draft) -> tuple[int, int]:
    """Number of heads, and a hidden size that they divide."""
    shape = draft.known(0)
    if shape and draft.op == "MultiHeadAttention":
        divisors = [n for n in range(1, shape[-1] + 1) if shape[-1] % n == 0]
        return int(draft.attr("num_heads", divisors[draft.dims.below(len(divisors))]) or 1), shape[-1]
    weight = draft.known(1)
    heads = int(draft.attr("num_heads", 1 + draft.dims.below(3)) or 1)
    return heads, weight[-1] // 3 if weight and draft.op == "Attention" else heads * (1 + draft.dims.below(3))


def on_the_last_axis(draft: Draft) -> None:
    """One operand, and others as long as its last axis."""
    shape = draft.ranked(2, 3, 3, 4)
    for position in range(1, len(draft.inputs)):
        draft.want(position, shape[-1:])


def skip_normalization(draft: Draft) -> None:
    """Two operands of one shape, and others as long as the last axis."""
    shape = draft.known(0) or draft.known(1) or draft.ranked(3, 3, 2)
    for position in range(len(draft.inputs)):
        draft.want(position, shape if position < 2 else shape[-1:])
    draft.attr("epsilon", 0.25, 0.4)


def fused_matmul(draft: Draft) -> None:
    """Matrices, each of them turned or not."""
    turned = [bool(draft.attr(name, 1, 0.4)) for name in ("transA", "transB")]
    batch = draft.dims.shape(draft.dims.below(3))
    left, right = draft.known(0), draft.known(1)
    inner = left[-2 if turned[0] else -1] if left else right[-1 if turned[1] else -2] if right else draft.dims.draw(1)
    rows, columns = draft.dims.draw(1), draft.dims.draw(1)
    draft.want(0, [*batch, inner, rows] if turned[0] else [*batch, rows, inner])
    draft.want(1, [*batch, columns, inner] if turned[1] else [*batch, inner, columns])
    draft.attr("alpha", 0.5, 0.3)


RECIPES: MappingProxyType[str, Callable[[Draft], None]] = MappingProxyType(
    {
        "Attention": attention,
        "MultiHeadAttention": multi_head_attention,
        **dict.fromkeys(("Gelu", "QuickGelu", "FastGelu", "BiasGelu"), on_the_last_axis),
        **dict.fromkeys(("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"), skip_normalization),
        "FusedMatMul": fused_matmul,
    }
)


def output_shape(draft: Draft) -> list[int] | None:
    """The shape of the first output; None if it is not known here. The shapes of other outputs are not known here."""
    first: list[int] | None = draft.known(0)
    if first is not None and draft.op == "Attention":
        weight = draft.known(1)
        first = [*first[:-1], weight[-1] // 3] if weight else None
    elif first is not None and draft.op == "FusedMatMul":
        first = _product(first, draft.known(1), draft)
    return first


def _product(left: list[int], right: list[int] | None, draft: Draft) -> list[int] | None:
    if right is None or len(left) < 2 or len(right) < 2:
        return None
    rows = left[-1 if draft.attrs.get("transA") else -2]
    columns = right[-2 if draft.attrs.get("transB") else -1]
    batch = np.broadcast_shapes(tuple(left[:-2]), tuple(right[:-2]))
    return [*batch, rows, columns]
