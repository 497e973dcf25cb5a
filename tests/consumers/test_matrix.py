"""`benchmarks/consumers.py`: what it counts, and that it leaves the models that it is given where they are."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from rewriter.trust.consumers.consumer_verdict import State, Verdict
from rewriter.trust.proof import onnx_runtime
from tests.consumers.fake import fake, relu

pytestmark = pytest.mark.skipif(not onnx_runtime.installed(), reason="needs ONNX Runtime")


BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "consumers.py"


@pytest.fixture(scope="module")
def matrix() -> ModuleType:
    spec = importlib.util.spec_from_file_location("consumers_benchmark", BENCHMARK)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("run", "right"), [("return [np.maximum(feed['x'], 0)]", 1), ("return [feed['x'] - 1]", 0)])
def test_a_model_that_no_fix_changes_is_counted_and_stays(
    matrix: ModuleType,
    run: str,
    right: int,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    consumer = fake(monkeypatch, tmp_path / "runtimes", run=run)
    monkeypatch.setattr(matrix, "fixed", lambda model, result, target, options: model)
    model = relu(tmp_path / "model.onnx")
    assert matrix.row("fake", "environment", consumer, [model], is_static=False) == []
    assert capsys.readouterr().out.split()[2:] == ["1", "1", *[str(right)] * 3, "0"]
    assert model.exists()


@pytest.mark.parametrize(
    ("before", "after", "is_worse"),
    [
        ("equal", "differs", True),
        ("equal", "rejects", True),
        ("rejects", "differs", True),
        ("fails", "differs", True),
        ("differs", "differs", False),
        ("differs", "rejects", False),
        ("rejects", "equal", False),
        ("reads", "reads", False),
    ],
)
def test_what_is_worse(matrix: ModuleType, before: State, after: State, is_worse: bool) -> None:
    assert matrix.is_worse(Verdict("Fake 1.0", before), Verdict("Fake 1.0", after)) is is_worse


def test_the_sample_names_each_model_once() -> None:
    names = BENCHMARK.with_name("consumer_models.txt").read_text(encoding="utf-8").split()
    assert len(set(names)) == len(names) >= 280
