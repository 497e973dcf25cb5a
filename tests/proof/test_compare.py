"""What counts as agreement."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from rewriter.trust.proof.instances.instance import Array
from rewriter.trust.proof.output_agreement import Bound, compare
from rewriter.trust.proof.rules.trial import EXACT


def f32(*items: float) -> Array:
    return np.array(items, dtype=np.float32)


def difference(wanted: Array, found: Array, bound: Bound) -> tuple[str, float]:
    off, largest = compare({"y": wanted}, {"y": found}, bound)
    return off.message if off else "", largest


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_two_units_in_the_last_place_agree(steps: int) -> None:
    value = f32(1.0)
    other = value.copy()
    for _ in range(steps):
        other = np.nextafter(other, f32(2.0))
    assert difference(value, other, EXACT) == ("", float(steps))


def test_three_units_do_not() -> None:
    other = (f32(1.0).view(np.int32) + 3).view(np.float32)
    assert "instead of" in difference(f32(1.0), other, EXACT)[0]


def test_nan_agrees_with_nan_only() -> None:
    assert difference(f32(np.nan), f32(np.nan), EXACT)[0] == ""
    assert difference(f32(np.nan), f32(0.0), EXACT)[0]
    assert difference(f32(0.0), f32(np.nan), EXACT)[0]
    assert difference(f32(np.nan), f32(1.0), Bound(rtol=1e-2, each=True))[0]


def test_zeros_of_either_sign_agree() -> None:
    assert difference(f32(0.0, -0.0), f32(-0.0, 0.0), EXACT) == ("", 0.0)


def test_infinity_is_not_the_largest_number() -> None:
    largest = np.finfo(np.float64).max
    assert difference(np.array([np.inf]), np.array([-np.inf]), EXACT)[0]
    assert difference(np.array([largest]), np.array([np.inf]), EXACT) == ("", 1.0)  # one unit apart, as rounding would have it


def test_smallest_doubles_are_told_apart() -> None:
    one = np.array([1.0])
    other = (one.view(np.int64) + 3).view(np.float64)
    assert difference(one, other, EXACT)[0]


def test_numbers_of_a_byte_are_told_apart() -> None:
    eights = helper.tensor_dtype_to_np_dtype(TensorProto.FLOAT8E4M3FN)
    one = np.array([1.0, -1.0, np.nan]).astype(eights)
    other = (one.view(np.int8) + np.array([1, 1, 0], np.int8)).view(eights)
    assert difference(one, other, EXACT) == ("", 1.0)
    assert difference(one, (one.view(np.int8) + np.array([9, 0, 0], np.int8)).view(eights), EXACT)[0]


def test_types_and_shapes_count() -> None:
    assert "float64[1] instead of float32[1]" in difference(f32(1.0), np.array([1.0]), EXACT)[0]
    assert "float32[1, 1] instead of float32[1]" in difference(f32(1.0), f32(1.0).reshape(1, 1), EXACT)[0]


def test_integers_and_texts_are_equal_or_not() -> None:
    assert difference(np.array([1, 2]), np.array([1, 2]), EXACT)[0] == ""
    assert difference(np.array([1, 2]), np.array([1, 3]), EXACT)[0].startswith("at [1] is 3 instead of 2")
    assert difference(np.array(["a"], dtype=object), np.array(["b"], dtype=object), EXACT)[0]


def test_a_bound_is_of_the_largest_magnitude() -> None:
    before, after = f32(1000.0, 0.0), f32(1000.0, 0.01)
    assert difference(before, after, Bound(rtol=1e-4, each=True))[0] == ""
    assert difference(before, after, Bound(rtol=1e-6, each=True))[0]


def test_no_bound_is_finer_than_the_element_type() -> None:
    before, after = np.array([1.0], dtype=np.float16), np.array([1.004], dtype=np.float16)
    assert difference(before, after, Bound(rtol=1e-6, each=True))[0] == ""


def test_an_output_that_is_gone_is_a_difference() -> None:
    off, _ = compare({"y": f32(1.0)}, {}, EXACT)
    assert off is not None and off.output == "y"


def test_empty_tensors_agree() -> None:
    assert difference(np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32), EXACT) == ("", 0.0)
    assert difference(np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32), Bound(rtol=1e-3, each=True)) == ("", 0.0)
