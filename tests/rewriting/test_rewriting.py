"""What each form of the language does to a graph."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.run import Hooks, run
from rewriter.core.graph.model import Model
from rewriter.core.log import Condition
from tests.engine.helpers import rewrite_model, rewrite_text, rule_set

CUSTOM = 'rule SURG001 drop <kind: lossy> param op: op = "devtech::FooOp" match { y = @op(x) } rewrite { y = x }'
CUSTOM_HEAD = '<ir_version: 8, opset_import: ["": 13, "devtech": 1]>'


def custom(text: str) -> str:
    return f"{CUSTOM_HEAD} {text}"


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (
            "g (float[2] x) => (float[2] y) { h = devtech.FooOp(x) y = Relu(h) }",
            "g (float[2] x) => (float[2] y) { y = Relu(x) }",
        ),
        (
            "g (float[2] x) => (float[2] y) { h = Relu(x) y = devtech.FooOp(h) }",
            "g (float[2] x) => (float[2] y) { y = Relu(x) }",
        ),
        (
            "g (float[2] x) => (float[2] y) { y = devtech.FooOp(x) }",
            "g (float[2] x) => (float[2] y) { y = Identity(x) }",
        ),
        (
            "g (float[2] x) => (float[2] y, float[2] z) { h = Relu(x) y = devtech.FooOp(h) z = Neg(h) }",
            "g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Neg(y) }",
        ),
        (
            "g (float[2] x) => (float[2] y, float[2] h) { h = Relu(x) y = devtech.FooOp(h) }",
            "g (float[2] x) => (float[2] y, float[2] h) { h = Relu(x) y = Identity(h) }",
        ),
        (
            "g (float[2] x) => (float[2] y, float[2] z) { h = devtech.FooOp(x) y = Neg(h) z = Add(h, h) }",
            "g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Add(x, x) }",
        ),
        (
            "g (float[2] x) => (float[2] y) { a = devtech.FooOp(x) b = devtech.FooOp(a) y = devtech.FooOp(b) }",
            "g (float[2] x) => (float[2] y) { y = Identity(x) }",
        ),
    ],
)
def test_a_custom_operator_is_bypassed_in_every_topology(model: str, expected: str) -> None:
    outcome = rewrite_text(custom(model), CUSTOM)
    head = outcome.proto.opset_import
    assert "FooOp" not in outcome.ops
    wanted = rewrite_text(custom(expected))
    assert [n.op_type for n in wanted.proto.graph.node] == outcome.ops
    assert [o.name for o in outcome.proto.graph.output] == [o.name for o in outcome.before.graph.output]
    onnx.checker.check_model(outcome.proto, full_check=True)
    assert head == outcome.before.opset_import
    assert outcome.equals(custom(expected))


def test_an_operator_with_several_outputs_is_not_bypassed_while_another_is_used() -> None:
    used = custom("g (float[2] x) => (float[2] y, float[2] z) { y, z = devtech.FooOp(x) }")
    assert rewrite_text(used, CUSTOM).fired == []
    unused = custom("g (float[2] x) => (float[2] r) { y, z = devtech.FooOp(x) r = Relu(y) }")
    assert rewrite_text(unused, CUSTOM).ops == ["Relu"]


def test_a_parameter_names_another_operator() -> None:
    text = '<ir_version: 8, opset_import: ["": 13, "a.b": 1]> g (float[2] x) => (float[2] y) { h = a.b.C(x) y = Relu(h) }'
    assert rewrite_text(text, CUSTOM).fired == []
    assert rewrite_text(text, CUSTOM, settings={("SURG001", "op"): "a.b::C"}).ops == ["Relu"]


def test_an_edit_keeps_everything_else() -> None:
    rule = "rule X1 pad <kind: repair, evidence: refused> match { [pool] y = AveragePool<pads=p, !count_include_pad>(x) } where any(p != 0) rewrite { pool.count_include_pad = 1 }"
    text = "g (float[1,2,4,4] x) => (float[1,2,4,4] y) { [the_pool] y = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], ceil_mode=0>(x) }"
    outcome = rewrite_text(text, rule)
    node = outcome.proto.graph.node[0]
    assert node.name == "the_pool"
    assert [a.name for a in node.attribute] == ["kernel_shape", "pads", "ceil_mode", "count_include_pad"]
    assert rewrite_text(text.replace("[1,1,1,1]", "[0,0,0,0]"), rule).fired == []


def test_wrapping_gives_the_old_value_a_new_name() -> None:
    rule = "rule X1 wrap <kind: repair, evidence: refused> match { [n] y = ArgMax(x) } where declared_dtype(y) == float rewrite { y = Cast<to=float>(y) }"
    outcome = rewrite_text("g (float[2,3] x) => (float[1,3] y) { y = ArgMax(x) }", rule)
    assert outcome.fired == ["X1"]
    assert outcome.equals("g (float[2,3] x) => (float[1,3] y) { a = ArgMax(x) y = Cast<to=1>(a) }")
    onnx.checker.check_model(outcome.proto, full_check=True)


def test_a_shared_constant_is_not_overwritten() -> None:
    rule = "rule X1 ones <kind: repair, evidence: refused> match { [n] y = Mul(x, const c) } where not all(c == 1) where rank(x) == 2 rewrite { n.inputs[1] = {ones_like(c)} }"
    text = "g (float[2,2] x, float[2] v) => (float[2,2] y, float[2] z) <float[2] c = {3,4}> { y = Mul(x, c) z = Mul(v, c) }"
    outcome = rewrite_text(text, rule)
    values = {t.name: onnx.numpy_helper.to_array(t).tolist() for t in outcome.proto.graph.initializer}
    assert sorted(values.values()) == [[1.0, 1.0], [3.0, 4.0]]
    assert outcome.proto.graph.node[1].input[1] == "c"


@pytest.mark.parametrize(
    ("rewrite", "dtype"),
    [
        ("y = Div(Relu(x), {6.0})", onnx.TensorProto.DOUBLE),
        ("h = Neg(Relu(x))  y = Div({6.0}, h)", onnx.TensorProto.DOUBLE),
        ("y = Div(Relu(x), {n.alpha})", onnx.TensorProto.DOUBLE),
        ("y = Div(Relu(Cast<to=float16>(x)), {6.0})", onnx.TensorProto.FLOAT16),
        ("y = Div(Shape(x), {2})", onnx.TensorProto.INT64),
        ("y = Div(acme.F(x), {6.0})", onnx.TensorProto.FLOAT),
    ],
)
def test_a_number_has_the_type_of_new_nodes_next_to_it(rewrite: str, dtype: int) -> None:
    rule = f"rule T1 elu <kind: lossy> match {{ [n] y = Elu(x) }} rewrite {{ {rewrite} }}"
    model = '<ir_version: 8, opset_import: ["": 13]> g (double[2] x) => (y) { y = Elu(x) }'
    (constant,) = rewrite_text(model, rule).proto.graph.initializer
    assert constant.data_type == dtype


def test_what_loses_its_last_use_goes_and_nothing_else() -> None:
    rule = "rule X1 known <kind: exact> match { [r] y = Reshape(x, shape) } where not is_const(shape) where known_but_one(value(shape)) rewrite { r.inputs[1] = int64{reshape_target(x, value(shape))} }"
    text = """g (float[N,3,4] x) => (float[N,12] y) <int64 zero = {0}, int64[1] minus = {-1}, float[9] unused = {0,0,0,0,0,0,0,0,0}> {
        s = Shape(x)  b = Gather(s, zero)  ax = Constant<value = int64[1] {0}>()  u = Unsqueeze(b, ax)
        t = Concat<axis=0>(u, minus)  y = Reshape(x, t)  dead = Relu(x) }"""
    outcome = rewrite_text(text, rule)
    assert outcome.ops == ["Reshape", "Relu"]
    values = {t.name: onnx.numpy_helper.to_array(t).tolist() for t in outcome.proto.graph.initializer}
    assert values.keys() == {"unused", outcome.proto.graph.node[0].input[1]}
    assert values[outcome.proto.graph.node[0].input[1]] == [0, -1]


def test_commutative_operands_bind_in_either_order_and_ordered_opts_out() -> None:
    either = "rule X1 swap <kind: exact> match { y = Add({1.0}, x) } rewrite { y = Relu(x) }"
    strict = "rule X1 swap <kind: exact> match { y = ordered Add({1.0}, x) } rewrite { y = Relu(x) }"
    text = "g (float[2] x) => (float[2] y) <float one = {1.0}> { y = Add(x, one) }"
    assert rewrite_text(text, either).fired == ["X1"]
    assert rewrite_text(text, strict).fired == []


def test_the_same_name_twice_is_the_same_tensor_or_equal_constants() -> None:
    rule = "rule X1 twice <kind: exact> match { a = Mul(x, const c)  y = Div(a, const c) } rewrite { y = Relu(x) }"
    equal = "g (float[2] x) => (float[2] y) <float c = {2.0}, float d = {2.0}> { a = Mul(x, c) y = Div(a, d) }"
    other = equal.replace("float d = {2.0}", "float d = {3.0}")
    assert rewrite_text(equal, rule).fired == ["X1"]
    assert rewrite_text(other, rule).fired == []


def test_optional_operands_absent_empty_or_missing_are_all_the_same() -> None:
    rule = "rule X1 clip <kind: exact> match { y = Clip(x, lo?, hi?) } where not present(lo) where not present(hi) rewrite { y = x }"
    for text in ("Clip(x)", 'Clip(x, "")', 'Clip(x, "", "")'):
        model = onnx.parser.parse_model(
            '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] z) { y = Clip(x) z = Relu(y) }'
        )
        del model.graph.node[0].input[:]
        model.graph.node[0].input.extend(["x", *[""] * text.count('""')])
        assert rewrite_model(model, rule).ops == ["Relu"]


def test_variadic_runs_and_all_outputs_in_order() -> None:
    rule = "rule X1 split <kind: exact> match { *parts = Split<axis=a>(x, ...)  y = Concat<axis=b>(*parts) } where axis(a, x) == axis(b, x) rewrite { y = x }"
    text = "g (float[2,4] x) => (float[2,4] z) { a, b = Split<axis=1>(x) y = Concat<axis=-1>(a, b) z = Relu(y) }"
    assert rewrite_text(text, rule).ops == ["Relu"]
    assert rewrite_text(text.replace("(a, b) z", "(b, a) z"), rule).fired == []
    assert rewrite_text(text.replace("axis=-1", "axis=0"), rule).fired == []


def test_private_and_uses() -> None:
    rule = "rule X1 fuse <kind: exact> match { h = Relu(x)  y = Neg(h) } private h rewrite { y = Abs(x) }"
    alone = "g (float[2] x) => (float[2] y) { h = Relu(x) y = Neg(h) }"
    shared = "g (float[2] x) => (float[2] y, float[2] z) { h = Relu(x) y = Neg(h) z = Exp(h) }"
    output = "g (float[2] x) => (float[2] y, float[2] h) { h = Relu(x) y = Neg(h) }"
    captured = "g (float[2] x, bool c) => (float[2] y, float[2] z) { h = Relu(x) y = Neg(h) z = If(c) <then_branch = t () => (float[2] p) { p = Exp(h) }, else_branch = e () => (float[2] q) { q = Exp(x) }> }"
    assert rewrite_text(alone, rule).fired == ["X1"]
    for text in (shared, output, captured):
        assert rewrite_text(text, rule).fired == []


def test_bodies_are_rewritten_and_inside_restricts() -> None:
    text = """g (float[2] x, bool c) => (float[2] y) { h = Tanh(x)  y = If(c) <
        then_branch = t () => (float[2] p) { a = Tanh(h) p = Relu(a) },
        else_branch = e () => (float[2] q) { b = Tanh(x) q = Relu(b) }> }"""
    anywhere = "rule X1 any <kind: exact> match { y = Tanh(x) } rewrite { y = Sigmoid(x) }"
    inside = "rule X1 in <kind: exact> match inside If.then_branch { y = Tanh(x) } rewrite { y = Sigmoid(x) }"
    assert len(rewrite_text(text, anywhere).fired) == 3
    outcome = rewrite_text(text, inside)
    assert [firing.place for firing in outcome.log.firings] == ["If.then_branch"]
    onnx.checker.check_model(outcome.proto)


def test_a_branch_is_inlined_with_its_captures() -> None:
    rule = "rule X1 if <kind: exact> match { [n] ... = If(const c) } where all(c) rewrite { inline n.then_branch }"
    rule = rule.replace("[n] ... = If", "[n] y = If")
    text = """g (float[2] x) => (float[2] y) <bool c = {1}> { h = Tanh(x)  y = If(c) <
        then_branch = t () => (float[2] p) <float[2] w = {1, 2}> { a = Add(h, w) p = Relu(a) },
        else_branch = e () => (float[2] q) { q = Relu(x) }> }"""
    outcome = rewrite_text(text, rule)
    assert outcome.ops == ["Tanh", "Add", "Relu"]
    onnx.checker.check_model(outcome.proto, full_check=True)
    value = ReferenceEvaluator(outcome.proto).run(None, {"x": np.array([0.5, -3], np.float32)})[0]
    np.testing.assert_allclose(value, np.maximum(np.add(np.tanh([0.5, -3]), [1, 2]), 0), rtol=1e-6)


@pytest.mark.parametrize("read", ["", "z = Neg(w)"])
def test_a_branch_that_is_inlined_renames_only_what_is_its_own(read: str) -> None:
    """Siblings may give their own constants one name; a constant around them is an input of the model as well."""
    text = f"""<ir_version: 8, opset_import: ["": 13]>
    g (float[2] x, float[2] w, bool p) => (float[2] y{", float[2] z" if read else ""}) <float[2] w = {{1, 2}}> {{
      t = Mul(x, w)
      a = If(p) <then_branch = h () => (float[2] c) <float[2] c = {{3, 4}}> {{ }}, else_branch = i () => (float[2] d) {{ d = Add(x, w) }}>
      b = If(p) <then_branch = j () => (float[2] c) <float[2] c = {{5, 6}}> {{ }}, else_branch = k () => (float[2] e) {{ e = Add(x, w) }}>
      s = Add(a, b)  y = Add(s, t)  {read} }}"""
    for branch, wanted in (("then_branch", [9, 12]), ("else_branch", [5, 8])):
        rule = f"rule X1 t <kind: lossy> match {{ [n] y = If(p) }} rewrite {{ inline n.{branch} }}"
        made = rewrite_model(onnx.parser.parse_model(text), rule).proto
        assert [port.name for port in made.graph.input][:3] == ["x", "w", "p"]
        given = {"x": np.ones(2, np.float32), "p": np.array(True)}
        assert ReferenceEvaluator(made).run(["y"], given)[0].tolist() == wanted


NESTED = """<ir_version: 8, opset_import: ["": 13]>
g (float[2] x, bool p) => (float[2] y) <bool c = {1}> {
  a = Abs(x)
  f = If(c) <then_branch = t () => (float[2] r) <float[2] w = {3, 4}> {
    h = Add(x, a)
    k = If(c) <then_branch = t2 () => (float[2] i) {
      a2 = Sub(h, x)
      i = If(p) <then_branch = t3 () => (float[2] j) { j = Mul(a2, w) }, else_branch = e3 () => (float[2] j) { j = Add(h, w) }>
    }, else_branch = e2 () => (float[2] i) { i = Neg(w) }>
    r = If(p) <then_branch = t4 () => (float[2] j) { j = Sub(k, w) }, else_branch = e4 () => (float[2] j) { j = Mul(k, h) }>
  }, else_branch = e () => (float[2] h) { h = Neg(x) }>
  g = If(c) <then_branch = u () => (float[2] r) <float[2] w = {5, 6}> {
    h = Mul(f, a)
    r = If(p) <then_branch = u2 () => (float[2] j) { k = Add(h, w)  j = Add(k, f) }, else_branch = v2 () => (float[2] j) { j = Mul(h, w) }>
  }, else_branch = v () => (float[2] h) { h = Neg(x) }>
  y = Add(f, g)
}"""
"""Decided branches, of which two have the same names, and in them nodes and constants that only inner bodies read."""
DECIDED = "rule X1 if <kind: exact> match { [n] y = If(const c) } where all(c) rewrite { inline n.then_branch }"


def test_a_branch_is_inlined_with_the_bodies_inside() -> None:
    outcome = rewrite_text(NESTED, DECIDED)
    assert len(outcome.fired) == 3
    assert outcome.ops == ["Abs", "Add", "Sub", "If", "If", "Mul", "If", "Add"]
    onnx.checker.check_model(outcome.proto, full_check=True)
    assert sorted(map(tuple, map(onnx.numpy_helper.to_array, outcome.proto.graph.initializer))) == [(3, 4), (5, 6)]
    inner = [attribute.g for node in outcome.proto.graph.node for attribute in node.attribute]
    assert len(inner) == 6 and not any(body.initializer for body in inner)
    for p in (True, False):
        feed = {"x": np.array([0.5, -3], np.float32), "p": np.array(p)}
        before, after = (ReferenceEvaluator(proto).run(None, feed)[0] for proto in (outcome.before, outcome.proto))
        np.testing.assert_array_equal(before, after)


def test_a_branch_with_bodies_that_is_not_inlined_is_as_it_was() -> None:
    """The edits are taken back when a firing is not permitted."""
    model = Model.from_proto(proto := onnx.parser.parse_model(NESTED))
    refused: list[str] = []
    hooks = Hooks(permit=lambda fired: bool(refused.append(fired.root.name)))
    assert not run(model.graph, rule_set(DECIDED), Knowledge(), hooks=hooks).firings and len(refused) >= 2
    assert model.to_proto() == proto
    run(model.graph, rule_set(DECIDED), Knowledge())
    assert model.to_proto() == rewrite_text(NESTED, DECIDED).proto


UNROLL = "rule X1 loop <kind: exact> match { [n] *ys = Loop(*xs) } rewrite { inline n.body }"
SUM_OF_ROWS = "(int64 i, bool c, float[2] s) => (bool d, float[2] t) { d = Identity(c)  r = Gather(x, i)  t = Add(s, r) }"


@pytest.mark.parametrize(
    ("loop", "ops"),
    [
        (f"y = Loop(three, yes, z) <body = b {SUM_OF_ROWS}>", ["Gather", "Add"] * 3),
        (f"y = Loop(none, yes, z) <body = b {SUM_OF_ROWS}>", ["Identity"]),
        (f"y = Loop(three, no, z) <body = b {SUM_OF_ROWS}>", ["Identity"]),
        (  # two states that change places, and a result that is a constant of the body
            "a, y = Loop(three, yes, z, w) <body = b (int64 i, bool c, float[2] s, float[2] t) => (bool c, float[2] t, float[2] s) {}>",
            ["Identity"],
        ),
        (
            "a, y = Loop(three, yes, z, w) <body = b (int64 i, bool c, float[2] s, float[2] t) => (bool c, float[2] k, float[2] s)"
            " <float[2] k = {3, 4}> {}>",
            ["Identity"],
        ),
        (  # the condition is true once more
            'y = Loop("", yes, z) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] t) { d = Less(i, one)  t = Add(s, w) }>',
            ["Add", "Add"],
        ),
        (
            "a, rows = Loop(three, yes, z) <body = b (int64 i, bool c, float[2] s) => (bool c, float[2] t, float[2] t) { t = Add(s, w) }>"
            "  y = ReduceSum<axes=[0], keepdims=0>(rows)",
            ["Add", "Add", "Add", "Unsqueeze", "Unsqueeze", "Unsqueeze", "Concat", "ReduceSum"],
        ),
    ],
)
def test_a_loop_is_written_once_for_each_iteration(loop: str, ops: list[str]) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 11]>
    g (float[3,2] x, float[2] z) => (float[2] y)
    <int64 three = {{3}}, int64 none = {{0}}, int64 one = {{1}}, bool yes = {{1}}, bool no = {{0}}, float[2] w = {{1, 2}}> {{ {loop} }}"""
    made = rewrite_model(model := onnx.parser.parse_model(text), UNROLL).proto
    onnx.checker.check_model(made, full_check=True)
    assert sorted(node.op_type for node in made.graph.node) == sorted(ops)
    given = {"x": np.arange(6, dtype=np.float32).reshape(3, 2), "z": np.array([0.5, -1], np.float32)}
    wanted, found = (ReferenceEvaluator(one).run(["y"], given)[0] for one in (model, made))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("loop", "reason"),
    [
        ("y = Loop(n, yes, z) <body = b (int64 i, bool c, float[2] s) => (bool c, float[2] t) { t = Relu(s) }>", "how often"),
        ("y = Loop(many, yes, z) <body = b (int64 i, bool c, float[2] s) => (bool c, float[2] t) { t = Relu(s) }>", "2,000"),
        ('y = Loop("", yes, z) <body = b (int64 i, bool c, float[2] s) => (bool c, float[2] s) {}>', "2,000"),
        (
            "y = Loop(one, yes, z) <body = b (int64 i, bool c, float[2] s) => (bool c, float[2] t) { t = RandomNormalLike(s) }>",
            "random",
        ),
        (
            "y = Loop(one, yes, z) <body = b (int64 i, bool c, float[2] s) => (bool c, float[2] t) { t = If(c) <"
            "then_branch = p () => (float[2] q) { q = Relu(s) }, else_branch = r () => (float[2] v) { v = Neg(s) }> }>",
            "subgraph",
        ),
        (
            "a, y = Loop(none, yes, z) <body = b (int64 i, bool c, float[2] s) => (bool c, float[2] s, float[2] s) {}>",
            "does not run",
        ),
    ],
)
def test_a_loop_that_stays(loop: str, reason: str) -> None:
    text = f"""<ir_version: 8, opset_import: ["": 13]>
    g (float[2] z, int64 n) => (float[2] y) <int64 one = {{1}}, int64 many = {{2001}}, int64 none = {{0}}, bool yes = {{1}}> {{ {loop} }}"""
    outcome = rewrite_text(text, UNROLL)
    assert outcome.ops == ["Loop"]
    assert reason in outcome.log.blocked[0].reason


