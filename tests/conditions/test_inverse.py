"""The inverse of a constant matrix, by which equations are solved before a model runs."""

from __future__ import annotations

import numpy as np
import pytest

from rewriter.core.conditions import value_functions
from rewriter.core.conditions.rule_values import Failure
from tests.engine.helpers import rewrite_text

RULE = """rule X1 f <kind: exact> match { y = MatMul(const a, b) }
let solution = inverse(a) where all(solution == SOLUTION) rewrite { y = MatMul(b, {solution}) }"""


@pytest.mark.parametrize(
    "solution, fires", [("array([[0.5, 0.0], [0.0, 0.25]])", ["X1"]), ("array([[2.0, 0.0], [0.0, 4.0]])", [])]
)
def test_inverse_in_a_rule(solution: str, fires: list[str]) -> None:
    text = "g (float[2,2] b) => (float[2,2] y) <float[2,2] a = {2, 0, 0, 4}> { y = MatMul(a, b) }"
    assert rewrite_text(text, RULE.replace("SOLUTION", solution)).fired[:1] == fires


def test_the_type_stays() -> None:
    inverse = value_functions.ARRAY_BODIES["inverse"](None, np.array([[2, 1], [1, 1]], np.float32))
    assert inverse.dtype == np.float32 and inverse.tolist() == [[1, -1], [-1, 2]]


@pytest.mark.parametrize("matrix", [np.ones((2, 2)), np.ones((2, 3)), np.ones(2)])
def test_a_matrix_without_inverse_is_a_failure(matrix: np.ndarray) -> None:
    with pytest.raises(Failure, match="inverse"):
        value_functions.ARRAY_BODIES["inverse"](None, matrix)


def test_a_large_matrix_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_functions, "MATRIX_LIMIT", 3)
    with pytest.raises(Failure, match="more than 3 rows"):
        value_functions.ARRAY_BODIES["inverse"](None, np.eye(4))
