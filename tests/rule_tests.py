"""The inline tests of rules, run in the process of a test."""

from __future__ import annotations

from collections.abc import Iterable

from rewriter.core.language.rules import Rule
from rewriter.trust.rule_tests import TestResult, inline_tests, run_test


def run_tests(rules: Iterable[Rule]) -> list[TestResult]:
    """The results of all tests of these rules, in their order."""
    known = tuple(rules)
    return [run_test(rule, test, known) for rule, test in inline_tests(known)]
