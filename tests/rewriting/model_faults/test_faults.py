"""Faults of a model as a whole: what names and order become, which the tests inside the rules do not look at."""

from __future__ import annotations

import time
from importlib import import_module
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.run import run
from rewriter.core.graph.model import Model
from rewriter.core.language.functions import FAULTS
from rewriter.core.log import Log
from rewriter.repairs import HOMES
from rewriter.rule_tools.load_rules import load_rules
from tests.engine.helpers import rule_set

RULES = load_rules([Path(__file__).parents[3] / "rules" / "hygiene"])
HEAD = '<ir_version: 8, opset_import: ["": 13]>'


def fixed(text: str, *codes: str) -> tuple[onnx.ModelProto, Log]:
    before = onnx.parser.parse_model(text if text.startswith("<") else f"{HEAD} {text}")
    model = Model.from_proto(before)
    log = run(model.graph, RULES.select(list(codes)), Knowledge(overridable=model.overridable))
    return model.to_proto(), log


def accepted(model: onnx.ModelProto) -> bool:
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return True


def names(model: onnx.ModelProto) -> list[str]:
    return [node.name for node in model.graph.node]


def test_every_fault_is_found_and_mended() -> None:
    assert HOMES.keys() == FAULTS.keys()
    for fault, (module, mend) in HOMES.items():
        home = import_module(f"rewriter.repairs.{module}")
        assert callable(getattr(home, fault)) and callable(getattr(home, mend))


def test_the_first_node_keeps_the_name() -> None:
    model, log = fixed(
        "g (float[2] x) => (float[2] y) { [n] a = Relu(x) [n_1] b = Neg(a) [n] c = Abs(b) [n] y = Neg(c) }", "HYG001"
    )
    assert names(model) == ["n", "n_1", "n_2", "n_3"] and accepted(model)
    assert [change.after for change in log.firings[0].changes] == ['node "n_2"', 'node "n_3"']


def test_nodes_are_sorted_stably() -> None:
    text = "g (float[2] x) => (float[2] y) { [d] y = Add(a, b) [c] c = Abs(x) [a] a = Relu(x) [e] e = Abs(c) [b] b = Neg(x) }"
    model, log = fixed(text, "HYG003")
    assert names(model) == ["c", "a", "e", "b", "d"] and accepted(model)
    assert [change.after for change in log.firings[0].changes] == ['order "d behind what it reads"']


def test_a_rule_that_changes_a_node_and_the_order() -> None:
    model, log = fixed("g (float[2] x) => (float[2] y) { [n] y = Abs(a) [n] a = Relu(x) }", "HYG001", "HYG003")
    assert names(model) == ["n", "n_1"] and len(log.firings) == 2 and accepted(model)


@pytest.mark.parametrize(
    "text",
    [
        "g (float[2] x) => (float[2] y) { a = Relu(x) a = Neg(a) y = Abs(a) }",
        "g (float[2] x) => (float[2] y) { x = Relu(x) y = Abs(x) }",
        "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { a = Add(x, w) w = Relu(a) y = Abs(w) }",
        "g (float[2] x) => (float[2] y) { y = Relu(x) y = Neg(y) y = Abs(y) }",
        """g (float[2] x, bool c) => (float[2] y) { a = Relu(x) b = If (c) <
           then_branch = t () => (float[2] a) { a = Abs(a) a = Neg(a) }, else_branch = e () => (float[2] x) { x = Neg(x) }>
           y = Add(a, b) }""",
    ],
)
def test_each_name_is_defined_once(text: str) -> None:
    model, _ = fixed(text, "HYG002")
    assert [port.name for port in (*model.graph.input, *model.graph.output)][-1] == "y" and accepted(model)


def test_a_name_of_an_input_and_of_an_output_stays() -> None:
    _model, log = fixed("g (float[2] x) => (float[2] x) { x = Relu(x) }", "HYG002")
    assert not log.changed and not log.blocked


