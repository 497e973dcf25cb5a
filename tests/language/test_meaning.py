"""What is said of versions of operators: the table names what is there, and well-known changes of meaning are seen."""

from __future__ import annotations

from typing import Any

import pytest

from rewriter.core.language import schema
from rewriter.core.language.meaning import CHANGES, REVIEWED, Form, fits, keeps_meaning, takes


def form(written: dict[str, Any] | None = None, inputs: int = 1, outputs: int = 1, omitted: int | None = None) -> Form:
    return Form(frozenset(written or {}), tuple(position != omitted for position in range(inputs)), outputs)


def keeps(
    op: str,
    written: dict[str, Any],
    inputs: int,
    first: int,
    then: int,
    outputs: int = 1,
    doubtful: bool = False,
) -> bool:
    return keeps_meaning(op, "", form(written, inputs, outputs), written.get, first, then, doubtful=doubtful)


def test_each_change_is_one_of_a_version_that_exists() -> None:
    for key, version in CHANGES:
        domain, _, op = key.rpartition(".")
        assert version in schema.versions(op, domain)[1:], key


def test_new_attributes_of_all_known_versions_were_reviewed() -> None:
    """If this fails, a newer onnx has versions to be compared with the ones before: see `CHANGES`."""
    assert dict(REVIEWED) == {domain: schema.latest_opset(domain) for domain in schema.domains()}


@pytest.mark.parametrize(
    ("op", "written", "inputs", "first", "then", "answer"),
    [
        ("Add", {}, 2, 7, 14, True),
        ("Relu", {}, 1, 13, 9, True),
        ("Cast", {"to": 1}, 1, 9, 19, True),
        ("Conv", {"pads": [1, 1], "strides": [2]}, 3, 7, 22, True),
        ("MaxPool", {"kernel_shape": [2]}, 1, 8, 13, True),
        ("Softmax", {"axis": 1}, 1, 11, 12, True),
        ("Softmax", {"axis": 1}, 1, 12, 13, False),
        ("Softmax", {"axis": -1}, 1, 12, 13, True),
        ("Softmax", {}, 1, 12, 13, False),
        ("Squeeze", {"axes": [0]}, 1, 11, 13, False),
        ("Squeeze", {}, 1, 11, 13, True),
        ("Unsqueeze", {"axes": [0]}, 1, 11, 13, False),
        ("ReduceMean", {"axes": [0]}, 1, 13, 17, True),
        ("ReduceMean", {"axes": [0]}, 1, 17, 18, False),
        ("Slice", {"starts": [0], "ends": [1]}, 1, 9, 10, False),
        ("Pad", {"pads": [0, 0]}, 1, 10, 11, False),
        ("Upsample", {"mode": "linear"}, 2, 9, 10, False),
        ("Resize", {}, 2, 10, 11, False),
        ("Resize", {"mode": "linear"}, 3, 11, 19, True),
        ("OneHot", {}, 3, 9, 11, False),
        ("Split", {}, 1, 13, 18, False),
        ("Split", {}, 2, 13, 18, True),
        ("Dropout", {}, 1, 10, 12, True),
        ("AveragePool", {"kernel_shape": [2]}, 1, 11, 19, True),
        ("AveragePool", {"kernel_shape": [2], "ceil_mode": 1}, 1, 11, 19, False),
        ("ConvTranspose", {"strides": [2]}, 2, 10, 11, True),
        ("ConvTranspose", {"auto_pad": "SAME_UPPER"}, 2, 10, 11, False),
        ("ConvTranspose", {"output_shape": [4]}, 2, 10, 11, False),
        ("BatchNormalization", {"epsilon": 1e-3}, 5, 9, 15, True),
        ("RoiAlign", {"output_height": 2}, 3, 13, 16, False),
        ("GridSample", {"mode": "bilinear"}, 2, 16, 20, False),
        ("DFT", {}, 1, 17, 20, False),
        ("Attention", {"scale": 1.0}, 3, 24, 25, True),
        ("SpaceToDepth", {"blocksize": 2}, 1, 13, 28, True),
        ("LayerNormalization", {}, 2, 16, 17, False),
        ("Add", {"broadcast": 1}, 2, 6, 7, False),
        ("Foo", {}, 1, 7, 13, True),
    ],
)
def test_meaning(op: str, written: dict[str, Any], inputs: int, first: int, then: int, answer: bool) -> None:
    assert keeps(op, written, inputs, first, then) is answer
    assert keeps(op, written, inputs, then, first) is answer


