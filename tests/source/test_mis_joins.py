"""Questions about a node that has only got the name of a framework node: unknown, with a reason, and not the default."""

from __future__ import annotations

import json

import onnx
import pytest

from rewriter.api import rewrite
from rewriter.core.graph.model import Model
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.source.find import parse_source

MODEL = """
    <ir_version: 3, opset_import: ["": 8]>
    mxnet_converted_model (float[1,2,3,3] data) => (float[1,2,3,3] y)
    <float[2] gamma = {2, 3}, float[2] beta = {0, 0}, float[2] mean = {0, 0}, float[2] var = {1, 1}>
    { [bn] y = BatchNormalization(data, gamma, beta, mean, var) }"""


@pytest.mark.parametrize(
    ("operator", "fires", "reason"),
    [
        ("BatchNorm", 1, ""),
        ("elemwise_mul", 0, "node 'bn' is elemwise_mul in the source file, which is not exported to BatchNormalization"),
        ("a_custom_one", 0, "node 'bn' is a_custom_one in the source file, which is not exported to BatchNormalization"),
    ],
)
def test_the_default_is_for_the_operator_meant(operator: str, fires: int, reason: str) -> None:
    symbol = {"nodes": [{"op": operator, "name": "bn", "inputs": []}], "heads": [[0, 0, 0]]}
    source = parse_source(json.dumps(symbol), "net-symbol.json")
    log = rewrite(Model.from_proto(onnx.parser.parse_model(MODEL)).graph, load_rules().select(["MX002"]), source=source)
    assert len(log.firings) == fires
    assert [reason in str(blocked) for blocked in log.blocked] == [True] * (1 - fires)


def test_a_table_tells_no_operator_and_is_about_the_node_it_names() -> None:
    source = parse_source('{"bn": {"fix_gamma": "True"}}', "table.json")
    log = rewrite(Model.from_proto(onnx.parser.parse_model(MODEL)).graph, load_rules().select(["MX002"]), source=source)
    assert len(log.firings) == 1


MEAN_OF_LAYER_NORM = """
    <ir_version: 8, opset_import: ["": 13], producer_name: "mxnet">
    mxnet_converted_model (float[2,3,4] x) => (float[2,3,4] ln0) {
        ln0_rm0_out = ReduceMean<axes=[1], keepdims=1>(x)
        [ln0] ln0 = Sub(x, ln0_rm0_out)
    }"""


def test_a_node_inside_another_operator_blocks_no_rule() -> None:
    nodes = [{"op": "null", "name": "x", "inputs": []}, {"op": "LayerNorm", "name": "ln0", "inputs": [[0, 0, 0]]}]
    symbol = {"nodes": nodes, "heads": [[1, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}}
    source = parse_source(json.dumps(symbol), "net-symbol.json")
    graph = Model.from_proto(onnx.parser.parse_model(MEAN_OF_LAYER_NORM)).graph
    assert rewrite(graph, load_rules().select(["MX031"]), source=source).blocked == []