def test_values_of_repeated_names() -> None:
    model, _ = fixed("g (float[2] x) => (float[2] y) { x = Neg(x) a = Relu(x) a = Neg(a) y = Add(a, x) }", "HYG002")
    given = {"x": [-1.0, 2.0]}
    session = ReferenceEvaluator(model)

    assert session.run(None, {"x": np.array(given["x"], np.float32)})[0].tolist() == [0.0, -2.0]


@pytest.mark.parametrize("kind", ["initializers", "outputs", "inputs"])
def test_a_name_given_very_often(kind: str) -> None:
    """Comparing each with each takes more than ten seconds; the bound is ten times what looking at each once takes."""
    count = 12_000
    model = onnx.parser.parse_model(f"{HEAD} g (float[1] x) => (float[1] y) <float[1] w = {{1}}> {{ y = Add(x, w) }}")
    graph = model.graph
    repeated = {"initializers": graph.initializer, "outputs": graph.node, "inputs": graph.input}[kind]
    repeated.extend([repeated[0]] * (count - 1))
    loaded = Model.from_proto(model)
    rules = RULES.select(["HYG002"])
    started = time.process_time()
    log = run(loaded.graph, rules)
    assert time.process_time() - started < 5
    assert log.changed is (kind != "inputs")
    if log.changed:
        assert len(loaded.to_proto().graph.initializer) <= 2 and accepted(loaded.to_proto())


def test_what_is_only_looked_at_stays() -> None:
    text = "g (float[2] x) => (float[2] y) { [n] y = Abs(a) [n] a = Relu(x) a = Neg(x) }"
    model = Model.from_proto(onnx.parser.parse_model(f"{HEAD} {text}"))
    log = run(model.graph, RULES.select(["HYG001", "HYG002", "HYG003"]), keep=False)
    assert log.changed and not model.edited


LATER = "rule LATER1 x <kind: exact, opset: 13..> match { y = Relu(x) } rewrite { y = Abs(x) }"


def test_rules_of_the_raised_opset_are_tried() -> None:
    text = '<ir_version: 6, opset_import: ["": 9]> g (bfloat16[2] x) => (bfloat16[2] y) { a = Relu(x) y = Abs(a) }'
    rules = rule_set(
        "rule LATER2 raise <kind: repair, evidence: refused, opset: 7..> match graph { } where model.early_nodes != []"
        " rewrite { mend model.early_nodes }",
        LATER,
    )
    model = Model.from_proto(onnx.parser.parse_model(text))
    log = run(model.graph, rules)
    assert [firing.rule for firing in log.firings] == ["LATER2", "LATER1"] and not log.skipped
    assert model.to_proto().opset_import[0].version == 13


def test_what_is_in_the_way_of_a_later_opset_is_named() -> None:
    text = """<ir_version: 6, opset_import: ["": 9]>
    g (bfloat16[2,3,4] x) => (bfloat16[2,3,4] y) { [s] a = Softmax<axis=1>(x) y = Abs(a) }"""
    _, log = fixed(text, "HYG006")
    assert not log.changed and "from opset 9 to 13, Softmax 's' would mean something else" in log.blocked[0].reason
    assert not log.blocked[0].error


def test_a_function_gets_its_import() -> None:
    model, _ = fixed(
        """<ir_version: 8, opset_import: ["": 13, "l": 1]> g (float[2] x) => (float[2] y) { y = l.F(x) }
        <domain: "l", opset_import: ["": 13]> F (a) => (b) { b = acme.Foo(a) }""",
        "HYG004",
    )
    assert [(entry.domain, entry.version) for entry in model.functions[0].opset_import] == [("", 13), ("acme", 1)]
    assert [entry.domain for entry in model.opset_import] == ["", "l"]


def test_new_initializers_are_not_listed_once_the_others_are_not() -> None:
    text = '<ir_version: 3, opset_import: ["": 9]> g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }'
    model, _ = fixed(text, "HYG013")
    assert [port.name for port in model.graph.input] == ["x"] and model.ir_version == 4 and accepted(model)


