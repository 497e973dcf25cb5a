"""A dimension that gets a name: everything behind it follows, or the model stays as it is and says why."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper

import rewriter
from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.run import run
from rewriter.core.log import Log
from rewriter.repairs.dim_follow.mend import aligned
from rewriter.trust.proof import judges
from rewriter.trust.proof.model_inputs import random_feeds

RULES = rewriter.load_rules().select(["SURG010"], [])


def model(text: str, opset: int = 13) -> onnx.ModelProto:
    return helper.make_model(onnx.parser.parse_graph(text), opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def named(before: onnx.ModelProto, size: int) -> tuple[onnx.ModelProto, Log]:
    loaded = rewriter.Model.from_proto(before)
    log = run(loaded.graph, RULES, Knowledge(settings={("SURG010", "size"): size}))
    return loaded.to_proto(), log


FLOWS = {
    "flatten by Reshape": (2, "g (float[2,3,4] x) => (float[2,12] y) <int64[2] s = {2, 12}> { y = Reshape(x, s) }"),
    "the rest is open": (2, "g (float[2,3,4] x) => (float[2,12] y) <int64[2] s = {2, -1}> { y = Reshape(x, s) }"),
    "of one, the rest is open": (1, "g (float[1,3,4] x) => (float[1,12] y) <int64[2] s = {1, -1}> { y = Reshape(x, s) }"),
    "merged with what follows": (
        2,
        """g (float[2,3,4] x) => (float[2,3,4] y) <int64[2] s = {6, 4}, int64[3] t = {2, 3, 4}> {
          m = Reshape(x, s)  r = Softmax(m)  y = Reshape(r, t) }""",
    ),
    "heads of attention, and back": (
        2,
        """g (float[2,5,8] x) => (float[2,5,8] y) <int64[4] s = {2, 5, 2, 4}, int64[3] t = {2, 5, 8}> {
          h = Reshape(x, s)  p = Transpose<perm=[0,2,1,3]>(h)  q = Softmax(p)
          b = Transpose<perm=[0,2,1,3]>(q)  y = Reshape(b, t) }""",
    ),
    "behind a Transpose": (
        2,
        """g (float[2,5,8] x) => (float[5,2,4,2] y) <int64[4] s = {5, 2, 4, 2}> {
          t = Transpose<perm=[1,0,2]>(x)  y = Reshape(t, s) }""",
    ),
    "a class token": (
        1,
        """g (float[1,3,4] x) => (float[1,4,4] y) <float[1,1,4] c = {1, 2, 3, 4}> { y = Concat<axis=1>(c, x) }""",
    ),
    "a class token for each": (
        2,
        """g (float[2,3,2] x) => (float[2,4,2] y) <float[2,1,2] c = {1, 2, 1, 2}> { y = Concat<axis=1>(c, x) }""",
    ),
    "a bias for each": (2, "g (float[2,3] x) => (float[2,3] y) <float[2,3] b = {1, 2, 3, 1, 2, 3}> { y = Add(x, b) }"),
    "an Expand to the size": (
        2,
        "g (float[2,1,3] x) => (float[2,4,3] y) <int64[3] s = {2, 4, 3}> { y = Expand(x, s) }",
    ),
    "all of it by its size": (
        2,
        """g (float[2,3] x) => (float[2,3] y) <int64[1] a = {0}, int64[1] b = {2}> { y = Slice(x, a, b, a) }""",
    ),
    "a Resize to sizes": (
        2,
        """g (float[2,3,4,4] x) => (float[2,3,8,8] y) <int64[4] s = {2, 3, 8, 8}> {
          y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric">(x, , , s) }""",
    ),
    "a mask by counted places": (
        2,
        """g (float[2,3] x) => (float[2,1,3] y) <int64[2,1,3,2] i = {0, 0, 0, 1, 0, 2, 1, 0, 1, 1, 1, 2}> { y = GatherND(x, i) }""",
    ),
    "a mask of one by counted places": (
        1,
        "g (float[1,3] x) => (float[1,1,2] y) <int64[1,1,2,2] i = {0, 2, 0, 1}> { y = GatherND(x, i) }",
    ),
    "deeper places": (
        2,
        """g (float[2,3,2] x) => (float[2,2] y) <int64[2,2,3] i = {0, 2, 1, 0, 0, 0, 1, 2, 1, 1, 0, 0}> { y = GatherND(x, i) }""",
    ),
    "places in a batch that is flattened": (
        2,
        """g (float[2,3] x) => (float[2,1,2,1] y) <int64[2,1,2] i = {0, 2, 3, 5}> {
          f = Flatten<axis=2>(x)  y = Gather<axis=0>(f, i) }""",
    ),
    "the largest of each, by places in all": (
        2,
        """g (float[2,3,4] x) => (float[2,4] y) <int64[2] r = {-1, 4}, int64[2] c = {0, 3}> {
          s = ReduceMax<axes=[2], keepdims=0>(x)  a = ArgMax<axis=1, keepdims=0>(s)  p = Add(a, c)
          f = Reshape(x, r)  y = Gather<axis=0>(f, p) }""",
    ),
    "the same elements of each": (
        2,
        """g (float[2,3] x) => (float[2,2] y) <int64[2,2] i = {2, 0, 2, 0}> { y = GatherElements<axis=1>(x, i) }""",
    ),
    "elements of what is the same for each": (
        2,
        """g (float[2,3] x) => (float[2,1] y) <float[2,3] d = {1, 2, 3, 1, 2, 3}> {
          i = ArgMax<axis=1>(x)  y = GatherElements<axis=1>(d, i) }""",
    ),
    "a matrix for each head": (
        2,
        """g (float[2,2,1,3] x) => (float[4,1,2] y) <int64[3] s = {4, 1, 3},
             float[4,3,2] m = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}> {
          h = Reshape(x, s)  y = MatMul(h, m) }""",
    ),
    "a matrix for each head of one": (
        1,
        """g (float[1,2,1,3] x) => (float[2,1,1] y) <int64[3] s = {2, 1, 3}, float[2,3,1] m = {1, 2, 3, 4, 5, 6}> {
          h = Reshape(x, s)  y = MatMul(h, m) }""",
    ),
    "what a Tile of weights repeats": (
        2,
        """g (float[2,2,3] x) => (float[4,3] y) <int64[2] s = {4, 3}, float[1,2,3] w = {1, 2, 3, 4, 5, 6}, int64[3] t = {2, 1, 1}> {
          h = Reshape(x, s)  l = Log(w)  e = Erf(l)  r = Tile(e, t)  m = Reshape(r, s)  y = Add(h, m) }""",
    ),
    "what an Expand of weights repeats": (
        2,
        """g (float[2,2,3] x) => (float[2,2,3] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}, int64[3] t = {2, 2, 3}> {
          e = Erf(w)  r = Expand(e, t)  y = Add(x, r) }""",
    ),
    "the batch behind the sequence": (
        2,
        """g (float[2,3,4] x) => (float[3,2,4] y) <int64[2] s = {6, 4}, int64[3] t = {3, 2, 4}> {
          p = Transpose<perm=[1,0,2]>(x)  f = Reshape(p, s)  r = Softmax(f)  y = Reshape(r, t) }""",
    ),
    "of one, with others in one dimension": (
        1,
        """g (float[1,4,1,6] x) => (float[4,2,1,1] y) <int64[3] s = {4, 1, 6}, int64[4] t = {4, 1, 2, 3}> {
          f = Reshape(x, s)  h = Reshape(f, t)  p = Transpose<perm=[0,2,1,3]>(h)  q = Transpose<perm=[0,2,3,1]>(h)
          y = MatMul(p, q) }""",
    ),
    "a shape that is computed": (
        2,
        """g (float[2,3,4] x) => (float[2,12] y) <int64 i = {0}, int64[1] a = {0}, int64[1] r = {-1}> {
          s = Shape(x)  n = Gather(s, i)  u = Unsqueeze(n, a)  t = Concat<axis=0>(u, r)  y = Reshape(x, t) }""",
    ),
}


