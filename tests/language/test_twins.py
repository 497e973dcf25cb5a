"""Evidence that only programs can show: twins of the shipped rules, and the questions that their guesses ask.

A twin is what a real exporter made of correct code. No repair that runs by default may fire on it, whichever rule it belongs to; where
the exporter has a second defect that cannot be avoided, the comment above the twin names the rule for that.
"""

from __future__ import annotations

import pytest

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.limits import Limits
from rewriter.core.engine.run import run
from rewriter.core.graph.model import Model
from rewriter.core.language import ast
from rewriter.core.language.rules import Rule, RuleSet
from rewriter.rule_tools.lint.rule_set import TWINNED
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.rule_tests import read_model
from rewriter.trust.source.find import parse_source

RULES = load_rules()
REPAIRS = RuleSet(tuple(rule for rule in RULES.select() if rule.kind.name == "repair"))
SHOWN = [rule for rule in RULES if rule.evidence is not None and rule.evidence.name in TWINNED]
TWINS = [(rule, test) for rule in RULES for test in rule.ast.tests if test.twin]


def comment_above(rule: Rule, test: ast.Test) -> str:
    """The `#` lines that stand directly above a test, as one text."""
    lines = rule.source.text[: test.span.start].split("\n")[:-1]
    found: list[str] = []
    while lines and lines[-1].startswith("#"):
        found.insert(0, lines.pop())
    return "\n".join(found)


def fired(text: str, source: str | None) -> set[str]:
    """Codes of the default repairs that fire on a model."""
    model = Model.from_proto(read_model(text))
    read = None if source is None else parse_source(source, "source of the twin")
    log = run(model.graph, REPAIRS, Knowledge(read, overridable=model.overridable), limits=Limits(seconds=10.0))
    return {firing.rule for firing in log.firings}


@pytest.mark.parametrize("rule", SHOWN, ids=lambda rule: rule.code)
def test_evidence_that_programs_show_has_a_twin(rule: Rule) -> None:
    assert any(test.twin for test in rule.ast.tests)


@pytest.mark.parametrize(("rule", "test"), TWINS, ids=[f"{rule.code}-{test.title}" for rule, test in TWINS])
def test_twin(rule: Rule, test: ast.Test) -> None:
    comment = comment_above(rule, test)
    assert len(comment) > 10, "the code that made it stands above"
    for source in {test.source, None}:  # nothing fires without the file, either
        assert all(code in comment for code in fired(test.before, source))


def test_a_repair_that_is_due_fires() -> None:
    """What the twins are asked with can find something: most first tests of these rules are wrong models."""
    due = [test for rule in SHOWN for test in rule.ast.tests[:1] if test.after is not None]
    assert sum(1 for test in due if fired(test.before, test.source)) > len(due) * 0.9


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.guess], ids=lambda rule: rule.code)
def test_a_guess_asks(rule: Rule) -> None:
    assert rule.header.question is not None
    assert rule.header.question.endswith("?")
