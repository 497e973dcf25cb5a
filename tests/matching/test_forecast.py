"""What the bytes of a model tell of the rules that may fire in it."""

from __future__ import annotations

import onnx
import pytest

from rewriter.language.cache.operator_table import make_table
from rewriter.language.load_rules import load_rules
from rewriter.matching.forecast import Forecast
from rewriter.onnxfile.take_census import take_census
from tests.engine.helpers import with_head

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
    ("OP034", "g (float[2] x) => (float[2] y) <float[2] c = {1, 2}> { y = Mul(x, c) }", False),
    ("OP034", "g (float[2] x) => (float[2] y) <double[2] c = {1, 2}> { y = Mul(x, c) }", True),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "left"), CASES)
def test_which_rules_are_left(code: str, text: str, left: bool) -> None:
    rule = next(rule for rule in load_rules() if rule.code == code)
    census = take_census(onnx.parser.parse_model(with_head(text)).SerializeToString())
    assert bool(Forecast(census, make_table()).possible([rule])) is left
