"""Rules are made ready once for many models, and differently for different settings."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import onnx_graphsurgeon as gs
import pytest

from rewriter.core.conditions.context import Context
from rewriter.core.engine.compile import MOST_PLANS, PhasePlan, Prepared, prepared
from rewriter.core.errors import RewriterError
from rewriter.core.framework.exporter import suited
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import NodesByOperator
from rewriter.core.matching.requirements import Inventory, WrittenAttributes, take_inventory
from rewriter.rule_tools.load_rules import load_rules
from tests.engine.helpers import rule_set

RULES = rule_set(
    "rule A1 a match { y = Relu(x) } rewrite { y = Tanh(x) }",
    "rule A2 b match { y = Tanh(x) } rewrite { y = x }",
    "rule A3 c param n: int = 1 match { y = Softmax<axis=1>(x) } where n == 1 rewrite { y = x }",
    "rule A4 d <kind: lossy> param op: op match { y = @op(x) } rewrite { y = x }",
)


class Axes(WrittenAttributes):
    """Every operator has an attribute `axis`, and no other one."""

    def __init__(self) -> None:
        super().__init__(NodesByOperator(()))

    def has(self, ops: frozenset[tuple[str, str]], name: str) -> bool:
        return name == "axis"


def inventory_of(*ops: str, dtypes: frozenset[int] | None = None) -> Inventory:
    return Inventory(frozenset(("", op) for op in ops), dtypes, Axes())


def tried(plans: list[PhasePlan]) -> list[str]:
    return sorted({rule.code for plan in plans for rules in plan.by_root.values() for rule in rules})


def codes(made: Prepared, *ops: str) -> list[str]:
    return tried(made.plans(RULES.rules[:3], inventory_of(*ops)))


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
    inventory = inventory_of("Relu")
    assert made.plans(RULES.rules[:2], inventory) is made.plans(RULES.rules[:2], inventory)
    for number in range(3 * MOST_PLANS):
        made.plans(RULES.rules[number % 3 : 3], inventory)
    assert len(made._plans) <= MOST_PLANS


def test_a_missing_parameter_is_missed_when_the_rule_is_wanted() -> None:
    made = prepared(RULES, {})
    with pytest.raises(RewriterError, match=r"needs --set A4\.op"):
        made.plans(RULES.rules, inventory_of())
    ready = prepared(RULES, {("A4", "op"): "Abs"})
    assert ready.plans(RULES.rules[3:], inventory_of("Abs"))


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
    float_only = inventory_of("Cast", "Relu", dtypes=frozenset({1}))
    assert ("A2" in tried(prepared(rules, {}).plans(rules.rules, float_only))) is is_tried


@pytest.mark.parametrize(
    ("condition", "is_tried"),
    [
        ("dtype(x) == float", True),
        ("dtype(x) in [int64, float]", True),
        ("(dtype(x) == double and dtype(y) == float) or (dtype(x) == float and dtype(y) == float16)", False),
        ("dtype(x) == double or rank(x) == 2", True),
        ("maybe(dtype(x) == double)", True),
        ("any o in n.inputs: dtype(o) == bool", False),
        ("is_declared(y, float16)", False),
        ("is_declared(y, float)", True),
        ("not is_declared(y, float16)", True),
        ("declared_dtype(y) == double", False),
        ("all o in n.inputs: dtype(o) == bool", True),
    ],
)
def test_each_alternative_of_a_condition_needs_its_element_types(condition: str, is_tried: bool) -> None:
    rules = rule_set(f"rule A1 a match {{ [n] y = Relu(x) }} where {condition} rewrite {{ y = x }}")
    plans = prepared(rules, {}).plans(rules.rules, inventory_of("Relu", dtypes=frozenset({1})))
    assert tried(plans) == ["A1"] * is_tried


@pytest.mark.parametrize(("pattern", "is_tried"), [("Sum(*xs)", False), ("Sum(a, *xs)", True), ("test.Sum(*xs)", True)])
def test_all_operands_of_an_operator_that_has_some_need_their_element_types(pattern: str, is_tried: bool) -> None:
    rules = rule_set(
        f"rule A1 a match {{ y = {pattern} }} where all x in xs: dtype(x) == bool rewrite {{ y = test.Made(*xs) }}"
    )
    inventory = Inventory(frozenset({("", "Sum"), ("test", "Sum")}), frozenset({1}), Axes())
    assert tried(prepared(rules, {}).plans(rules.rules, inventory)) == ["A1"] * is_tried


ATTRIBUTES = {
    "A1": ("Relu<consumed_inputs>", True),
    "A2": ("Neg<consumed_inputs>", False),
    "A3": ("Neg<!consumed_inputs>", True),
    "A4": ("Softmax<axis=2>", True),
    "A5": ("Transpose<perm=[1, 0]>", True),
    "A6": ("Concat<axis=k>", True),
    "A7": ("test.Old<kind=k>", False),
    "A8": ("test.Old<made=1>", True),
}


CONCAT = """<ir_version: 8, opset_import: ["": 13, "test": 1]> g (float[2] x) => (float[2] y) {
    a = Concat<axis=0>(x) y = test.New(a) }"""


def index_of(text: str) -> GraphIndex:
    return GraphIndex(Model.from_proto(onnx.parser.parse_model(text)).graph)


@pytest.mark.parametrize("graph_of", [lambda model: Model.from_proto(model).graph, gs.import_onnx])
@pytest.mark.parametrize("code", ATTRIBUTES)
def test_an_attribute_without_a_default_has_to_be_in_the_model_or_made_by_a_rule(
    code: str, graph_of: Callable[[onnx.ModelProto], gs.Graph]
) -> None:
    pattern, is_tried = ATTRIBUTES[code]
    rules = rule_set(
        f"rule {code} a <opset: 5.., kind: repair, evidence: refused> match {{ y = {pattern}(x) }} rewrite {{ y = x }}",
        "rule B1 b match { [n] y = test.Old(x) } where n.made != 1 rewrite { n.made = 1 }",
    )
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 13, "test": 1]> g (float[2,4] x) => (float[2,4] y) {
        a = Relu<consumed_inputs=[0]>(x) b = Softmax(a) c = Transpose(b) d = Concat<axis=0>(c) e = test.Old(d) y = Neg(e) }"""
    )
    plans = prepared(rules, {}).plans(rules.rules, take_inventory(GraphIndex(graph_of(model))))
    assert (code in tried(plans)) is is_tried


