"""Runs of outputs that a rewrite makes anew: the new node takes over all tensors of the run, and the old node goes."""

from __future__ import annotations

from tests.engine.helpers import rewrite_text

SPLIT = "g (float[4] x) => (float[2] p, float[2] q) {{ {0}p, q = Split<axis=0>({1}) }}"


def test_a_new_node_takes_over_a_run_of_outputs() -> None:
    rule = "rule T1 t <kind: exact> match { [n] *ys = Split(Neg(x)) } rewrite { *ys = Split<..n>(x) }"
    outcome = rewrite_text(SPLIT.format("m = Neg(x) ", "m"), rule)
    assert outcome.fired == ["T1"]
    assert outcome.equals(SPLIT.format("", "x"))


def test_outputs_before_a_run_are_taken_over_too() -> None:
    rule = "rule T1 t <kind: exact> match { [n] y, *ys = Split(Neg(x)) } rewrite { y, *ys = Split<..n>(x) }"
    assert rewrite_text(SPLIT.format("m = Neg(x) ", "m"), rule).equals(SPLIT.format("", "x"))


def test_readers_of_a_run_read_the_new_node() -> None:
    rule = "rule T1 t <kind: exact> match { [n] *ys = Split(Neg(x)) } rewrite { *ys = Split<..n>(x) }"
    text = "g (float[4] x) => (float[2] y) {{ {0}p, q = Split<axis=0>({1})  y = Sub(q, p) }}"
    assert rewrite_text(text.format("m = Neg(x) ", "m"), rule).equals(text.format("", "x"))
