"""Inline tests of rules: the model of a test is rewritten by its rule alone and compared with what the test says comes out.

Models are compared by what they compute with what, not by the names of inner tensors, which a test cannot foresee.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import onnx

from rewriter.engine.compile import default_value
from rewriter.engine.limits import Limits
from rewriter.engine.run import run
from rewriter.errors import RewriterError
from rewriter.graph.model import Model
from rewriter.inspect.model_text import canonical_text
from rewriter.language import ast
from rewriter.language.rule import Rule
from rewriter.language.rules import RuleSet
from rewriter.log.records import Log
from rewriter.record import record
from rewriter.source.find import parse_source

TIME = 10.0  # seconds for one test


@record(frozen=True, slots=True)
class TestResult:
    """Outcome of one inline test; `message` explains a failure over several lines."""

    rule: str
    title: str
    path: str
    line: int
    ok: bool
    message: str = ""


def run_tests(rules: Iterable[Rule]) -> list[TestResult]:
    """Runs all inline tests of these rules, in their order."""
    return [run_test(rule, test) for rule in rules for test in rule.ast.tests]


def run_test(rule: Rule, test: ast.Test) -> TestResult:
    """Runs one test."""
    try:
        message = _difference(rule, test)
    except RewriterError as error:
        message = str(error)
    line = rule.source.line_col(test.span.start)[0]
    return TestResult(rule.code, test.title, rule.path, line, not message, message)


def read_model(text: str) -> onnx.ModelProto:
    """A model from ONNX text; bare functions and graphs are not accepted. Raises RewriterError with the parser's position."""
    try:
        return onnx.parser.parse_model(text)
    except (onnx.parser.ParseError, ValueError) as error:
        raise RewriterError(f"the test's model is not ONNX text: {' '.join(str(error).split())}") from error


def _difference(rule: Rule, test: ast.Test) -> str:
    """What is wrong with the outcome, or ""."""
    model = Model.from_proto(read_model(test.before))
    source = None if test.source is None else parse_source(test.source, "source of the test")
    settings = {(rule.code, name): default_value(value) for name, value in test.settings}
    log = run(
        model.graph,
        RuleSet((rule,)),
        source=source,
        settings=settings,
        limits=Limits(seconds=TIME),
        overridable=model.overridable,
    )
    if log.stops:
        return f"the run stopped: {log.stops[0].message}"
    if test.after is None:
        return _unwanted(log)
    if not log.changed:
        return "the rule did not fire" + "".join(f"\n  {reason}" for reason in _reasons(log))
    found = canonical_text(model.to_proto())
    wanted = canonical_text(read_model(test.after))
    if found == wanted:
        return ""
    lines = difflib.unified_diff(wanted.splitlines(), found.splitlines(), "expected", "rewritten", lineterm="", n=3)
    return "\n".join(lines)


def _unwanted(log: Log) -> str:
    if not log.changed:
        return ""
    firing = log.firings[0]
    changes = (f"\n  - {c.before}" * bool(c.before) + f"\n  + {c.after}" * bool(c.after) for c in firing.changes)
    return f"the rule fired at {firing.root!r} and must not" + "".join(changes)


def _reasons(log: Log) -> list[str]:
    return [f"{b.root}: {b.reason}" + (f" (line {b.line})" if b.line else "") for b in log.blocked] + [
        s.reason for s in log.skipped
    ]
