"""What is said of versions of operators: the tables name what is there, and well-known changes of meaning are seen."""

from __future__ import annotations

import pytest

from rewriter.core.language import schema
from rewriter.core.language.meaning import _ADDED, _CHANGED, keeps_meaning, takes


def domain(op: str) -> str:
    return "" if schema.history(op) else "ai.onnx.ml"


@pytest.mark.parametrize("op", sorted(_ADDED))
def test_each_added_attribute_came_later(op: str) -> None:
    first, *others = schema.history(op, domain(op))
    assert others
    for name in _ADDED[op]:
        assert name not in first.attributes and any(name in later.attributes for later in others)


@pytest.mark.parametrize("op", sorted(_CHANGED))
def test_each_changed_version_exists(op: str) -> None:
    assert _CHANGED[op] <= set(schema.versions(op))


@pytest.mark.parametrize(
    ("op", "written", "inputs", "first", "then", "answer"),
    [
        ("Add", (), 2, 7, 14, True),
        ("Relu", (), 1, 13, 9, True),
        ("Cast", ("to",), 1, 9, 19, True),
        ("Conv", ("pads", "strides"), 3, 7, 22, True),
        ("MaxPool", ("kernel_shape",), 1, 8, 13, True),
        ("Softmax", ("axis",), 1, 11, 12, True),
        ("Softmax", ("axis",), 1, 12, 13, False),
        ("Softmax", (), 1, 12, 13, False),
        ("Squeeze", ("axes",), 1, 11, 13, False),
        ("Squeeze", (), 1, 11, 13, True),
        ("Unsqueeze", ("axes",), 1, 11, 13, False),
        ("ReduceMean", ("axes",), 1, 13, 17, True),
        ("ReduceMean", ("axes",), 1, 17, 18, False),
        ("Slice", ("starts", "ends"), 1, 9, 10, False),
        ("Pad", ("pads",), 1, 10, 11, False),
        ("Upsample", ("mode",), 2, 9, 10, False),
        ("Resize", (), 2, 10, 11, False),
        ("OneHot", (), 3, 9, 11, False),
        ("BatchNormalization", ("epsilon",), 5, 9, 15, True),
        ("RoiAlign", ("output_height",), 3, 13, 16, False),
        ("GridSample", ("mode",), 2, 16, 20, False),
        ("LayerNormalization", (), 2, 16, 17, False),
        ("Add", ("broadcast",), 2, 6, 7, False),
        ("Foo", (), 1, 7, 13, True),
    ],
)
def test_meaning(op: str, written: tuple[str, ...], inputs: int, first: int, then: int, answer: bool) -> None:
    assert keeps_meaning(op, "", written, inputs, 1, first, then) is answer
    assert keeps_meaning(op, "", written, inputs, 1, then, first) is answer


def test_a_second_output_may_be_what_changed() -> None:
    assert not keeps_meaning("BatchNormalization", "", (), 5, 5, 9, 14)


def test_element_types() -> None:
    bfloat16 = 16
    assert not takes("Gemm", "", 11, False, 0, bfloat16) and takes("Gemm", "", 13, False, 0, bfloat16)
    assert takes("Cast", "", 13, True, 0, bfloat16) and not takes("Cast", "", 9, True, 0, bfloat16)
