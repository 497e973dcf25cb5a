"""What the bytes of a model tell of the rules that may fire in it."""

from __future__ import annotations

import onnx
import pytest

from rewriter.core.matching.forecast import Forecast
from rewriter.core.onnxfile.take_census import take_census
from rewriter.rule_tools.load_rules import load_rules
from tests.engine.helpers import rule_set, with_head

CASES = [
    # a default that stays words is no attribute: the axes of a Squeeze without any
    ("OP002", "g (float[1,3] x) => (float[3] y) { y = Squeeze(x) }", False),
    ("OP002", "g (float[1,3] x) => (float[3] y) { y = Squeeze <axes = [0]>(x) }", True),
    # ranks of inputs and constants, and through operators that leave them as they are
    ("OP055", "g (int64[2] n) => (float[a,b] y) { y = ConstantOfShape(n) }", False),
    ("OP055", "g (int64 n) => (float[a] y) { m = Identity(n) y = ConstantOfShape(m) }", True),
    ("OP055", "g (float[2,3] x) => (float[a,b] y) { n = Shape(x) y = ConstantOfShape(n) }", False),
    ("OP055", "g (float[2,3] x) => (float[a,b] y) <int64[2] n = {2, 2}> { y = ConstantOfShape(n) }", False),
    ("OP055", "g (int64[K] k, int64 i) => (float[a] y) { n = Gather(k, i) y = ConstantOfShape(n) }", True),
    ("PT030", "g (float[1,3,8,8] x) => (float[1,3,4,4] y) { r = Relu(x) y = MaxPool <kernel_shape = [2,2], strides = [2,2]>(r) }", False),
    ("PT030", "g (float[3,8,8] x) => (float[3,4,4] y) { r = Relu(x) y = MaxPool <kernel_shape = [2,2], strides = [2,2]>(r) }", True),
    # types
    ("TYP019", "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}> { y = Gemm(x, w) }", False),
    ("TYP019", "g (int64[2,2] x) => (int64[2,2] y) <int64[2,2] w = {1, 2, 3, 4}> { y = Gemm(x, w, w) }", True),
    ("OP034", "g (float[2] x) => (float[2] y) <float[2] c = {1, 2}> { y = Mul(x, c) }", False),
    ("OP034", "g (float[2] x) => (float[2] y) <double[2] c = {1, 2}> { y = Mul(x, c) }", True),
    # outputs, and declarations of other tensors
    ("MX059", "g (float[2] x) => (float[2] y) { y = Neg(x) }", False),
    ("MX059", "g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Abs(x) }", True),
    ("PD017", "g (float[2] x) => (float[2] y) <float[2] y> { h = Abs(x) y = Neg(h) }", False),
    ("PD017", "g (float[2] x) => (float[2] y) <float[3] h> { h = Abs(x) y = Neg(h) }", True),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "left"), CASES)
def test_which_rules_are_left(code: str, text: str, left: bool) -> None:
    rule = next(rule for rule in load_rules() if rule.code == code)
    census = take_census(onnx.parser.parse_model(with_head(text)).SerializeToString())
    assert bool(Forecast(census).possible([rule])) is left


RUNS = [
    # operands of a run: `all` is out by one that surely is in it, `any` only by all that may be in it
    ("y = Concat<axis=a>(*xs)", "all", "Concat <axis = 0>(f, i)", False),
    ("y = Concat<axis=a>(*xs)", "all", "Concat <axis = 0>(i, i)", True),
    ("y = Concat<axis=a>(*xs)", "any", "Concat <axis = 0>(f, i)", True),
    ("y = Concat<axis=a>(*xs)", "any", "Concat <axis = 0>(f, f)", False),
    ("y = Concat<axis=a>(first, *xs)", "all", "Concat <axis = 0>(f, i, i)", True),
    ("y = Concat<axis=a>(first, *xs)", "all", "Concat <axis = 0>(f)", True),
    ("y = Concat<axis=a>(first, *xs)", "any", "Concat <axis = 0>(i, f)", False),
    ("y = Concat<axis=a>(*xs, last)", "all", "Concat <axis = 0>(i, f)", True),
    ("y = Concat<axis=a>(*xs, last)", "all", "Concat <axis = 0>(f, i)", False),
    ("y = Concat<axis=a>(*xs, c, ...)", "all", "Concat <axis = 0>(f, i)", True),
    ("y = Concat<axis=a>(*xs, c, ...)", "any", "Concat <axis = 0>(f, f)", True),  # the operands of the run depend on the match
    ("y = Concat<axis=a>(*xs, c, *more)", "all", "Concat <axis = 0>(f, f, f)", True),
    ("y = Sum(first, *xs)", "all", "Sum(f, i)", True),
    ("y = Sum(first, *xs)", "any", "Sum(f, f)", True),
]


