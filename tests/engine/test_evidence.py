"""What evidence does to a run: guesses wait to be asked for, and rules about a missing kernel ask the runtime."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_graphsurgeon as gs
import pytest

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.run import run
from rewriter.core.errors import RewriterError
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Log
from rewriter.rule_tools.load_rules import load_rules

RULES = """
/// A guess.
rule TST001 guessed-slope <kind: repair, evidence: guess, question: "was the slope 0.5?">
match { [n] y = LeakyRelu<alpha=1.0>(x) }
rewrite { n.alpha = 0.5 }

/// A missing kernel.
rule TST002 double-relu <kind: repair, evidence: refused(onnxruntime)>
match { [n] y = Relu(x) }
where dtype(x) == double
rewrite { n.inputs[0] = Cast<to=float>(x)  y = Cast<to=double>(y) }

/// A repair that is certain.
rule TST003 elu <kind: repair, evidence: refused>
match { y = Elu(x) }
rewrite { y = Tanh(x) }
"""


@pytest.fixture
def rules(tmp_path: Path) -> RuleSet:
    (tmp_path / "my.rules").write_text(RULES)
    return load_rules([tmp_path])


def graph(body: str, dtype: str = "float") -> gs.Graph:
    text = f'<ir_version: 8, opset_import: ["": 14]> g ({dtype}[2] x) => ({dtype}[2] y) {{ {body} }}'
    return gs.import_onnx(onnx.parser.parse_model(text))


@pytest.mark.parametrize(
    ("select", "guess", "codes"),
    [
        ([], False, ["TST002", "TST003"]),
        ([], True, ["TST001", "TST002", "TST003"]),
        (["ALL"], False, ["TST002", "TST003"]),
        (["TST"], False, ["TST002", "TST003"]),
        (["TST"], True, ["TST001", "TST002", "TST003"]),
        (["TST003"], True, ["TST003"]),
        (["TST001"], False, ["TST001"]),
        (["DEFAULT", "TST001"], False, ["TST001", "TST002", "TST003"]),
    ],
)
def test_a_guess_runs_only_when_it_is_asked_for(rules: RuleSet, select: list[str], guess: bool, codes: list[str]) -> None:
    assert [rule.code for rule in rules.select(select, guess=guess)] == codes


def test_an_ignored_guess_is_no_question(rules: RuleSet) -> None:
    assert [rule.code for rule in rules.select().questions] == ["TST001"]
    assert rules.select(ignore=["TST001"]).questions == ()


def checked(rules: RuleSet, body: str) -> Log:
    return run(graph(body), rules.select(), keep=False)


def test_a_check_asks_where_a_guess_would_fit(rules: RuleSet) -> None:
    log = checked(rules, "[act] y = LeakyRelu<alpha=1.0>(x)")
    assert log.firings == []
    (question,) = log.questions
    assert (question.rule, question.root, question.text) == ("TST001", "act", "was the slope 0.5?")
    assert question.remedy == "if so: --select DEFAULT,TST001"


def test_a_check_that_finds_something_asks_besides(rules: RuleSet) -> None:
    log = checked(rules, "t = LeakyRelu<alpha=1.0>(x) y = Elu(t)")
    assert [firing.rule for firing in log.firings] == ["TST003"]
    assert [question.rule for question in log.questions] == ["TST001"]


def test_a_run_that_keeps_its_edits_asks_nothing(rules: RuleSet) -> None:
    assert run(graph("y = LeakyRelu<alpha=1.0>(x)"), rules.select()).questions == []


@pytest.mark.parametrize(("answer", "fires"), [(False, True), (True, False), (None, False)])
def test_a_rule_about_a_missing_kernel_asks_the_runtime(rules: RuleSet, answer: bool | None, fires: bool) -> None:
    asked: list[onnx.ModelProto] = []

    def has_kernel(model: onnx.ModelProto) -> bool | None:
        asked.append(model)
        return answer

    log = run(graph("y = Relu(x)", "double"), rules.select(), Knowledge(has_kernel=has_kernel))
    assert log.changed is fires
    (model,) = {one.SerializeToString(): one for one in asked}.values()
    assert [node.op_type for node in model.graph.node] == ["Relu"]
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
    blocked = [one.reason for one in log.blocked]
    assert blocked == (["whether the runtime has a kernel for it is unknown"] if answer is None else [])


@pytest.mark.parametrize("chosen", [{"select": ["TST002"]}, {"targets": ["onnxruntime"]}])
def test_a_runtime_that_was_chosen_is_not_asked(rules: RuleSet, chosen: dict[str, list[str]]) -> None:
    def never(model: onnx.ModelProto) -> bool:
        raise AssertionError("asked")

    assert run(graph("y = Relu(x)", "double"), rules.select(**chosen), Knowledge(has_kernel=never)).changed


def test_no_other_target_is_known(rules: RuleSet) -> None:
    with pytest.raises(RewriterError, match=r"targets are .*onnxruntime"):
        rules.select(targets=["tensorrt"])


def test_a_question_follows_from_what_really_fires(tmp_path: Path) -> None:
    """The runtime has the kernel, so the repair stays away, and there is no Cast to ask about."""
    guess = (
        'rule TST004 cast <kind: repair, evidence: guess, question: "a Cast?">\n'
        "match { y = Cast<to=float>(x) }\nrewrite { y = Floor(x) }\n"
    )
    (tmp_path / "my.rules").write_text(RULES + guess)
    selected = load_rules([tmp_path]).select()
    assert run(graph("y = Relu(x)", "double"), selected, Knowledge(has_kernel=lambda model: True), keep=False).questions == []


def test_a_guess_is_no_question_where_a_rule_that_comes_before_it_fires(tmp_path: Path) -> None:
    """The Cast comes before the Relu, and its rule would be tried first."""
    guess = 'rule TST005 cast <kind: repair, evidence: guess, question: "a Cast?">\nmatch { [n] c = Cast<to=1>(x) }\n'
    guess += "rewrite { n.to = double }\n\n"
    certain = "rule TST006 relu <kind: repair, evidence: refused, {}>\nmatch {{ y = Relu(c)  c = Cast<to=1>(x) }}\n"
    certain += "rewrite {{ y = Elu(c) }}\n"
    for order, asked in (("before: TST005", ["z"]), ("severity: error", ["c", "z"])):
        (tmp_path / "my.rules").write_text(guess + certain.format(order))
        selected = load_rules([tmp_path]).select()
        log = run(graph("[c] c = Cast<to=1>(x)  y = Relu(c)  [z] z = Cast<to=1>(y)"), selected, keep=False)
        assert log.counts == {"TST006": 1} and [question.root for question in log.questions] == asked
