"""What cannot be negative: lengths, and what is made of them by operators that keep the sign."""

from __future__ import annotations

import pytest

from tests.engine.helpers import rewrite_text

RULE = "rule X1 f <kind: exact> match { y = Neg(x) } where never_negative(x) rewrite { y = Abs(x) }"


@pytest.mark.parametrize(
    "nodes, never",
    [
        ("s = Shape(t)  x = Gather<axis=0>(s, zero)", True),
        ("s = Shape(t)  l = Gather<axis=0>(s, zero)  x = Mul(l, two)", True),
        ("s = Shape(t)  l = Gather<axis=0>(s, zero)  x = Mul(l, minus)", False),
        ("s = Shape(t)  l = Gather<axis=0>(s, zero)  x = Sub(l, two)", False),
        ("x = Add(i, two)", False),
        ("x = Size(t)", True),
        ("s = Shape(t)  l = Concat<axis=0>(s, s)  x = ReduceProd(l, minus)", True),
        ("s = Shape(t)  l = Tile(s, two)  x = Flatten<axis=0>(l)", True),
        ("s = Shape(t)  x = Pad(s, two, minus)", False),
        ("x = acme.Shape(t)", False),
    ],
)
def test_never_negative(nodes: str, never: bool) -> None:
    constants = "int64 zero = {0}, int64 two = {2}, int64 minus = {-2}"
    text = f"g (float[N,4] t, int64 i) => (int64 y) <{constants}> {{ {nodes}  y = Neg(x) }}"
    assert rewrite_text(text, RULE).fired == (["X1"] if never else [])
