"""Tests and verification of the rules of an open file, as it is there."""

from __future__ import annotations

from collections.abc import Iterable

from rewriter.editor.opened_rules import OpenedRules
from rewriter.explain.testing import TestResult, run_test
from rewriter.report.style import Style
from rewriter.report.why_lines import miss_lines

SAMPLES, SECONDS = 60, 5.0
"""Of a rule that is verified while somebody waits."""


def test_results(opened: OpenedRules, code: str = "", line: int = 0) -> list[TestResult]:
    """Runs the tests of a file, of one of its rules, or the one that begins in a line (from 1 on)."""
    rules = opened.rules
    results = []
    for rule in rules:
        for test in rule.ast.tests if code in ("", rule.code) else ():
            if line in (0, rule.source.line_col(test.span.start)[0]):
                results.append(run_test(rule, test, rules))
    return results


def told(result: TestResult) -> str:
    """Why a test failed, as lines."""
    misses = () if result.why is None else miss_lines(result.why, 1, Style(False))
    return "\n".join((result.message, *misses))


def verified(opened: OpenedRules, code: str) -> Iterable[str]:
    """What running a rule of this code on random instances shows. Raises RewriterError without a runtime."""
    from rewriter.proof.oracles import require_runtime
    from rewriter.proof.rules.verify_rule import VerifyPlan
    from rewriter.proof.rules.workers import verify_all

    require_runtime()
    chosen = [rule for rule in opened.rules if rule.code == code]
    for verdict in verify_all(chosen, VerifyPlan(SAMPLES, 0, SECONDS), {}, 1):
        why = f": {verdict.why}" if verdict.why else ""
        yield f"{verdict.rule} {verdict.status} ({verdict.samples} instances){why}\n{verdict.obligation}".strip()
