"""The output of a rule for the model of a test, written into the rule file as the expected model."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model
from rewriter.core.language import ast
from rewriter.core.language.rule_files import read_rule_file
from rewriter.core.language.rules import Rule
from rewriter.core.onnxfile.files import write_file
from rewriter.core.record import record
from rewriter.rule_tools.format import format_text
from rewriter.trust.rule_tests import TestResult, contradictions, inline_tests, limited_results, read_model
from rewriter.workbench.authoring.new_rule import model_text, without_new_names


@record(frozen=True, slots=True)
class Blessing:
    """One expected model that is to be replaced.

    Attributes:
        result: how the test ends as it is.
        before: the text of the file; `span` is the place of the expected model in it.
        text: the new expected model.
        diff: lines that show the change.
    """

    result: TestResult
    before: str
    span: ast.Span
    text: str
    diff: tuple[str, ...]


def blessings(rules: Iterable[Rule]) -> Iterator[Blessing | TestResult]:
    """The new expected model of each test that fails, or, if it cannot be written, the result with the reason."""
    known = tuple(rules)
    tests = inline_tests(known)
    uses = Counter((rule.source.path, test.after_span.start) for rule, test in tests)
    for (rule, test), result in zip(tests, limited_results(tests, known), strict=True):
        if not result.ok:
            yield _blessing(rule, test, result, uses[rule.source.path, test.after_span.start] > 1)


def _blessing(rule: Rule, test: ast.Test, result: TestResult, is_shared: bool) -> Blessing | TestResult:
    proto = result.result_model
    if proto is None:
        return result
    span, before = test.after_span, rule.source.text
    if is_shared or before[span.start : span.end] != test.after:
        return _refused(result, "the expected model is shared by the rows of a table; write it by hand")
    contradiction = next(contradictions(Model.from_proto(proto)), None)
    if contradiction is not None:
        return _refused(result, f"what the rule makes contradicts itself: {contradiction}")
    try:
        text = model_text(without_new_names(proto, read_model(test.before)))
    except RewriterError as error:
        return _refused(result, str(error))
    lines = difflib.unified_diff(str(test.after).splitlines(), text.splitlines(), "expected", "blessed", lineterm="", n=3)
    return Blessing(result, before, span, text, tuple(lines))


def _refused(result: TestResult, why: str) -> TestResult:
    return TestResult(result.rule, result.title, result.path, result.line, False, f"{why}\n{result.message}")


def write_blessings(blessings: Iterable[Blessing]) -> list[str]:
    """Writes expected models into their files and returns the files that changed.

    Raises:
        RewriterError: a file was changed meanwhile, or cannot be written.
    """
    by_path: dict[str, list[Blessing]] = {}
    for one in blessings:
        by_path.setdefault(one.result.path, []).append(one)
    for path, changes in by_path.items():
        text = read_rule_file(path)
        if text != changes[0].before:
            raise RewriterError(f"{path} changed while rewriter was working on it; nothing is written, run the command again")
        for one in sorted(changes, key=lambda one: -one.span.start):
            text = f"{text[: one.span.start].rstrip()}\n{one.text}\n{text[one.span.end :].lstrip()}"
        write_file(Path(path), format_text(text, path).encode(), force=True)
    return list(by_path)
