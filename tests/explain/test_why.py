"""Explanations give the true reason: each structural question, each form of a condition, and what other rules change."""

from __future__ import annotations

import onnx
import pytest

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.language.rules import RuleSet
from rewriter.rule_tools.explain.places import Explanation
from rewriter.rule_tools.explain.why_rules import explain
from tests.engine.helpers import rule_set, with_head
from tests.explain.near_misses import ALL, RULE, Near


def why(text: str, *rules: str, node: str | None = None, by_id: bool = True) -> Explanation:
    """The first rule explained on a model."""
    model = Model.from_proto(onnx.parser.parse_model(with_head(text)))
    chosen = rule_set(*rules)
    if not by_id:
        chosen = RuleSet(chosen.rules)
    index = GraphIndex(model.graph)
    context = Context(index, Knowledge(overridable=model.overridable))
    found = explain(context, chosen.rules[0], node, lambda: run(model.graph, chosen, keep=False))
    assert not model.edited
    return found


@pytest.mark.parametrize("near", ALL, ids=lambda near: near.name)
def test_the_true_reason_of_a_near_miss(near: Near) -> None:
    found = why(near.model, RULE + near.rule)
    question = found.answers[0].question
    assert question is not None
    assert (question.kind, question.unknown, question.error) == (near.kind, near.unknown, near.error)
    assert near.found in question.found
    assert near.asks in (RULE + near.rule).splitlines()[question.line - 1]


def test_there_are_as_many_near_misses_as_were_promised() -> None:
    assert len(ALL) >= 40


def test_a_false_condition_is_the_reason_though_one_before_it_fails() -> None:
    rule = "rule W1 w <kind: exact> match { y = Softmax<axis=a>(x) }\nwhere index([a], 7) == 0\nwhere a == 3\nrewrite { y = x }"
    question = why("g (float[2] x) => (float[2] y) { y = Softmax<axis=0>(x) }", rule).answers[0].question
    assert question is not None
    assert (question.asked, question.error, "a is 0" in question.found) == ("`where a == 3`", False, True)


DROP_ABS = """/// Abs goes.
rule NEAR002 drop-abs <kind: lossy>
match { y = Abs(x) }
rewrite { y = x }"""
DROP_PAIR = """/// Two Relus are one.
rule NEAR003 relu-relu <kind: lossy>
match { h = Relu(x)
 y = Relu(h) }
rewrite { y = h }"""
ALIVE = """/// Sigmoid without an Abs before it.
rule NEAR004 no-abs <kind: lossy>
match { y = Sigmoid(x) }
where producer(x) != "Abs"
rewrite { y = x }"""


def test_where_it_fires_it_says_what_would_change() -> None:
    found = why("g (float[2] x) => (y) { y = Abs(x) }", DROP_ABS)
    assert [answer.fires for answer in found.answers] == [True]
    assert found.answers[0].changes[0].before == "y = Abs(x)"
    assert not found.later and not found.earlier


def test_a_rule_that_fires_only_after_another() -> None:
    found = why("g (float[2] x) => (y) { a = Relu(x) b = Abs(a) y = Relu(b) }", DROP_PAIR, DROP_ABS)
    assert [answer.node for answer in found.answers] == ["a", "y"]
    assert [(later.node, later.after) for later in found.later] == [("y", (("NEAR002", "b"),))]


def test_a_rule_that_fires_at_what_another_one_made() -> None:
    make = """/// Tanh becomes Relu.
rule NEAR005 tanh-relu <kind: lossy>
match { y = Tanh(x) }
rewrite { y = Relu(x) }"""
    found = why("g (float[2] x) => (y) { a = Relu(x) y = Tanh(a) }", DROP_PAIR, make)
    assert [(later.node, later.after) for later in found.later] == [("y", (("NEAR005", "y"),))]


def test_a_place_that_another_rule_takes_first() -> None:
    rival = """/// A Relu of an input is a Tanh.
rule NEAR006 relu-of-input <kind: lossy, before: NEAR003>
match { y = Relu(x) }
where is_input(x)
rewrite { y = Tanh(x) }"""
    found = why("g (float[2] x) => (y) { a = Relu(x) y = Relu(a) }", DROP_PAIR, rival)
    assert found.answers[0].fires
    assert [(earlier.node, earlier.rule, earlier.at) for earlier in found.earlier] == [("y", "NEAR006", "a")]


