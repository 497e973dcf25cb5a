"""A pattern that leaves no choice is matched as the search would match it, at every node, with the same questions asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_graphsurgeon as gs
import pytest

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.rule_values import Failure
from rewriter.core.engine.compile import CompiledRule, compile_rule
from rewriter.core.errors import RewriterError
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.language.rule import Rule
from rewriter.core.matching.linear_match import LinearMatcher
from rewriter.core.matching.match import Matcher
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.rule_tests import read_model


def compiled(rule: Rule) -> CompiledRule | None:
    try:
        found = compile_rule(rule, {})
    except RewriterError:  # a parameter without a default
        return None
    return found if found.arrangements is not None else None


RULES = [rule for one in load_rules() if (rule := compiled(one)) is not None]


def seen(matcher: Matcher, context: Context, root: gs.Node) -> tuple[Any, ...]:
    """All matches at a root, and what was asked on the way."""
    context.forget()
    found: list[Any] = []
    try:
        for _ in matcher.matches(root):
            bound = {
                name: value if isinstance(value, (list, str, int, float, np.ndarray)) else id(value)
                for name, value in matcher.bound.items()
            }
            found.append((repr(bound), {number: id(node) for number, node in matcher.nodes.items()}))
    except Failure as failure:
        found.append(str(failure))
    return found, sorted(context.seen), sorted(context.counted), context.doubts


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_it_finds_what_the_search_finds(rule: CompiledRule) -> None:
    assert rule.pattern is not None
    for test in rule.rule.ast.tests:
        graph = Model.from_proto(read_model(test.before)).graph
        index = GraphIndex(graph)
        context = Context(index)
        for root in index.all_nodes():
            arguments = rule.pattern, context, rule.parameter_values, rule.lets
            assert rule.arrangements is not None
            found = seen(LinearMatcher(rule.arrangements, *arguments), context, root)
            assert found == seen(Matcher(*arguments), context, root)


def test_most_shipped_patterns_leave_few_choices() -> None:
    patterns = [rule for rule in load_rules() if not rule.ast.match.graph]
    assert len(RULES) > len(patterns) / 2
