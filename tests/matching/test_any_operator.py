"""A node of a pattern that may be of any operator: `_(x)`."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from rewriter.app.batch.repair import fix
from rewriter.rule_tools.load_rules import load_rules
from tests.engine.helpers import rewrite_text

CHAIN = "g (float[2] x, float[2] z) => (float[2] y) { h = Relu(x) i = Identity(h) j = Mul(z, i) k = Neg(j) y = Tanh(k) }"


@pytest.mark.parametrize(
    "pattern, where, wanted",
    [
        ("[n] y = _(x)", "true", ["Relu", "Identity", "Neg", "Tanh"]),
        ("[n] y = _(x, ...)", "true", ["Relu", "Identity", "Mul", "Neg", "Tanh"]),
        ("[n] y = _(_, _)", "true", ["Mul"]),
        ("[n] y = _(Identity(_), _)", "true", ["Mul"]),
        ("[n] y = _(x, Identity(_))", "true", ["Mul"]),
        ("[n] y = ordered _(x, Identity(_))", "true", ["Mul"]),
        ("[n] y = ordered _(Identity(_), x)", "true", []),
        ("[n] y = Tanh(_(x))", "true", ["Tanh"]),
        ("[n] y = Tanh(_(_(_, _)))", "true", ["Tanh"]),
        ("y = Tanh(x) [n] h = _(x)", "true", []),
        ("y = Neg(j) [n] j = _(_, z)", "is_input(z)", ["Mul"]),
        ("[n] y = _(x, ...)", 'op(n) in ["Neg", "Mul"] and domain(n) == ""', ["Mul", "Neg"]),
        ("[n] y = _<to=t>(x)", "true", []),
        ("[n] y = _<!to>(x)", "op(n) != producer(x)", ["Relu", "Identity", "Neg", "Tanh"]),
    ],
)
def test_what_stands_there(pattern: str, where: str, wanted: list[str]) -> None:
    rule = f'rule ANY001 any <kind: exact> match {{ {pattern} }} where n.doc_string == "" and {where} rewrite {{ n.doc_string = "x" }}'
    outcome = rewrite_text(CHAIN, rule.replace(", to", ""))
    assert [node.op_type for node in outcome.proto.graph.node if node.doc_string] == wanted


def test_it_is_tried_where_rules_make_something_new() -> None:
    outcome = rewrite_text(
        "g (float[2] x) => (float[2] y) { y = Relu(x) }",
        "rule ANY001 new <kind: lossy> match { y = Relu(x) } rewrite { y = Abs(Neg(x)) }",
        'rule ANY002 any <kind: exact> match { [n] y = _(Neg(x)) } where n.doc_string == "" rewrite { n.doc_string = "x" }',
    )
    assert [(node.op_type, node.doc_string) for node in outcome.proto.graph.node] == [("Neg", ""), ("Abs", "x")]


def test_a_rule_for_one_operator_goes_first() -> None:
    outcome = rewrite_text(
        "g (float[2] x) => (float[2] y) { y = Relu(x) }",
        "rule ANY001 any <kind: lossy, once: model> match { y = _(x) } rewrite { y = Neg(x) }",
        "rule ANY002 one <kind: lossy, once: model> match { y = Relu(x) } rewrite { y = Abs(x) }",
    )
    assert outcome.fired == ["ANY002", "ANY001"]


def test_files_in_which_it_may_stand_are_looked_at(tmp_path: Path) -> None:
    (tmp_path / "any.rules").write_text(
        'rule ANY001 any <kind: exact> match { [n] y = _(Relu(x)) } where op(n) == "Neg" and n.doc_string == "" '
        'rewrite { n.doc_string = "minus" }'
    )
    rules = load_rules([tmp_path]).select(["ANY001"])
    for op, fires in (("Neg", True), ("Abs", False)):
        text = f'<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) {{ h = Relu(x) y = {op}(h) }}'
        onnx.save(onnx.parser.parse_model(text), tmp_path / "model.onnx")
        assert fix(tmp_path / "model.onnx", rules=rules, runtime="no").changed is fires