def test_a_node_inside_of_the_pattern_leads_to_its_root() -> None:
    found = why("g (float[2] x) => (y, z) { a = Relu(x) b = Relu(x) y = Relu(a) z = Tanh(b) }", DROP_PAIR, node="a")
    assert {answer.node: answer.fires for answer in found.answers} == {"y": True, "a": False}


def test_a_node_that_can_have_no_part_in_the_pattern() -> None:
    found = why("g (float[2] x) => (y) { a = Relu(x) y = Tanh(a) }", DROP_ABS, node="a")
    assert found.answers[0].question is not None
    assert (found.answers[0].question.kind, found.answers[0].question.asked) == (
        "operator",
        "a node of the pattern, whose root is Abs",
    )


def test_a_node_that_is_not_there() -> None:
    with pytest.raises(RewriterError, match="did you mean 'relu_1'"):
        why("g (float[2] x) => (relu_1) { relu_1 = Relu(x) }", DROP_PAIR, node="relu_2")


def test_a_pattern_of_names() -> None:
    found = why("g (float[2] x) => (c) { a1 = Abs(x) a2 = Abs(a1) c = Abs(a2) }", DROP_ABS, node="a*")
    assert [answer.node for answer in found.answers] == ["a1", "a2"]


def test_guards_are_said_first() -> None:
    guarded = DROP_ABS.replace("kind: lossy", 'kind: lossy, exporter: "mxnet", opset: 14..')
    found = why("g (float[2] x) => (y) { y = Abs(x) }", guarded, by_id=False)
    assert found.guards == (
        "the exporter is unknown, not mxnet; select NEAR002 by its code to try it anyway",
        "the model's opset is 13",
    )
    question = found.answers[0].question
    assert question is not None and (question.kind, question.found, question.line) == ("opset", "opset 13", 2)


def test_what_becomes_known_later() -> None:
    anything = """/// A custom operator goes.
rule NEAR007 any <kind: lossy>
match { y = com.acme.Any(x) }
rewrite { y = x }"""
    wide = """/// Wide ones only.
rule NEAR008 wide <kind: lossy>
match { y = Tanh(x) }
where rank(x) > 4
rewrite { y = x }"""
    text = '<ir_version: 8, opset_import: ["": 13, "com.acme": 1]> g (float[2] x) => (y) { a = com.acme.Any(x) y = Tanh(a) }'
    assert why(text, wide, anything).settled == (("main", "y"),)
    assert why(text, wide).settled == ()


def test_bodies_and_functions_are_places() -> None:
    text = """g (bool c, float[2] x) => (y) {
      y = If(c) <then_branch = t () => (float[2] a) { a = Abs(x) }, else_branch = e () => (float[2] b) { b = Relu(x) }>
    }"""
    found = why(text, DROP_ABS)
    assert [(answer.place, answer.node) for answer in found.answers] == [("If.then_branch", "a")]


def test_a_rule_on_the_interface() -> None:
    rule = """/// Batch of any size.
rule NEAR009 batch <kind: interface>
match graph { input tensor[1, _] x }
rewrite { x.shape[0] = "N" }"""
    assert why("g (float[1,2] x) => (y) { y = Abs(x) }", rule).answers[0].fires
    question = why("g (float[3,2] x) => (y) { y = Abs(x) }", rule).answers[0].question
    assert question is not None
    assert (question.kind, question.asked, question.found, question.line) == (
        "interface",
        "`input tensor[1, _] x`",
        "'x' float[3,2]",
        3,
    )


def test_the_deepest_of_several_ways() -> None:
    """Both orders of an Add are tried; the one that finds its Relu comes farther."""
    rule = """/// Relu and a constant.
rule NEAR010 deepest <kind: lossy>
match { y = Add(Relu(x), const b) }
rewrite { y = x }"""
    found = why("g (float[2] x, float[2] b) => (y) { r = Relu(x) y = Add(b, r) }", rule).answers[0].question
    assert found is not None and (found.kind, found.found) == ("constant", "'b', an input of the graph")


def test_an_operand_that_is_nowhere_among_runs() -> None:
    found = why(
        "g (float[2] a, float[2] b) => (float[4] y) { y = Concat<axis=0>(a, b) }",
        "rule T1 t <kind: exact> match { y = Concat(*before, Relu(x), *after) } rewrite { y = Concat<axis=0>(*before, x, *after) }",
    )
    question = found.answers[0].question
    assert question is not None
    assert (question.kind, question.asked, question.found) == ("operand", "`Relu(x)` among the operands", "'a', 'b'")