def test_a_local_function_is_inlined_with_its_attributes() -> None:
    text = """<ir_version: 8, opset_import: ["": 13, "local": 1]>
    g (float[2] x) => (float[2] y) { y = local.f <k = 3.0>(x) }
    <domain: "local", opset_import: ["": 13]> f <k> (v) => (r) { c = Constant<value_float: float = @k>() m = Mul(v, c) r = Relu(m) }"""
    rule = "rule X1 fn <kind: exact> match { [n] y = local.f(x) } rewrite { inline n }"
    outcome = rewrite_text(text, rule)
    assert outcome.ops == ["Constant", "Mul", "Relu"]
    value = ReferenceEvaluator(outcome.proto).run(None, {"x": np.array([2, -3], np.float32)})[0]
    assert value.tolist() == [6.0, 0.0]


@pytest.mark.parametrize(
    ("body", "ops"),
    [
        ("r = Abs(v)", ["Abs"]),
        ("r = ai.onnx.ml.Scaler <scale=[2.0], offset=[0.0]>(v)", ["Scaler"]),
        ("r = Softmax <axis=0>(v)", ["f"]),  # over one axis at opset 13, over all from it on before
    ],
)
def test_a_local_function_of_another_opset_is_inlined_if_its_nodes_mean_the_same(body: str, ops: list[str]) -> None:
    text = """<ir_version: 8, opset_import: ["": 13, "local": 1]> g (float[2,3] x) => (float[2,3] y) { y = local.f(x) }
    <domain: "local", opset_import: ["": 12, "ai.onnx.ml": 2]> f (v) => (r) { %s }"""
    outcome = rewrite_text(text % body, "rule X1 fn <kind: exact> match { [n] y = local.f(x) } rewrite { inline n }")
    assert outcome.ops == ops
    domains = {entry.domain: entry.version for entry in outcome.proto.opset_import}
    assert domains.get("ai.onnx.ml") == (2 if ops == ["Scaler"] else None)
    assert ops != ["f"] or "function f is of opset 12" in outcome.log.blocked[0].reason


