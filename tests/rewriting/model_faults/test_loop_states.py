"""States of Loops that no iteration changes: where they are read, and that the outputs stay whatever the number of iterations."""

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

RULES = load_rules([Path(__file__).parents[3] / "rules" / "optimize" / "OPT096_state-that-never-changes.rules"]).select(
    ["OPT096"]
)
HEAD = '<ir_version: 8, opset_import: ["": 13]>'
PLAIN = """g (float[2] x, int64 times, bool go, float[2] w) => (float[2] y, float[2] same) {
    y, same = Loop (times, go, x, w) <body = step (int64 i, bool c, float[2] h, float[2] s) => (bool d, float[2] k, float[2] s) {
        d = Identity(c)  k = Add(h, s) }> }"""
BEHIND = """g (float[2] x, int64 times, bool go, float[2] w) => (float[2] z) {
    y, same = Loop (times, go, x, w) <body = step (int64 i, bool c, float[2] h, float[2] s) => (bool d, float[2] k, float[2] s) {
        d = Identity(c)  k = Neg(h) }>
    z = Sub(y, same) }"""
IN_A_BRANCH = """g (float[2] x, int64 times, bool go, float[2] w) => (float[2] y) {
    y, same = Loop (times, go, x, w) <body = step (int64 i, bool c, float[2] h, float[2] s) => (bool d, float[2] k, float[2] s) {
        d = Identity(c)
        k = If (c) <then_branch = t () => (float[2] r) { r = Add(h, s) }, else_branch = e () => (float[2] q) { q = Neg(s) }> }> }"""
IN_A_LOOP = """g (float[2] x, int64 times, bool go, float[2] w) => (float[2] y) {
    y, same = Loop (times, go, x, w) <body = step (int64 i, bool c, float[2] h, float[2] s) => (bool d, float[2] k, float[2] s) {
        d = Identity(c)
        k, t = Loop (times, c, h, s) <body = inner (int64 j, bool e, float[2] m, float[2] o) => (bool f, float[2] n, float[2] o) {
            f = Identity(e)  n = Add(m, o) }> }> }"""


@pytest.mark.parametrize("text", [PLAIN, BEHIND, IN_A_BRANCH, IN_A_LOOP])
@pytest.mark.parametrize("times", [0, 1, 3])
def test_the_outputs_stay(text: str, times: int) -> None:
    before = onnx.parser.parse_model(f"{HEAD} {text}")
    model = Model.from_proto(before)
    log = run(model.graph, RULES)
    after = model.to_proto()
    onnx.checker.check_model(after, full_check=True)
    assert log.firings
    feed = {"x": np.float32([1, 2]), "times": np.int64(times), "go": np.bool_(True), "w": np.float32([3, 5])}
    wanted, outputs = ReferenceEvaluator(before).run(None, feed), ReferenceEvaluator(after).run(None, feed)
    for one, other in zip(wanted, outputs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_no_body_reads_the_state_any_more() -> None:
    model = Model.from_proto(onnx.parser.parse_model(f"{HEAD} {IN_A_LOOP}"))
    run(model.graph, RULES)
    outer = model.to_proto().graph.node[0].attribute[0].g
    inner = outer.node[1].attribute[0].g
    assert outer.node[1].input[3] == "w"
    assert inner.node[1].input[1] == "w"