@pytest.mark.parametrize(
    ("op", "written", "inputs", "low", "high"),
    [
        ("Concat", {"axis": -1}, 2, 10, 11),
        ("ReduceMax", {"axes": [0, -1]}, 1, 10, 11),
        ("Gather", {"axis": 0}, 2, 10, 11),
        ("Slice", {}, 4, 10, 11),
        ("Max", {}, 2, 7, 8),
        ("Pad", {"mode": "wrap"}, 2, 18, 19),
        ("ScatterND", {"reduction": "max"}, 3, 17, 18),
        ("Resize", {"coordinate_transformation_mode": "half_pixel_symmetric"}, 3, 18, 19),
        ("QuantizeLinear", {}, 3, 10, 13),
    ],
)
def test_what_only_the_later_version_can_express_is_lost_on_the_way_down(
    op: str, written: dict[str, Any], inputs: int, low: int, high: int
) -> None:
    assert keeps(op, written, inputs, low, high) and not keeps(op, written, inputs, high, low)


@pytest.mark.parametrize(
    ("op", "written", "inputs"),
    [("Concat", {"axis": 1}, 2), ("ReduceMax", {"axes": [0, 1]}, 1), ("ArgMax", {}, 1), ("Slice", {}, 3)],
)
def test_axes_from_the_front_are_the_same_below_opset_11(op: str, written: dict[str, Any], inputs: int) -> None:
    assert keeps(op, written, inputs, 11, 10)


def test_an_attribute_that_the_caller_of_a_function_decides_may_be_what_changed() -> None:
    assert not keeps("Pad", {"mode": object()}, 2, 19, 18) and not keeps("Concat", {"axis": object()}, 2, 11, 10)


@pytest.mark.parametrize("outputs", [2, 3, 5])
def test_a_second_output_may_be_what_changed(outputs: int) -> None:
    assert not keeps("BatchNormalization", {}, 5, 9, 14, outputs)


def test_cases_of_doubt() -> None:
    for op, written, inputs, first, then in (
        ("Abs", {}, 1, 1, 6),  # no runtime has Abs of opset 1
        ("Reshape", {"allowzero": 0}, 2, 13, 14),  # opset 13 has no such attribute
    ):
        assert not keeps(op, written, inputs, first, then)
        assert keeps(op, written, inputs, first, then, doubtful=True)
    assert keeps("Transpose", {}, 1, 6, 13)  # that of opset 6 is that of opset 12


def test_an_omitted_operand_is_none() -> None:
    assert fits("Resize", "", 13, form(inputs=3, omitted=1)) and not fits("Resize", "", 11, form(inputs=3, omitted=1))
    assert not keeps_meaning("Resize", "", form(inputs=3, omitted=1), {}.get, 13, 11, doubtful=True)


def test_a_loop_has_a_state_before_opset_11() -> None:
    assert fits("Loop", "", 11, form({"body": None}, 2)) and not fits("Loop", "", 10, form({"body": None}, 2))
    assert fits("Loop", "", 11, form({"body": None}, 0)) and fits("Loop", "", 10, form({"body": None}, 3))


def test_element_types() -> None:
    bfloat16 = 16
    assert not takes("Gemm", "", 11, False, 0, bfloat16) and takes("Gemm", "", 13, False, 0, bfloat16)
    assert takes("Cast", "", 13, True, 0, bfloat16) and not takes("Cast", "", 9, True, 0, bfloat16)
