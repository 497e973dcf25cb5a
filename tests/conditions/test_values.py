"""Numbers that are words, `float(...)`, and parts of lists and constants along an axis."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from rewriter.core.conditions.rule_values import UNKNOWN, Symbol
from rewriter.core.conditions.value_functions import ARRAY_BODIES
from rewriter.core.language.parse import parse
from rewriter.rule_tools.checks.check import check
from tests.engine.helpers import rewrite_text

W = "<float[2,4] w = {0, 1, 2, 3, 4, 5, 6, 7}>"


@pytest.mark.parametrize(
    "value, wanted",
    [
        ("take(w, 0..1, 1)", [[0, 1], [4, 5]]),
        ("take(w, -1.., 1)", [[3], [7]]),
        ("take(w, [2, 0], 1)", [[2, 0], [6, 4]]),
        ("take(w, 1, 0)", [4, 5, 6, 7]),
        ("take(w, 1..2)", [1, 2]),
        ("take(to_list(w), 1..2)", [1, 2]),
        ("take(shape(w), 0..)", [2, 4]),
        ("w[1..]", [[4, 5, 6, 7]]),
        ('[inf, -inf, float("1.5")]', [np.inf, -np.inf, 1.5]),
        ("float{nan}", np.nan),
    ],
)
def test_values(value: str, wanted: object) -> None:
    constant = value if value.startswith("float{") else f"float{{{value}}}"
    rule = f"rule VAL001 v <kind: lossy> match {{ y = MatMul(x, const w) }} rewrite {{ y = Mul(x, {constant}) }}"
    outcome = rewrite_text(f"g (float[1,2] x) => (float[1,4] y) {W} {{ y = MatMul(x, w) }}", rule)
    assert outcome.fired == ["VAL001"], outcome.log.blocked
    made = onnx.numpy_helper.to_array(outcome.proto.graph.initializer[-1])
    assert np.array_equal(made, np.array(wanted, np.float32), equal_nan=True)


@pytest.mark.parametrize(
    "value, wanted",
    [
        ("-cast(5, float) * 2", -10.0),  # of a constant without dimensions
        ("-to_list(w)", -np.arange(8.0)),
        ("-[1, 2.5]", [-1.0, -2.5]),
    ],
)
def test_a_minus_sign(value: str, wanted: object) -> None:
    rule = f"rule VAL010 v <kind: lossy> match {{ y = MatMul(x, const w) }} rewrite {{ y = Mul(x, float{{{value}}}) }}"
    outcome = rewrite_text(f"g (float[1,2] x) => (float[1,4] y) {W} {{ y = MatMul(x, w) }}", rule)
    made = onnx.numpy_helper.to_array(outcome.proto.graph.initializer[-1])
    assert np.array_equal(made, np.array(wanted, np.float32))


def test_a_minus_sign_in_front_of_truth_values() -> None:
    rule = "rule VAL011 v <kind: lossy> match { y = MatMul(x, const w) } where all(-(w > 3) < 1) rewrite { y = Relu(x) }"
    outcome = rewrite_text(f"g (float[1,2] x) => (float[1,4] y) {W} {{ y = MatMul(x, w) }}", rule)
    assert ["is not a number" in one.reason for one in outcome.log.blocked] == [True]


def test_a_list_has_one_axis() -> None:
    rule = "rule VAL002 v <kind: exact> match { y = Relu(x) } where all(take(shape(x), 0, 1) == 1) rewrite { y = x }"
    assert [b.reason for b in rewrite_text("g (float[1] x) => (float[1] y) { y = Relu(x) }", rule).log.blocked] == [
        "a list has one axis"
    ]


def test_nan_is_kept_as_it_is_written() -> None:
    file, problems = parse("rule VAL003 v <kind: lossy> match { y = Relu(x) } rewrite { y = Mul(x, {nan}) }", "<test>")
    assert not problems and not check(file)
    assert parse(file.text, "<test>")[0] == file


@pytest.mark.parametrize(
    "value", ["cast(n.kernel_shape, int64)[0]", "sum(n.kernel_shape)", "to_list(n.kernel_shape == cast([1, 2], float))[0]"]
)
def test_a_graph_where_numbers_should_be_is_named(value: str, capfd: pytest.CaptureFixture[str]) -> None:
    """NumPy asks it for an array, and graphsurgeon then prints errors."""
    inner = "h () => (float z) { z = Constant<value_float=1.0>() }"
    rule = f"rule VAL004 v <kind: exact> match {{ [n] y = AveragePool(x) }} where {value} == 1 rewrite {{ y = x }}"
    outcome = rewrite_text(f"g (float[1,1,2,2] x) => (y) {{ y = AveragePool<kernel_shape = {inner}>(x) }}", rule)
    assert [blocked.error for blocked in outcome.log.blocked] == [True]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sum", ([1, UNKNOWN],)),
        ("sum", (np.ones(3), [UNKNOWN])),
        ("concat", ([1], [Symbol("N")], 0)),
        ("reshape", (np.ones(3), [Symbol("N"), 1])),
        ("zeros", ([2, UNKNOWN],)),
    ],
)
def test_unknown_items_make_a_whole_array_unknown(name: str, arguments: tuple[object, ...]) -> None:
    assert ARRAY_BODIES[name](None, *arguments) is UNKNOWN


def blocked_by(condition: str) -> list[tuple[bool, str]]:
    """(whether it is an error, the reason) of a rule with this condition, which does not fire at a batch of unknown length."""
    rule = f"rule VAL005 v <kind: exact> match {{ y = Relu(x) }} where {condition} rewrite {{ y = x }}"
    outcome = rewrite_text("g (float[N,2] x) => (float[N,2] y) { y = Relu(x) }", rule)
    assert outcome.fired == []
    return [(blocked.error, blocked.reason) for blocked in outcome.log.blocked]


@pytest.mark.parametrize(
    "condition",
    [
        "int(dim(x, 0)) > 2",
        "float(dim(x, 0)) / 2 > 2.0",
        "max(dim(x, 0), 3) > 2",
        "sqrt(dim(x, 0)) > 2.0",
        "len(range(dim(x, 0))) > 2",
        "any(repeat([1, 2], dim(x, 0)) == 2)",
        "any(take([1, 2], dim(x, 0)) == 2)",
        "any(take([1, 2], [dim(x, 0)]) == 2)",
        "[1, 2][dim(x, 0)] == 2",
        "sum([1, 2, 3][..dim(x, 0)]) == 6",
        "axis(dim(x, 0), x) == 1",
        "dim(x, dim(x, 0)) == 2",
        "-dim(x, 0) < 0",
        "all(-shape(x) == [-1, -2])",
    ],
)
def test_a_number_computed_from_a_dimension_known_by_name_is_unknown(condition: str) -> None:
    assert blocked_by(condition) == [(False, "the condition is unknown")]


@pytest.mark.parametrize("function", ["int", "floor", "ceil", "round"])
def test_a_dimension_known_by_name_is_whole(function: str) -> None:
    rule = f"rule VAL006 v <kind: exact> match {{ y = Relu(x) }} where {function}(dim(x, 0)) == dim(y, 0) rewrite {{ y = x }}"
    assert rewrite_text("g (float[N,2] x) => (float[N,2] y) { y = Relu(x) }", rule).fired == ["VAL006"]


@pytest.mark.parametrize("condition", ["all(w >= shape(x))", "all(w == shape(x))", "any(w != shape(x))"])
@pytest.mark.parametrize("shape", ["[N,4]", "[?,4]"])
def test_a_constant_beside_lengths_that_are_unknown_is_no_error(condition: str, shape: str) -> None:
    """The list of the lengths then has items that are no numbers."""
    rule = f"rule VAL004 v <kind: exact> match {{ y = Reshape(x, const w) }} where {condition} rewrite {{ y = x }}"
    model = f"g (float{shape} x) => (float[2,4] y) <int64[2] w = {{2, 4}}> {{ y = Reshape(x, w) }}"
    outcome = rewrite_text(model, rule)
    assert outcome.fired == []
    assert [blocked.error for blocked in outcome.log.blocked] == [False]


def test_a_constant_beside_lengths_in_part_known() -> None:
    rule = "rule VAL005 v <kind: exact> match { y = Reshape(x, const w) } where any(w != shape(x)) rewrite { y = x }"
    model = "g (float[N,3] x) => (float[] y) <int64[2] w = {0, 4}> { y = Reshape(x, w) }"
    assert rewrite_text(model, rule).fired == ["VAL005"]