def overloaded(nodes: str) -> onnx.ModelProto:
    """A model whose functions of one name are told apart by their overloads alone; calls of "b" are of the second."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": 13, "local": 1]>
        g (float[2] x) => (float[2] y) {{ {nodes} }}
        <domain: "local", opset_import: ["": 13, "local": 1]> f (v) => (r) {{ b = local.f(v)  r = Neg(b) }}
        <domain: "local", opset_import: ["": 13]> f (v) => (r) {{ r = Abs(v) }}"""
    )
    model.functions[1].overload = "b"
    for node in [*model.graph.node, *model.functions[0].node]:
        if "b" in node.output:
            node.overload = "b"
    return model


def test_a_call_that_is_inlined_or_outlined_keeps_its_overload() -> None:
    outcome = rewrite_model(
        overloaded("y = local.f(x)"), "rule X1 i <kind: exact> match { [n] y = local.f(x) } rewrite { inline n }"
    )
    assert outcome.ops[-1] == "Neg" and "f" not in outcome.ops
    rule = "rule X1 o <kind: exact> match { y = Neg(local.f(x)) } rewrite { outline y = acme.G(x) }"
    outlined = rewrite_model(overloaded("b = local.f(x)  y = Neg(b)"), rule).proto
    assert [node.overload for function in outlined.functions if function.name == "G" for node in function.node] == ["b", ""]


