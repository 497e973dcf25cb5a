"""Rules are made ready once for many models, and differently for different settings."""

from __future__ import annotations

import pytest

from rewriter.core.engine.compile import MOST_PLANS, Prepared, prepared
from rewriter.core.errors import RewriterError
from rewriter.core.matching.requirements import Inventory
from tests.engine.helpers import rule_set

RULES = rule_set(
    "rule A1 a match { y = Relu(x) } rewrite { y = Tanh(x) }",
    "rule A2 b match { y = Tanh(x) } rewrite { y = x }",
    "rule A3 c param n: int = 1 match { y = Softmax<axis=1>(x) } where n == 1 rewrite { y = x }",
    "rule A4 d <kind: lossy> param op: op match { y = @op(x) } rewrite { y = x }",
)


def codes(made: Prepared, *ops: str) -> list[str]:
    inventory = Inventory(frozenset(("", op) for op in ops), None)
    plans = made.plans(RULES.rules[:3], inventory)
    return sorted({rule.code for plan in plans for rules in plan.by_root.values() for rule in rules})


def test_the_same_rules_and_settings_are_prepared_once() -> None:
    assert prepared(RULES, {}) is prepared(RULES, {})
    assert prepared(RULES, {("A3", "n"): 1}) is prepared(RULES, {("A3", "n"): 1})
    assert prepared(RULES, {("A3", "n"): 1}) is not prepared(RULES, {("A3", "n"): True})


def test_each_model_gets_the_rules_that_it_can_need() -> None:
    made = prepared(RULES, {})
    assert codes(made, "Relu") == ["A1", "A2"]
    assert codes(made, "Softmax") == ["A3"]
    assert codes(made, "Abs") == []
    assert codes(made, "Relu", "Softmax") == ["A1", "A2", "A3"]


def test_plans_are_shared_and_few() -> None:
    made = prepared(RULES, {})
    inventory = Inventory(frozenset({("", "Relu")}), None)
    assert made.plans(RULES.rules[:2], inventory) is made.plans(RULES.rules[:2], inventory)
    for number in range(3 * MOST_PLANS):
        made.plans(RULES.rules[number % 3 : 3], inventory)
    assert len(made._plans) <= MOST_PLANS


def test_a_missing_parameter_is_missed_when_the_rule_is_wanted() -> None:
    made = prepared(RULES, {})
    with pytest.raises(RewriterError, match=r"needs --set A4\.op"):
        made.plans(RULES.rules, Inventory(frozenset(), None))
    ready = prepared(RULES, {("A4", "op"): "Abs"})
    assert ready.plans(RULES.rules[3:], Inventory(frozenset({("", "Abs")}), None))


@pytest.mark.parametrize(
    ("made", "is_tried"),
    [("dtype(x)", False), ("declared_dtype(y)", False), ("kind", False), ("float", False), ("bfloat16", True), ("n.to", True)],
)
def test_a_type_of_the_model_is_no_new_one(made: str, is_tried: bool) -> None:
    """A rule about bfloat16 is tried, and may be blocked, only where a tensor can be of that type."""
    rules = rule_set(
        f"rule A1 a match {{ [n] y = Cast(x) }} let kind = dtype(x) rewrite {{ y = Cast<to={made}>(y) }}",
        "rule A2 b match { y = Relu(x) } where dtype(x) == bfloat16 rewrite { y = x }",
    )
    float_only = Inventory(frozenset({("", "Cast"), ("", "Relu")}), frozenset({1}))
    plans = prepared(rules, {}).plans(rules.rules, float_only)
    assert ("A2" in {rule.code for plan in plans for found in plan.by_root.values() for rule in found}) is is_tried
