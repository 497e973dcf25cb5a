"""Nodes that compute the same twice: which are the same, and which only look so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

from rewriter.core.engine.run import run
from rewriter.core.graph.model import Model
from rewriter.rule_tools.load_rules import load_rules

RULES = load_rules([Path(__file__).parents[3] / "rules" / "hygiene" / "HYG010_tidier-model.rules"]).select(["OPT049"])
HEAD = '<ir_version: 8, opset_import: ["": 13]>'


def merged(text: str) -> tuple[onnx.ModelProto, int]:
    """The model with its equal nodes merged, and how many nodes that took away."""
    before = onnx.parser.parse_model(text if text.startswith("<") else f"{HEAD} {text}")
    model = Model.from_proto(before)
    run(model.graph, RULES)
    after = model.to_proto()
    onnx.checker.check_model(after, full_check=True)
    return after, _nodes(before.graph) - _nodes(after.graph)


def _nodes(graph: onnx.GraphProto) -> int:
    return sum(1 + sum(_nodes(attribute.g) for attribute in node.attribute if attribute.HasField("g")) for node in graph.node)


@pytest.mark.parametrize(
    ("text", "fewer"),
    [
        ("g (float[2] x) => (float[2] y) { a = Relu(x) b = Relu(x) c = Neg(a) d = Neg(b) y = Add(c, d) }", 2),
        (
            "g (float[2] x) => (float[2] y) <float[1] p = {1}, float[1] q = {1}> { a = Add(x, p) b = Add(x, q) y = Mul(a, b) }",
            1,
        ),
        ("g (float[2] x) => (float[2] y) <float[1] p = {1}, float q = {1}> { a = Add(x, p) b = Add(x, q) y = Mul(a, b) }", 0),
        (
            "g (float[2] x) => (float[2] y) <float[1] p = {0}, float[1] q = {-0.0}> { a = Div(x, p) b = Div(x, q) y = Mul(a, b) }",
            0,
        ),
        ("g (float[2] x, float[2] z) => (float[2] y) { a = Sub(x, z) b = Sub(z, x) y = Mul(a, b) }", 0),
        ("g (float[4] x) => (float[2] y) { a, b = Split(x) c, d = Split(x) e = Add(a, d) y = Sub(e, c) }", 1),
        ('g (float[2] x) => (float[2] y) { a = Clip(x) b = Clip(x, "") c = Clip(x, "", "") d = Add(a, b) y = Add(c, d) }', 2),
        ('g (float[2] x, float z) => (float[2] y) { a = Clip(x, z, "") b = Clip(x, "", z) y = Add(a, b) }', 0),
        ("g (float[2] x) => (float[2] y, float[2] b) { a = Relu(x) b = Relu(x) y = Neg(a) }", 0),
        ("g (float[2] x) => (float[2] a, float[2] y) { a = Relu(x) b = Relu(x) y = Neg(b) }", 1),
        ("g (float[2] x) => (float[2] y) { a = Dropout(x) b = Dropout(x) y = Sub(a, b) }", 0),
        (
            """g (float[2] x, bool c) => (float[2] y) { a = Relu(x) b = Relu(x) d = If (c) <
               then_branch = t () => (float[2] r) { r = Add(b, a) }, else_branch = e () => (float[2] s) { s = Neg(b) }>
               y = Add(a, d) }""",
            1,
        ),
        (
            """<ir_version: 8, opset_import: ["": 13, "own": 1]>
               g (float[2] x) => (float[2] y) { a = own.f(x) b = own.f(x) y = Sub(a, b) }
               <domain: "own", opset_import: ["": 13]> f (u) => (v) { v = RandomNormalLike(u) }""",
            0,
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else str(value),
)
def test_what_is_merged(text: str, fewer: int) -> None:
    assert merged(text)[1] == fewer


def test_the_numbers_stay() -> None:
    text = "g (float[4] x) => (float[2] y) { a, b = Split(x) c, d = Split(x) e = Add(a, d) f = Sub(e, c) y = Mul(f, b) }"
    x = np.array([1, 2, 3, 5], np.float32)
    before = ReferenceEvaluator(onnx.parser.parse_model(f"{HEAD} {text}")).run(None, {"x": x})
    after = ReferenceEvaluator(merged(text)[0]).run(None, {"x": x})
    np.testing.assert_array_equal(before[0], after[0])


def test_a_model_of_many_equal_nodes_takes_one_pass() -> None:
    lines = "".join(f"s{i} = Shape(x) n{i} = Gather(s{i}, z) " for i in range(200))
    sums = "".join(f"t{i + 1} = Add(t{i}, n{i}) " for i in range(200))
    text = f"g (float[N,2] x) => (int64[1] y) <int64[1] z = {{0}}, int64[1] t0 = {{0}}> {{ {lines} {sums} y = Neg(t200) }}"
    assert merged(text)[1] == 398