def test_interface_rules_edit_inputs_and_the_model() -> None:
    batch = 'rule SURG010 batch <kind: interface> param batch: dim = "N" match graph { input tensor[1, ...] x } rewrite { x.shape[0] = batch }'
    outcome = rewrite_text("g (float[1,3] x, float[2] z) => (float[1,3] y) { y = Relu(x) }", batch)
    dims = outcome.proto.graph.input[0].type.tensor_type.shape.dim
    assert (dims[0].dim_param, dims[1].dim_value) == ("N", 3)
    assert outcome.proto.graph.input[1] == outcome.before.graph.input[1]
    version = "rule X1 ir <kind: interface> match graph { } where ir_version() < 9 rewrite { model.ir_version = 9 }"
    assert rewrite_text("g (float[1] x) => (float[1] y) { y = Relu(x) }", version).proto.ir_version == 9


def test_the_doc_string_of_a_model_is_not_that_of_its_graph() -> None:
    model = onnx.parser.parse_model(custom("g (float[1] x) => (float[1] y) { y = Relu(x) }"))
    model.doc_string, model.graph.doc_string = "of the model", "of the graph"
    rule = (
        "rule X1 documented <kind: interface> match graph { } "
        'where model.doc_string == "of the model" rewrite { model.doc_string = "another" }'
    )
    outcome = rewrite_model(model, rule)
    assert (outcome.proto.doc_string, outcome.proto.graph.doc_string) == ("another", "of the graph")
    assert 'model.doc_string = "another"' in str(outcome.log.firings)


