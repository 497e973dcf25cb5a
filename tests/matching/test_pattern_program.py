"""A program finds what a plain search through the pattern finds, at every root, in the same order, with the same questions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs
import pytest

import rewriter
from rewriter.core.conditions.context import Context
from rewriter.core.conditions.rule_values import Failure
from rewriter.core.engine.compile import CompiledRule, compile_rule
from rewriter.core.errors import RewriterError
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.graph.objects import operator_key
from rewriter.core.language.rules import Rule
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.rule_tests import read_model
from tests.engine.helpers import rule_set
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


MODEL = """
<ir_version: 8, opset_import: ["": 13, "com.acme": 1]>
g (float[2,3] x, float[2,3] z, float[N,M] u, float[3] v) => (y, s, t, p, q) <float k = {0.5}, int64[2] ax = {0, 1}, int64 one = {1}> {
  a = Relu(x)
  b = Neg(z)
  c = Add(a, b)
  d = Add(b, a)
  e = Add(a, a)
  f = Mul(c, k)
  g1 = Mul(k, d)
  h = Sum(a, b, c, a)
  r = Relu(z)
  j = Sum(a, r)
  w = Add(a, x)
  y = Concat<axis=0>(a, b, a, c)
  s = Clip(f, "", k)
  m = Clip(u)
  t, i = TopK<axis=1>(g1, one)
  l0, l1 = Split<axis=0>(e)
  p = Concat<axis=0>(l0, l1)
  q = com.acme.Any<alpha=0.5, to=1>(m, v, h, j, w)
}
"""
PATTERNS = [
    "y = Add(Relu(x), Neg(z))",
    "y = Add(Neg(z), r)  r = Relu(x)",
    "y = Add(a, a)",
    "y = Add(Relu(x), x)",
    "y = Sum(a, *rest)",
    "y = ordered Sum(a, *rest)",
    "y = Sum(Relu(x), Relu(z), ...)",
    "y = Concat<axis=n>(*before, Neg(b), *after)",
    "y = Concat(*p, a, *q, a, *r)",
    "y = Clip(x, low?, high?)",
    "y = Clip(x, tensor[n] low?, high?)",
    "y = Clip(tensor[n, m] x, tensor[w] low?, tensor[] high?)",
    "y = Mul(x, {0.5})",
    "y = Mul(const k, Add(a, b))",
    "y = Mul(float[2, 3] x, k)",
    "y = Mul(float[..., w] x, _)",
    "y = Relu(tensor[n, m] x)",
    "*parts = Split<axis=a>(x)  y = Concat<axis=a>(*parts)",
    "y, i = TopK<axis=1>(x, _)",
    "r = Relu(x)  y = Add(r, c)  w = Add(c, r)",
    "r = Relu(x)  y = Add(r, c)  w = Mul(y, k)  v = Mul(k, e)",
    "y = _<alpha=a>(x, ...)",
    "y = com.acme.Any<alpha=0.5, to=float, !beta>(x, ...)",
    "[l] y = Add(_(x), _(_))",
    "y = _(_, _(_, _))",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_form_of_a_pattern(pattern: str) -> None:
    rule = rule_set(f"rule T1 t <kind: lossy, opset: 13..> match {{ {pattern} }} rewrite {{ y = Abs(y) }}").rules[0]
    graph = Model.from_proto(onnx.parser.parse_model(MODEL)).graph
    assert sum(compare(one, graph) for variant in rule.variants for one in [compile_rule(variant, {})]) > 0


def test_there_is_one_matcher() -> None:
    """What wants to know more of a match than its result is a tracer."""
    derived = [
        f"{path.name}: {line}"
        for path in Path(rewriter.__file__).parent.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.match(r"class .*\((Program|Attempt|Run)\b", line)
    ]
    assert derived == []
