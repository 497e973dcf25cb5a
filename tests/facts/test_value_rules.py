"""Partially known values: how they travel through the operators that compute shapes, and the shapes that follow from them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewriter.core.facts import shape_rules as sv
from rewriter.core.facts.facts import Facts, ShapeValue
from rewriter.core.facts.shape_rules import quotient
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model

Dim = int | str | None


def found(nodes: str, opset: int = 17) -> tuple[Facts, gs.Tensor]:
    """Facts of a model that computes with the shape `s` of its input x, and its output y."""
    graph = f"g (float[N,3,H,8] x, int64 u, int64[2] v) => (y) {{ s = Shape(x) {nodes} }}"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {graph}')
    model = Model.from_proto(proto)
    return Facts(GraphIndex(model.graph)), model.graph.outputs[0]


def ints(name: str, *items: int) -> str:
    return f"{name} = Constant<value_ints=[{','.join(map(str, items))}]>() "


@pytest.mark.parametrize(
    ("nodes", "shape", "items"),
    [
        ("y = Identity(s)", (4,), ("N", 3, "H", 8)),
        ("y = Shape<start=1, end=-1>(x)", (2,), (3, "H")),
        ("y = Size(x)", (), (None,)),
        (ints("i", 0) + "y = Gather(s, i)", (1,), ("N",)),
        ("i = Constant<value_int=-1>() y = Gather(s, i)", (), (8,)),
        ("i = Constant<value = int64[2,1] {0, 3}>() y = GatherND(s, i)", (2,), ("N", 8)),
        (ints("a", 1) + ints("b", 3) + "y = Slice(s, a, b)", (2,), (3, "H")),
        (ints("a", -1) + ints("b", -9) + ints("z", 0) + ints("t", -2) + "y = Slice(s, a, b, z, t)", (2,), (8, 3)),
        (ints("k", -1) + "y = Concat<axis=0>(s, v, k)", (7,), ("N", 3, "H", 8, None, None, -1)),
        (ints("k", 2, 2) + "a, y = Split(s, k)", (2,), ("H", 8)),
        (ints("k", 1, 2, 1, 2) + "y = Mul(s, k)", (4,), ("N", 6, "H", 16)),
        (ints("k", 0, 1, 0, -8) + "y = Add(s, k)", (4,), ("N", 4, "H", 0)),
        (ints("k", 2) + "y = Div(s, k)", (4,), (None, 1, None, 4)),
        (ints("k", 1) + "y = Div(s, k)", (4,), ("N", 3, "H", 8)),
        (ints("k", 5) + "y = Mod(s, k)", (4,), (None, 3, None, 3)),
        (ints("k", 0) + "y = Max(s, k)", (4,), ("N", 3, "H", 8)),
        (ints("k", 1) + "y = Max(s, k)", (4,), (None, 3, None, 8)),
        ("y = Sub(s, s)", (4,), (0, 0, 0, 0)),
        (ints("p", 2, 1) + "y = Pad(s, p)", (7,), (0, 0, "N", 3, "H", 8, 0)),
        (ints("p", 1, 0) + "k = Constant<value_int=1>() y = Pad(s, p, k)", (5,), (1, "N", 3, "H", 8)),
        (ints("p", 1, 0) + 'y = Pad<mode="edge">(s, p)', (5,), None),
        (ints("p", 0, -1) + "y = Pad(s, p)", (3,), None),
        (ints("k", -1) + "e = Equal(s, k) y = Cast<to=7>(e)", (4,), (0, 0, 0, 0)),
        (ints("k", 3) + "e = Equal(s, k) y = Cast<to=7>(e)", (4,), (None, 1, None, 0)),
        (ints("k", 0) + "g = GreaterOrEqual(s, k) o = Not(g) y = Cast<to=6>(o)", (4,), (0, 0, 0, 0)),
        (ints("k", 3) + ints("z", 9) + "e = Equal(s, k) y = Where(e, z, s)", (4,), (None, 9, None, 8)),
        ("f = Cast<to=1>(s) h = Floor(f) y = Cast<to=7>(h)", (4,), ("N", 3, "H", 8)),
        ("f = Cast<to=10>(s) y = Cast<to=7>(f)", (4,), (None, 3, None, 8)),
        ("y = ReduceProd<axes=[0], keepdims=0>(s)", (), (None,)),
        (ints("a", 1) + ints("b", 2) + "w = Slice(s, a, b) y = ReduceProd(w)", (1,), (3,)),
        ("y = ReduceMax<axes=[0]>(s)", (1,), (None,)),
        (ints("z", 0) + "i = Constant<value_int=0>() n = Gather(s, i) y = Unsqueeze(n, z)", (1,), ("N",)),
        (ints("i", 2) + ints("z", 0) + "h = Gather(s, i) y = Squeeze(h, z)", (), ("H",)),
        (ints("k", 3) + "y = ConstantOfShape<value = int64[1] {7}>(k)", (3,), (7, 7, 7)),
        (ints("k", 2) + "t = Tile(s, k) y = Identity(t)", (8,), ("N", 3, "H", 8) * 2),
        (
            "a = Constant<value_int=2>() b = Constant<value_int=9>() c = Constant<value_int=3>() y = Range(a, b, c)",
            (3,),
            (2, 5, 8),
        ),
        ("q = Constant<value_float=9.0>() r = Sqrt(q) y = Cast<to=7>(r)", (), (3,)),
        ("q = Constant<value_float=2.5>() p = Constant<value_float=4.0>() r = Mul(q, p) y = Cast<to=7>(r)", (), (10,)),
        ("y = Neg(s)", (4,), (None, -3, None, -8)),
        ("y = Reshape(s, v)", None, None),
        (ints("k", 2, 2) + "y = Reshape(s, k)", None, None),
        ("y = Add(u, u)", (), (None,)),
        ("y = Relu(x)", None, None),
    ],
)
def test_values(nodes: str, shape: tuple[int, ...] | None, items: tuple[Dim, ...] | None) -> None:
    facts, tensor = found(nodes)
    assert facts.value(tensor) == (None if shape is None or items is None else ShapeValue(shape, items))


def test_values_through_attributes_of_older_versions() -> None:
    facts, tensor = found("w = Slice<axes=[0], starts=[1], ends=[3]>(s) a, y = Split<axis=0, split=[1,1]>(w)", opset=9)
    assert facts.value(tensor) == ShapeValue((1,), ("H",))
    facts, tensor = found("i = Constant<value = int64 {0}>() n = Gather(s, i) y = Unsqueeze<axes=[0]>(n)", opset=9)
    assert facts.value(tensor) == ShapeValue((1,), ("N",))


def test_scattered_items() -> None:
    facts, tensor = found("i = Constant<value = int64[1,1] {2}>() " + ints("k", 5) + "y = ScatterND(s, i, k)")
    assert facts.value(tensor) == ShapeValue((4,), ("N", 3, 5, 8))
    facts, tensor = found("i = Constant<value = int64[2,1] {2, 2}>() " + ints("k", 5, 6) + "y = ScatterND(s, i, k)")
    assert facts.value(tensor) is None  # either may stay


def test_a_value_that_is_wholly_known_is_a_constant() -> None:
    facts, tensor = found(ints("a", 1) + ints("b", 2) + "y = Slice(s, a, b)")
    assert facts.is_constant(tensor)
    np.testing.assert_array_equal(facts.constant(tensor), np.array([3]), strict=True)


def test_what_an_element_type_cannot_hold_is_unknown() -> None:
    facts, tensor = found("k = Constant<value_int=4611686018427387904>() y = Mul(s, k)")
    assert facts.value(tensor) == ShapeValue((4,), (None,) * 4)


def test_long_tensors_are_not_followed() -> None:
    facts, tensor = found(ints("k", 100000) + "y = ConstantOfShape<value = int64[1] {7}>(k)")
    assert facts.value(tensor) is None
    assert facts.is_constant(tensor) and facts.constant(tensor).shape == (100000,)


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        (ints("i", 0) + ints("k", -1) + "n = Gather(s, i) t = Concat<axis=0>(n, k) y = Reshape(x, t)", ("N", None)),
        (ints("i", 0, 2) + ints("k", -1) + "n = Gather(s, i) t = Concat<axis=0>(n, k) y = Reshape(x, t)", ("N", "H", 24)),
        (ints("k", 0, 0, -1) + "y = Reshape(x, k)", ("N", 3, None)),
        (ints("k", 0, 3, 2, 4, -1) + "y = Reshape(x, k)", ("N", 3, 2, 4, "H")),
        ("y = ConstantOfShape(s)", ("N", 3, "H", 8)),
        (ints("i", 0) + ints("k", 5) + "n = Gather(s, i) t = Concat<axis=0>(k, n, k) y = Expand(u, t)", (5, "N", 5)),
        ("y = Expand(x, s)", ("N", 3, "H", 8)),
        ("o = Constant<value_floats=[1.0]>() i = Constant<value_int=0>() n = Gather(s, i) z = Constant<value_int=0>()"
         " e = Constant<value_int=1>() y = Range(z, n, e)", ("N",)),
        (ints("a", 0) + ints("b", 2) + ints("z", 1) + "y = Slice(x, a, b, z)", ("N", 2, "H", 8)),
        (ints("a", 0) + ints("b", 2) + ints("z", 2) + "y = Slice(x, a, b, z)", ("N", 3, None, 8)),
        (ints("a", 0) + ints("b", 9223372036854775807) + ints("z", 2) + "y = Slice(x, a, b, z)", ("N", 3, "H", 8)),
        (ints("i", 2) + ints("a", 0) + ints("z", 2) + "b = Gather(s, i) y = Slice(x, a, b, z)", ("N", 3, "H", 8)),
        (ints("k", 1, 2, 1, 1) + "y = Tile(x, k)", ("N", 6, "H", 8)),
        (ints("k", 0, 0, 0, 1, 0, 0, 0, 1) + "y = Pad(x, k)", ("N", 3, "H", 10)),
        ("r = Constant<value_floats=[1.0, 1.0, 1.0, 2.0]>() y = Resize(x, , r)", ("N", 3, "H", 16)),
        (ints("i", 0, 1) + ints("k", 7, 9) + "n = Gather(s, i) t = Concat<axis=0>(n, k) y = Resize(x, , , t)", ("N", 3, 7, 9)),
        ("y = Flatten(x)", ("N", None)),
        ("y = Flatten<axis=0>(x)", (1, None)),
        ("y = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(x)", ("N", 3, "H", 8)),
        ("y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x)", ("N", 3, None, 4)),
        (ints("k", 2) + "y, i = TopK<axis=3>(x, k)", ("N", 3, "H", 2)),
        (ints("i", 0) + "k = Gather(s, i) y, j = TopK<axis=3>(x, k)", ("N", 3, "H", "N")),
        ("y = DepthToSpace<blocksize=1>(x)", ("N", 3, "H", 8)),
    ],
)  # fmt: skip
def test_shapes_that_follow_from_partial_values(nodes: str, shape: tuple[Dim, ...]) -> None:
    facts, tensor = found(nodes)
    assert facts.shape(tensor) == shape


@pytest.mark.parametrize(
    ("whole", "part", "left"),
    [
        (("N", 3, "H"), ("N",), None),
        (("N", 3, "H"), ("N", 3), "H"),
        (("N", 3, 8), ("N", 4), 6),
        (("N", 3, 8), ("N", 5), None),
        (("N", "N"), ("N",), "N"),
        (("N",), ("M",), None),
        ((None,), (None,), None),
        ((0, 3), (0,), None),
        ((), (), 1),
    ],
)
def test_what_is_left_of_a_shape(whole: tuple[Dim, ...], part: tuple[Dim, ...], left: Dim) -> None:
    assert quotient(whole, part) == left


items = st.one_of(st.integers(-4, 9), st.sampled_from(["N", "M"]), st.none())
lengths = st.fixed_dictionaries({"N": st.integers(0, 6), "M": st.integers(0, 6)})


@settings(max_examples=300, deadline=None)
@given(items, items, lengths, st.integers(-3, 3), st.integers(-3, 3))
def test_arithmetic_never_says_more_than_is_true(a: Dim, b: Dim, dims: dict[str, int], hidden: int, other: int) -> None:
    left, right = (dims.get(x, y) if x is None or isinstance(x, str) else x for x, y in ((a, hidden), (b, other)))
    truths = {
        sv.add: left + right, sv.subtract: left - right, sv.multiply: left * right, sv.largest: max(left, right),
        sv.smallest: min(left, right), sv.equal: int(left == right), sv.less: int(left < right),
    }  # fmt: skip
    if right:
        truths |= {sv.divide: int(left / right), sv.modulo: left % right, sv.truncated_modulo: int(np.fmod(left, right))}
    for step, truth in truths.items():
        answer = step(a, b)
        assert answer is None or dims.get(answer, answer) == truth, (step, a, b)
