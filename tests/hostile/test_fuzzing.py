"""A few damaged models and rule files, as `benchmarks/fuzz.py` tries them by the hundred thousand."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from random import Random
from types import ModuleType

import rewriter
from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.run import run
from rewriter.core.graph.model import load
from rewriter.rule_tools.format import format_text
from rewriter.rule_tools.lint.rule_set import lint
from rewriter.rule_tools.load_rules import load_rules

ROOT = Path(__file__).parent.parent.parent
INPUTS = 60


def mutations(name: str = "model_mutations") -> ModuleType:
    path = ROOT / "benchmarks" / "fuzzing" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
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
            run(model.graph, rules, Knowledge(overridable=model.overridable))
            model.save(tmp_path / "o.onnx", force=True)
        except rewriter.RewriterError:
            refused += 1
    assert 0 < refused < INPUTS


def test_damaged_rules_end_in_rules_or_in_messages(tmp_path: Path) -> None:
    mutate = mutations("text_mutations").mutate_text
    seeds = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests" / "language").glob("*.rules"))]
    seeds += [path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests" / "right_rules").glob("*.rules"))]
    refused = 0
    for number in range(INPUTS):
        random = Random(number)
        text = mutate(random.choice(seeds), random, random.choice(seeds))
        (tmp_path / "x.rules").write_text(text, encoding="utf-8", errors="replace")
        try:
            format_text(text)
            list(lint(load_rules([tmp_path])))
        except rewriter.RewriterError:
            refused += 1
    assert 0 < refused < INPUTS
