"""A few damaged models, as `benchmarks/fuzz.py` tries them by the hundred thousand."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from random import Random
from types import ModuleType

import rewriter
from rewriter.engine.run import run
from rewriter.graph.model import load

ROOT = Path(__file__).parent.parent.parent
INPUTS = 60


def mutations() -> ModuleType:
    path = ROOT / "benchmarks" / "fuzzing" / "model_mutations.py"
    spec = importlib.util.spec_from_file_location("model_mutations", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_damaged_models_end_in_a_result_or_in_one_line(tmp_path: Path) -> None:
    mutate = mutations().mutate_model
    seeds = [path.read_bytes() for path in sorted((ROOT / "tests" / "models").rglob("*.onnx")) if path.stat().st_size < 8_000]
    rules = rewriter.load_rules().select()
    refused = 0
    for number in range(INPUTS):
        random = Random(number)
        data = mutate(random.choice(seeds), random, random.choice(seeds))
        random = Random(number)
        assert data == mutate(random.choice(seeds), random, random.choice(seeds))
        (tmp_path / "m.onnx").write_bytes(data)
        try:
            model = load(tmp_path / "m.onnx")
            run(model.graph, rules, overridable=model.overridable)
            model.save(tmp_path / "o.onnx", force=True)
        except rewriter.RewriterError:
            refused += 1
    assert 0 < refused < INPUTS
