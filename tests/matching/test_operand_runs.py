"""Runs of operands: `*name` at any place of an operand list, several of them, and what stands between and behind them."""

from __future__ import annotations

import pytest

from rewriter.core.matching.questions import ATTEMPTS
from tests.engine.helpers import rewrite_text

FLAT = """\
rule T1 flat <kind: exact>
match {
  y = Concat<axis=a>(*before, inner, *after)
  inner = Concat<axis=a>(*parts)
}
rewrite { y = Concat<axis=a>(*before, *parts, *after) }
"""
INPUTS = "float[2] a, float[2] b, float[2] c, float[2] d"
JOINED = f"g ({INPUTS}) => (float[8] y) {{ y = Concat<axis=0>(a, b, c, d) }}"


@pytest.mark.parametrize(
    "lines",
    [
        "i = Concat<axis=0>(a, b)  y = Concat<axis=0>(i, c, d)",
        "i = Concat<axis=0>(b, c)  y = Concat<axis=0>(a, i, d)",
        "i = Concat<axis=0>(c, d)  y = Concat<axis=0>(a, b, i)",
        "i = Concat<axis=0>(a, b)  j = Concat<axis=0>(c, d)  y = Concat<axis=0>(i, j)",
        "i = Concat<axis=0>(b, c)  j = Concat<axis=0>(i, d)  y = Concat<axis=0>(a, j)",
        "i = Concat<axis=0>(a, b, c, d)  y = Concat<axis=0>(i)",
    ],
)
def test_a_node_anywhere_among_the_operands(lines: str) -> None:
    assert rewrite_text(f"g ({INPUTS}) => (float[8] y) {{ {lines} }}", FLAT).equals(JOINED)


def test_another_axis_stays() -> None:
    text = "g (float[2,2] a, float[2,1] b) => (float[4,2] y) { i = Concat<axis=1>(b, b)  y = Concat<axis=0>(a, i) }"
    assert rewrite_text(text, FLAT).fired == []


@pytest.mark.parametrize(
    ("operands", "fires"), [("a, r", True), ("r", True), ("r, a", False), ("a, b, c, r", True), ("a, r, b", False)]
)
def test_an_operand_behind_a_run_is_the_last(operands: str, fires: bool) -> None:
    rule = "rule T1 t <kind: exact> match { y = Concat<axis=0>(*xs, Relu(x)) } rewrite { y = Concat<axis=0>(x, *xs) }"
    text = f"g ({INPUTS}, float[2] e) => (float[N] y) {{ r = Relu(e)  y = Concat<axis=0>({operands}) }}"
    assert bool(rewrite_text(text, rule).fired) == fires


def test_an_absent_operand_in_a_run_does_not_count() -> None:
    rule = """\
    rule T1 t <kind: exact>
    match { [n] y = Clip(*xs) }
    where all x in xs: dtype(x) == float
    where (count x in xs: true) == 2
    rewrite { each x in n.inputs { x = Neg(x) } }
    """
    head = "g (float[2] a, float b, int64 c) => (float[2] y)"
    assert rewrite_text(f'{head} {{ y = Clip(a, "", b) }}', rule).fired
    assert not rewrite_text(f'{head} {{ y = Clip(a, "", c) }}', rule).fired


def test_the_first_place_that_the_conditions_allow() -> None:
    rule = """\
    rule T1 t <kind: exact>
    match { [n] y = Concat(*before, const e, *after) }
    where size(e) == 0
    where len(before) + len(after) > 0
    rewrite { y = Concat<..n>(*before, *after) }
    """
    constants = "<float[0] e = {}, float[1] k = {1}>"
    text = f"g (float[2] a) => (float[N] y) {constants} {{ y = Concat<axis=0>(k, a, e, k, e) }}"
    wanted = "g (float[2] a) => (float[N] y) <float[1] k = {1}> { y = Concat<axis=0>(k, a, k) }"
    assert rewrite_text(text, rule).equals(wanted)


def test_two_operands_between_three_runs() -> None:
    rule = "rule T1 t <kind: exact> match { y = Sum(*p, Neg(a), *q, Abs(b), *r) } rewrite { y = Sum(*r, *q, *p, a, b) }"
    text = f"g ({INPUTS}) => (float[2] y) {{ n = Neg(a)  m = Abs(b)  y = Sum(c, n, c, d, m) }}"
    assert rewrite_text(text, rule).equals(f"g ({INPUTS}) => (float[2] y) {{ y = Sum(c, d, c, a, b) }}")
    text = f"g ({INPUTS}) => (float[2] y) {{ n = Neg(a)  m = Abs(b)  y = Sum(c, m, c, d, n) }}"
    assert rewrite_text(text, rule).fired == []


def test_more_operands_behind_one() -> None:
    rule = "rule T1 t <kind: exact> match { y = Sum(*p, Neg(a), ...) } rewrite { y = Sum(*p, a) }"
    text = f"g ({INPUTS}) => (float[2] y) {{ n = Neg(a)  y = Sum(c, n, d) }}"
    assert rewrite_text(text, rule).equals(f"g ({INPUTS}) => (float[2] y) {{ y = Sum(c, a) }}")


def test_a_run_of_all_outputs_before_an_operand() -> None:
    rule = """\
    rule T1 t <kind: exact>
    match {
      *parts = Split<axis=a>(x)
      y = Concat<axis=a>(*parts, z)
    }
    rewrite { y = Concat<axis=a>(x, z) }
    """
    text = "g (float[4] x, float[2] z) => (float[6] y) { p, q = Split<axis=0>(x)  y = Concat<axis=0>(p, q, z) }"
    assert rewrite_text(text, rule).equals("g (float[4] x, float[2] z) => (float[6] y) { y = Concat<axis=0>(x, z) }")
    assert rewrite_text(text.replace("(p, q, z)", "(q, p, z)"), rule).fired == []


def test_the_search_is_bounded() -> None:
    rule = """\
    rule T1 t <kind: exact>
    match { y = Sum(*p, a, *q, b, *r, c, *s) }
    where dtype(a) == int64
    rewrite { y = Sum(a, b, c) }
    """
    operands = ", ".join(["a"] * 60)
    assert ATTEMPTS < 60**3 / 6
    outcome = rewrite_text(f"g (float[2] a) => (float[2] y) {{ y = Sum({operands}) }}", rule)
    assert outcome.fired == []
