"""Messages of tools find the rules that answer them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewriter.core.language.rules import Rule
from rewriter.rule_tools.load_rules import load_rules
from rewriter.rule_tools.symptoms import Symptoms, find_answers

RULES = """
/// Gemm takes rank 2 only.
rule TST001 flatten <kind: repair, evidence: refused, symptom: "First input does not have rank 2">
match { [n] y = Gemm(x, ...) }
rewrite { n.alpha = 1.0 }

/// Axes are an input since opset 13. The checker: "Unrecognized attribute: axes for operator Squeeze".
rule TST002 axes <kind: exact, opset: ..12>
match { [n] y = (Squeeze | Unsqueeze)(x) }
rewrite { y = Relu(x) }

/// So are those of reductions, and "two words" are no message.
rule TST003 reductions <kind: exact, opset: ..12, symptom: "Unrecognized attribute: axes for operator ReduceMean">
match { [n] y = (ReduceMean | ReduceMax)(x) }
rewrite { y = Relu(x) }
"""


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> list[Rule]:
    path = tmp_path_factory.mktemp("rules") / "all.rules"
    path.write_text(RULES)
    return list(load_rules([path]))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("First input does not have rank 2", "TST001"),
        ("first INPUT does not\n  have rank 4", "TST001"),
        ("Node (fc1) Op (Gemm) [ShapeInferenceError] First input does not have rank 2", "TST001"),
        ("input does not have rank", "TST001"),
        ("Unrecognized attribute: axes for operator Unsqueeze", "TST002"),
        (
            "ValidationError: Unrecognized attribute: axes for operator ReduceMax ==> Context: Bad node spec, name 'a_b'",
            "TST003",
        ),
    ],
)
def test_the_first_answer(rules: list[Rule], text: str, code: str) -> None:
    first = find_answers(rules, text)[0]
    assert (first.rule.code, first.sure) == (code, True)


def test_another_operator_is_another_message(rules: list[Rule]) -> None:
    assert [a.rule.code for a in find_answers(rules, "Unrecognized attribute: axes for operator Squeeze") if a.sure] == [
        "TST002"
    ]


def test_an_operator_that_no_rule_knows(rules: list[Rule]) -> None:
    assert not any(a.sure for a in find_answers(rules, "Unrecognized attribute: axes for operator QLinearConv"))
    assert not any(a.sure for a in find_answers(rules, "Unrecognized attribute: axes for operator Foo(13)"))


def test_the_name_of_an_operator_alone(rules: list[Rule], tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text(
        'rule TST004 squared <kind: lossy, symptom: "Fatal error: acme:SquaredRelu(-1) is not a registered function/op">\n'
        "match { y = acme.SquaredRelu(x) }\nrewrite { y = Relu(x) }\n"
    )
    known = [*rules, *load_rules([tmp_path])]
    for text in ("acme:SquaredRelu", "SquaredRelu", "acme.SquaredRelu(-1)", "acme::SquaredRelu"):
        assert [(answer.rule.code, answer.sure) for answer in find_answers(known, text)] == [("TST004", True)]
    assert not any(answer.sure for answer in find_answers(known, "acme:Relu"))


def test_nothing_answers(rules: list[Rule]) -> None:
    nearest = find_answers(rules, "some attribute is too large")
    assert nearest
    assert not any(answer.sure for answer in nearest)
    assert find_answers(rules, "x 17 (%)") == []
    assert find_answers([], "First input does not have rank 2") == []


def test_every_shipped_symptom_finds_its_rule() -> None:
    rules = list(load_rules())
    symptoms = Symptoms(rules)
    for rule in rules:
        for symptom in rule.header.symptoms:
            best = symptoms.answers(symptom)
            mine = next(answer for answer in best if answer.rule.code == rule.code)
            assert mine.score >= best[0].score - 0.05, (rule.code, symptom, [(a.rule.code, a.score) for a in best[:3]])
