"""A firing has only those rules tried again that can see it: tries of rules per node do not grow with the model."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import rewriter
from rewriter.core.engine.limits import Limits, Watch
from rewriter.core.engine.run import run
from tests.engine.helpers import Outcome, rewrite_model, rewrite_text, with_head

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "growing"))
import random_shapes

TIMES_ONE = "rule X1 ones <kind: exact> match { y = Mul(x, const c) } where all(c == 1) rewrite { y = x }"


def chain(size: int, *operators: tuple[str, ...]) -> onnx.ModelProto:
    """One node behind the other, of these operators in turn; each may have constant operands."""
    nodes, last = [], "x"
    for i in range(size):
        op, *constants = operators[i % len(operators)]
        nodes.append(helper.make_node(op, [last, *constants], [f"t{i}"]))
        last = f"t{i}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in ("x", last)]
    weights = [numpy_helper.from_array(np.full(4, value, np.float32), name) for name, value in (("one", 1), ("two", 2))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], initializer=weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def tries(outcome: Outcome) -> float:
    return outcome.log.tries / len(outcome.before.graph.node)


def test_a_constant_that_loses_one_of_many_readers_is_nothing_new() -> None:
    """Each firing takes a reader from the constant that all nodes read; whether it has but one is asked at each Add."""
    alone = "rule X2 alone <kind: exact> match { y = Add(x, const c) } where uses(c) == 1 rewrite { y = Sub(x, c) }"
    models = [chain(size, ("Mul", "one"), ("Relu",), ("Add", "one"), ("Tanh",)) for size in (80, 800)]
    small, large = (rewrite_model(one, TIMES_ONE, alone) for one in models)
    assert len(large.fired) == 200 and tries(large) == pytest.approx(tries(small), rel=0.1)


def test_the_last_readers_of_a_constant_are_tried_again() -> None:
    alone = "rule X2 alone <kind: exact> match { y = Add(x, const c) } where uses(c) < 2 rewrite { y = Sub(x, c) }"
    text = """g (float[2] x) => (float[2] y) <float[2] one = {1, 1}> {
        a = Add(x, one)  b = Mul(a, one)  c = Mul(b, one)  y = Neg(c)
    }"""
    assert rewrite_text(text, TIMES_ONE, alone).fired == ["X1", "X1", "X2"]


def test_a_tensor_that_gets_readers_is_asked_about_again() -> None:
    share = "rule X1 share <kind: exact> match { a = Relu(x)  b = Tanh(x) } rewrite { b = Tanh(a) }"
    many = "rule X2 many <kind: exact> match { [n] y = Relu(x) } where uses(y) >= 2 rewrite { y = Abs(x) }"
    text = "g (float[2] x) => (float[2] y, float[2] b) { a = Relu(x)  y = Neg(a)  b = Tanh(x) }"
    assert rewrite_text(text, share, many).fired == ["X1", "X2"]


def test_facts_that_come_out_as_they_were_bring_nobody_back() -> None:
    """Every Relu edits the one Softmax, whose type stays; the many that asked for its rank have nothing new to learn."""
    edit = "rule X1 edit <kind: lossy> match { [n] h = Softmax<axis=a>(x)  y = Relu(h) } rewrite { n.axis = 1 - a  y = Neg(h) }"
    never = "rule X2 never <kind: lossy> match { y = Abs(x) } where rank(x) == 9 rewrite { y = Neg(x) }"

    def crowd(size: int) -> onnx.ModelProto:
        reads = " ".join(f"a{i} = Abs(h)" for i in range(size)) + " " + " ".join(f"r{i} = Relu(h)" for i in range(size))
        outputs = ", ".join(f"float[2,2] {letter}{i}" for letter in "ar" for i in range(size))
        return onnx.parser.parse_model(with_head(f"g (float[2,2] x) => ({outputs}) {{ h = Softmax<axis=0>(x) {reads} }}"))

    small, large = (rewrite_model(crowd(size), edit, never) for size in (6, 30))
    assert len(large.fired) == 30 and tries(large) == pytest.approx(tries(small), rel=0.1)


@pytest.mark.parametrize("shape", random_shapes.SHAPES.values(), ids=random_shapes.SHAPES)
def test_optimizing_takes_as_many_tries_for_each_node_of_a_large_model(shape: Callable[[int], onnx.ModelProto]) -> None:
    rules = rewriter.load_rules().select(["OPTIMIZE"])
    found = []
    for size in (200, 800):
        graph = rewriter.Model.from_proto(shape(size)).graph
        count = len(graph.nodes)
        found.append(run(graph, rules, detail=False).tries / count)
    assert found[1] == pytest.approx(found[0], rel=0.1)


def test_a_run_that_its_steps_end_says_so_and_ends_at_the_same_place() -> None:
    model = chain(100, ("Mul", "one"), ("Relu",))
    outcomes = [rewrite_model(model, TIMES_ONE, limits=Limits(tries=20)) for _ in range(2)]
    for outcome in outcomes:
        assert [stop.kind for stop in outcome.log.stops] == ["Budget"]
        assert outcome.log.stops[0].message == "the limit of 20 tries of rules was reached after 20 rewrites"
        assert outcome.log.tries == 20
    assert outcomes[0].proto == outcomes[1].proto


def test_what_a_model_may_take_by_default_grows_with_it() -> None:
    watch, large = Watch(Limits(), 0), Watch(Limits(), 1_000_000)
    for one, firings, most in ((watch, 10_000, 1_000_000), (large, 16_010_000, 1_001_000_000)):
        one.tries = most - 1
        assert one.out_of_tries() is None
        one.tries = most
        stop = one.out_of_tries()
        assert stop is not None and str(most) in stop.message
        assert str(firings) in str(one._most_firings)
