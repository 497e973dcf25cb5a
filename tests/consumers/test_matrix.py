"""`benchmarks/consumers.py` and `consumer_outcomes.py`: what they count, and that they leave the models where they are."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from rewriter.trust.consumers.consumer_verdict import State, Verdict
from rewriter.trust.proof import judges
from tests.consumers.fake import RELU, fake, relu

pytestmark = pytest.mark.skipif(not judges.installed(), reason="needs ONNX Runtime")


BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "consumers.py"


def program(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{path.stem}_benchmark", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def matrix() -> ModuleType:
    return program(BENCHMARK)


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


@pytest.mark.parametrize(
    ("recorded", "run", "code", "words"),
    [
        ("equal", RELU, 0, "1 correct, 0 worse than recorded, 0 better"),
        ("fails", RELU, 0, "1 correct, 0 worse than recorded, 1 better"),
        ("equal", "return [feed['x'] - 1]", 1, "0 correct, 1 worse than recorded, 0 better"),
    ],
)
def test_an_outcome_below_the_recorded_one_is_an_error(
    recorded: State,
    run: str,
    code: int,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    outcomes = program(BENCHMARK.with_name("consumer_outcomes.py"))
    consumer = fake(monkeypatch, tmp_path / "runtimes", run=run)
    (tmp_path / "net").mkdir()
    relu(tmp_path / "net" / "model.onnx")
    (tmp_path / "record.json").write_text(json.dumps({"Fake 1.0": {"net": recorded}}))
    monkeypatch.setattr(outcomes, "MODELS", tmp_path)
    monkeypatch.setattr(outcomes, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(outcomes, "find", lambda name, environments: consumer)
    monkeypatch.setattr(outcomes, "fixed", lambda model, result, target, options: model)
    monkeypatch.setattr(sys, "argv", ["consumer_outcomes.py", "fake", "--consumer-env", "environment"])
    assert outcomes.main() == code
    assert words in capsys.readouterr().out


def test_outcomes_are_recorded_for_the_versions_that_ci_installs() -> None:
    record = json.loads(BENCHMARK.with_name("consumer_outcomes.json").read_text(encoding="utf-8"))
    assert sorted(record) == ["OpenCV 5.0.0", "tract 0.23.9"]
    assert len({tuple(sorted(models)) for models in record.values()}) == 1
    assert len(record["tract 0.23.9"]) == 30
