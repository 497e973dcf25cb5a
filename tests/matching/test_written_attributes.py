"""Rules that ask for an attribute which no node has are not tried; what other rules may write counts."""

from __future__ import annotations

import onnx
import pytest

from rewriter.core.engine.compile import Prepared
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.matching.requirements import take_inventory
from tests.engine.helpers import rule_set

ASKS = 'rule A1 a <kind: repair, evidence: refused> match { [n] y = Add(x, z) } where has(n, "axis") rewrite { y = Sub(x, z) }'
SHOWS = "rule A2 b <kind: repair, evidence: refused> match { [n] y = Add<axis>(x, z) } rewrite { y = Sub(x, z) }"
WRITES = "rule B1 c <kind: repair, evidence: refused, opset: 1..6> match { [n] y = Mul(x, z) } rewrite { n.axis = 1 }"
TURNS = 'rule B2 d <kind: repair, evidence: refused> match { [n] y = Softmax(x) } rewrite { n.op = "Add" }'
COPIES = "rule B3 e <kind: repair, evidence: refused> match { [n] y = Softmax(x) } rewrite { y = Add<..n>(x, x) }"
EITHER = 'rule A3 f <kind: repair, evidence: refused> match { [n] y = Add(x, z) } where has(n, "axis") or rank(x) == 2 rewrite { y = x }'

PLAIN = "g (float[2] a, float[2] b) => (float[2] y) { t = Add(a, b)  u = Mul(t, b)  y = Softmax<axis=0>(u) }"
OLD = "g (float[2] a, float[2] b) => (float[2] y) { t = Add<axis=0>(a, b)  y = Relu(t) }"


def tried(text: str, *rules: str) -> set[str]:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 6]> {text}')
    chosen = rule_set(*rules).rules
    plans = Prepared(chosen, {}).plans(chosen, take_inventory(GraphIndex(Model.from_proto(proto).graph)))
    return {rule.code for plan in plans for rules in plan.by_root.values() for rule in rules}


@pytest.mark.parametrize("rule", [ASKS, SHOWS])
def test_only_where_some_node_has_it(rule: str) -> None:
    assert tried(OLD, rule)
    assert not tried(PLAIN, rule)


@pytest.mark.parametrize("other", [WRITES, TURNS, COPIES])
def test_another_rule_may_write_it(other: str) -> None:
    assert tried(PLAIN, ASKS, other) == {"A1", other.split()[1]}


def test_a_condition_that_need_not_hold_asks_for_nothing() -> None:
    assert tried(PLAIN, EITHER) == {"A3"}
