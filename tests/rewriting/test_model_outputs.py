"""Which tensors a model gives out: edits of the list, and what the framework's own file says."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from rewriter.core.language.parse import parse
from rewriter.rule_tools.checks.check import check
from rewriter.trust.source.find import parse_source
from tests.engine.helpers import rewrite_text, rule_set

RULE = (
    "rule OUT001 outputs <kind: repair, evidence: refused, needs: source> match graph { } where source_outputs() != model.outputs "
    "rewrite { model.outputs = source_outputs() }"
)
X = np.array([-1.0, 2.0], np.float32)


def symbol(*nodes: tuple[str, str, list[list[int]]], heads: list[list[int]], version: int = 10501) -> Any:
    listed = [{"op": op, "name": name, "inputs": inputs} for op, name, inputs in nodes]
    text = json.dumps({"nodes": listed, "heads": heads, "attrs": {"mxnet_version": ["int", version]}})
    return parse_source(text, "test-symbol.json")


DATA = ("null", "x", [])
RELU = ("relu", "a", [[0, 0, 0]])
TANH = ("tanh", "b", [[1, 0, 0]])
CHAIN = "{ a = Relu(x) b = Tanh(a) }"


def outputs(proto: onnx.ModelProto) -> list[str]:
    return [output.name for output in proto.graph.output]


def test_a_lost_output_comes_back_with_its_type() -> None:
    source = symbol(DATA, RELU, TANH, heads=[[1, 0, 0], [2, 0, 0]])
    outcome = rewrite_text(f"g (float[2] x) => (float[2] b) {CHAIN}", RULE, source=source)
    assert outputs(outcome.proto) == ["a", "b"]
    onnx.checker.check_model(outcome.proto, full_check=True)
    assert outcome.proto.graph.output[0].type == outcome.proto.graph.output[1].type


def test_an_inner_tensor_is_no_output_and_its_dead_node_goes() -> None:
    source = symbol(DATA, RELU, ("tanh", "b", [[0, 0, 0]]), heads=[[2, 0, 0]])
    outcome = rewrite_text("g (float[2] x) => (float[2] a, float[2] b) { a = Relu(x) b = Tanh(x) }", RULE, source=source)
    assert outputs(outcome.proto) == ["b"]
    assert outcome.ops == ["Tanh"]


def test_outputs_come_in_the_order_of_the_heads() -> None:
    source = symbol(DATA, RELU, TANH, heads=[[2, 0, 0], [1, 0, 0]])
    outcome = rewrite_text(f"g (float[2] x) => (float[2] a, float[2] b) {CHAIN}", RULE, source=source)
    assert outputs(outcome.proto) == ["b", "a"]


def test_the_second_of_two_nodes_takes_over_the_name() -> None:
    source = symbol(DATA, RELU, ("tanh", "a", [[1, 0, 0]]), heads=[[2, 0, 0]], version=10901)
    outcome = rewrite_text("g (float[2] x) => (float[2] a) { a = Relu(x) idx_2_a = Tanh(a) c = Neg(a) }", RULE, source=source)
    assert outputs(outcome.proto) == ["a"]
    assert np.allclose(ReferenceEvaluator(outcome.proto).run(None, {"x": X})[0], np.tanh(np.maximum(X, 0)))


def test_parts_of_a_node_with_several_outputs_are_found_by_their_number() -> None:
    source = symbol(DATA, ("SliceChannel", "s", [[0, 0, 0]]), heads=[[1, 1, 0], [1, 0, 0]], version=10901)
    outcome = rewrite_text(
        '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[1] s0, float[1] s1) { s0, s1 = Split<axis=0>(x) }',
        RULE,
        source=source,
    )
    assert outputs(outcome.proto) == ["s1", "s0"]


@pytest.mark.parametrize("heads", [[[0, 0, 0]], [[1, 3, 0]], []])
def test_what_is_not_found_leaves_the_model_alone(heads: list[list[int]]) -> None:
    source = symbol(DATA, RELU, TANH, heads=heads)
    outcome = rewrite_text(f"g (float[2] x) => (float[2] b) {CHAIN}", RULE, source=source)
    assert not outcome.fired
    assert outcome.proto == outcome.before


@pytest.mark.parametrize("wanted", ["[]", '["nothing"]', '["a", "a"]', "[1]"])
def test_a_wrong_list_is_refused_and_changes_nothing(wanted: str) -> None:
    rule = f"rule OUT002 outputs <kind: interface> match graph {{ }} rewrite {{ model.outputs = {wanted} }}"
    outcome = rewrite_text(f"g (float[2] x) => (float[2] b) {CHAIN}", rule)
    assert not outcome.fired
    assert outcome.proto == outcome.before


def test_only_rules_that_ask_the_framework_or_change_interfaces_choose_outputs() -> None:
    text = 'rule OUT003 outputs <kind: exact> match graph { } rewrite { model.outputs = ["a"] }'
    file, _ = parse(text, "<test>")
    assert "E212" in {diagnostic.code for diagnostic in check(file)}
    assert rule_set(text.replace("exact", "interface"))
