"""Nodes that become the body of a local function: `outline y = acme.Swish(x)`."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.reference

from tests.engine.helpers import rewrite_model, rewrite_text

SWISH = "rule T1 t <kind: exact> match { y = Mul(x, Sigmoid(x)) } rewrite { outline y = acme.Swish(x) }"
ONE = "g (float[2] a) => (float[2] b) { s = Sigmoid(a)  b = Mul(a, s) }"
FUNCTION = '<domain: "acme", opset_import: ["": 13]> Swish (x) => (y) { s = Sigmoid(x)  y = Mul(s, x) }'


def functions(model: onnx.ModelProto) -> dict[str, list[str]]:
    return {function.name: [node.op_type for node in function.node] for function in model.functions}


def made(text: str, rule: str = SWISH) -> onnx.ModelProto:
    model = rewrite_text(text, rule).proto
    onnx.checker.check_model(model)
    return model


def test_the_function_is_defined_once_and_called_in_every_scope() -> None:
    model = made(
        "g (float[2] a, bool p) => (float[2] e) { s = Sigmoid(a)  b = Mul(a, s)  e = If(p) <"
        "then_branch = h () => (float[2] q) { w = Sigmoid(b)  q = Mul(w, b) },"
        "else_branch = k () => (float[2] r) { r = Identity(b) }> }"
    )
    assert functions(model) == {"Swish": ["Sigmoid", "Mul"]}
    assert [node.op_type for node in model.graph.node] == ["Swish", "If"]
    assert [node.op_type for node in model.graph.node[1].attribute[0].g.node] == ["Swish"]


def test_nothing_is_computed_otherwise() -> None:
    text = "g (float[3] a) => (float[3] c) <float k = {2}> { h = Mul(a, k)  s = Sigmoid(h)  b = Mul(h, s)  c = Sub(b, s) }"
    before = rewrite_text(text, "rule T1 t <kind: exact> match { y = Tan(x) } rewrite { y = x }").proto
    x = np.array([-1.5, 0.25, 3], np.float32)
    results = [onnx.reference.ReferenceEvaluator(model).run(None, {"a": x})[0] for model in (before, made(text))]
    np.testing.assert_array_equal(*results)  # the gate is read elsewhere, and stays


def test_constants_go_along_and_others_are_another_function() -> None:
    rule = "rule T1 t <kind: exact> match { y = Relu(Mul(x, const k)) } rewrite { outline y = acme.Scaled(x) }"
    text = (
        "g (float[2] a) => (float[2] f) <float two = {2}, float also = {2}, float six = {6}> "
        "{ b = Mul(a, two)  c = Relu(b)  d = Mul(c, six)  e = Relu(d)  h = Mul(also, e)  f = Relu(h) }"
    )
    model = made(text, rule)
    assert functions(model) == {"Scaled": ["Constant", "Mul", "Relu"], "Scaled_2": ["Constant", "Mul", "Relu"]}
    assert [node.op_type for node in model.graph.node] == ["Scaled", "Scaled_2", "Scaled"]
    assert not model.graph.initializer


def test_an_operand_that_is_named_stays_outside() -> None:
    rule = "rule T1 t <kind: exact> match { y = Add(MatMul(x, const w), const b) } rewrite { outline y = acme.Linear(x, w, b) }"
    text = (
        "g (float[1,2] a) => (float[1,2] d) <float[2,2] v = {1, 2, 3, 4}, float[2,2] w = {4, 3, 2, 1}, float[2] b = {1, 1}> "
        "{ m = MatMul(a, v)  c = Add(m, b)  n = MatMul(c, w)  d = Add(b, n) }"
    )
    model = made(text, rule)
    assert functions(model) == {"Linear": ["MatMul", "Add"]}
    assert [list(node.input) for node in model.graph.node] == [["a", "v", "b"], ["c", "w", "b"]]


def test_the_block_may_write_the_body() -> None:
    rule = (
        "rule T1 t <kind: exact, opset: 9..> match { y = Elu<alpha=1.0>(x) } "
        "rewrite { y = Where(Less(x, {0.0}), Sub(Exp(x), {1.0}), x)  outline y = acme.Elu(x) }"
    )
    model = made("g (float[2] a) => (float[2] b) { b = Elu(a) }", rule)
    assert functions(model) == {"Elu": ["Constant", "Constant", "Less", "Exp", "Sub", "Where"]}
    assert [(node.domain, node.op_type) for node in model.graph.node] == [("acme", "Elu")]


def test_several_outputs() -> None:
    rule = "rule T1 t <kind: exact> match { p = Sin(x)  q = Cos(x) } rewrite { outline p, q = acme.Turn(x) }"
    model = made("g (float[2] a) => (float[2] b, float[2] c) { c = Cos(a)  b = Sin(a) }", rule)
    assert [list(node.output) for node in model.graph.node] == [["b", "c"]]
    (function,) = model.functions
    assert list(function.output) == ["p", "q"]


def test_a_name_that_is_taken_is_not_used_for_something_else() -> None:
    custom = "g (float[2] a) => (float[2] c) { s = Sigmoid(a)  b = Mul(a, s)  c = acme.Swish(b) }"
    outcome = rewrite_text(f'<ir_version: 8, opset_import: ["": 13, "acme": 1]> {custom}', SWISH)
    assert functions(outcome.proto) == {"Swish_2": ["Sigmoid", "Mul"]}
    assert outcome.ops == ["Swish_2", "Swish"]
    other = FUNCTION.replace("Sigmoid", "Tanh")
    outcome = rewrite_text(f'<ir_version: 8, opset_import: ["": 13, "acme": 1]> {custom} {other}', SWISH)
    assert functions(outcome.proto) == {"Swish": ["Tanh", "Mul"], "Swish_2": ["Sigmoid", "Mul"]}


def test_a_second_run_calls_the_function_of_the_first() -> None:
    once = made(ONE)
    again = rewrite_model(once, SWISH)
    assert again.fired == []  # the body is not made a call of itself
    more = rewrite_text(ONE.replace("a", "c").replace("b", "d").replace("floct", "float")).proto
    once.graph.node.extend(more.graph.node)
    once.graph.input.extend(more.graph.input)
    once.graph.output.extend(more.graph.output)
    assert functions(rewrite_model(once, SWISH).proto) == {"Swish": ["Sigmoid", "Mul"]}


def test_within_another_function() -> None:
    """What depends on an attribute of that function is left alone, since the new one would not have it."""
    rule = "rule T1 t <kind: exact> match { y = Relu(LeakyRelu(x)) } rewrite { outline y = acme.Bent(x) }"
    text = (
        '<ir_version: 8, opset_import: ["": 13, "l": 1]> g (float[2] a) => (float[2] b) { b = l.F<alpha = 0.5>(a) } '
        '<domain: "l", opset_import: ["": 13]> F <alpha> (x) => (y) { s = LeakyRelu<VALUE>(x)  y = Relu(s) }'
    )
    assert functions(made(text.replace("VALUE", "alpha = 0.5"), rule)) == {"F": ["Bent"], "Bent": ["LeakyRelu", "Relu"]}
    assert functions(made(text.replace("VALUE", "alpha: float = @alpha"), rule)) == {"F": ["LeakyRelu", "Relu"]}


def test_an_operand_that_needs_a_result_is_left_alone() -> None:
    rule = "rule T1 t <kind: exact> match { p = Sin(x)  q = Mul(p, z) } rewrite { outline p, q = acme.Both(x, z) }"
    loop = "g (float[2] a) => (float[2] d) { b = Sin(a)  c = Neg(b)  d = Mul(b, c) }"
    assert functions(made(loop, rule)) == {}


def test_formats_without_functions() -> None:
    text = '<ir_version: VERSION, opset_import: ["": 13]> ' + ONE
    model = rewrite_text(text.replace("VERSION", "6"), SWISH).proto
    assert (model.ir_version, len(model.functions)) == (8, 1)
    assert rewrite_text(text.replace("VERSION", "3"), SWISH).fired == []


def test_what_fails_later_leaves_no_function() -> None:
    outcome = rewrite_text(ONE, SWISH.replace("(x) }", "(x)  y.shape = [0.5] }").replace("exact", "interface"))
    assert outcome.fired == []
    assert functions(outcome.proto) == {}
