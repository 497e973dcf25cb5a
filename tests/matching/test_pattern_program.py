"""A program finds what a plain search through the pattern finds, at every root, in the same order, with the same questions."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_graphsurgeon as gs
import pytest

from rewriter.core.conditions.context import Context
from rewriter.core.conditions.rule_values import Failure
from rewriter.core.engine.compile import CompiledRule, compile_rule
from rewriter.core.errors import RewriterError
from rewriter.core.graph.index import GraphIndex, operator_key
from rewriter.core.graph.model import Model
from rewriter.core.language.rule import Rule
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.rule_tests import read_model
from tests.matching.plain_search import PlainSearch


def compiled(rule: Rule) -> list[CompiledRule]:
    try:
        return [one for variant in rule.variants if (one := compile_rule(variant, {})).pattern is not None]
    except RewriterError:  # a parameter without a default
        return []


RULES = [one for rule in load_rules() for one in compiled(rule)]

Match = tuple[str, dict[int, int]]


def plain(bound: dict[str, Any], nodes: dict[int, gs.Node]) -> Match:
    """A match as text, tensors and nodes by id()."""
    shown = {
        name: [id(item) if isinstance(item, gs.Tensor) else repr(item) for item in value]
        if isinstance(value, list)
        else repr(value)
        if isinstance(value, str | int | float | np.ndarray)
        else id(value)
        for name, value in bound.items()
    }
    return repr(sorted(shown.items())), {number: id(node) for number, node in nodes.items()}


def asked(context: Context, find: Any) -> tuple[Any, ...]:
    """All that is found, and what was asked on the way."""
    context.forget()
    found: list[Match | str] = []
    try:
        find(found)
    except Failure as failure:
        found.append(str(failure))
    return found, sorted(context.seen), sorted(context.traced), sorted(context.counted), context.doubts


def by_program(rule: CompiledRule, context: Context, root: gs.Node, values: dict[str, Any]) -> tuple[Any, ...]:
    program = rule.program
    registers = program.registers(values)

    def find(found: list[Match | str]) -> None:
        program.find(root, registers, context, lambda r: found.append(plain(program.bound(r), program.nodes(r))))

    return asked(context, find)


def by_search(rule: CompiledRule, context: Context, root: gs.Node, values: dict[str, Any]) -> tuple[Any, ...]:
    assert rule.pattern is not None
    search = PlainSearch(rule.pattern, context, values, rule.lets)

    def find(found: list[Match | str]) -> None:
        found.extend(plain(state.bound, state.nodes) for state in search.matches(root))

    return asked(context, find)


def compare(rule: CompiledRule, graph: gs.Graph) -> int:
    """Compares program and search at all roots; returns the number of matches."""
    assert rule.pattern is not None
    index = GraphIndex(graph)
    context, matches = Context(index), 0
    for root in index.all_nodes():
        if operator_key(root) in rule.pattern.nodes[rule.pattern.root].ops:
            owner = index.scope(root).owner
            if rule.inside is not None and owner is None:
                continue
            values = rule.parameter_values if rule.inside is None else {**rule.parameter_values, "outer": owner}
            found = by_program(rule, context, root, values)
            assert found == by_search(rule, context, root, values)
            matches += len(found[0])
    return matches


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_it_finds_what_the_search_finds(rule: CompiledRule) -> None:
    for test in rule.rule.ast.tests:
        compare(rule, Model.from_proto(read_model(test.before)).graph)