def test_opset_blocks_and_a_new_domain() -> None:
    rule = """rule X1 blocks <kind: exact, opset: 11..> match { y = Tanh(x) }
        rewrite opset 11..12 { y = Sigmoid(x) } rewrite opset 13.. { y = ai.onnx.ml.Normalizer<norm="L1">(x) }"""
    assert rewrite_text(
        '<ir_version: 8, opset_import: ["": 12]> g (float[1,2] x) => (float[1,2] y) { y = Tanh(x) }', rule
    ).ops == ["Sigmoid"]
    newer = rewrite_text("g (float[1,2] x) => (float[1,2] y) { y = Tanh(x) }", rule)
    assert {entry.domain for entry in newer.proto.opset_import} == {"", "ai.onnx.ml"}
    onnx.checker.check_model(newer.proto)


def test_a_failing_rewrite_leaves_the_graph_as_it_was() -> None:
    rule = "rule X1 bad <kind: exact> match { [n] y = Relu(x) } where n_inputs(n) == 1 rewrite { a = Neg(x)  y = Add(a, {1 / (rank(x) - 1)}) }"
    outcome = rewrite_text("g (float[2] x) => (float[2] y) { y = Relu(x) }", rule)
    assert outcome.fired == []
    assert outcome.log.blocked[0].error
    assert outcome.proto == outcome.before


