"""Multiplications of a node, by its operator and the shapes around it.

Counted are those that are added up, as in convolutions and matrix products (MACs), not what is done to each element once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from rewriter.record import record

Shape = tuple[int, ...]
Shapes = Sequence[Shape | None]


@record(frozen=True, slots=True)
class _Sizes:
    """A node with the shapes of its operands and results; asking for one that is not known raises _Unknown."""

    attrs: Mapping[str, Any]
    ins: Shapes
    outs: Shapes

    def operand(self, i: int) -> Shape:
        return _known(self.ins, i)

    def result(self) -> Shape:
        return _known(self.outs, 0)


class _Unknown(Exception):
    pass


def macs(
    op: str, domain: str, attrs: Mapping[str, Any], ins: Sequence[Shape | None], outs: Sequence[Shape | None]
) -> int | None:
    """The number; 0 for operators that add nothing up, None where a shape that it depends on is not known."""
    count = _COUNTS.get(op) if domain in ("", "ai.onnx", "com.microsoft") else None
    if count is None:
        return 0
    try:
        return count(_Sizes(attrs, ins, outs))
    except (_Unknown, IndexError, TypeError, ValueError, ZeroDivisionError):
        return None


def _known(shapes: Shapes, i: int) -> Shape:
    found = shapes[i] if i < len(shapes) else None
    if found is None:
        raise _Unknown
    return found


def _conv(weight: int) -> Callable[[_Sizes], int]:
    return lambda node: prod(node.result()) * prod(node.operand(weight)[1:])


def _conv_transpose(node: _Sizes) -> int:
    return prod(node.operand(0)) * prod(node.operand(1)[1:])


def _matmul(node: _Sizes) -> int:
    return prod(node.result()) * node.operand(0)[-1]


def _gemm(node: _Sizes) -> int:
    return prod(node.result()) * node.operand(0)[0 if node.attrs.get("transA", 0) else 1]


def _einsum(node: _Sizes) -> int:
    equation = str(node.attrs["equation"]).replace(" ", "").partition("->")[0]
    sizes: dict[str, int] = {}
    for i, labels in enumerate(equation.split(",")):
        if "." in labels:
            raise _Unknown
        sizes.update(zip(labels, node.operand(i), strict=True))
    return prod(sizes.values()) if "," in equation else 0


def _recurrent(node: _Sizes) -> int:
    return prod(node.operand(0)[:2]) * (prod(node.operand(1)) + prod(node.operand(2)))


def _attention(node: _Sizes) -> int:
    query, key, value = (node.operand(i) for i in range(3))
    if len(query) == 4:
        return prod(query[:3]) * key[2] * (query[3] + value[3])
    heads = int(node.attrs["q_num_heads"])
    kept = int(node.attrs["kv_num_heads"])
    return query[0] * query[1] * key[1] * (query[2] + value[2] // kept * heads)


_COUNTS: dict[str, Callable[[_Sizes], int]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "FusedConv", "DeformConv"), _conv(1)),
    "QLinearConv": _conv(3),
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul", "FusedMatMul"), _matmul),
    **dict.fromkeys(("Gemm", "FusedGemm"), _gemm),
    "Einsum": _einsum,
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _recurrent),
    "Attention": _attention,
}
