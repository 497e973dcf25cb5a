"""Two models differ in what they compute from what, and in nothing else."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewriter.trust.difference import Difference, compare, compare_files

MODELS = Path(__file__).parent.parent / "models"
HEAD = '<ir_version: 8, opset_import: ["": 13]>'
BASE = (
    "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}> { a = MatMul(x, w) b = Relu(a) y = Softmax<axis=1>(b) }"
)


def model(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(text if text.startswith("<") else f"{HEAD} {text}")


def differences(one: str, other: str) -> list[Difference]:
    return list(compare(model(one), model(other)))


def told(one: str, other: str) -> list[tuple[str, str, str, str | None, str | None]]:
    return [(d.kind, d.name, d.part, d.before, d.after) for d in differences(one, other)]


@pytest.mark.parametrize(
    "other",
    [
        BASE,
        BASE.replace("a", "aa").replace("fflo", "flo").replace("floaat", "float").replace("MaatMul", "MatMul")
        .replace("Softmaax", "Softmax").replace("aaxis", "axis"),
        BASE.replace(" w", " weight").replace("(x, w)", "(x, weight)"),
        "g (float[2,2] x) => (float[2,2] y) { w = Constant<value = float[2,2] {1, 2, 3, 4}>() a = MatMul(x, w) b = Relu(a) "
        "y = Softmax<axis=1>(b) }",
    ],
    ids=["itself", "inner names", "an initializer's name", "a Constant node"],
)  # fmt: skip
def test_what_is_no_difference(other: str) -> None:
    assert differences(BASE, other) == []


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (BASE.replace("axis=1", "axis=0"), [("attribute", "y", "axis", "1", "0")]),
        (BASE.replace("<axis=1>", ""), [("attribute", "y", "axis", "1", None)]),
        (
            BASE.replace("Relu", "Tanh"),
            [
                ("node", "b", "", "b = Relu(a)", None),
                ("operand", "y", "0", "b, made by Relu", "b, made by Tanh"),
                ("node", "b", "", None, "b = Tanh(a)"),
            ],
        ),
        (
            BASE.replace("y = Softmax<axis=1>(b)", "c = Abs(b) y = Softmax<axis=1>(c)"),
            [("operand", "y", "0", "b, made by Relu", "c, made by Abs"), ("node", "c", "", None, "c = Abs(b)")],
        ),
        (
            BASE.replace("b = Relu(a) ", "").replace("(b)", "(a)"),
            [("node", "b", "", "b = Relu(a)", None), ("operand", "y", "0", "b, made by Relu", "a, made by MatMul")],
        ),
        (BASE.replace("MatMul(x, w)", "MatMul(w, x)"), [
            ("operand", "a", "0", "x, an input", "w, float[2,2]"),
            ("operand", "a", "1", "w, float[2,2]", "x, an input"),
        ]),
        (BASE.replace("float[2,2] x", "float[N,2] x"), [("input", "x", "", "float[2,2]", "float[N,2]")]),
        (BASE.replace("float[2,2] y", "float[2,2] z").replace("y =", "z ="), [
            ("output", "y", "", "float[2,2]", None),
            ("output", "z", "", None, "float[2,2]"),
        ]),
        ('<ir_version: 9, opset_import: ["": 14], producer_name: "p">' + BASE, [
            ("model", "ir_version", "", "8", "9"),
            ("model", "producer_name", "", None, "p"),
            ("opset", "ai.onnx", "", "13", "14"),
        ]),
    ],
)  # fmt: skip
def test_one_difference_is_told_alone(other: str, expected: list[tuple[str, ...]]) -> None:
    assert told(BASE, other) == expected


def test_a_weight_is_compared_by_its_values() -> None:
    found = differences(BASE, BASE.replace("{1, 2, 3, 4}", "{1, 2, 3, 6.5}"))
    assert [(d.kind, d.name, d.before, d.after) for d in found] == [("constant", "w", "float[2,2]", "float[2,2]")]
    numbers = found[0].statistics
    assert numbers is not None
    assert (numbers.differing, numbers.elements, numbers.largest) == (1, 4, 2.5)
    assert (numbers.before, numbers.after) == ((1, 4, 2.5), (1, 6.5, 3.125))


def test_a_weight_of_another_shape_has_no_statistics() -> None:
    found = differences(BASE, BASE.replace("float[2,2] w = {1, 2, 3, 4}", "float[2,1] w = {1, 2}"))
    assert [(d.before, d.after, d.statistics) for d in found] == [("float[2,2]", "float[2,1]", None)]


def test_nan_equals_nan_and_is_told_where_it_is_new() -> None:
    def proto(values: list[float]) -> onnx.ModelProto:
        w = numpy_helper.from_array(np.array(values, np.float32), "w")
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
        return helper.make_model(helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [w]))

    assert list(compare(proto([1, np.nan]), proto([1, np.nan]))) == []
    numbers = next(iter(compare(proto([1, 2]), proto([1, np.nan])))).statistics
    assert numbers is not None and numbers.differing == 1 and np.isnan(numbers.largest)


IF = """g (bool c, float[2] x) => (y) {
  h = Abs(x)
  y = If(c) <then_branch = t () => (float[2] a) { r = Relu(h) a = Neg(r) }, else_branch = e () => (float[2] b) { b = Abs(h) }>
}"""


def test_bodies_are_compared_in_place() -> None:
    assert (
        differences(
            IF, IF.replace("r = Relu(h) a = Neg(r)", "q = Relu(h) a = Neg(q)").replace("(float[2] b) { b", "(float[2] k) { k")
        )
        == []
    )
    found = differences(IF, IF.replace("{ b = Abs(h) }", "{ b = Abs(x) }"))
    assert [(d.place, d.kind, d.before, d.after) for d in found] == [("y.else_branch", "operand", "h", "x")]


F = """<ir_version: 10, opset_import: ["": 13, "l": 1]> g (float[2,2] x) => (float[2,2] y) { y = l.F(x) }
<domain: "l", opset_import: ["": 13]> F <alpha: float = 0.5> (u) => (r) { r = LeakyRelu<alpha: float = @alpha>(u) }"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (F, F.replace("0.5", "0.1"), ("attribute", "defaults", "0.5", "0.1")),
        (F, F.replace('["": 13]> F', '["": 16]> F'), ("opset", "ai.onnx", "13", "16")),
        (
            "g (float[4] x) => (float[N] a) { a, b = Split(x) }",
            "g (float[4] x) => (float[N] a) { a, b, c = Split(x) }",
            ("node", "a", "a, b = Split(x)", "a, b, c = Split(x)"),
        ),
        (
            "g (float[2] x) => (float[2] y) { y = Relu(x) }",
            "g (float[2] x) => (float[2] y, float[2] y) { y = Relu(x) }",
            ("output", "y (2)", None, "float[2]"),
        ),
        (
            "g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {3, 4}> { t = Add(x, w)  y = Mul(t, v) }",
            "g (float[2] x, float[2] v) => (float[2] y) <float[2] w = {1, 2}, float[2] v = {3, 4}> { t = Add(x, w)  y = Mul(t, v) }",
            ("input", "initializers among the inputs", "w", "v"),
        ),
    ],
)
def test_what_callers_and_functions_say_counts(before: str, after: str, expected: tuple[str | None, ...]) -> None:
    parsed = [onnx.parser.parse_model(text) if text.startswith("<") else model(text) for text in (before, after)]
    found = list(compare(*parsed))
    assert [(one.kind, one.name, one.before, one.after) for one in found] == [expected]


