"""Rules that are wrong, most of them shipped by somebody once: each is refused with a counterexample that shows why."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewriter.language.rules import load_rules
from rewriter.proof.verdict import COUNTEREXAMPLE
from rewriter.proof.verify import Plan, verify_rule

RULES = sorted((Path(__file__).parent.parent / "wrong_rules").glob("*.rules"))
PLAN = Plan(samples=200, negatives=False)


def test_the_pack_is_there() -> None:
    assert len(RULES) >= 30


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_a_wrong_rule_is_refused(path: Path) -> None:
    (rule,) = load_rules([path])
    verdict = verify_rule(rule, PLAN)
    assert verdict.status == COUNTEREXAMPLE, (verdict.status, verdict.why, verdict.counts)
    for part in (f"{rule.code} {rule.slug} promises: {rule.kind.name}", "before:", "after:", "opset"):
        assert part in verdict.obligation
