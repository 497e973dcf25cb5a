"""`rewriter new --to`: rules from a model and its hand-made repair.

The pairs in `pairs/` are small models of what scripts in public threads do, some of them with graphsurgeon, or of replacements
that such threads describe; each file begins with the link of its thread.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model import Model, load
from rewriter.core.language.rules import RuleSet
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.difference import compare
from rewriter.workbench.authoring.rule_of_pair import BegunRules, rules_of_pair
from rewriter.workbench.authoring.rule_text import derived, literal, sizes_of
from tests.cli.call import Call
from tests.rule_tests import run_tests
from tests.surgery.texts import CAPTURES

PAIRS = sorted((Path(__file__).parent / "pairs").glob("*.pair"))
UNREACHED = {
    "int64-input-to-int32": "input 'input_ids' differs: int64[1,4] in the model, int32[1,4] in the repair. "
    "Only rules of kind interface",
    "nms-plugin": "ONNX has no operator `BatchedNMS_TRT`; operators outside the standard are written with their domain",
    "probability-of-one-class": "output 'probabilities' differs: float[N,2] in the model, missing in the repair",
    "softmax-at-the-end-removed": "output 'Softmax' differs: float[N,3] in the model, missing in the repair",
}
"""What is said of the pairs from which no rule comes."""
HEAD = '<ir_version: 8, opset_import: ["": 13]> g '


def texts_of(path: Path) -> tuple[str, str]:
    _, before, _, after, _ = path.read_text().split("~~~")
    return before, after


def begun(before: str, after: str, *, runtime: bool = False, known: RuleSet | None = None) -> BegunRules:
    models = Model.from_proto(parser.parse_model(before)), Model.from_proto(parser.parse_model(after))
    rules = RuleSet(()) if known is None else known
    return rules_of_pair(*models, "MY001", depth=1, rules=rules, origins=("before.onnx", "after.onnx"), runtime=runtime)


def compiled(found: BegunRules, folder: Path) -> RuleSet:
    """The rules of a text, whose tests pass and of which the compiler has nothing to say."""
    path = folder / "my.rules"
    path.write_text(found.text)
    rules = load_rules([path])
    assert not rules.warnings and all(result.ok for result in run_tests(rules)), found.text
    return rules


@pytest.mark.parametrize("path", PAIRS, ids=lambda path: path.stem)
def test_a_pair_of_a_public_thread(path: Path, tmp_path: Path, call: Call) -> None:
    before, after = texts_of(path)
    if path.stem in UNREACHED:
        with pytest.raises(RewriterError, match=re.escape(UNREACHED[path.stem])):
            begun(before, after)
        return
    found = begun(before, after)
    assert not found.missing
    rules = compiled(found, tmp_path)
    assert len(rules) == 1
    net, out = tmp_path / "net.onnx", tmp_path / "out.onnx"
    onnx.save(parser.parse_model(before), net)
    codes = ",".join(rule.code for rule in rules)
    done = call("fix", net, "-o", out, "--rules", tmp_path / "my.rules", "--select", codes, "--no-verify", "--runtime", "no")
    assert done.code == 0, done.err
    left = {difference.kind for difference in compare(onnx.load(out), parser.parse_model(after))}
    assert left <= {"model", "metadata", "opset", "constant"}, left  # constants that nobody reads any more


def test_most_pairs_become_rules() -> None:
    assert len(PAIRS) >= 20 and len(PAIRS) - len(UNREACHED) >= 15
    assert UNREACHED.keys() <= {path.stem for path in PAIRS}
    assert all(re.match(r"# https://github\.com/\S+/\d+\n# \S", path.read_text()) for path in PAIRS)


def test_different_changes_are_rules_that_count_on(tmp_path: Path) -> None:
    found = begun(
        HEAD + "(float[N,4] x) => (float[N,4] y) { a = Identity(x)  b = Neg(a)  c = Neg(b)  d = Exp(c)  y = Identity(d) }",
        HEAD + "(float[N,4] x) => (float[N,4] y) { d = Exp(x)  y = Abs(d) }",
    )
    rules = compiled(found, tmp_path)
    assert [rule.code for rule in rules] == ["MY001", "MY002"] and not found.missing
    assert "MY001 fires 1 time, MY002 fires 1 time on before.onnx; the result is after.onnx" in found.outcome[0]
    with pytest.raises(RewriterError, match="the code MY001 is in use"):
        begun(HEAD + "(float x) => (float y) { y = Abs(x) }", HEAD + "(float x) => (float y) { y = Neg(x) }", known=rules)


def test_a_change_in_a_body(tmp_path: Path) -> None:
    found = begun(CAPTURES, CAPTURES.replace("b = Mul(scaled, w)", "c = Mul(scaled, w)  b = Abs(c)"))
    (rule,) = compiled(found, tmp_path)
    assert not found.missing and "users(b)" in found.text and "match inside If.else_branch" in found.text
    assert rule.kind.name == "exact"


@pytest.mark.parametrize(
    ("weight", "text"),
    [
        ("float[4,3] w = {1, 5, 9, 2, 6, 10, 3, 7, 11, 4, 8, 12}", "{transpose(w, [1, 0])}"),
        ("float[3,4] w = {2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24}", "{w * 2.0}"),
        ("float[3,4] w = {-1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11, -12}", "{-w}"),
    ],
)
def test_changed_weights_follow_from_the_old_ones(weight: str, text: str, tmp_path: Path) -> None:
    transposed = "<transB = 1>" if "[4,3]" in weight else ""
    before = f"(float[2,3] x) => (float[2,4] y) <float[3,4] w = {{{', '.join(map(str, range(1, 13)))}}}> {{ y = Gemm(x, w) }}"
    after = f"(float[2,3] x) => (float[2,4] y) <{weight}> {{ y = Gemm{transposed}(x, w) }}"
    found = begun(HEAD + before, HEAD + after)
    compiled(found, tmp_path)
    assert not found.missing and text in found.text and "check whether it always does" in found.text
    assert ("once: node" in found.text) == (not transposed)


def test_a_constant_that_is_not_used_again_keeps_its_values(tmp_path: Path) -> None:
    before = "(float[2,9] x) => (float[2,9] y) <float[9] w = {1,1,1,1,1,1,1,1,1}> { h = Mul(x, w)  y = Exp(h) }"
    found = begun(HEAD + before, HEAD + "(float[2,9] x) => (float[2,9] y) { y = Exp(x) }")
    compiled(found, tmp_path)
    assert "where all(w == 1.0)" in found.text


def test_a_kind_follows_from_running_both(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    before, after = (HEAD + f"(float[2,9] x) => (float[2,9] y) {{ h = Abs(x)  y = {op}(h) }}" for op in ("Sqrt", "Exp"))
    found = begun(before, after, runtime=True)
    assert "evidence: guess" in found.text and "question:" in found.text and "outputs of the models differ" in found.outcome[1]
    before, after = texts_of(next(path for path in PAIRS if path.stem == "max-of-bools"))
    assert "evidence: refused" in begun(before, after, runtime=True).text
    before, after = texts_of(next(path for path in PAIRS if path.stem == "min-max-to-clip"))
    assert "kind: exact" in begun(before, after, runtime=True).text


WEIGHTS = f"<float[20] w = {{{', '.join(map(str, range(20)))}}}>"


@pytest.mark.parametrize(
    ("after", "words"),
    [
        ("(float[20] x) => (float[20] y) <float[20] w> { y = Mul(x, w) }", "there is no rule to write"),
        ("(float[20] x) => (float[20] y) <float[20] v> { y = Mul(x, v) }", "does not follow from the constants next to it"),
        ("(float[21] x) => (float[20] y) <float[20] w> { y = Mul(x, w) }", "input 'x' differs: float[20] in the model"),
        ("(float[20] x) => (int64[1] y) <float[20] w> { z = Mul(x, w)  y = Shape(z) }", "output 'y' differs: float[20]"),
    ],
    ids=["nothing", "a constant", "an input", "an output"],
)
def test_what_is_missing(after: str, words: str) -> None:
    values = ", ".join(str(number * number) for number in range(20))
    after = after.replace("<float[20] w>", WEIGHTS).replace("<float[20] v>", f"<float[20] v = {{{values}}}>")
    before = f"(float[20] x) => (float[20] y) {WEIGHTS} {{ y = Mul(x, w) }}"
    with pytest.raises(RewriterError, match=re.escape(words)):
        begun(HEAD + before, HEAD + after)


def test_attributes_are_written_with_all_their_digits(tmp_path: Path) -> None:
    before = HEAD + "(float[2] x) => (float[2] y) { h = LeakyRelu<alpha = 0.61666667>(x)  y = Abs(h) }"
    found = begun(before, HEAD + "(float[2] x) => (float[2] y) { h = Relu(x)  y = Abs(h) }")
    compiled(found, tmp_path)
    assert "LeakyRelu<alpha=0.6166667>" in found.text and not found.missing


def test_weights_in_other_files_are_read(tmp_path: Path) -> None:
    before, after = (
        parser.parse_model(HEAD + f"(float[2,9] x) => (float[2,9] y) {{ h = {op}  y = Exp(h) }}")
        for op in ("Mul(x, w)", "Relu(x)")
    )
    before.graph.initializer.append(onnx.numpy_helper.from_array(np.full((1, 9), 3, np.float32), "w"))
    onnx.save(before, tmp_path / "net.onnx", save_as_external_data=True, size_threshold=0, location="net.data")
    models = load(tmp_path / "net.onnx"), Model.from_proto(after)
    found = rules_of_pair(*models, "MY001", depth=1, rules=RuleSet(()), origins=("net.onnx", "after.onnx"), runtime=False)
    compiled(found, tmp_path)
    assert "where all(w == 3.0)" in found.text


def test_other_opsets_are_no_rule() -> None:
    text = HEAD + "(float[2] x) => (float[2] y) { y = Abs(x) }"
    with pytest.raises(RewriterError, match="rewriter opset MODEL 18"):
        begun(text, text.replace('"": 13', '"": 18'))


def test_numbers_as_text() -> None:
    assert literal(np.array(0.1, np.float32)) == "{0.1}" and literal(np.array([0, -1])) == "int64[2]{0, -1}"
    assert sizes_of(np.array([2, 12]), [2, 3, 4], "x") == "[dim(x, 0), size(x, 1..2)]"
    assert sizes_of(np.array([2, 3]), [2, 3], "x") == "shape(x)" and not sizes_of(np.array([4, 6]), [2, 3, 4], "x")
    known = {"a": np.float32([1, 2]), "b": np.float32([5, 7])}
    assert next(derived(np.float32([6, 9]), known)) == "a + b" and next(derived(np.float32([1, 2, 5, 7]), known)).startswith(
        "concat"
    )
    assert next(derived(np.float64([5, 7]), known)) == "cast(b, double)" and not list(derived(np.float32([9, 9]), known))


def test_a_node_or_a_repair(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(parser.parse_model(HEAD + "(float[2] x) => (float[2] y) { y = Abs(x) }"), path)
    for arguments in ([], ["--around", "y", "--to", path]):
        done = call("new", "MY001", "--from", path, *arguments)
        assert done.code == 2 and "either a node with --around, or the repair" in done.err