@pytest.mark.parametrize("name", FLOWS)
def test_two_halves_are_computed_as_each_alone(name: str) -> None:
    size, text = FLOWS[name]
    before = model(text)
    after, log = named(before, size)
    assert log.firings and not log.blocked
    onnx.checker.check_model(after, full_check=True)
    feeds = next(random_feeds(before))
    one, other = (judges.session(before.SerializeToString(), None).run(None, dict(feed))[0] for feed in feeds)
    both = {key: np.concatenate([feeds[0][key], feeds[1][key]]) for key in feeds[0]}
    (found,) = judges.session(after.SerializeToString(), None).run(None, both)
    axis = next(i for i in range(found.ndim) if found.shape[i] != one.shape[i])
    np.testing.assert_allclose(found, np.concatenate([one, other], axis), rtol=1e-6)


def test_states_of_an_lstm() -> None:
    weights = [",".join([item] * count) for item, count in (("0.1", 24), ("0.2", 16))]
    text = f"""g (float[2,5,3] x) => (float[5,1,2,2] y) <float[1,8,3] w = {{{weights[0]}}},
      float[1,8,2] r = {{{weights[1]}}}, float[1,2,2] h = {{0, 0, 0, 0}}, float[1,2,2] c = {{1, 1, 1, 1}}> {{
        t = Transpose<perm=[1,0,2]>(x)  y = LSTM<hidden_size=2>(t, w, r, "", "", h, c) }}"""
    before = model(text)
    after, log = named(before, 2)
    assert len(log.firings) == 2
    feeds = next(random_feeds(before))
    old, new = (judges.session(m.SerializeToString(), None) for m in (before, after))
    both = np.concatenate([feed["x"] for feed in feeds])
    found = new.run(None, {"x": both})[0]
    np.testing.assert_allclose(found, np.concatenate([old.run(None, dict(feed))[0] for feed in feeds], 2), rtol=1e-6)


