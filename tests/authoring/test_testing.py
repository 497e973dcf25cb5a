"""`rewriter test`: says why a rule does not fire, runs rules together, refuses contradictions, blesses, watches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rewriter.app.cli.commands.trials import watched
from rewriter.rule_tools.format import format_text
from rewriter.rule_tools.load_rules import load_rules
from tests.cli.call import Call

RULE = """
/// Two negations cancel.
rule MY001 negated-twice <kind: exact, severity: warning>
match { t = Neg(x)  y = Neg(t) }
where rank(x) == 2
rewrite { y = x }
"""
OTHER = """
/// The absolute value of an absolute value.
rule MY002 twice-absolute <kind: exact>
match { y = Abs(Abs(x)) }
rewrite { y = Abs(x) }
"""
HEAD = '<ir_version: 8, opset_import: ["": 13]> g (float[N,4] a) => '


def case(before: str, after: str, beside: str = "", output: str = "(float[N,4] b)") -> str:
    return f'test "it" {beside} ~~~ {HEAD}{output} {before} ~~~ becomes ~~~ {after} ~~~\n'


def written(folder: Path, text: str, name: str = "my.rules") -> Path:
    path = folder / name
    path.write_text(text)
    return path


CHAIN = "{ r = Relu(a)  s = Neg(r)  t = Neg(s)  b = Exp(t) }"
GOOD = f"{HEAD}(float[N,4] b) {{ r = Relu(a)  b = Exp(r) }}"


def test_why_a_rule_does_not_fire(call: Call, tmp_path: Path) -> None:
    path = written(tmp_path, RULE.replace("== 2", "== 3") + case(CHAIN, GOOD))
    done = call("test", path)
    assert done.code == 1
    assert "did not fire" in done.out and "where rank(x) == 3" in done.out and "rank(x) is 2" in done.out
    assert '"message": "the rule did not fire"' in call("test", path, "--format", "json").out


def test_rules_that_run_together(call: Call, tmp_path: Path) -> None:
    before = "{ c = Abs(a)  n = Neg(c)  m = Neg(n)  b = Abs(m) }"
    after = f"{HEAD}(float[N,4] b) {{ b = Abs(a) }}"
    alone = written(tmp_path, RULE + case(before, after))
    assert call("test", alone).code == 1
    together = written(tmp_path, RULE + case(before, after, "with MY002"))
    assert "no such rule" in call("test", together).out
    written(tmp_path, OTHER, "other.rules")
    assert call("test", together).code == 0
    assert call("test", tmp_path).code == 0
    written(tmp_path, "no rule at all", "broken.rules")
    assert "MY002" in call("test", together).out
    shipped = written(
        tmp_path,
        RULE
        + case(
            "{ i = Identity(a)  n = Neg(i)  m = Neg(n)  b = Exp(m) }", f"{HEAD}(float[N,4] b) {{ b = Exp(a) }}", "with GEN001"
        ),
    )
    assert call("test", shipped).code == 0


def test_what_is_left_alone_by_all_of_them(call: Call, tmp_path: Path) -> None:
    before = f"{HEAD}(float[N,4] b) {{ c = Abs(a)  b = Abs(c) }}"
    path = written(tmp_path, RULE + OTHER + f'test "it" with MY001 unchanged ~~~ {before} ~~~')
    done = call("test", path)
    assert done.code == 1 and "MY002 fired" in done.out


def test_rules_that_run_together_are_written_back(tmp_path: Path) -> None:
    text = format_text(RULE + case(CHAIN, GOOD, "with MY002, GEN001") + case(CHAIN, GOOD))
    assert 'test "it" with MY002, GEN001 ~~~' in text
    rule = load_rules([written(tmp_path, text)]).get("MY001")
    plain = load_rules([written(tmp_path, text.replace(" with MY002, GEN001", ""))]).get("MY001")
    assert rule is not None and plain is not None
    assert [test.beside for test in rule.ast.tests] == [("MY002", "GEN001"), ()]
    assert rule.digest != plain.digest


def test_an_expected_model_that_contradicts_itself(call: Call, tmp_path: Path) -> None:
    before, after = "{ n = Neg(a)  t = Neg(n)  b = Transpose(t) }", "{ b = Transpose(a) }"
    path = written(tmp_path, RULE + case(before, f"{HEAD}(float[3,N] b) {after}", output="(float[3,N] b)"))
    done = call("test", path)
    assert done.code == 1
    assert "contradicts itself: 'b' is declared as float[3,N], and Transpose gives float[4,N]" in done.out


NEST = "b = If<then_branch = g () => (float[N,4] b) { "


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (f"{HEAD}(float[N,4] b) {{ b = Neg(c) }}", "reads 'c', which is no input"),
        (f"{HEAD}(float[N,4] c) {{ b = Neg(a) }}", "reads 'c', which is no input"),
        ("g (float[N] a) => (float[N] b) { b = Neg(a) }", 'write <ir_version: 8, opset_import: ["": 13]>'),
        (f"{HEAD[:-3]}-> (float[N,4] b) {{ b = Neg(a) }}", "not ONNX text: line 1 of it, column "),
        (f"{HEAD}(float[{10**20}] b) {{ b = Neg(a) }}", "has a number that is out of range"),
        (f"{HEAD}(float[N,4] b) <float c = {{-3333.4028235e+38}}> {{ b = Neg(a) }}", "Failed to parse float"),
        (f"{HEAD}(float[N,4] b) {{ {NEST * 99} b = Neg(a) {'}>(c)' * 99} }}", "the bodies in the test's model nest too deep"),
    ],
    ids=["an operand", "an output", "operators", "an arrow", "a number", "a real number", "bodies"],
)
def test_left_alone_since_it_misses_something(call: Call, tmp_path: Path, model: str, words: str) -> None:
    done = call("test", written(tmp_path, RULE + f'test "it" unchanged ~~~ {model} ~~~\n'))
    assert done.code == 1 and words in done.out


def test_what_the_rule_makes_is_written(call: Call, tmp_path: Path) -> None:
    text = f"# kept\n{RULE}{case(CHAIN, '')}{case(CHAIN, GOOD)}{case('{ n = Neg(a)  t = Neg(n)  b = Tanh(t) }', GOOD)}"
    path = written(tmp_path, text)
    shown = call("test", path, "--bless", "--dry-run")
    assert shown.code == 0 and path.read_text() == text and "+    b = Exp (r)" in shown.out
    done = call("test", path, "--bless")
    assert done.code == 0 and "2 expected models written to 1 file" in done.err, done.err
    assert "-  " not in done.out or "Exp" in done.out
    assert path.read_text().startswith("# kept") and path.read_text().count("Exp (r)") == 1
    assert call("test", path).code == 0 and call("fmt", "--check", path).code == 0
    assert "0 expected models to bless" in call("test", path, "--bless").err


def test_what_is_not_blessed(call: Call, tmp_path: Path) -> None:
    contradiction = case("{ n = Neg(a)  t = Neg(n)  b = Transpose(t) }", "", output="(float[3,N] b)")
    silent = case("{ b = Neg(a) }", "")
    path = written(tmp_path, RULE + contradiction + silent)
    before = path.read_text()
    done = call("test", path, "--bless")
    assert done.code == 1 and path.read_text() == before
    assert "contradicts itself" in done.out and "did not fire" in done.out


@pytest.mark.parametrize("expected", ["{ c = @op(a) b = Exp(c) }", "{ b = Exp(a) }"])
def test_rows_of_a_table_share_what_they_expect(call: Call, tmp_path: Path, expected: str) -> None:
    table = """
    /// @op twice.
    rule MY001 twice <kind: exact>
    table { code op
            MY001 Abs
            MY002 Relu }
    match { y = @op(@op(x)) }
    rewrite { y = @op(x) }
    """
    path = written(tmp_path, table + case("{ c = @op(a)  b = @op(c) }", f"{HEAD}(float[N,4] b) {expected}"))
    before = path.read_text()
    done = call("test", path, "--bless")
    assert done.code == 1 and "shared by the rows of a table" in done.out and path.read_text() == before


def test_changes_are_watched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, RULE)
    runs: list[str] = []

    def work() -> int:
        runs.append(load_rules([path]).get("MY001").title)  # type: ignore[union-attr]
        return len(runs)

    steps = iter([None, RULE.replace("Two", "Both"), "rule", None, RULE])

    def wait(_: float) -> None:
        for text in steps:
            if text is not None:
                path.write_text(text)
                os.utime(path, ns=(len(runs), len(runs)))
            return
        raise KeyboardInterrupt

    assert watched([str(path)], work, wait) == 3
    assert runs == ["Two negations cancel.", "Both negations cancel.", "Two negations cancel."]
    assert "E001" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--bless"], "name them"),
        (["x", "--bless", "--watch"], "does not go with"),
        (["x", "--watch", "--format", "json"], "does not go with"),
    ],
)
def test_options_that_do_not_go_together(call: Call, arguments: list[str], words: str) -> None:
    done = call("test", *arguments)
    assert done.code == 2 and words in done.err


FOO = """
/// FooOp computes nothing.
rule MY003 drop-foo <kind: lossy>
match { y = com.acme.FooOp(x) }
rewrite { y = x }
"""
FOO_HEAD = '<ir_version: 8, opset_import: ["": 13, "com.acme": 1]> g (float[2] a) => (float[2] b) '


def foo_test(folder: Path, after: str) -> Path:
    before = "{ f = com.acme.FooOp(a)  b = Softmax<axis = 0>(f) }"
    return written(folder, f'{FOO}test "it" ~~~ {FOO_HEAD}{before} ~~~ becomes ~~~ {after} ~~~\n')


def test_an_import_stays_and_the_message_says_so(call: Call, tmp_path: Path) -> None:
    after = "{ b = Softmax<axis = 0>(a) }"
    done = call("test", foo_test(tmp_path, FOO_HEAD.replace(', "com.acme": 1', "") + after))
    assert done.code == 1
    assert '    the import of "com.acme" stays, as all imports do; the expected model needs it' in done.out
    assert call("test", foo_test(tmp_path, FOO_HEAD + after)).code == 0


def test_an_empty_model_is_not_compared_but_written(call: Call, tmp_path: Path) -> None:
    file = foo_test(tmp_path, "")
    done = call("test", file)
    assert "    the expected model is empty; `rewriter test --bless` writes the result into it" in done.out
    assert "import of" not in done.out and "    -" not in done.out.replace("    --- expected", "")
    assert call("test", file, "--bless").code == 0 and call("test", file).code == 0


def test_a_default_is_no_difference(call: Call, tmp_path: Path) -> None:
    before, after = "{ f = com.acme.FooOp(a)  b = Softmax(f) }", "{ b = Softmax<axis = %d>(a) }"
    for axis, code in ((-1, 0), (0, 1)):
        text = f'{FOO}test "it" ~~~ {FOO_HEAD}{before} ~~~ becomes ~~~ {FOO_HEAD}{after % axis} ~~~\n'
        assert call("test", written(tmp_path, text)).code == code
