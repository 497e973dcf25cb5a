"""The farm of right models: its transforms keep a model right, and its judge names the rule that harms one."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

FARM = Path(__file__).parent.parent / "benchmarks" / "right_models"
sys.path.insert(0, str(FARM))

import cases  # noqa: E402
import judge  # noqa: E402
import sources  # noqa: E402
import transforms  # noqa: E402

from rewriter.rule_tools.load_rules import load_rules  # noqa: E402

TEXT = """
<ir_version: 8, opset_import: ["": 11]>
net (float[2,3] x, float[3] scale, float[3] shift, float[3] mean, float[3] var) => (float[2,3] y, float[2,3] z)
  <float[3] scale = {1, 2, 3}, float[3] shift = {0, 1, 0}, float[3] mean = {0.5, 0, 0}, float[3] var = {1, 2, 1}>
{
  n = BatchNormalization(x, scale, shift, mean, var)
  [named] r = Relu(n)
  t = Transpose<perm=[1, 0]>(r)
  y = Transpose<perm=[1, 0]>(t)
  z = Neg(r)
}
"""
WRONG = """
/// It hands on what should be negated.
rule BAD001 drops-neg
<kind: exact, opset: 1..>

match {
  y = Neg(x)
}

rewrite {
  y = x
}
"""


@pytest.fixture
def case() -> cases.Case:
    model = onnx.parser.parse_model(TEXT)
    x = np.array([[1, -2, 3], [0.5, 0.25, -4]], np.float32)
    (outputs,) = cases.answers(model, [cases.Run({"x": x}, [])])
    return cases.Case("set", "name", "hand", model, [cases.Run({"x": x}, outputs)])


OWN = sorted(name for name, made in transforms.TRANSFORMS.items() if made.__module__ == transforms.__name__)


@pytest.mark.parametrize("name", OWN)
def test_a_transform_changes_the_model_and_keeps_its_outputs(case: cases.Case, name: str) -> None:
    variant = transforms.apply(name, case)
    if variant is None:
        pytest.skip("it does not apply")
    assert variant.model != case.model
    found, known = cases.answers(variant.model, case.runs)[0], case.runs[0].outputs
    places = range(len(known)) if variant.outputs is None else variant.outputs
    assert len(found) == len(list(places))
    assert not any(cases.difference([found[k]], [known[at]]) for k, at in enumerate(places) if at is not None)


def test_most_transforms_apply(case: cases.Case) -> None:
    assert sum(transforms.apply(name, case) is not None for name in OWN) >= len(OWN) - 2


def test_a_harmful_rule_is_named(case: cases.Case, tmp_path: Path) -> None:
    path = tmp_path / "bad.rules"
    path.write_text(WRONG)
    bench = judge.Bench()
    bench.default = load_rules([path]).select(["ALL"])
    (row,) = judge.examine(case, None, [], ["default"], bench)
    assert (row.verdict, row.culprits) == ("harmed", ["BAD001"])
    assert row.reason.startswith("output 1: differs by")


def test_the_shipped_rules_leave_it_right(case: cases.Case) -> None:
    rows = list(judge.examine(case, None, ["nodes-named", "output-added"], list(judge.WAYS), judge.Bench()))
    assert {row.verdict for row in rows} <= {"right", "changed"}
    assert any(row.rules for row in rows)


def test_a_case_that_is_not_right_does_not_count(case: cases.Case) -> None:
    wrong = cases.Run(case.runs[0].inputs, [output + 1 for output in case.runs[0].outputs])
    with pytest.raises(cases.NotRightError, match="differs by"):
        list(judge.examine(cases.Case("set", "name", "hand", case.model, [wrong]), None, [], ["default"], judge.Bench()))


def test_an_unrecorded_output_is_undecided_only_for_values(case: cases.Case) -> None:
    variant = transforms.Variant(case.model, [0, None])
    assert variant.unknown("output 1: differs by 0.5")
    assert not variant.unknown("output 0: differs by 0.5")
    assert not variant.unknown("output 1: shape (2,) instead of (2, 3)")


def symbol(**arguments: str) -> str:
    import json

    nodes = [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "Pooling", "name": "p", "attrs": arguments, "inputs": [[0, 0, 0]]},
    ]
    return json.dumps({"nodes": nodes, "heads": [[1, 0, 0]]})


def test_the_nearest_wrong_file_differs_in_something_that_a_model_shows(tmp_path: Path) -> None:
    texts = {
        "own": symbol(kernel="(2, 2)", count_include_pad="True"),
        "same": symbol(kernel="(2, 2)", count_include_pad="False"),
        "other": symbol(kernel="(3, 3)", count_include_pad="False"),
    }
    folders = []
    for name, text in texts.items():
        folders.append(tmp_path / "mx151" / name)
        folders[-1].mkdir(parents=True)
        (folders[-1] / "symbol.json").write_text(text)
    known = sources.read_symbols(folders)["mx151"]
    assert sources.nearest(folders[0], known) == texts["other"]


def test_random_choices_of_a_transform_are_repeatable(case: cases.Case) -> None:
    random.seed(1)
    first = transforms.apply("output-added", case)
    random.seed(2)
    second = transforms.apply("output-added", case)
    assert first is not None and second is not None
    assert first.model == second.model