REFUSED = {
    "other places for each": (
        "g (float[2,3] x) => (float[2,1] y) <int64[2,1,2] i = {0, 0, 1, 2}> { y = GatherND(x, i) }",
        "does not flow through GatherND 'y': its result [2,1] is the same for every size",
    ),
    "places along it": (
        "g (float[2,3] x) => (float[2,3] y) <int64[2,3] i = {1, 1, 1, 0, 0, 0}> { y = GatherElements<axis=0>(x, i) }",
        "does not flow through GatherElements 'y', which takes places along it",
    ),
    "other elements of each": (
        "g (float[2,3] x) => (float[2,1] y) <int64[2,1] i = {0, 1}> { y = GatherElements<axis=1>(x, i) }",
        "does not flow through GatherElements 'y', whose indices are for the old size",
    ),
    "numbers that count it": (
        "g (int64[2,3] x) => (int64[2,3] y) <int64[2,1] b = {1, 2}> { y = Add(x, b) }",
        "does not flow through Add 'y': tensor 'b' holds something for each of the old size, 2",
    ),
    "one is taken out": (
        "g (float[2,3] x) => (float[3] y) <int64 i = {1}> { y = Gather<axis=0>(x, i) }",
        "does not flow through Gather 'y': its result [3] is the same for every size",
    ),
    "summed up": (
        "g (float[2,3] x) => (float[1,3] y) { y = ReduceMean<axes=[0]>(x) }",
        "does not flow through ReduceMean 'y': its result [1,3] is the same for every size",
    ),
    "an absent first output": (
        """g (float[2,5,3] x, float[1,8,3] w, float[1,8,2] r) => (float[1,5,2] y) {
             , h = LSTM<hidden_size=2>(x, w, r)  y = Neg(h) }""",
        "does not flow through LSTM 'h': its result [1,5,2] is the same for every size",
    ),
    "normalised along it": (
        "g (float[2,3] x) => (float[2,3] y) { y = Softmax<axis=0>(x) }",
        "does not flow through Softmax 'y', which computes along the dimension",
    ),
    "multiplied along it": (
        "g (float[2,3] x) => (float[2,3] y) <int64 a = {0}> { y = CumProd(x, a) }",
        "does not flow through CumProd 'y', which computes along the dimension",
    ),
    "something else for each": (
        "g (float[2,3] x) => (float[2,3] y) <float[2,1] b = {1, 2}> { y = Add(x, b) }",
        "does not flow through Add 'y': tensor 'b' holds something for each of the old size, 2",
    ),
    "one more than it": (
        "g (float[2,3] x) => (float[3,3] y) <float[1,3] b = {1, 2, 3}> { y = Concat<axis=0>(x, b) }",
        "does not flow through Concat 'y'",
    ),
    "multiplied with itself": (
        "g (float[2,3] x) => (float[2,2] y) { t = Transpose<perm=[1,0]>(x)  y = MatMul(x, t) }",
        "does not flow through MatMul 'y': 2 dimensions of the result [2,2] depend on the dimension",
    ),
    "an operator nobody knows": (
        "g (float[2,3] x) => (float[2,3] y) { y = Unheard(x) }",
        "does not flow through Unheard 'y': its result cannot be determined",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_where_it_does_not_flow_nothing_is_changed(name: str) -> None:
    text, reason = REFUSED[name]
    before = model(text, 26 if "CumProd" in text else 12 if "axes" in text else 13)
    after, log = named(before, 2)
    assert not log.firings and after == before
    assert reason in log.blocked[0].reason


def test_several_inputs_together() -> None:
    before = model("g (float[1,3] a, float[1,4] b, float[5] c) => (float[1,7] y) { y = Concat<axis=1>(a, b) }")
    after, log = named(before, 1)
    assert len(log.firings) == 3  # the inputs one by one, and what follows from both
    dims = [[dim.dim_param or dim.dim_value for dim in info.type.tensor_type.shape.dim] for info in after.graph.input]
    assert dims == [["N", 3], ["N", 4], [5]]
    assert after.graph.output[0].type.tensor_type.shape.dim[0].dim_param == "N"


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 3),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(2, 5),
)
def test_an_aligned_dimension_keeps_the_order_of_elements(before: list[int], at: int, cut: list[int], factor: int) -> None:
    """Whatever the shapes: stacking along the dimension before, and along the place found behind, gives the same."""
    position = at % len(before)
    total = prod(before)
    after = []
    for size in cut:
        if total % size == 0:
            after.append(size)
            total //= size
    after.append(total)
    ratios = [Fraction(factor if i == position else 1) for i in range(len(before))]
    found = aligned(before, ratios, before, after)
    if found is None:
        return
    place = next(i for i, ratio in enumerate(found) if ratio != 1)
    parts = [np.arange(prod(before)).reshape(before) + 1000 * k for k in range(factor)]
    stacked = np.concatenate(parts, position).reshape([int(size * ratio) for size, ratio in zip(after, found, strict=True)])
    np.testing.assert_array_equal(stacked, np.concatenate([part.reshape(after) for part in parts], place))