def test_a_wrong_declaration_is_put_right_before_other_rules_look() -> None:
    model, _ = fixed("g (float[2] x) => (float[2] y) <int64[3] a> { a = Relu(x) y = Neg(a) }", "HYG005")
    kind = model.graph.value_info[0].type.tensor_type
    assert (kind.elem_type, [dim.dim_value for dim in kind.shape.dim]) == (1, [2]) and accepted(model)


FUNCTIONS = """<ir_version: 8, opset_import: ["": 13, "l": 1]>
g (float[2] x) => (float[2] y) { [f] a = l.F(x) [h] y = l.G(a) }
<domain: "l", opset_import: ["": 13, "l": 1]> F (a) => (b) { c = Relu(a) b = l.H(c) }
<domain: "l", opset_import: ["": 13, "l": 1]> G (a) => (b) { b = l.G(a) }
<domain: "l", opset_import: ["": 13, "k": 1]> H (a) => (b) { b = k.Foo(a) }"""


def test_functions_that_call_themselves_stay() -> None:
    model, _ = fixed(FUNCTIONS, "HYG032")
    assert [node.op_type for node in model.graph.node] == ["Relu", "Foo", "G"]
    assert [function.name for function in model.functions] == ["G"]
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 13, "l": 1, "k": 1}


def test_functions_that_were_only_looked_at_stay() -> None:
    model = Model.from_proto(onnx.parser.parse_model(FUNCTIONS))
    assert run(model.graph, RULES.select(["HYG032"]), keep=False).changed and not model.edited


def test_functions_that_stand_for_too_much_stay() -> None:
    text = """<ir_version: 8, opset_import: ["": 13, "l": 1]> g (float[2] x) => (float[2] y) { y = l.F20(x) }
    <domain: "l", opset_import: ["": 13]> F0 (a) => (b) { b = Relu(a) }"""
    for i in range(20):
        text += f"""<domain: "l", opset_import: ["": 13, "l": 1]> F{i + 1} (a) => (b) {{ c = l.F{i}(a) b = l.F{i}(c) }}"""
    model, log = fixed(text, "HYG032")
    assert not log.changed and "would be more than" in log.blocked[0].reason and len(model.functions) == 21


def test_functions_of_two_versions_of_a_domain_are_not_both_written_out() -> None:
    text = """<ir_version: 8, opset_import: ["": 13, "l": 2]> g (float[2] x) => (float[2] y) { a = l.F(x) b = l.G(a) y = l.H(b) }
    <domain: "l", opset_import: ["": 13, "k": 1]> F (a) => (b) { b = k.Foo(a) }
    <domain: "l", opset_import: ["": 13, "k": 2]> G (a) => (b) { b = k.Foo(a) }
    <domain: "l", opset_import: ["": 13, "l": 1]> H (a) => (b) { b = l.F(a) }"""
    model, _ = fixed(text, "HYG032")
    assert [node.op_type for node in model.graph.node] == ["Foo", "G", "Foo"]
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": 13, "l": 2, "k": 1}


def test_maps_keep_their_keys_when_their_values_are_declared_as_floats() -> None:
    before = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 13, "ai.onnx.ml": 1]>
        g (double[2,2] x) => (seq(map(string, double)) y) {
          p = Cast<to=1>(x)
          y = ai.onnx.ml.ZipMap<classlabels_strings=["no", "yes"]>(p)
        }"""
    )
    before.graph.output[0].doc_string = "chances"
    model = Model.from_proto(before)
    sklearn = load_rules([Path(__file__).parents[3] / "rules" / "sklearn"])
    log = run(model.graph, sklearn.select(["SK032"]), Knowledge(overridable=model.overridable))
    result = model.to_proto()
    maps = result.graph.output[0].type.sequence_type.elem_type.map_type
    assert len(log.firings) == 1
    assert maps.key_type == onnx.TensorProto.STRING and maps.value_type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert result.graph.output[0].doc_string == "chances"
    assert onnxruntime.InferenceSession(result.SerializeToString()).run(None, {"x": np.eye(2)})[0][0] == {"no": 1.0, "yes": 0.0}