def test_an_unknown_fact_blocks_and_is_told() -> None:
    rule = "rule X1 rank <kind: repair, evidence: refused> match { y = Relu(x) } where rank(x) > 2 rewrite { y = Abs(x) }"
    text = '<ir_version: 8, opset_import: ["": 13, "c": 1]> g (float[2] x) => (float[2] y) { h = c.F(x) y = Relu(h) }'
    outcome = rewrite_text(text, rule)
    assert outcome.fired == []
    assert "rank of tensor 'h' is unknown" in outcome.log.blocked[0].reason


def test_a_rewrite_that_needs_an_unknown_fact_is_blocked_and_has_not_failed() -> None:
    text = '<ir_version: 8, opset_import: ["": 13, "c": 1]> g (float[2] x) => (float[2] y) { h = c.F(x) y = Relu(h) }'
    for rewrite in (
        "y = Add(x, {cast(rank(x), float)})",
        "y = Transpose<perm=range(rank(x))>(x)",
        "y = Reshape(x, {shape(x)})",
    ):
        outcome = rewrite_text(
            text, f"rule X1 rank <kind: repair, evidence: refused> match {{ y = Relu(x) }} rewrite {{ {rewrite} }}"
        )
        assert outcome.fired == []
        (blocked,) = outcome.log.blocked
        assert not blocked.error
        assert blocked.reason in ("rank of tensor 'h' is unknown", "shape of tensor 'h' is unknown")
        assert outcome.proto == outcome.before
    part = "rule X1 part <kind: repair, evidence: refused> match { y = Relu(x) } rewrite { y = Reshape(x, {shape(x)}) }"
    (blocked,) = rewrite_text("g (float[N,2] x) => (float[N,2] y) { y = Relu(x) }", part).log.blocked
    assert (blocked.error, blocked.reason) == (False, "an item of the constant is unknown")