@pytest.mark.parametrize(("pattern", "quantifier", "node", "left"), RUNS)
def test_conditions_on_runs_of_operands(pattern: str, quantifier: str, node: str, left: bool) -> None:
    condition = f"where {quantifier} x in xs: dtype(x) in [int32, int64]"
    rules = rule_set(f"rule A001 a <kind: exact> match {{ {pattern} }} {condition} rewrite {{ y = Relu(y) }}")
    text = f"g (float[2] f, int64[2] i) => (y) {{ y = {node} }}"
    census = take_census(onnx.parser.parse_model(with_head(text)).SerializeToString())
    assert bool(Forecast(census).possible(list(rules))) is left


def test_what_other_models_had_does_not_matter() -> None:
    """Answers about a form of node are shared: by models of the same versions, and not where a function has its name."""
    rules = rule_set("rule A001 a <kind: exact> match { y = Relu(x) } where opset() < 14 rewrite { y = Abs(x) }")
    typed = rule_set(
        "rule A002 a <kind: exact> match { y = Neg(h) h = Relu(x) } where dtype(h) == float16 rewrite { y = Abs(x) }"
    )
    text = '<ir_version: 8, opset_import: ["": {0}]> g (float[2] x) => (float[2] y) {{ h = Relu(x) y = Neg(h) }}'
    function = '<domain: "", opset_import: ["": 13]> Relu (x) => (y) { y = Abs(x) }'
    for version, more, below, left in (("13", "", True, False), ("17", "", False, False), ("13", function, True, True)):
        census = take_census(onnx.parser.parse_model(text.format(version) + more).SerializeToString())
        forecast = Forecast(census)
        assert bool(forecast.possible(list(rules))) is below
        assert bool(forecast.possible(list(typed))) is left


def test_what_other_models_declare_does_not_matter() -> None:
    rules = rule_set("rule A001 a <kind: exact> match { y = Abs(h) h = Neg(x) } where is_declared(h, double) rewrite { y = x }")
    for dtype, left in (("float", False), ("double", True), ("float", False), ("double", True)):
        text = f"g (float[2] x) => (float[2] y) <{dtype}[2] h> {{ h = Neg(x) y = Abs(h) }}"
        census = take_census(onnx.parser.parse_model(with_head(text)).SerializeToString())
        assert bool(Forecast(census).possible(list(rules))) is left


def test_what_one_node_declares_is_not_what_all_of_its_kind_declare() -> None:
    """Of the two Casts only that which makes an output of the graph is declared as what it gives."""
    rules = rule_set(
        "rule A001 a <kind: exact> match { y = Cast(x) } where declared_dtype(y) == float16 rewrite { y = Relu(x) }"
    )
    text = """g (float[2] x) => (float[2] y, float[2] z) <float16[2] h> {
        h = Cast<to=1>(x)
        y = Relu(h)
        z = Cast<to=1>(x)
    }"""
    census = take_census(onnx.parser.parse_model(with_head(text)).SerializeToString())
    assert Forecast(census).possible(list(rules))


@pytest.mark.parametrize(("declared", "left"), [("float16", True), ("float", False)])
def test_an_output_of_the_graph_is_declared_as_the_graph_says(declared: str, left: bool) -> None:
    rules = rule_set(
        "rule A001 a <kind: exact> match { y = Cast(x) } where is_output(y) where declared_dtype(y) == float16 "
        "rewrite { y = Relu(x) }"
    )
    text = f"""g (float[2] x) => (float[2] y, {declared}[2] z) <float16[2] h> {{
        h = Cast<to=1>(x)
        y = Relu(h)
        z = Cast<to=1>(x)
    }}"""
    census = take_census(onnx.parser.parse_model(with_head(text)).SerializeToString())
    assert bool(Forecast(census).possible(list(rules))) is left
