"""What counts as the same outputs of whole models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.proof.output_agreement import Bound, bound_of, coarsest_eps, differences


def message(old: Any, new: Any, bound: Bound = Bound()) -> str:  # noqa: B008
    (found,) = differences({"y": old}, {"y": new}, bound)
    return found.message


FLOATS = np.array([1.0, 1000.0, np.nan, np.inf, 0.0], np.float32)


@pytest.mark.parametrize(
    ("new", "part"),
    [
        (FLOATS, ""),
        (FLOATS * np.array([1, 1, 1, 1, -1], np.float32), ""),
        (FLOATS.astype(np.float64), "has another type or shape: float64[5] instead of float32[5]"),
        (FLOATS[:4], "has another type or shape: float32[4] instead of float32[5]"),
        (np.nan_to_num(FLOATS, nan=0.0, posinf=np.inf), "is NaN in 0 places instead of 1"),
        (-FLOATS, "is infinite in other places"),
        (FLOATS + np.array([1e-3, 0, 0, 0, 0], np.float32), "is off by 0.001 (tolerance 0, largest value 1e+03)"),
    ],
)
def test_floats(new: Any, part: str) -> None:
    assert (part in message(FLOATS, new)) if part else not message(FLOATS, new)


def test_what_is_no_float_is_equal_or_not() -> None:
    assert message(np.arange(3), np.array([0, 1, 3]), Bound(rtol=1.0)) == "differs in 1 of 3 places"
    assert message(np.array(["a"], object), np.array(["b"], object))
    assert not message([{"a": np.ones(2)}], [{"a": np.ones(2)}])
    assert message([np.ones(2)], []) == "has 0 elements instead of 1"
    assert next(differences({"y": FLOATS}, {}, Bound())).message == "is no output any more"


def test_differences_count_against_the_largest_number() -> None:
    assert not message(np.float32([1e-6, 100]), np.float32([2e-6, 100]), Bound(ulps=2))
    assert message(np.float32([1e-6, 1]), np.float32([2e-6, 1]), Bound(ulps=2))


def test_bounds_add_up_and_end(tmp_path: Path) -> None:
    text = "/// E.\nrule A001 e <kind: exact, severity: info>\nmatch { y = Identity(x) }\nrewrite { y = x }\n"
    (tmp_path / "a.rules").write_text(text)
    (exact,) = load_rules([tmp_path / "a.rules"])
    assert (bound_of([exact]).ulps, bound_of([exact] * 3).ulps, bound_of([exact] * 99).ulps) == (2, 6, 20)
    assert bound_of([]) == Bound()


def test_the_coarsest_type_counts() -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) {{ h = Cast<to={}>(x) y = Cast<to=1>(h) }}'
    assert coarsest_eps(onnx.parser.parse_model(text.format(10))) == 2**-10
    assert coarsest_eps(onnx.parser.parse_model(text.format(16))) == 2**-7
    assert coarsest_eps(onnx.parser.parse_model(text.format(11))) == 2**-23
