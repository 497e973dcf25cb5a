"""What a literal of a pattern matches, as docs/language.md says it, and what `==` between two constants asks."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from rewriter.core.engine.run import run
from rewriter.core.graph.model import Model
from rewriter.core.language.rules import RuleSet
from rewriter.rule_tools.load_rules import load_rules


def fires(folder: Path, rule: str, model: str) -> bool:
    """Whether a rule fires on a graph of opset 13."""
    path = folder / "a.rules"
    path.write_text(rule)
    (found,) = load_rules([path])
    graph = Model.from_proto(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 13]>\n{model}')).graph
    return run(graph, RuleSet((found,))).changed


@pytest.mark.parametrize(
    ("literal", "constant", "matches"),
    [
        ("{1.0}", "float c = {1}", True),
        ("{1.0}", "float[1] c = {1}", True),
        ("{1.0}", "float[1,1] c = {1}", True),
        ("{1.0}", "float[2] c = {1, 1}", False),
        ("{1.0}", "float[1,1] c = {2}", False),
        ("{[1.0]}", "float c = {1}", True),
        ("{[1.0]}", "float[1,1] c = {1}", True),
        ("{[1.0, 1.0]}", "float[2] c = {1, 1}", True),
        ("{[1.0, 1.0]}", "float[1,2] c = {1, 1}", False),
        ("{[1.0, 1.0]}", "float c = {1}", False),
        ("{0.1}", "float c = {0.1}", True),
        ("{0.1}", "double c = {0.1}", True),
        ("double{0.1}", "double c = {0.1}", True),
        ("double{0.1}", "float c = {0.1}", False),
    ],
)
def test_a_literal(tmp_path: Path, literal: str, constant: str, matches: bool) -> None:
    rule = f"rule T1 a <kind: exact>\nmatch {{ y = Mul(x, {literal}) }}\nrewrite {{ y = x }}\n"
    kind = constant.split("[")[0].split()[0]
    model = f"g ({kind}[2] x) => ({kind}[N,M] y) <{constant}> {{ y = Mul(x, c) }}"
    assert fires(tmp_path, rule, model) is matches


@pytest.mark.parametrize(
    ("condition", "constants", "holds"),
    [
        ("all(c == d)", "float[2] c = {1, 2}, float[2] d = {1, 2}", True),
        ("all(c == d)", "float[2] c = {1, 2}, float[2] d = {1, 3}", False),
        ("all(c == d)", "float[2] c = {1, 1}, float d = {1}", True),
        ("all(c == d)", "float[2] c = {1, 1}, float[3] d = {1, 1, 1}", False),
        ("any(c != d)", "float[2] c = {1, 2}, float[2] d = {1, 3}", True),
        ("any(c != d)", "float[2] c = {1, 2}, float[2] d = {1, 2}", False),
        ("c == d", "float[2] c = {1, 2}, float[2] d = {1, 2}", False),
    ],
)
def test_two_constants(tmp_path: Path, condition: str, constants: str, holds: bool) -> None:
    rule = f"rule T1 a <kind: exact>\nmatch {{ y = Sub(Add(x, const c), const d) }}\nwhere {condition}\nrewrite {{ y = x }}\n"
    model = f"g (float[N,1] x) => (float[N,M] y) <{constants}> {{ t = Add(x, c)  y = Sub(t, d) }}"
    assert fires(tmp_path, rule, model) is holds