@pytest.mark.parametrize("rewrite", ["y = test.New<..n>(x)", 'n.op = "test::New"'])
def test_an_attribute_may_come_from_a_node_of_another_operator(rewrite: str) -> None:
    rules = rule_set(
        "rule A1 a match { y = test.New<axis=k>(x) } rewrite { y = x }",
        f"rule B1 b match {{ [n] y = Concat(x) }} rewrite {{ {rewrite} }}",
    )
    assert tried(prepared(rules, {}).plans(rules.rules, take_inventory(index_of(CONCAT)))) == ["A1", "B1"]
    assert tried(prepared(rules, {}).plans(rules.rules[:1], take_inventory(index_of(CONCAT)))) == []


def test_no_default_rule_is_tried_in_a_plain_network() -> None:
    """A rule that is tried at each Add makes every large model slower. A condition that such a network does not meet helps:
    an attribute, an element type, another node.
    """
    index = index_of(
        """<ir_version: 8, opset_import: ["": 13]> g (float[N,4] x) => (float[N,4] y) {
        a = Relu(x) b = Sigmoid(a) c = Neg(a) d = Add(b, c) e = Tanh(d) y = Abs(e) }"""
    )
    meant, _ = suited(load_rules().select(), Context(index).subject)
    assert tried(prepared(load_rules().select(), {}).plans(meant, take_inventory(index))) == []