def test_a_node_without_outputs() -> None:
    """It is no model, but it must not be a mistake of this program either."""
    before = model("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }")
    before.graph.node.append(helper.make_node("Neg", ["x"], []))
    assert not named(before, 2)[1].blocked


def test_attributes_of_a_wrong_type_stop_it() -> None:
    before = model("g (float[2,3] x) => (float[2,3] y) { y = Slice<starts=[0], ends=[2], axes=1.5>(x) }", 9)
    after, log = named(before, 2)
    assert after == before
    assert "attributes that its operator does not take" in " ".join(blocked.reason for blocked in log.blocked)


def test_a_size_below_zero_is_followed_nowhere() -> None:
    """ONNX's inference of a Slice would end the process."""
    constants = "<int64[2] b = {0, 0}, int64[2] e = {9223372036854775807, 1}, int64[2] a = {0, 1}>"
    before = model(f"g (float[N,4] x) => (float[-2147483648,1] y) {constants} {{ y = Slice(x, b, e, a) }}")
    loaded = rewriter.Model.from_proto(before)
    log = run(loaded.graph, rewriter.load_rules().select(["HYG015"], []))
    assert loaded.to_proto() == before
    assert "at most 4 of 1 or more are followed" in " ".join(blocked.reason for blocked in log.blocked)
