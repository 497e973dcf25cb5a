"""Rules on what callers see: other names, types behind new nodes, more or fewer outputs; and rules that fire but once."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from rewriter.trust.proof.rules.trial import asks_otherwise, names_now, outputs_as_before
from tests.engine.helpers import rewrite_text

RENAME = 'rule INT001 rename <kind: interface> match graph { input x } where name(x) == "x" rewrite { x.name = "images" }'
BYTES = (
    "rule INT002 bytes <kind: interface> match graph { input float[_, C, H, W] x } rewrite { "
    "x = Div(Cast<to=float>(Transpose<perm=[0, 3, 1, 2]>(x)), {255.0}) x.dtype = uint8 x.shape = [dim(x, 0), H, W, C] }"
)
HALF = "rule INT003 half <kind: interface> match graph { output float[...] y } rewrite { y = Cast<to=float16>(y) }"
FEATURES = "rule INT004 features <kind: interface> match { y = Relu(x) } where not is_output(y) rewrite { output y }"


def declared(infos: list[onnx.ValueInfoProto]) -> list[str]:
    return [onnx.printer.to_text(onnx.helper.make_graph([], "g", [info], [])).split("(")[1].split(")")[0] for info in infos]


def test_an_input_gets_another_name_wherever_it_is_read() -> None:
    outcome = rewrite_text(
        "g (float[2] x, bool c) => (float[2] y) { y = If<"
        "then_branch = t () => (float[2] a) { a = Neg(x) }, else_branch = e () => (float[2] b) { b = Abs(x) }>(c) }",
        RENAME,
    )
    assert outcome.fired == ["INT001"]
    assert outcome.equals(
        "g (float[2] images, bool c) => (float[2] y) { y = If<"
        "then_branch = t () => (float[2] a) { a = Neg(images) }, else_branch = e () => (float[2] b) { b = Abs(images) }>(c) }"
    )
    onnx.checker.check_model(outcome.proto, full_check=True)


def test_a_name_that_is_taken_changes_nothing() -> None:
    outcome = rewrite_text("g (float[2] x) => (float[2] y) { images = Neg(x) y = Abs(images) }", RENAME)
    assert outcome.proto == outcome.before
    assert [blocked.reason for blocked in outcome.log.blocked] == ["'x' cannot be named 'images': another tensor has this name"]


def test_an_input_is_given_as_something_else_and_brought_back_by_new_nodes() -> None:
    outcome = rewrite_text(
        "g (float[N,3,4,5] x, bool c) => (float[N,3,4,5] y) { h = Relu(x) y = If<"
        "then_branch = t () => (float[N,3,4,5] a) { a = Neg(x) }, "
        "else_branch = e () => (float[N,3,4,5] b) { b = Add(x, h) }>(c) }",
        BYTES,
    )
    assert outcome.fired == ["INT002"]
    onnx.checker.check_model(outcome.proto, full_check=True)
    assert declared(list(outcome.proto.graph.input)) == ["uint8[N,4,5,3] x", "bool c"]
    assert outcome.ops == ["Transpose", "Cast", "Div", "Relu", "If"]
    image = np.arange(120, dtype=np.uint8).reshape(2, 4, 5, 3)
    wanted = image.transpose(0, 3, 1, 2).astype(np.float32) / np.float32(255)
    for c in (False, True):
        found = ReferenceEvaluator(outcome.proto).run(None, {"x": image, "c": np.array(c)})[0]
        assert np.allclose(found, -wanted if c else 2 * wanted)


def test_each_output_is_handed_out_as_another_type_once_and_declared_so() -> None:
    outcome = rewrite_text("g (float[N,3] x) => (float[N,3] y, float[N,3] z) { y = Neg(x) z = Abs(y) }", HALF)
    assert outcome.fired == ["INT003", "INT003"]
    onnx.checker.check_model(outcome.proto, full_check=True)
    assert declared(list(outcome.proto.graph.output)) == ["float16[N,3] y", "float16[N,3] z"]
    makers = {output: node.op_type for node in outcome.proto.graph.node for output in node.output}
    readers = {node.op_type: node.input[0] for node in outcome.proto.graph.node}
    assert (makers["y"], makers["z"], makers[readers["Abs"]]) == ("Cast", "Cast", "Neg")  # what reads it inside goes on so


def test_an_input_that_is_an_output_stays_what_it_is() -> None:
    outcome = rewrite_text("g (float[N,3,4,5] x) => (float[N,3,4,5] x, float[N,3,4,5] y) { y = Neg(x) }", BYTES)
    assert outcome.proto == outcome.before
    assert [blocked.reason for blocked in outcome.log.blocked] == ["input 'x' is an output of the model, too"]


def test_an_inner_tensor_becomes_an_output_with_its_type() -> None:
    outcome = rewrite_text("g (float[N,3] x) => (float[N,3] y) { h = Relu(x) y = Neg(h) }", FEATURES)
    assert outcome.fired == ["INT004"]
    assert declared(list(outcome.proto.graph.output)) == ["float[N,3] y", "float[N,3] h"]
    onnx.checker.check_model(outcome.proto, full_check=True)


@pytest.mark.parametrize(
    "model, reason",
    [
        (
            '<ir_version: 8, opset_import: ["": 13, "a": 1]> g (float[2] x) => (float[2] y) { h = a.F(x) r = Relu(h) y = Neg(r) }',
            "element type of tensor 'r' is unknown",
        ),
        (
            "g (bool c, float[2] x) => (float[2] y) { y = If<then_branch = t () => (float[2] a) { h = Relu(x) a = Neg(h) }, "
            "else_branch = e () => (float[2] b) { b = Abs(x) }>(c) }",
            "only tensors of the main graph can be outputs of the model",
        ),
    ],
)
def test_what_cannot_be_an_output_is_said(model: str, reason: str) -> None:
    outcome = rewrite_text(model, FEATURES)
    assert outcome.proto == outcome.before
    assert [blocked.reason for blocked in outcome.log.blocked] == [reason]


def test_a_rule_on_the_interface_fires_at_each_input_however_many_there_are() -> None:
    inputs = [f"x{number}" for number in range(100)]
    text = f"g ({', '.join(f'float[1] {name}' for name in inputs)}) => (float[1] y) {{ y = Sum({', '.join(inputs)}) }}"
    outcome = rewrite_text(
        text, 'rule INT005 names <kind: interface> match graph { input float[1] x } rewrite { x.name = "in_" + name(x) }'
    )
    assert [info.name for info in outcome.proto.graph.input] == [f"in_{name}" for name in inputs]


@pytest.mark.parametrize("once, ops", [("model", ["Neg", "Relu", "Relu"]), ("node", ["Neg", "Relu", "Neg", "Relu"])])
def test_a_rule_fires_once_on_a_model_or_at_each_node_that_it_did_not_make(once: str, ops: list[str]) -> None:
    outcome = rewrite_text(
        "g (float[2] x) => (float[2] y) { h = Relu(x) y = Relu(h) }",
        f"rule ONC001 once <kind: lossy, once: {once}> match {{ y = Relu(x) }} rewrite {{ y = Relu(Neg(x)) }}",
    )
    assert outcome.ops == ops
    assert not outcome.log.stops


def test_once_a_model_is_also_for_rules_on_the_interface() -> None:
    outcome = rewrite_text(
        "g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Abs(x) }",
        HALF.replace("interface>", "interface, once: model>"),
    )
    assert outcome.fired == ["INT003"]
    assert outcome.ops.count("Cast") == 1


def test_inputs_and_outputs_of_other_names_are_told_by_their_places() -> None:
    before = rewrite_text("g (float[2] x, float[2] u) => (float[2] y) { y = Add(x, u) }", RENAME)
    assert names_now(before.before.graph.input, before.proto.graph.input) == {"x": "images", "u": "u"}
    assert not asks_otherwise(before.before, before.proto)
    assert outputs_as_before(before.before, before.proto) == {"y"}
