"""Conditions on metadata_props, by which exporters mark what they write."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_graphsurgeon as gs
import pytest

from rewriter.core.engine.run import run
from rewriter.core.graph.model import Model
from rewriter.core.language.rules import RuleSet
from rewriter.rule_tools.load_rules import load_rules


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


WRITES = """
rule TST002 says <kind: exact>
match { [n] y = Relu(x) }
where metadata(n, "seen") != "yes" or n.doc_string != "an activation"
rewrite { n.doc_string = "an activation"   n.metadata_props["seen"] = "yes"   n.metadata_props["old"] = "" }

rule TST003 says-of-the-model <kind: exact>
match graph { }
where model_metadata("seen") != "yes"
rewrite { model.metadata_props["seen"] = "yes"   model.metadata_props["old"] = ""   model.doc_string = "a model" }
"""


def test_what_a_node_and_the_model_say_is_written(tmp_path: Path) -> None:
    (tmp_path / "my.rules").write_text(WRITES)
    rules = load_rules([tmp_path]).select(["TST002", "TST003"])
    before = model()
    for part in (before, before.graph.node[0]):
        part.metadata_props.add(key="old", value="1")
        part.metadata_props.add(key="kept", value="2")
    loaded = Model.from_proto(before)
    log = run(loaded.graph, rules)
    assert [firing.rule for firing in log.firings] == ["TST003", "TST002"]
    after = loaded.to_proto()
    for part, said in ((after, "a model"), (after.graph.node[0], "an activation")):
        assert part.doc_string == said
        assert [(entry.key, entry.value) for entry in part.metadata_props][:2] == [("kept", "2"), ("seen", "yes")]
    assert not run(Model.from_proto(after).graph, rules).changed
    again = Model.from_proto(before)
    run(again.graph, rules, keep=False)
    assert again.to_proto() == before


def test_the_record_of_runs_is_not_written_by_rules(tmp_path: Path) -> None:
    text = 'rule TST004 record <kind: exact> match graph { } rewrite { model.metadata_props["rewriter.history"] = "" }'
    (tmp_path / "my.rules").write_text(text)
    log = run(Model.from_proto(model()).graph, load_rules([tmp_path]).select(["TST004"]))
    assert [blocked.reason for blocked in log.blocked] == ["metadata_props['rewriter.history'] is written by rewriter itself"]
