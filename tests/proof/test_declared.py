"""Which inputs and outputs a rule on the interface has declared anew."""

from __future__ import annotations

import onnx
import pytest

from rewriter.trust.proof.rules.trial import asks_otherwise, outputs_as_before


def model(of_x: str, of_y: str = "float[2]") -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]> g ({of_x} x) => ({of_y} y) {{ y = Neg(x) }}')


@pytest.mark.parametrize(
    "before, after, otherwise",
    [
        ("float[2,3]", "float[2,3]", False),
        ("float[2,3]", "float[N,3]", False),
        ("float[N,3]", "float[2,3]", True),
        ("float[N,3]", "float[M,3]", True),
        ("float[2,3]", "float[3,2]", True),
        ("float[2,3]", "float[2]", True),
        ("uint8[2]", "float[2]", True),
        ("float", "float", False),
    ],
)
def test_an_input_asks_for_something_else_unless_only_a_length_became_a_name(before: str, after: str, otherwise: bool) -> None:
    assert asks_otherwise(model(before), model(after)) is otherwise


def test_outputs_of_another_type_are_not_compared_and_those_that_went_are_missed() -> None:
    assert outputs_as_before(model("float[2]"), model("float[2]", "double[2]")) == frozenset()
    assert outputs_as_before(model("float[2]"), model("float[2]", "float[N]")) == {"y"}
    gone = model("float[2]")
    del gone.graph.output[:]
    assert outputs_as_before(model("float[2]"), gone) == {"y"}
