"""What `constant`, `fill` and `expand_target` say of tensors, and when they do not know."""

from __future__ import annotations

import pytest

from tests.engine.helpers import rewrite_text

CHAIN = """g (float[N,4] x) => (float[A,B,C] y) <float c = {2.0}, float[2] two = {2.0, 3.0}, int64[1] one = {1}, int64[1] first = {0}> {
    s = Shape(x)  t = Concat<axis=0>(s, one)  fresh = ConstantOfShape<value=float[1]{2.0}>(t)
    cut = Slice(fresh, first, one)  wide = Expand(c, t)  mixed = Expand(two, t)  zeros = ConstantOfShape(t)
    half, rest = Split<axis=2>(fresh)  picked = GatherND(half, first)
    y = Neg(%s) }"""


@pytest.mark.parametrize(
    "tensor, number", [("fresh", 2), ("cut", 2), ("wide", 2), ("c", 2), ("zeros", 0), ("rest", 2), ("picked", 2)]
)
def test_fill_sees_through_what_only_spreads_elements(tensor: str, number: int) -> None:
    rule = f"rule X1 f <kind: exact> match {{ y = Neg(t) }} where fill(t) == {number} rewrite {{ y = Abs(t) }}"
    assert rewrite_text(CHAIN % tensor, rule).fired == ["X1"]


@pytest.mark.parametrize("tensor", ["x", "mixed", "two"])
def test_fill_is_unknown_of_what_holds_several_numbers_or_none_that_is_known(tensor: str) -> None:
    rule = "rule X1 f <kind: exact> match { y = Neg(t) } where not known(fill(t)) rewrite { y = Abs(t) }"
    assert rewrite_text(CHAIN % tensor, rule).fired == ["X1"]


def test_constant_is_what_a_chain_of_nodes_holds() -> None:
    rule = "rule X1 f <kind: exact> match { y = Neg(t) } where all(constant(t) == 6) rewrite { y = Abs(t) }"
    text = "g (float[2] x) => (float y) <float c = {2.0}, float d = {3.0}> { m = Mul(c, d) y = Neg(m) }"
    assert rewrite_text(text, rule).fired == ["X1"]
    assert rewrite_text("g (float x) => (float y) { y = Neg(x) }", rule).fired == []


EXPAND = "rule X1 f <kind: exact, opset: 8..> match { [e] y = Expand(x, s) } where not is_const(s) rewrite { e.inputs[1] = int64{expand_target(x, value(s))} }"


@pytest.mark.parametrize(
    "operand, fires",
    [("float[N,1] x, float[N,4] z", True), ("float[M,1] x, float[N,4] z", False), ("float[1,1] x, float[N,4] z", False)],
)
def test_expand_target_has_a_one_where_the_input_has_the_length_already(operand: str, fires: bool) -> None:
    outcome = rewrite_text(f"g ({operand}) => (float[A,4] y) {{ s = Shape(z) y = Expand(x, s) }}", EXPAND)
    assert outcome.fired == (["X1"] if fires else [])
    if fires:
        assert outcome.equals("g (float[N,1] x, float[N,4] z) => (float[A,4] y) <int64[2] t = {1,4}> { y = Expand(x, t) }")
