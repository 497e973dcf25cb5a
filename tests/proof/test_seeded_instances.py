"""Instances made from models on which a rule fires: what stays as the rule needs it, what varies, and what inputs mean."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from rewriter.core.language.rules import Rule, RuleSet
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.proof.instances.instance import Instance
from rewriter.trust.proof.instances.random_arrays import ROUGH, TAME, feed
from rewriter.trust.proof.instances.sampling import Stream
from rewriter.trust.proof.rules import verify_rule as verifying
from rewriter.trust.proof.rules.trial import REPAIRED, SAME, attempt
from rewriter.trust.proof.rules.verdict import TESTED
from rewriter.trust.proof.rules.verify_rule import VerifyPlan, verify_rule

MODELS = Path(__file__).parent.parent / "models"
PLAN = VerifyPlan(samples=20, negatives=False)


@pytest.fixture(scope="module")
def shipped() -> RuleSet:
    return load_rules(None)


def from_tests(rule: Rule, number: int) -> Iterator[Instance]:
    """The next instances of a rule that are made from its tests."""
    made = (instance for _, instance in Stream(rule, 0) if instance is not None and instance.origin != "pattern")
    return islice(made, number)


def samples(rule: Rule, number: int) -> int:
    """How many of the instances from tests are samples."""
    trials = (attempt(rule, instance, np.random.default_rng(0), (TAME,)) for instance in from_tests(rule, number))
    return sum(trial.status in (SAME, REPAIRED) for trial in trials)


@pytest.mark.parametrize(
    ("code", "least"),
    [
        ("SK001", 20),  # an output that is no tensor keeps its type
        ("HYG015", 40),  # a wrong declaration of an output is the defect
        ("HYG025", 20),  # equal weights stay equal
        ("TGT046", 8),  # lengths that are products of others follow
        ("SURG011", 4),  # dimensions with a name have the length that the model needs
        ("OP040", 40),  # an operator that is unknown before the repair reads lengths
        ("PD025", 12),  # places in a batch are below its length
        ("TF178", 15),  # scales decide lengths and stay
    ],
)
def test_many_variations_of_a_test_are_samples(shipped: RuleSet, code: str, least: int) -> None:
    rule = shipped.get(code)
    assert rule is not None and samples(rule, 100) >= least


def test_named_dimensions_have_other_lengths(shipped: RuleSet) -> None:
    rule = shipped.get("SURG011")
    assert rule is not None
    lengths = {instance.sizes["N"] for instance in from_tests(rule, 60) if "N" in instance.sizes}
    assert {1, 2, 3} <= lengths


@pytest.mark.parametrize("code", ["SK010", "PT037"])
def test_a_rule_without_a_test_is_tried_on_its_recorded_exports(shipped: RuleSet, code: str) -> None:
    """NaN and the notes of nodes cannot be written in a test."""
    rule = shipped.get(code)
    name = {"SK010": "sklearn-double-imputer", "PT037": "pytorch-2.13-average-pool-with-a-divisor-dynamo-op18"}[code]
    assert rule is not None and verify_rule(rule, PLAN, [name]).samples == 0
    verdict = verify_rule(rule, VerifyPlan(samples=20, negatives=False, exports=MODELS), [name])
    assert (verdict.status, verdict.samples) == (TESTED, 20)


def test_a_busy_machine_does_not_change_the_verdict(shipped: RuleSet, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = shipped.get("OP005")
    assert rule is not None
    hours = count(step=3600.0)
    clocks = SimpleNamespace(monotonic=lambda: next(hours), process_time=time.process_time)
    monkeypatch.setattr(verifying, "time", clocks)
    assert verify_rule(rule, VerifyPlan(samples=20, negatives=False, limit=1e9)).samples == 20
    assert verify_rule(rule, VerifyPlan(samples=20, negatives=False, limit=60.0)).samples == 0


MOVED = """
<ir_version: 8, opset_import: ["": 13]>
g (float[4] x, int32[2] place, int64[2] beyond) => (float[a,b] y, float[c] z) {
  wide = Cast<to=7>(place)  rows = Reshape(wide, beyond)  y = Gather(x, rows)  z = Neg(x)
}
"""
UNKNOWN = MOVED.replace("Gather(x, rows)", "Unknown(x, rows)")


def test_the_meaning_of_an_input_is_found_behind_nodes_that_move_data() -> None:
    instance = Instance(onnx.parser.parse_model(MOVED), "test")
    for seed in range(20):
        inputs = feed(instance, np.random.default_rng(seed), ROUGH)
        assert np.all(np.abs(inputs["place"] + 0.5) < 4.5) and np.all(inputs["beyond"] > 0)


def test_a_repaired_model_shows_what_an_unknown_operator_reads() -> None:
    instance, repaired = Instance(onnx.parser.parse_model(UNKNOWN), "test"), onnx.parser.parse_model(MOVED)
    places = [feed(instance, np.random.default_rng(seed), TAME, repaired)["place"] for seed in range(20)]
    assert np.min(places) >= 0 and np.max(places) < 4
    assert np.min([feed(instance, np.random.default_rng(seed), TAME)["place"] for seed in range(20)]) < 0


def test_an_input_of_lengths_often_has_those_of_another_input() -> None:
    text = '<ir_version: 8, opset_import: ["": 13]>\ng (float[5,7] x, int64[2] s) => (float[a,b] y) { y = Expand(x, s) }\n'
    instance = Instance(onnx.parser.parse_model(text), "test")
    drawn = [feed(instance, np.random.default_rng(seed), TAME)["s"].tolist() for seed in range(40)]
    assert 8 < drawn.count([5, 7]) < 32
