"""Which tensor of one model is to be held against which of the other.

Names do not decide: a converter, an optimiser or a rewrite may have changed all of them. Tensors are pairs when paired nodes
(`rewriter.inspect.diff.pairing`) make them at the same position, or read them at the same position. The second way sees across
a node that was exchanged for another or put in between. A name decides only about nodes that have no partner.
"""

from __future__ import annotations

from collections.abc import Iterator

from rewriter.inspect.diff.pairing import Pairing
from rewriter.inspect.diff.sides import Side
from rewriter.onnxfile.tensors import text
from rewriter.proof.layers.result import Maker, TensorPair


def tensor_pairs(one: Side, other: Side) -> list[TensorPair]:
    """Pairs of tensors that nodes make, in the order in which the first model computes them; each pair once."""
    pairing = Pairing(one, other)
    found: dict[tuple[str, str], int] = {}
    for place, (first, second) in _found(one, other, pairing):
        if first in one.made and second in other.made:
            key = (first, second)
            found[key] = min(place, found.get(key, place))
    ordered = sorted(found, key=lambda key: (found[key], one.made[key[0]], other.made[key[1]]))
    return [TensorPair(a, b, _maker(one, a), _maker(other, b)) for a, b in ordered]


def _found(one: Side, other: Side, pairing: Pairing) -> Iterator[tuple[int, tuple[str, str]]]:
    """Pairs with a number that orders them: of results three times the node's, plus one; of operands one less, so that they
    come before what is computed from them.
    """
    for number, counterpart in pairing.forth.items():
        operands, outputs = one.names(number)
        others, results = other.names(counterpart)
        for pair in zip(outputs, results, strict=False):
            yield 3 * number + 1, pair
        for pair in zip(operands, others, strict=False):
            yield 3 * number, pair
    last = 3 * len(one.nodes)
    for name, (number, _) in one.made.items():
        known = other.made.get(name)
        if known is not None and number not in pairing.forth and known[0] not in pairing.back:
            yield 3 * number + 1, (name, name)
    there = set(other.outputs)
    for name in one.outputs:
        if name in there:
            yield last, (name, name)


def _maker(side: Side, tensor: str) -> Maker:
    node = side.nodes[side.made[tensor][0]]
    return Maker(text(node.name) or next(filter(None, map(text, node.output)), ""), text(node.op_type))
