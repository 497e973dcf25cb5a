"""Rules that are wrong, most of them shipped by somebody once: each is refused with a counterexample that shows why.

Those of `KINDS` have a twin among tests/right_rules under the same name, which is right and must not be refused.
"""

from __future__ import annotations

from pathlib import Path

import onnxruntime
import pytest

from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.proof.rules.verdict import COUNTEREXAMPLE, TESTED
from rewriter.trust.proof.rules.verify_rule import VerifyPlan, verify_rule

RULES = sorted((Path(__file__).parent.parent / "wrong_rules").glob("*.rules"))
RIGHT = RULES[0].parent.parent / "right_rules"
KINDS = {
    "a negative axis": ["softmax_behind_unsqueeze", "concat_behind_unsqueezes"],
    "broadcasting": ["where_of_the_same", "least_of_the_greatest", "added_and_taken_away"],
    "opset 13 and later": ["softmax_of_a_matrix", "softmax_between_transposes"],
    "zero size": ["reshape_to_any_batch", "sum_of_at_most_one"],
    "other consumers": ["gemm_scaled_in_place", "sum_keeps_its_axes_in_place"],
    "float16 overflow": ["half_factors_multiplied", "half_mean_as_a_sum"],
    "a dynamic batch": ["reshape_of_one_image", "first_of_one_image"],
    "an attribute default": ["leaky_relu_of_the_default", "argmax_as_top_k"],
    "NaN": ["choice_as_minimum", "times_nothing"],
    "asymmetric pads": ["padding_twice_the_begin", "crop_of_a_deconvolution"],
    "rank 5 and more": ["global_average_of_images", "channel_bias_into_convolution"],
    "a special constant": ["unit_factor", "factor_of_magnitude_one", "sign_of_a_difference"],
}
TWINS = sorted({name for names in KINDS.values() for name in names} | {path.stem for path in RIGHT.glob("*.rules")})
UNHURRIED = 600.0  # the samples end it, not the clock of a busy machine
PLAN = VerifyPlan(samples=200, seconds=UNHURRIED, negatives=False)
FEWER = VerifyPlan(samples=40, seconds=UNHURRIED, negatives=False)


def test_the_pack_is_there() -> None:
    assert len(RULES) >= 30


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.stem)
def test_a_wrong_rule_is_refused(path: Path) -> None:
    (rule,) = load_rules([path])
    verdict = verify_rule(rule, PLAN)
    assert verdict.status == COUNTEREXAMPLE, (verdict.status, verdict.why, verdict.counts)
    for part in (f"{rule.code} {rule.slug} promises: {rule.kind.name}", "before:", "after:", "opset"):
        assert part in verdict.obligation


@pytest.mark.parametrize("name", TWINS)
def test_its_twin_is_right(name: str) -> None:
    if name == "crop_of_a_deconvolution" and onnxruntime.__version__.startswith("1.23."):
        pytest.skip("ONNX Runtime 1.23 crashes if ConvTranspose gets a tensor without elements")
    (rule,) = load_rules([RIGHT / f"{name}.rules"])
    assert (RIGHT.parent / "wrong_rules" / f"{name}.rules").is_file()
    verdict = verify_rule(rule, FEWER)
    assert verdict.status == TESTED, (verdict.why, verdict.obligation)
    assert verdict.samples >= 10
