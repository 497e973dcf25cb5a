"""A sample of benchmarks/metamorphic.py over recorded exports: what keeps a model's numbers changes nothing that `fix` does."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import onnx
import pytest

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "right_models")]

import cases  # noqa: E402
import judge  # noqa: E402
import metamorphic  # noqa: E402
import tools  # noqa: E402
import transforms  # noqa: E402

MODELS = ROOT / "tests" / "models"
OF_TOOLS = sorted(name for name, made in transforms.TRANSFORMS.items() if made.__module__ == tools.__name__)
HARMLESS = ["texts-stripped", "ir-version-raised", "constants-as-nodes", "shapes-inferred", "identity-last", "graphsurgeon"]


def recorded(name: str) -> cases.Case:
    folder = MODELS / name
    symbol = folder / "symbol.json"
    found = cases.recorded_run(folder / "data.npz")
    assert found is not None
    text = symbol.read_text() if symbol.exists() else None
    return cases.Case("tests", name, "", onnx.load(folder / "model.onnx"), [found], text, {"baseline": "wrong-numbers"})


@pytest.fixture(scope="module")
def bench() -> judge.Bench:
    return judge.Bench()


@pytest.mark.parametrize("name", ["mxnet-1.4.1-prelu-square", "mxnet-1.9.1-norm-l1", "mxnet-1.3.1-avgpool-full", "paddle-dot"])
def test_a_repaired_export_stays_right(name: str, bench: judge.Bench) -> None:
    known = metamorphic.repaired(recorded(name), bench)
    assert known is not None
    tally, rng = metamorphic.Tally(), random.Random(name)
    for _ in range(4):
        names = rng.sample([one for one in transforms.TRANSFORMS if one not in metamorphic.RESHAPED], 2)
        metamorphic.judge_right(known, names, [], bench, rng, tally)
    assert tally.chains == 4
    assert tally.bad == []


@pytest.mark.parametrize("name", ["mxnet-1.3.1-avgpool-full", "mxnet-1.4.1-bn-fixgamma-default"])
def test_a_repair_is_not_lost(name: str, bench: judge.Bench) -> None:
    tally = metamorphic.Tally()
    metamorphic.judge_broken(recorded(name), HARMLESS, bench, tally)
    assert tally.repaired == 1
    assert tally.tried.total() >= 4
    assert tally.lost == {}


@pytest.mark.parametrize("name", OF_TOOLS)
def test_a_transform_keeps_the_numbers(name: str) -> None:
    case = recorded("mxnet-1.5.1-dot-transposed")
    variant = transforms.apply(name, case)
    if variant is None:
        pytest.skip("it does not apply")
    before, after = metamorphic.failing(case.model, case.runs), metamorphic.failing(variant.model, case.runs)
    assert metamorphic.alike(before, after)


def test_a_model_beside_another_gives_both_results(bench: judge.Bench) -> None:
    case = metamorphic.repaired(recorded("mxnet-1.4.1-prelu-square"), bench)
    assert case is not None
    both, run = onnx.ModelProto(), case.runs[0]
    both.CopyFrom(case.model)
    assert tools.merged(both, case.model)
    judge.trusted(both, [metamorphic.beside(run, run)], None)
