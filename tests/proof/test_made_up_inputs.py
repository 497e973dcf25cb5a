"""Inputs that are made up for a model: that they show what a wrong rewrite does, whatever the inputs are called."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model
from rewriter.trust.proof.equivalence import Baseline
from rewriter.trust.proof.layer_comparison import compare_models
from rewriter.trust.proof.model_inputs import (
    EDGES,
    INFINITE,
    LARGE,
    LIMITS,
    ORDINARY,
    POSITIVE,
    feed_sets,
    sizing_inputs,
)
from rewriter.trust.proof.output_agreement import Bound
from rewriter.trust.proof.validity import Candidate

pytest.importorskip("onnxruntime")

HEAD = '<ir_version: 8, opset_import: ["": 17]> g '


def model(text: str) -> onnx.ModelProto:
    found: onnx.ModelProto = onnx.parser.parse_model(HEAD + text)
    return found


def of_one_input(expression: str, name: str, size: int, dtype: str = "float") -> onnx.ModelProto:
    """The operators read `x`, and make `result`."""
    nodes = re.sub(r"\bx\b", name, expression)
    return model(f"({dtype}[{size}] {name}) => ({dtype}[{size}] result) {{ {nodes} }}")


def difference(before: onnx.ModelProto, after: onnx.ModelProto, bound: Bound | None = None) -> str:
    baseline = Baseline(Candidate(Model.from_proto(before)), None)
    return baseline.against(Candidate(Model.from_proto(after)), bound or Bound(ulps=2)).message


# What is computed before and after, for numbers of type float.
WRONG = [
    ("result = Neg(x)", "result = Abs(x)"),
    ("result = Identity(x)", "result = Relu(x)"),
    ("result = Identity(x)", "result = Abs(x)"),
    ("result = Sign(x)", "result = Tanh(x)"),
    ("result = Identity(x)", "result = Floor(x)"),
    ("c = Constant<value = float {0.0}>() result = Max(x, c)", "c = Constant<value = float {1.0}>() result = Max(x, c)"),
    ("c = Constant<value = float {100.0}>() result = Min(x, c)", "result = Identity(x)"),
    ("c = Constant<value = float {3.0e38}>() result = Min(x, c)", "result = Identity(x)"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 60])
@pytest.mark.parametrize(("before", "after"), WRONG)
def test_a_wrong_rewrite_shows_whatever_the_input_is_called(before: str, after: str, size: int) -> None:
    for name in ("x", "a", "y", "data", "x0", "q"):
        assert difference(of_one_input(before, name, size), of_one_input(after, name, size)), name


@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_integers_below_zero_and_large_ones(size: int, dtype: str) -> None:
    same = of_one_input("result = Identity(x)", "x", size, dtype)
    assert difference(same, of_one_input("result = Abs(x)", "x", size, dtype))
    capped = "c = Constant<value_int = 8>() d = CastLike(c, x) result = Min(x, d)"
    if dtype != "int8":
        assert difference(same, of_one_input(capped, "x", size, dtype))


@pytest.mark.parametrize("size", [1, 2])
def test_booleans_of_both_kinds(size: int) -> None:
    same = of_one_input("result = Identity(x)", "x", size, "bool")
    for other in ("result = Or(x, n)", "result = And(x, n)"):  # always true, always false
        assert difference(same, of_one_input(f"n = Not(x) {other}", "x", size, "bool"))


@pytest.mark.parametrize("size", [1, 2, 50])
def test_float16_overflow_of_a_model_with_float_inputs(size: int) -> None:
    """65504 is the largest float16; the model casts to it, and its input is a float."""
    text = "h = Cast<to = 10>({}) result = Cast<to = 1>(h)"
    capped = "c = Constant<value = float {65504.0}>() m = Min(x, c) " + text.format("m")
    found = difference(of_one_input(text.format("x"), "x", size), of_one_input(capped, "x", size))
    assert found == "is infinite in other places on inputs near the limits of the type"


def test_a_refused_index_leaves_the_floats_of_the_set() -> None:
    """Gather knows no place -3 or 7 of two; what the floats of the set show is seen all the same."""
    text = "(float[2] x, int64[2] i) => (float[2] y) {{ a = Gather(x, i) {} }}"
    kept = model(text.format("y = Identity(a)"))
    sorts = [answer.sort for answer in Baseline(Candidate(Model.from_proto(kept)), None).answers]
    assert set(sorts) == {ORDINARY, POSITIVE, EDGES, LARGE, LIMITS, INFINITE}
    cut = model(text.format("c = Constant<value = float {50.0}>() y = Min(a, c)"))
    assert "on large inputs" in difference(kept, cut)


def test_ordinary_numbers_come_first_and_values_of_a_tensor_differ() -> None:
    (sets, *_) = feed_sets(model("(float[3] x, int64[2] i, bool[2] b) => (float[3] y) { y = Identity(x) }"))
    assert [one.sort for one in sets][:3] == [ORDINARY, POSITIVE, EDGES] and len(sets) > 2
    for one in sets[:3]:
        feed = next(one.choices())
        assert len({*feed["x"].tolist()}) == 3 and len({*feed["i"].tolist()}) == 2 and len({*feed["b"].tolist()}) == 2


def test_the_same_model_gets_the_same_and_another_place_another() -> None:
    text = "(float[3] x, float[3] z) => (float[3] y) { y = Add(x, z) }"
    one, other = ([next(s.choices()) for s in next(feed_sets(model(text)))] for _ in range(2))
    for first, second in zip(one, other, strict=True):
        assert all(np.array_equal(first[name], second[name], equal_nan=True) for name in first)
        assert not np.array_equal(first["x"], first["z"], equal_nan=True)


def test_a_large_input_gets_few_sets_of_each_sort() -> None:
    sets = next(feed_sets(model("(float[5000] x) => (float[5000] y) { y = Identity(x) }")))
    assert [one.sort for one in sets] == [ORDINARY, POSITIVE, EDGES, LARGE, LIMITS, INFINITE]


def test_what_decides_a_size_stays_small() -> None:
    graph = model(
        "(int64[1] n, float[N] x, int64[1] k) => (float[M] y, float[K] z, int64[1] w)"
        " { m = Abs(n) y = Expand(x, m) s = Shape(x) z = Reshape(x, s) w = Add(k, k) }"
    )
    assert sizing_inputs(graph, ["n", "x", "k"]) == {"n"}
    sets = next(feed_sets(graph))
    assert max(int(np.max(np.abs(feed["n"]))) for one in sets for feed in one.choices()) < 10
    assert max(int(np.max(np.abs(feed["k"]))) for one in sets for feed in one.choices()) >= 2**62


def test_sizes_are_found_through_bodies() -> None:
    graph = model(
        "(int64 n, bool c, float[2] x, float[2] other) => (float[2] y) { y = Loop<body = b "
        "(int64 i, bool t, float[2] a) => (bool u, float[2] o) { u = Identity(t) o = Add(a, other) }>(n, c, x) }"
    )
    assert sizing_inputs(graph, ["n", "c", "x", "other"]) == {"n"}


def test_approx_promises_nothing_of_what_overflowed_or_was_infinite() -> None:
    squares = of_one_input("s = Mul(x, x) result = Sqrt(s)", "x", 4)
    magnitude = of_one_input("result = Abs(x)", "x", 4)
    assert difference(squares, magnitude)
    assert not difference(squares, magnitude, Bound(rtol=1e-5, approximate=True))
    assert difference(squares, of_one_input("result = Relu(x)", "x", 4), Bound(rtol=1e-5, approximate=True))


def test_random_outputs_are_found_on_every_set() -> None:
    text = "(float[{}] x) => (float[{}] y, float[{}] z) {{ r = RandomUniformLike(x) y = Add(r, x) z = {} }}"
    before, after = model(text.format(4, 4, 4, "Neg(x)")), model(text.format(4, 4, 4, "Neg(x)"))
    assert not difference(before, after)
    assert difference(before, model(text.format(4, 4, 4, "Abs(x)")))


@pytest.mark.parametrize(("one", "other"), [("Neg", "Abs"), ("Identity", "Relu")])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_compare_sees_it_too(tmp_path: Path, one: str, other: str, size: int) -> None:
    for name in (one, other):
        onnx.save(of_one_input(f"result = {name}(x)", "x", size), tmp_path / f"{name}.onnx")
    options = {"inputs": None, "rtol": 1e-4, "atol": 1e-6, "memory": 1 << 20, "layers": False}
    found = compare_models(tmp_path / f"{one}.onnx", tmp_path / f"{other}.onnx", **options)  # type: ignore[arg-type]
    assert not found.same and found.sets > 2
    assert compare_models(tmp_path / f"{one}.onnx", tmp_path / f"{one}.onnx", **options).same  # type: ignore[arg-type]


@pytest.mark.parametrize("code", sorted(code for code in onnx.TensorProto.DataType.values() if code))
def test_values_of_every_element_type(code: int) -> None:
    made = onnx.helper.make_tensor_value_info("x", code, [2, 3])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "g", [made], [])
    for sets in feed_sets(onnx.helper.make_model(graph)):
        for one in sets:
            for feed in one.choices():
                assert np.shape(feed["x"]) == (2, 3)


def test_no_elements_along_an_axis_without_an_end() -> None:
    """NumPy refuses such an array, though it is empty."""
    with pytest.raises(RewriterError, match="its shape is 0x2x9223372036854775807"):
        next(feed_sets(model(f"(float[0,2,{2**63 - 1}] x) => (float[0] y) {{ y = Relu(x) }}")))
