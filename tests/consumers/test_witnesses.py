"""Each witness is rejected before its rule fires, and accepted after. REWRITER_CONSUMERS names environments, as PATH does."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import onnx
import pytest
from onnx import parser

from rewriter import fix, load_rules
from rewriter.core.isolation.budget import Budget, budgeted
from rewriter.trust.consumers.asking import ask, find
from rewriter.trust.consumers.consumer_verdict import Consumer
from tests.consumers.witnesses import WITNESSES, Witness, model_text

ENVIRONMENTS = [folder for folder in os.environ.get("REWRITER_CONSUMERS", "").split(os.pathsep) if folder]


@lru_cache(maxsize=64)
def installed(name: str) -> dict[str, Consumer]:
    """The versions of a consumer that are installed here, with where they are."""
    found = [find(name, folders) for folders in ([], *([folder] for folder in ENVIRONMENTS))]
    return {one.version: one for one in found if one is not None}


def name(witness: object) -> str:
    return f"{witness.rule} {witness.version}" if isinstance(witness, Witness) else ""


@pytest.mark.parametrize("witness", WITNESSES, ids=name)
def test_a_witness_is_accepted_after_its_rule(witness: Witness, tmp_path: Path) -> None:
    consumer = installed(witness.consumer).get(witness.version)
    if consumer is None:
        pytest.skip(f"needs {witness.version}; REWRITER_CONSUMERS names environments that have consumers")
    onnx.save(parser.parse_model(model_text(witness)), tmp_path / "before.onnx")
    fix(tmp_path / "before.onnx", tmp_path / "after.onnx", rules=load_rules().select([witness.rule, *witness.others]))
    with budgeted(Budget()):
        before, after = (ask(consumer, tmp_path / f"{state}.onnx") for state in ("before", "after"))
    assert not before.accepts
    assert after.state == "equal", after.sentence


@pytest.mark.parametrize("witness", WITNESSES, ids=name)
def test_a_witness_is_of_a_rule_for_its_consumer(witness: Witness) -> None:
    rule = load_rules().get(witness.rule)
    assert rule is not None
    assert witness.consumer in rule.targets
    assert witness.version.split()[0].lower() == witness.consumer


def test_each_rule_of_a_target_has_a_witness_or_says_that_none_was_run() -> None:
    ran = {witness.rule for witness in WITNESSES}
    silent = [rule.code for rule in load_rules() if rule.targets and rule.code not in ran and "Not run: " not in rule.doc]
    assert silent == []
    assert [code for code in sorted(ran) if "Not run: " in (getattr(load_rules().get(code), "doc", ""))] == []
