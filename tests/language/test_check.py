"""The compiler's messages: each broken rule beside the text that it must give, and every code with its page.

To write the expected texts anew after a change: `REWRITER_ACCEPT=1 pytest tests/language/test_check.py`; then read the
difference.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import rewriter
from rewriter.core.errors import RewriterError
from rewriter.core.language.diagnostics import Diagnostic, RuleFileError, render_all
from rewriter.rule_tools.checks.header import KEYS
from rewriter.rule_tools.lint.rule_set import LEGIBILITY
from rewriter.rule_tools.load_rules import load_rules
from rewriter.rule_tools.message_pages import explain, message_pages, parse_page

OF_RUNS = {"E501", "E502", "E503", "W504"}
"""Codes of what running a rule shows: `rewriter verify`."""
OF_SETS = {code for code in message_pages() if "E404" <= code <= "E409" or "W406" <= code <= "W408" or code in LEGIBILITY}
"""Codes of what `rewriter lint` finds between rules."""
BAD = Path(__file__).parent.parent / "bad_rules"


def compile_text(path: Path) -> tuple[list[Diagnostic], str]:
    """Everything said about a file, as records and as the text that a user reads."""
    try:
        rules = load_rules([path])
    except RuleFileError as error:
        return error.diagnostics, str(error)
    return list(rules.warnings), render_all(rules.warnings, rules.sources)


def check_text(folder: Path, text: str) -> list[Diagnostic]:
    path = folder / "x.rules"
    path.write_text(text)
    return compile_text(path)[0]


def codes(folder: Path, match: str, rewrite: str = "y = x", header: str = "kind: exact", more: str = "") -> list[str]:
    """The codes that one rule gives."""
    text = f"rule T1 t <{header}>\nmatch {{ {match} }}\n{more}\nrewrite {{ {rewrite} }}\n"
    return [diagnostic.code for diagnostic in check_text(folder, text)]


@pytest.mark.parametrize("path", sorted(BAD.glob("*.rules")), ids=lambda path: path.stem)
def test_message(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    _, text = compile_text(Path(path.name))
    expected = path.with_suffix(".txt")
    if os.environ.get("REWRITER_ACCEPT"):
        expected.write_text(text + "\n", encoding="utf-8")
    assert text + "\n" == expected.read_text(encoding="utf-8")


def test_bad_rules_give_the_code_they_are_named_after() -> None:
    paths = sorted(BAD.glob("[EW][0-9]*.rules"))
    assert len(paths) >= 70
    for path in paths:
        found, _ = compile_text(path)
        assert path.name[:4] in {diagnostic.code for diagnostic in found}, path.name


def test_no_expected_text_is_left_over() -> None:
    assert {path.stem for path in BAD.glob("*.txt")} == {path.stem for path in BAD.glob("*.rules")}


# --- Pages -----------------------------------------------------------------------------------------------------------------


def test_every_code_has_a_page() -> None:
    raised: set[str] = set()
    package = Path(rewriter.__file__).parent
    for file in (*package.glob("core/language/**/*.py"), *package.glob("rule_tools/**/*.py")):
        raised |= set(re.findall(r'"([EW]\d{3})"', file.read_text(encoding="utf-8")))
    assert raised == message_pages().keys() - OF_RUNS  # what running a rule tells


@pytest.mark.parametrize(
    "code", sorted(message_pages().keys() - OF_SETS - OF_RUNS - {"E505"})
)  # those: test_set, proof/test_verify
def test_page(code: str, tmp_path: Path) -> None:
    page = message_pages()[code]
    assert page.code == code
    assert page.title
    assert len(page.text.strip()) > 30
    wrong = check_text(tmp_path, page.wrong)
    assert {diagnostic.code for diagnostic in wrong} == {code}
    assert check_text(tmp_path, page.right) == []


def test_the_page_of_header_keys_has_all_of_them() -> None:
    listed = message_pages()["E251"].text.partition("The keys are:")[2].partition(".")[0]
    assert sorted(key.strip() for key in listed.split(",")) == sorted(KEYS)


def test_explain() -> None:
    assert explain("e103").startswith("E103: ")
    with pytest.raises(RewriterError, match="did you mean E10"):
        explain("E1O3")


# --- What must not be reported ----------------------------------------------------------------------------------------------

RIGHT = {
    "default before the attribute existed": ("y, ... = BatchNormalization<training_mode=0>(x, ...)", "y = x", "opset: 9.."),
    "absence where it never was": ("y = Reshape<!allowzero>(x, _)", "y = x", "opset: 7.."),
    "repair of a removed attribute": (
        "[bn] y, ... = BatchNormalization<spatial=0>(x, ...)",
        "del bn.spatial",
        "kind: repair, evidence: refused, opset: 9..",
    ),
    "repair of attributes that became inputs": (
        "[u] y = Unsqueeze<axes=a>(x)",
        "u.inputs[1] = int64{a}",
        "kind: repair, evidence: refused, opset: 13..",
    ),
    "repair of two operands": (
        "[r] y = Resize(x, s)",
        "y = Resize<..r>(x, _, s)",
        "kind: repair, evidence: refused, opset: 13..",
    ),
    "repair of a deprecated operator": (
        "[u] y = Upsample(x, s)",
        "y = Resize<mode=u.mode>(x, _, s)",
        "kind: repair, evidence: refused, opset: 13..",
    ),
    "repair of an experimental operator": ("y = ImageScaler(x)", "y = x", "kind: repair, evidence: refused"),
    "operators narrow the range": ("y = LayerNormalization(x, s, ...)", "y = RMSNormalization(x, s)", "opset: 23.."),
    "newer operator in the pattern": ("y = Gelu(x)", "y = x", "opset: 7.."),
    "custom domain": ("y = com.acme.Foo<bar=1>(x, z, ...)", "y = com.acme.Bar<baz=[1, 2]>(x)", "kind: exact"),
    "computed default": ("y = AveragePool<kernel_shape=[1, 1], pads=p>(x)", "y = Pad(x, int64{p})", "kind: lossy, opset: 11.."),
    "element type for an integer": ("y = Cast<to=float16>(x)", "y = x", "kind: lossy"),
    "copies win over nothing": ("[c] y = Conv(x, const w)", "y = Conv<..c>(x, {w * 2})", "kind: lossy"),
    "unused operands": ("[r] y = Reshape(x, s)", "r.inputs[1] = int64{[-1]}", "kind: lossy"),
    "variadic": ("*parts = Split<axis=a>(x, ...)   y = Concat<axis=a>(*parts)", "y = x", "kind: exact"),
    "new node used by a nested one": ("y = Relu(x)", "a = Abs(x)  y = Max(a, Neg(a))", "kind: lossy"),
    "other operator": ("[r] y = Relu(x)", 'r.op = "LeakyRelu"  r.alpha = 0.1', "kind: lossy"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str, tmp_path: Path) -> None:
    assert codes(tmp_path, *RIGHT[name]) == []


CONDITIONS = {
    "rank(x) > 2 and dim(x, -1) == 4": [],
    "gemm.transB": [],
    "not gemm.transB": [],
    "size(x, 1..) == dim(w, 1 if gemm.transB else 0)": [],
    "all(w == 1)": [],
    "w == 1": ["E206"],
    "shape(x) == [1, 2]": [],
    "any(shape(x) != 1)": [],
    "shape(x) == 1": ["E206"],
    'producer(x) in ["Relu", "Clip"]': [],
    '"Relu" in users(x)': [],
    "dtype(x) in [float, float16]": [],
    "dtype(x) == float": [],
    "dtype(x) == 1": ["E206"],
    "x.shape[0] == 1": [],
    "x[0] == 1": ["E205"],
    "all(w[0] == 1)": [],
    "maybe(source(gemm, \"a\", 1) == 1)": [],
    "known(rank(x))": [],
    "len(gemm.inputs) == 2": [],
    "rank(gemm.inputs[0]) == 2": [],
    "opset() >= 13 and opset(\"ai.onnx.ml\") > 1": [],
    "model.opset > 3": [],
    "rank(w * 2) == 2": [],
    "is_const(w) and not is_const(x)": [],
    "is_const(w * 2)": ["E206"],
    "len(x) == 2": ["E205"],
    "sqrt(rank(x)) == 2": [],
    "min(rank(x), 3) == 2": [],
    "sum(shape(x)) > 2": [],
    "index([1, 2], rank(x)) == 0": [],
    "-rank(x) < 2 and 2 * [1] == [1, 1]": [],
    "[1] + 1 == [2]": [],
    "[1] + \"a\" == [2]": ["E206"],
    "x == gemm.inputs[0]": [],
    "rank(x) == true": ["E206"],
    "not rank(x)": ["E206"],
    "true if rank(x) else false": ["E206"],
    "gemm.op == \"Gemm\" and name(gemm) != \"\"": [],
    "reshape(w, [-1])[0] == 2": [],
    "rank(x) / 2 == 1.0": [],
}  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_condition(condition: str, tmp_path: Path) -> None:
    found = codes(
        tmp_path, "[gemm] y = Gemm(x, const w)", "gemm.transA = 0", "kind: repair, evidence: refused", f"where {condition}"
    )
    assert found == CONDITIONS[condition]


def test_every_shape_of_rule_is_accepted() -> None:
    rules = load_rules([Path(__file__).with_name("all_shapes.rules")])
    assert len(rules) == 14
    assert rules.warnings == ()


def test_all_errors_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text("rule A1 a\nmatch { y = Rleu(x) }\nrewrite { y = z }\n")
    (tmp_path / "b.rules").write_text("rule B1 b\nmatch { y = Relu(x) }\nwhere rnak(x) == 1\nrewrite { y = x }\n")
    with pytest.raises(RuleFileError) as error:
        load_rules([tmp_path])
    assert [d.code for d in error.value.diagnostics] == ["E101", "E201", "E207"]
    assert "a.rules:2" in str(error.value)
    assert "b.rules:3" in str(error.value)


def test_deep_expressions_are_refused_not_crashed(tmp_path: Path) -> None:
    deep = " + ".join(["1"] * 5000)
    found = check_text(tmp_path, f"rule T1 t\nmatch {{ y = Relu(x) }}\nwhere {deep} == 1\nrewrite {{ y = x }}\n")
    assert found
    assert all(not diagnostic.is_warning for diagnostic in found)


@pytest.mark.parametrize("text", ["", "# E1: short\n", "# E101: no example\n\nText.\n"])
def test_what_is_no_page_of_a_message_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the page"):
        parse_page(text)