def test_functions_by_name() -> None:
    text = '<ir_version: 8, opset_import: ["": 13, "l": 1]> g (float[2] x) => (y) { y = l.f(x) } <domain: "l", opset_import: ["": 13]> f (p) => (q) { q = Relu(p) }'
    assert differences(text, text.replace("(p) => (q) { q = Relu(p) }", "(m) => (n) { n = Relu(m) }")) == []
    found = differences(text, text.replace("Relu", "Tanh"))
    assert {(d.place, d.kind) for d in found} == {("function l::f", "node"), ("function l::f", "result")}


def test_metadata_and_order_of_inputs() -> None:
    one, other = model("g (float x, float z) => (y) { y = Sub(x, z) }"), model("g (float z, float x) => (y) { y = Sub(x, z) }")
    helper.set_model_props(one, {"a": "1", "b": "2"})
    helper.set_model_props(other, {"b": "3"})
    assert [(d.kind, d.name, d.before, d.after) for d in compare(one, other)] == [
        ("metadata", "a", "1", None),
        ("metadata", "b", "2", "3"),
        ("input", "order", "x, z", "z, x"),
    ]


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_recorded_exports_with_other_names_and_another_order(path: Path) -> None:
    """Every inner name is another one, and the nodes stand in another order."""
    assert compare_files(path, path) == []
    one, other = onnx.load(path), onnx.load(path)
    known = {value.name for value in (*other.graph.input, *other.graph.output)}
    for number, node in enumerate(other.graph.node):
        node.name = f"n{number}"
        for names in (node.input, node.output):
            names[:] = [name if name in known or not name else f"{name}_renamed" for name in names]
    for tensor in (*other.graph.initializer, *other.graph.value_info):
        tensor.name = tensor.name if tensor.name in known else f"{tensor.name}_renamed"
    assert list(compare(one, other)) == []


@pytest.mark.parametrize("seed", range(12))
def test_one_change_in_a_long_chain_is_all_that_is_told(seed: int) -> None:
    """Two hundred nodes of few operators; one attribute of one of them differs."""
    chance = random.Random(seed)
    lines, names = [], ["x"]
    for number in range(200):
        operand = chance.choice(names[-3:])
        if chance.random() < 0.3:
            lines.append(f"t{number} = Add({operand}, {chance.choice(names[-6:])})")
        else:
            lines.append(f"t{number} = LeakyRelu<alpha = 0.{number + 100}>({operand})")
        names.append(f"t{number}")
    lines.append(f"y = Sum({', '.join(names)})")
    text = "g (float[2] x) => (y) { " + " ".join(lines) + " }"
    at = chance.choice([number for number in range(200) if f"= 0.{number + 100}>" in text])
    found = differences(text, text.replace(f"= 0.{at + 100}>", "= 0.9>"))
    assert [(d.kind, d.name, d.part) for d in found] == [("attribute", f"t{at}", "alpha")]


@pytest.mark.parametrize("name", ["value_int", "value_ints", "value_float", "value_floats", "value_string", "value_strings"])
def test_a_constant_whose_attribute_has_another_type_is_no_error(name: str) -> None:
    wrong = 3 if name != "value_int" else [3]
    node = onnx.helper.make_node("Constant", [], ["y"], **{name: wrong})
    graph = onnx.helper.make_graph([node], "g", [], [onnx.helper.make_tensor_value_info("y", 7, [1])])
    model = onnx.helper.make_model(graph)
    assert list(compare(model, model)) == []