def test_a_domain_that_is_not_imported_is_known_not_to_be() -> None:
    rule = 'rule X1 ml <kind: exact> match { y = Relu(x) } where opset("ai.onnx.ml") > 2 rewrite { y = Abs(x) }'
    assert rewrite_text("g (float[2] x) => (float[2] y) { y = Relu(x) }", rule).log.blocked == []


def test_checking_takes_everything_back() -> None:
    rule = "rule X1 drop <kind: exact> match { y = Identity(x) } rewrite { y = x }"
    text = "g (float[2] x) => (float[2] y) { a = Identity(x) b = Identity(a) y = Relu(b) }"
    outcome = rewrite_text(text, rule, keep=False)
    assert outcome.fired == ["X1", "X1"]
    assert outcome.proto == outcome.before


def test_firings_know_their_parents_and_conditions() -> None:
    rules = (
        "rule X1 a <kind: exact> match { y = Tanh(x) } where rank(x) == 1 rewrite { y = Sigmoid(x) }",
        "rule X2 b <kind: exact> match { y = Sigmoid(x) } rewrite { y = Abs(x) }",
    )
    outcome = rewrite_text("g (float[2] x) => (float[2] y) { y = Tanh(x) }", *rules)
    first, second = outcome.log.firings
    assert first.conditions == (Condition("rank(x) == 1", "true"),)
    assert second.parents == (1,)
    assert {change.after for change in first.changes} >= {"y = Sigmoid(x)"}


def test_a_scalar_constant_has_no_elements_and_that_is_an_error_of_the_rule() -> None:
    rule = "rule X1 first <kind: exact> match { y = Mul(x, const c) } where c[0] == 1 rewrite { y = x }"
    outcome = rewrite_text("g (float[2] x) => (float[2] z) <float c = {1.0}> { y = Mul(x, c) z = Relu(y) }", rule)
    assert outcome.fired == []
    assert outcome.log.blocked[0].error
    assert "no element 0" in outcome.log.blocked[0].reason


