"""`benchmarks/consumer_operators.py`: the cases that it makes of onnx's operator tests, and what it counts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from onnx.backend.test.case import node

from rewriter.trust.proof import judges
from tests.consumers.fake import fake
from tests.consumers.test_matrix import BENCHMARK, program

pytestmark = pytest.mark.skipif(not judges.installed(), reason="needs ONNX Runtime")


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    """The program with the cases of three of onnx's modules: all of onnx's modules take 10 s to import."""

    def collected(operator: str | None = None) -> list[Any]:
        for name in ("reducesum", "softsign", "sub"):
            importlib.import_module(f"{node.__name__}.{name}")
        return node._NodeTestCases

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node, "collect_testcases", collected)
        yield program(BENCHMARK.with_name("consumer_operators.py"))


def test_onnx_runtime_computes_its_own_cases(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["consumer_operators.py", "onnxruntime", "--only", "Softs", "--drawn", "1"])
    assert benchmark.main() == 0
    *_, table, worse = capsys.readouterr().out.splitlines()
    assert table.split() == ["all", "1", "operators", "3", "3", "3"]
    assert worse == "worse: none"


def test_a_case_that_a_consumer_computes_wrongly_is_named(
    benchmark: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer = fake(monkeypatch, tmp_path / "runtimes", run="return [feed['x']]")
    monkeypatch.setattr(benchmark, "find", lambda name, environments: consumer)
    monkeypatch.setattr(benchmark, "fixed", lambda model, result, target, options: model)
    monkeypatch.setattr(sys, "argv", ["consumer_operators.py", "fake", "--only", "Softsign", "--most", "1"])
    assert benchmark.main() == 0
    first, *_, table, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("softsign_example, opset 21: differs -> differs: ")
    assert table.split() == ["all", "1", "operators", "1", "1", "1"]


def test_operands_are_stored_and_the_axes_of_old_opsets_are_attributes(benchmark: ModuleType) -> None:
    cases = [case for case in benchmark.all_cases(0, "ReduceSum") if case.name.startswith("reduce_sum_keepdims_example")]
    assert [case.name for case in cases] == [f"reduce_sum_keepdims_example, opset {opset}" for opset in (12, 21)]
    old, new = (case.model.graph for case in cases)
    assert [attribute.name for attribute in old.node[0].attribute if attribute.name == "axes"] == ["axes"]
    assert [len(graph.input) for graph in (old, new)] == [1, 1]
    assert [len(graph.initializer) for graph in (old, new)] == [0, 1]


def test_numbers_are_inputs_in_the_second_form(benchmark: ModuleType) -> None:
    cases = {case.name: case for case in benchmark.all_cases(0, "Sub")}
    weights, inputs = cases["sub, opset 21"], cases["sub, opset 21, inputs"]
    assert (len(weights.model.graph.input), len(inputs.model.graph.input)) == (1, 2)
    assert np.allclose(inputs.values["z"], inputs.values["x"] - inputs.values["y"])
