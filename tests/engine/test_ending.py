"""Every run ends, says why, and ends soon: the shapes of rules that make rewriting engines loop, explode or break a graph."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from rewriter.core.engine import limits
from rewriter.core.engine.limits import Limits
from tests.engine.helpers import Outcome, rewrite_model, rewrite_text

DROP_IDENTITY = "rule X1 drop <kind: exact> match { y = Identity(x) } rewrite { y = x }"
GROWING = "rule X1 grow <kind: exact> match { y = Relu(x) } rewrite { a = Neg(x)  b = Neg(a)  y = Relu(b) }"
TO_SIGMOID = "rule X1 there <kind: exact> match { y = Tanh(x) } rewrite { y = Sigmoid(x) }"
TO_TANH = "rule X2 back <kind: exact> match { y = Sigmoid(x) } rewrite { y = Tanh(x) }"


def soon(action: Callable[[], Outcome], seconds: float = 1.0) -> Outcome:
    started = time.process_time()
    outcome = action()
    assert time.process_time() - started < seconds
    return outcome


def float_model(
    nodes: list[onnx.NodeProto], outputs: list[str], initializers: list[onnx.TensorProto] | None = None
) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, results, initializer=initializers or [])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_a_growing_rule_stops_at_its_generation() -> None:
    outcome = soon(lambda: rewrite_text("g (float[2] x) => (float[2] y) { y = Relu(x) }", GROWING))
    assert [stop.kind for stop in outcome.log.stops] == ["Generation"]
    assert outcome.log.stops[0].rules == ("X1",)
    assert len(outcome.fired) == 32
    onnx.checker.check_model(outcome.proto)


@pytest.mark.parametrize("bounds, most", [(Limits(growth=300), 302), (Limits(growth=10), 2 * 8 * 12)])
def test_a_rule_that_doubles_what_it_makes_stops_and_is_named(bounds: Limits, most: int) -> None:
    """Each Add becomes three, each of which becomes three: 32 generations would be more nodes than anybody has room for."""
    rule = "rule X1 triple <kind: lossy> match { y = Add(a, b) } rewrite { y = Add(Add(a, b), Add(b, a)) }"
    chain = " ".join(f"h{i} = Add(h{i - 1}, x)" for i in range(1, 12))
    text = f"g (float[2] x) => (float[2] h11) {{ h0 = Add(x, x) {chain} }}"
    outcome = soon(lambda: rewrite_text(text, rule, limits=bounds))
    growth = next(stop for stop in outcome.log.stops if stop.kind == "Growth")
    assert growth.rules == ("X1",)
    assert "X1 was stopped after adding" in growth.message
    assert len(outcome.ops) - 12 <= most + 24
    onnx.checker.check_model(outcome.proto)


def test_a_rule_may_add_as_many_nodes_as_there_are_places() -> None:
    rule = 'rule X1 pair <kind: lossy> match { y = Neg(x) } where producer(x) != "Abs" rewrite { y = Neg(Abs(x)) }'
    chain = " ".join(f"h{i} = Neg(h{i - 1})" for i in range(1, 40))
    text = f"g (float[2] x) => (float[2] h39) {{ h0 = Neg(x) {chain} }}"
    outcome = rewrite_text(text, rule, limits=Limits(growth=10))
    assert not outcome.log.stops
    assert outcome.ops.count("Abs") == 40


def test_rules_that_undo_each_other_are_named() -> None:
    outcome = soon(lambda: rewrite_text("g (float[2] x) => (float[2] y) { y = Tanh(x) }", TO_SIGMOID, TO_TANH))
    assert [stop.kind for stop in outcome.log.stops] == ["Cycle"]
    assert set(outcome.log.stops[0].rules) == {"X1", "X2"}
    assert "X1" in outcome.log.stops[0].message
    onnx.checker.check_model(outcome.proto)


def test_a_rule_that_undoes_itself_is_named() -> None:
    swap = "rule X1 swap <kind: exact> match { y = Add(a, b) } rewrite { y = Add(b, a) }"
    outcome = soon(lambda: rewrite_text("g (float[2] x, float[2] z) => (float[2] y) { y = Add(x, z) }", swap))
    assert [stop.message for stop in outcome.log.stops] == ["X1 undoes itself; see `rewriter explain E407`"]


def test_edits_that_undo_each_other_are_named() -> None:
    flip = "rule X1 flip <kind: exact> match { [n] y = Softmax<axis=0>(x) } rewrite { n.axis = 1 }"
    flop = "rule X2 flop <kind: exact> match { [n] y = Softmax<axis=1>(x) } rewrite { n.axis = 0 }"
    outcome = soon(lambda: rewrite_text("g (float[2,2] x) => (float[2,2] y) { y = Softmax<axis=0>(x) }", flip, flop))
    assert outcome.log.stops[0].kind == "Cycle"
    assert set(outcome.log.stops[0].rules) == {"X1", "X2"}


def test_a_rule_that_makes_what_it_matches_changes_nothing() -> None:
    same = "rule X1 same <kind: exact> match { y = Relu(x) } rewrite { y = Relu(x) }"
    outcome = soon(lambda: rewrite_text("g (float[2] x) => (float[2] y) { y = Relu(x) }", same))
    assert outcome.fired == []
    assert outcome.proto == outcome.before


def test_a_rule_whose_new_nodes_nobody_reads_changes_nothing() -> None:
    loose = "rule X1 loose <kind: exact> match { y = Mul(Neg(x), x) } rewrite { z = Neg(x) }"
    outcome = soon(lambda: rewrite_text("g (float[2] x) => (float[2] y) { n = Neg(x)  y = Mul(n, x) }", loose))
    assert outcome.fired == [] and outcome.proto == outcome.before
    assert [blocked.reason for blocked in outcome.log.blocked] == ["it would change nothing"]


def test_a_self_overlapping_pattern_takes_each_node_once() -> None:
    pair = "rule X1 pair <kind: exact> match { h = Neg(x)  y = Neg(h) } rewrite { y = x }"
    outcome = soon(
        lambda: rewrite_text(
            "g (float[2] x) => (float[2] y) { a = Neg(x) b = Neg(a) c = Neg(b) d = Neg(c) e = Neg(d) y = Relu(e) }", pair
        )
    )
    assert outcome.fired == ["X1", "X1"]
    assert outcome.ops == ["Neg", "Relu"]


def test_a_pattern_with_three_ends_on_ten_thousand_nodes() -> None:
    nodes = []
    for i in range(2500):
        nodes.append(helper.make_node("Neg", ["x"], [f"h{i}"]))
        nodes += [helper.make_node(op, [f"h{i}"], [f"{op}{i}"]) for op in ("Relu", "Abs", "Exp")]
    model = float_model(nodes, [n.output[0] for n in nodes if n.op_type != "Neg"])
    three = (
        "rule X1 three <kind: exact> match { a = Relu(h)  b = Abs(h)  c = Exp(h) } where is_output(c) rewrite { b = Sqrt(h) }"
    )
    outcome = soon(lambda: rewrite_model(model, three), 8.0)
    assert len(outcome.fired) == 2500
    assert outcome.ops.count("Sqrt") == 2500


def test_a_pattern_with_three_ends_of_one_tensor_with_thousands_of_users() -> None:
    nodes = [helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"]) for i in range(1000)]
    weights = [onnx.numpy_helper.from_array(np.ones((3, 1), np.float32), f"w{i}") for i in range(1000)]
    never = (
        "rule X1 three <kind: exact> match { a = MatMul(x, const u)  b = MatMul(x, const v)  c = MatMul(x, const w) }"
        " where rank(u) == 2 and rank(v) == 2 and rank(w) == 2 rewrite { c = Relu(x) }"
    )
    outcome = soon(lambda: rewrite_model(float_model(nodes, [n.output[0] for n in nodes], weights), never), 8.0)
    assert len(outcome.fired) > 300


def test_twelve_nested_commutative_operators() -> None:
    text, pattern = "x", "{1.0}"
    body = ""
    for i in range(12):
        body += f" a{i} = Add({text}, c)"
        text = f"a{i}"
        pattern = f"Add({pattern}, x{i})"
    rule = f"rule X1 deep <kind: exact> match {{ y = {pattern} }} where rank(x0) == 9 rewrite {{ y = Relu(x11) }}"
    model = f"g (float[2] x) => (float[2] a11) <float c = {{2.0}}> {{{body} }}"
    assert soon(lambda: rewrite_text(model, rule)).fired == []


def test_a_literal_does_not_match_an_initializer_that_a_caller_may_override() -> None:
    rule = "rule X1 one <kind: exact> match { y = Mul(x, {1.0}) } rewrite { y = x }"
    two = "g (float[2] x, float c) => (float[2] y) <float c = {1.0}, float d = {3.0}> { h = Mul(x, c) y = Add(h, d) }"
    assert rewrite_text(two, rule).fired == []
    all_listed = "g (float[2] x, float c) => (float[2] y) <float c = {1.0}> { h = Mul(x, c) y = Neg(h) }"
    assert rewrite_text(all_listed, rule).fired == ["X1"]


def test_new_names_are_free_in_every_scope() -> None:
    rule = "rule X1 add <kind: exact> match { y = Relu(x) } rewrite { value = Add(x, {2.0})  y = Sqrt(value) }"
    text = "g (float[2] x) => (float[2] y) <float y_value = {5.0}, float y_add = {6.0}> { y = Relu(x) }"
    outcome = rewrite_text(text, rule)
    names = [t.name for t in outcome.proto.graph.initializer] + [n.output[0] for n in outcome.proto.graph.node]
    assert len(names) == len(set(names))
    assert {"y_value", "y_add"} <= set(names)
    onnx.checker.check_model(outcome.proto, full_check=True)


def test_a_fusion_that_would_close_a_cycle_is_no_match() -> None:
    fuse = (
        "rule X1 fuse <kind: exact> match { a = MatMul(x, const u)  b = MatMul(x, const v) }"
        " rewrite { w = Concat<axis=1>(u, v)  h = MatMul(x, w)  a, b = Split<axis=1>(h) }"
    )
    apart = "g (float[2,2] x) => (float[2,2] a, float[2,2] b) <float[2,2] u = {1,2,3,4}, float[2,2] v = {5,6,7,8}> { a = MatMul(x, u) b = MatMul(x, v) }"
    assert len(rewrite_text(apart, fuse).fired) >= 1
    cross = "rule X1 cross <kind: exact> match { a = Relu(x)  b = Tanh(x) } rewrite { h = Add(a, b)  a = Neg(h) }"
    chained = "g (float[2] x) => (float[2] z) { a = Relu(x) s = Add(a, x) b = Tanh(x) z = Add(b, s) }"
    outcome = rewrite_text(chained, cross)
    onnx.checker.check_model(outcome.proto, full_check=True)
    close = "rule X1 close <kind: exact> match { h = Relu(x)  y = Tanh(h) } rewrite { h = Neg(y) }"
    blocked = rewrite_text("g (float[2] x) => (float[2] y) { h = Relu(x) y = Tanh(h) }", close)
    assert blocked.fired == []
    assert "cycle" in blocked.log.blocked[0].reason
    assert blocked.proto == blocked.before


def test_a_long_chain_collapses_node_by_node() -> None:
    nodes = [helper.make_node("Identity", ["x" if i == 0 else f"t{i - 1}"], [f"t{i}"]) for i in range(2000)]
    nodes.append(helper.make_node("Relu", ["t1999"], ["y"]))
    outcome = soon(lambda: rewrite_model(float_model(nodes, ["y"]), DROP_IDENTITY), 8.0)
    assert outcome.ops == ["Relu"]
    assert outcome.log.stops == []


def test_firings_that_enable_each_other_run_along_a_chain_of_any_length() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["t0"])]
    nodes += [helper.make_node("Tanh", [f"t{i}"], [f"t{i + 1}"]) for i in range(500)]
    spread = 'rule X1 spread <kind: exact> match { h = Relu(x)  [n] y = Tanh(h) } rewrite { n.op = "Relu" }'
    outcome = soon(lambda: rewrite_model(float_model(nodes, ["t500"]), spread), 4.0)
    assert set(outcome.ops) == {"Relu"}
    assert outcome.log.stops == []


def test_a_circle_after_many_firings_that_are_none_is_found_at_once() -> None:
    """States are looked at only once something is suspicious; those before it are made up for."""
    nodes = [helper.make_node("Identity", ["x" if not i else f"i{i - 1}"], [f"i{i}"]) for i in range(50)]
    nodes += [helper.make_node("Tanh", ["i49"], ["y"])]
    outcome = rewrite_model(float_model(nodes, ["y"]), DROP_IDENTITY.replace("X1", "X3"), TO_SIGMOID, TO_TANH)
    assert [stop.kind for stop in outcome.log.stops] == ["Cycle"]
    assert set(outcome.log.stops[0].rules) == {"X1", "X2"} and len(outcome.fired) == 52


def test_a_stop_for_want_of_time_names_what_took_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(limits.time, "process_time", lambda: clock[0])
    for fired, wanted in ((0, "before any rule fired"), (2, "after 2 rewrites")):
        clock[0] = 0.0
        watch = limits.Watch(limits.Limits(seconds=2))
        for name, now in (("quick (Relu)", 0.1), ("slow (Conv)", 0.2), ("next (Relu)", 1.6)):
            clock[0] = now
            assert watch.out_of_time(lambda name=name: name) is None
        for _ in range(fired):
            watch.record("TST001", 1, 0)
        clock[0] = 2.1
        stop = watch.out_of_time(lambda: "last (Relu)")
        assert stop is not None
        assert stop.message == (
            f"the limit of 2 s was reached {wanted}; most time at one node, 1.4 s, went into the rules at slow (Conv)"
        )
        assert stop.rules == (("TST001",) if fired else ())
    clock[0] = 0.0
    late = limits.Watch(limits.Limits(seconds=2))
    clock[0] = 3.0
    stop = late.out_of_time(lambda: "first (Relu)")
    assert stop is not None
    assert stop.message.endswith("before any rule fired: preparing the model and the rules took all of the time")
