"""Attributes of operators that no schema describes: what a value of a rule is written as."""

from __future__ import annotations

import onnx
import pytest

from rewriter.core.engine.run import run
from rewriter.core.graph.model import Model
from rewriter.rule_tools.load_rules import load_rules
from tests.engine.helpers import rewrite_text

HEAD = '<ir_version: 8, opset_import: ["": 13, "com.acme": 1]>'


@pytest.mark.parametrize(
    "value, wanted",
    [
        ("s", 2.5),
        ("s * 2", 5.0),
        ("i", 3),
        ("v", [1, 2]),
        ("v * 2", [2, 4]),
        ("[float(s)]", [2.5]),
        ("rank(x)", 1),
        ("[rank(x)]", [1]),
        ("true", 1),
        ('"text"', b"text"),
    ],
)
def test_a_number_is_no_list_of_one(value: str, wanted: object) -> None:
    outcome = rewrite_text(
        f"{HEAD} g (float[2] x) => (float[2] y) <float s = {{2.5}}, int64 i = {{3}}, int64[2] v = {{1, 2}}> "
        "{ a = Mul(x, s) b = Tile(a, v) y = Gather(b, i) }",
        "rule X1 own <kind: lossy> match { y = Gather(Tile(Mul(x, const s), const v), const i) } where all(v > 0) and all(i > 0) "
        f"and all(s > 0) rewrite {{ y = com.acme.Foo<value={value}>(x) }}",
    )
    assert outcome.fired == ["X1"], outcome.log.blocked
    assert onnx.helper.get_attribute_value(outcome.proto.graph.node[0].attribute[0]) == wanted


def test_a_constant_of_more_dimensions_is_a_tensor() -> None:
    outcome = rewrite_text(
        f"{HEAD} g (float[1,2] x) => (float[1,2] y) <float[2,2] w = {{1, 2, 3, 4}}> {{ y = MatMul(x, w) }}",
        "rule X1 own <kind: lossy> match { y = MatMul(x, const w) } rewrite { y = com.acme.Foo<value=w * 2>(x) }",
    )
    value = onnx.helper.get_attribute_value(outcome.proto.graph.node[0].attribute[0])
    assert onnx.numpy_helper.to_array(value).tolist() == [[2, 4], [6, 8]]


def test_a_captured_constant_is_a_number_where_the_operator_takes_one() -> None:
    outcome = rewrite_text(
        "g (float[2] x) => (float[2] y) <float s = {0.5}> { y = PRelu(x, s) }",
        "rule X1 leaky <kind: lossy> match { y = PRelu(x, const s) } where size(s) == 1 rewrite { y = LeakyRelu<alpha=float(s)>(x) }",
    )
    assert onnx.helper.get_attribute_value(outcome.proto.graph.node[0].attribute[0]) == 0.5


def test_an_attribute_that_holds_neither_numbers_nor_texts_is_no_array() -> None:
    before = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 11]> g (float[2] x) => (float[4] y) { y = Pad(x) }')
    before.graph.node[0].attribute.add(name="pads", type=onnx.AttributeProto.TYPE_PROTOS)
    loaded = Model.from_proto(before)
    log = run(loaded.graph, load_rules().select(["OP006"], []))
    assert not log.counts and [blocked.reason for blocked in log.blocked] == ["neither numbers nor texts"]
