"""`rewriter new`: what it writes compiles and passes its own tests, wherever in a model it begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewriter.core.graph.model import Model, load
from rewriter.core.language.rules import RuleSet
from rewriter.rule_tools.load_rules import load_rules
from rewriter.workbench.authoring.new_rule import new_rule
from tests.cli.call import GAMMA, MODELS, Call
from tests.rule_tests import run_tests
from tests.surgery import texts

ONE = "rules/mxnet/MX001_gemm-input-not-flattened.rules"
POOL = MODELS / "pytorch-2.13-max-pool-of-an-image" / "model.onnx"


def compiled(text: str, folder: Path) -> RuleSet:
    path = folder / "new.rules"
    path.write_text(text)
    return load_rules([path])


def test_a_file_that_says_what_is_known(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    out = tmp_path / "MY001.rules"
    done = call("new", "my001", "--from", POOL, "--around", "/MaxPool", "-o", out, "--rules", ONE)
    assert done.code == 0, done.err
    rules = load_rules([out])
    assert not rules.warnings and all(result.ok for result in run_tests(rules))
    rule = rules.get("MY001")
    assert rule is not None and rule.header.exporters == ("pytorch",) and rule.kind.name == "repair"
    assert "dilations has incorrect size" in rule.header.symptoms[0]
    assert [test.twin for test in rule.ast.tests] == [False, True]
    assert out.read_text().count("FILL IN") >= 6
    assert call("fmt", "--check", out).code == 0
    again = call("new", "MY001", "--from", POOL, "--around", "/MaxPool", "-o", out, "--rules", ONE)
    assert again.code == 2 and "exists" in again.err
    assert call("new", "MY001", "--from", POOL, "--around", "/MaxPool", "-o", out, "--rules", ONE, "--force").code == 0


def test_filled_in_it_fires(tmp_path: Path) -> None:
    text = new_rule(load(GAMMA), "MY001", "bn0", rules=load_rules([]), runtime=False).text
    text = text.replace("where false", "").replace("} unchanged", "}")
    result = run_tests(compiled(text, tmp_path))[0]
    assert not result.ok  # the rewrite makes what the pattern finds, so it has to be filled in as well


def test_its_hint_on_the_first_test_holds(call: Call, tmp_path: Path) -> None:
    text = new_rule(load(GAMMA), "MY001", "bn0", rules=load_rules([]), runtime=False).text
    assert "remove `unchanged`, and write `~~~ becomes ~~~` before the last `~~~`" in text
    head, mark, rest = text.partition(" unchanged ~~~\n")
    model, end, rest = rest.partition("\n~~~\n")
    path = tmp_path / "MY001.rules"
    path.write_text(f"{head} ~~~\n{model}\n~~~ becomes ~~~\n~~~\n{rest}".replace("where false", ""))
    assert mark and end and "MY001" in call("test", path, "--bless").err + call("test", path).out
    assert load_rules([path]).get("MY001")


def test_weights_are_small_and_bodies_are_looked_into(tmp_path: Path) -> None:
    weights = ", ".join(["1"] * 64 * 64)
    model = Model.from_proto(
        texts.parsed(f"""<ir_version: 8, opset_import: ["": 17]>
        g (float[8,64] x, bool c) => (float[8,64] y) <float[64,64] w = {{{weights}}}> {{
            y = If(c) <then_branch = t () => (float[8,64] u) {{ a = MatMul(x, w)  u = Relu(a) }},
                       else_branch = e () => (float[8,64] v) {{ v = Identity(x) }}> }}""")
    )
    rule = compiled(new_rule(model, "MY001", "a", rules=load_rules([])).text, tmp_path).get("MY001")
    assert rule is not None and [node.ops[0].name for node in rule.ast.match.nodes] == ["MatMul", "Relu"]
    assert "float[2,2] w" in rule.ast.tests[0].before


@pytest.mark.parametrize("text", [texts.CAPTURES, texts.FUNCTIONS, texts.CHAIN], ids=["captures", "functions", "chain"])
@pytest.mark.parametrize("depth", [0, 9])
def test_wherever_it_begins(text: str, depth: int, tmp_path: Path) -> None:
    proto = texts.parsed(text)
    none = load_rules([])
    for node in proto.graph.node[::2]:
        rules = compiled(new_rule(Model.from_proto(proto), "MY001", node.output[0], depth=depth, rules=none).text, tmp_path)
        assert all(result.ok for result in run_tests(rules))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mine", "--around", "b"], "no code of a rule"),
        (["MX001", "--around", "b"], "the code MX001 is in use"),
        (["MY001", "--around", "lost"], "did you mean 'last'"),
        (["MY001", "--around", "b", "--depth", "-1"], "not a number of steps"),
    ],
)
def test_one_line_says_what_is_wrong(call: Call, tmp_path: Path, arguments: list[str], words: str) -> None:
    done = call("new", *arguments, "--from", texts.written(tmp_path, texts.CHAIN), "--rules", ONE)
    assert done.code == 2 and words in done.err


def test_a_model_that_no_rule_file_may_hold(call: Call, tmp_path: Path) -> None:
    proto = texts.parsed(texts.CHAIN)
    proto.graph.node[0].name = 'x"\n~~~ }'
    path = tmp_path / "bad.onnx"
    path.write_bytes(proto.SerializeToString())
    done = call("new", "MY001", "--from", path, "--around", "a", "--rules", ONE)
    assert done.code == 2 and done.err.count("\n") == 1
