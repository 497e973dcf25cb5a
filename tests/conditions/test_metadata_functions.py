"""Conditions on metadata_props, by which exporters mark what they write."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_graphsurgeon as gs
import pytest

from rewriter.engine.run import run
from rewriter.graph.model import Model
from rewriter.language.load_rules import load_rules
from rewriter.language.rules import RuleSet


@pytest.fixture
def rules(tmp_path: Path) -> RuleSet:
    (tmp_path / "my.rules").write_text(
        "rule TST001 marked <kind: exact>\nmatch { [n] y = Relu(x) }\n"
        'where contains(metadata(n, "pkg.torch.onnx.fx_node"), "relu") or model_metadata("author") == "me"\n'
        "rewrite { y = Abs(x) }\n"
    )
    return load_rules([tmp_path]).select(["TST001"])


def model() -> onnx.ModelProto:
    return onnx.parser.parse_model('<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => (float[2] y) { y = Relu(x) }')


def test_of_a_node(rules: RuleSet) -> None:
    assert not run(Model.from_proto(model()).graph, rules).changed
    marked = model()
    marked.graph.node[0].metadata_props.add(key="pkg.torch.onnx.fx_node", value="%relu : call_function")
    assert run(Model.from_proto(marked).graph, rules).changed


def test_of_the_model(rules: RuleSet) -> None:
    marked = model()
    marked.metadata_props.add(key="author", value="me")
    assert run(Model.from_proto(marked).graph, rules).changed


def test_a_plain_graph_has_none(rules: RuleSet) -> None:
    assert not run(gs.import_onnx(model()), rules).changed