def test_an_attribute_that_the_caller_of_a_function_gives_is_unknown() -> None:
    rule = "rule X1 sum <kind: exact> match { [c] y = Concat(a, a) } where c.axis != 0 rewrite { y = Identity(a) }"
    functions = """<domain: "local", opset_import: ["": 13]> Two<axis>(a) => (y) { y = Concat<axis: int = @axis>(a, a) }"""
    text = "g (float[2,2] x) => (float[2,4] y) { y = local.Two<axis=1>(x) }"
    model = f'<ir_version: 8, opset_import: ["": 13, "local": 1]>\n{text}\n{functions}'
    outcome = rewrite_text(model, rule)
    assert outcome.fired == []
    assert "depends on the caller of the function" in outcome.log.blocked[0].reason


def test_a_number_in_a_list_is_true_unless_it_is_0_as_in_an_array() -> None:
    text = "g (float[1,1,5] x) => (float[1,1,6] y) { y = MaxPool<kernel_shape=[3], pads=[1,2]>(x) }"
    for condition, holds in (("any(p)", True), ("all(p)", True), ("any([0, 0])", False), ("all([2, 0])", False)):
        rule = f"rule X1 some <kind: lossy> match {{ y = MaxPool<pads=p>(x) }} where {condition} and len(p) == 2 rewrite {{ y = Relu(x) }}"
        assert rewrite_text(text, rule).fired == ["X1"] * holds, condition


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        ("p, q = Split<num_outputs=2>(x)", "a, b = Split<num_outputs=2>(x)  p = Neg(a)  q = Neg(b)"),
        ("p = Split<num_outputs=1>(x)  q = Abs(x)", "a = Split<num_outputs=1>(x)  p = Neg(a)  q = Abs(x)"),
        ("r, p = Split<num_outputs=2>(x)  q = Abs(r)", "a, b = Split<num_outputs=2>(x)  r = Neg(a)  p = Neg(b)  q = Abs(r)"),
    ],
)
def test_a_node_is_put_after_each_output(made: str, wanted: str) -> None:
    rule = """\
    rule T1 t <kind: lossy, once: node>
    match { [n] ... = Split(x) }
    rewrite { each o in n.outputs if dtype(o) == float { o = Neg(o) } }
    """
    head = '<ir_version: 9, opset_import: ["": 18]> g (float[N] x) => (float[M] p, float[K] q)'
    assert rewrite_text(f"{head} {{ {made} }}", rule).equals(f"{head} {{ {wanted} }}")


def test_absent_outputs_match_and_get_no_node() -> None:
    rule = "rule T1 t <kind: lossy, once: node> match { [n] ... = GRU(...) } rewrite { each o in n.outputs { o = Neg(o) } }"
    head = "g (float[T,N,4] x, float[1,9,4] w, float[1,9,3] r) => (float[1,N,3] z)"
    text = f"{head} {{ , z = GRU<hidden_size=3>(x, w, r) }}"
    assert rewrite_text(text, rule).equals(f"{head} {{ , h = GRU<hidden_size=3>(x, w, r)  z = Neg(h) }}")


def test_outputs_that_the_condition_leaves_out_stay() -> None:
    rule = """\
    rule T1 t <kind: lossy, once: node>
    match { [n] ... = TopK(...) }
    rewrite { each o in n.outputs if dtype(o) == int64 { o = Cast<to=int32>(o) } }
    """
    head = "g (float[4] x, int64[1] k) => (float[2] v, int32[2] i)"
    outcome = rewrite_text(f"{head} {{ v, i = TopK(x, k) }}", rule)
    assert outcome.ops == ["TopK", "Cast"]
    assert outcome.proto.graph.node[0].output[0] == "v"


def test_a_rule_on_nodes_sets_the_opset_for_which_rules_are_chosen_next() -> None:
    rules = """\
    rule T1 lower <kind: lossy, opset: 22..> match { y = Neg(x) } where keeps_meaning(21) rewrite { model.opset = 21 }
    rule T2 next <kind: lossy, opset: ..21> match { y = Neg(x) } rewrite { y = Abs(x) }
    """
    head = '<ir_version: 10, opset_import: ["": 22]> g (float[2] x, float[2] s) => (float[2] y)'
    outcome = rewrite_text(f"{head} {{ h = Neg(x)  y = Neg(h) }}", rules)
    assert (outcome.ops, outcome.proto.opset_import[0].version) == (["Abs", "Abs"], 21)
    kept = rewrite_text(f"{head.replace('22', '23')} {{ h = RMSNormalization(x, s)  y = Neg(h) }}", rules)
    assert kept.fired == []
