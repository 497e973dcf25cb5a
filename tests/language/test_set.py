"""Rules against each other: messages, pages, and what must not be reported. tests/cli/test_lint.py has the shipped set.

To write the expected texts anew after a change: `REWRITER_ACCEPT=1 pytest tests/language/test_set.py`; then read the difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rewriter.core.language.diagnostics import render_all
from rewriter.rule_tools.lint import rule_set
from rewriter.rule_tools.lint.overlap import Pair, pairs
from rewriter.rule_tools.lint.overlay import RuleSubject
from rewriter.rule_tools.lint.rule_set import LEGIBILITY, is_plain, lint
from rewriter.rule_tools.load_rules import load_rules
from rewriter.rule_tools.message_pages import message_pages

BAD = Path(__file__).parent.parent / "bad_sets"


def found(folder: Path, text: str, pedantic: bool = False) -> list[str]:
    """The codes that a rule set gives, what its rules give alone included."""
    path = folder / "x.rules"
    path.write_text(text)
    rules = load_rules([path])
    return [d.code for d in (*rules.warnings, *lint(rules, pedantic))]


def between(folder: Path, text: str) -> list[str]:
    """The codes of findings on two rules."""
    return [code for code in found(folder, text) if code in ("E404", "E405", "E406")]


@pytest.mark.parametrize("path", sorted(BAD.glob("*.rules")), ids=lambda path: path.stem)
def test_message(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(BAD)
    rules = load_rules([path.name])
    diagnostics = lint(rules, pedantic=path.name.startswith("W40"))
    assert {diagnostic.code for diagnostic in diagnostics} == {path.name[:4]}
    text = render_all(diagnostics, {rule.path: rule.source for rule in rules}) + "\n"
    expected = path.with_suffix(".txt")
    if os.environ.get("REWRITER_ACCEPT"):
        expected.write_text(text, encoding="utf-8")
    assert text == expected.read_text(encoding="utf-8")


def test_no_expected_text_is_left_over() -> None:
    assert {path.stem for path in BAD.glob("*.txt")} == {path.stem for path in BAD.glob("*.rules")}


LINTED = sorted(
    code for code in message_pages() if "E404" <= code <= "E409" or "W406" <= code <= "W408" or code in ("E505", *LEGIBILITY)
)


@pytest.mark.parametrize("code", LINTED)
def test_page(code: str, tmp_path: Path) -> None:
    page, pedantic = message_pages()[code], code.startswith("W40")
    assert len(page.text) > 30
    assert set(found(tmp_path, page.wrong, pedantic)) == {code}
    assert found(tmp_path, page.right, pedantic) == []


def test_places_in_two_files(tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text("\n" * 11 + "rule A1 a <kind: lossy>\nmatch { y = Relu(x) }\nrewrite { y = x }\n")
    (tmp_path / "b.rules").write_text("rule B1 b <kind: lossy>\nmatch { z = Relu(t) }\nrewrite { z = Neg(t) }\n")
    rules = load_rules([tmp_path])
    (duplicate,) = lint(rules)
    text = render_all([duplicate], {rule.path: rule.source for rule in rules})
    assert text.index("b.rules:2:13") < text.index("a.rules:13:13")
    assert "  2 | match { z = Relu(t) }" in text


def test_one_finding_for_all_copies_of_a_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = [f"rule A{number} a <kind: lossy>\nmatch {{ y = Relu(x) }}\nrewrite {{ y = x }}\n" for number in range(1000, 1300)]
    renamed = [f"rule B{len(t)} b <kind: lossy>\nmatch {{ y = Relu({t}) }}\nrewrite {{ y = {t} }}\n" for t in ("t", "tt")]
    compared: list[int] = []

    def counted_pairs(subjects: list[RuleSubject]) -> Iterator[Pair]:
        compared.append(len(subjects))
        return pairs(subjects)

    monkeypatch.setattr(rule_set, "pairs", counted_pairs)
    for texts, count, message in (
        (copies, 1, "A1000, A1001 and 298 others are the same rule"),
        (copies[:2], 1, "A1000 and A1001 are the same rule"),
        ([*copies, *renamed], 3, "A1000, A1001 and 300 others match exactly the same places"),
    ):
        (tmp_path / "a.rules").write_text("\n".join(texts))
        assert [(one.code, one.message) for one in lint(load_rules([tmp_path]))] == [("E404", message)]
        assert compared.pop() == count


@pytest.mark.parametrize(
    ("cell", "plain"),
    [
        *dict.fromkeys(("Relu", "com.microsoft.Gelu", "-1", "1e-5", "13..", "..12", "9..13", "_", "true", "float16", "tanh"), True).items(),
        *dict.fromkeys(('"a title (with words)"', "[1, -2]", '["a", "b"]', "[]", "(Conv | ConvTranspose)"), True).items(),
        *dict.fromkeys(("refused(onnxruntime)", "approx(rtol=1e-4)", "TFL_RELU"), True).items(),
        *dict.fromkeys(("(Relu(x))", "rank(x)", "(rank(x) > 2)", "(n.axis)", "[dim(x, 0)]", "x==1", "(0.0 - 1.0)"), False).items(),
    ],
)  # fmt: skip
def test_what_a_cell_may_hold(cell: str, plain: bool) -> None:
    assert is_plain(cell) == plain


# --- Pairs --------------------------------------------------------------------------------------------------------------------

EDIT = "rewrite { n.inputs[0] = Neg(x) }"


def pair(one: str, other: str, header: str = "", other_header: str = "") -> str:
    """Two repairs that edit what they match; `one` and `other` are pattern and conditions."""
    return "\n".join(
        f"rule A{i} r <kind: repair, evidence: refused{', ' + more if more else ''}>\nmatch {{ {text.split('; ')[0]} }}\n"
        + "".join(f"where {line}\n" for line in text.split("; ")[1:]) + EDIT + "\n"
        for i, (text, more) in enumerate(((one, header), (other, other_header)), 1)
    )  # fmt: skip


RELU = "[n] y = Relu(x)"
EXCLUSIVE = [
    ("rank(x) == 4", "rank(x) == 3"),
    ("rank(x) > 2", "rank(x) < 3"),
    ("rank(x) in [3, 4]", "not rank(x) in [4, 3]"),
    ("dtype(x) == float", "dtype(x) in [int32, int64]"),
    ("is_const(x)", "not is_const(x)"),
    ('source_op(n) == "a"', 'source_op(n) == "b"'),
    ("rank(x) > dim(x, 0)", "dim(x, 0) > rank(x)"),
    ("rank(x) == dim(x, 0)", "rank(x) != dim(x, 0)"),
    ("opset() < 12", "opset() >= 12"),
    ("maybe(source(n, \"a\", true))", "not source(n, \"a\", true)"),
    ("rank(x) == 2 or rank(x) == 3", "rank(x) == 4 or rank(x) == 1"),
    ("not (rank(x) == 2 or is_output(y))", "rank(x) == 2 or is_output(y)"),
    ("any(shape(x) != 1)", "all(shape(x) == 1)"),
    ("dtype(x) == dtype(y) and dtype(x) == float", "dtype(y) == int32"),
    ("len(shape(x)) == 3", "rank(x) == 2"),
    ("shape(x)[0] == 3", "dim(x, 0) == 2"),
    ("rank(x) == 4 and is_output(y)", "rank(x) == 3 or not is_output(y)"),
]  # fmt: skip
TOGETHER = [
    ("rank(x) == 4", "dtype(x) == float"),
    ("rank(x) > 2", "rank(x) < 4"),
    ("rank(x) != 4", "rank(x) != 3"),
    ("rank(x) == 3 or rank(x) == 4", "rank(x) == 4 or rank(x) == 5"),
    ("maybe(is_const(x))", "maybe(not is_const(x))"),
    ("dim(x, 0) >= rank(x)", "rank(x) >= dim(x, 0)"),
    ("dim(x, 0) == 1", "dim(x, 1) == 2"),
    ("source(n, \"a\", true)", "not source(n, \"b\", true)"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), EXCLUSIVE)
def test_conditions_that_exclude_each_other(one: str, other: str, tmp_path: Path) -> None:
    assert between(tmp_path, pair(f"{RELU}; {one}", f"{RELU}; {other}")) == []


@pytest.mark.parametrize(("one", "other"), TOGETHER)
def test_conditions_that_may_hold_together(one: str, other: str, tmp_path: Path) -> None:
    assert between(tmp_path, pair(f"{RELU}; {one}", f"{RELU}; {other}")) == ["E406"]


PATTERNS = {
    "other operator": ("[n] y = Relu(x)", "[n] y = Abs(x)", []),
    "common operator": ("[n] y = (Relu | Neg)(x)", "[n] y = (Abs | Neg)(x)", ["E406"]),
    "attributes": ("[n] y = Flatten<axis=1>(x)", "[n] y = Flatten<axis=2>(x)", []),
    "presence": ("[n] y = Flatten<axis>(x)", "[n] y = Flatten<!axis>(x)", []),
    "default": ("[n] y = Flatten<axis=2>(x)", "[n] y = Flatten<!axis>(x)", []),
    "two attributes": ("[n] y = Gemm<transA=1>(x, _, _)", "[n] y = Gemm<transB=1>(x, _, _)", ["E406"]),
    "arity": ("[n] y = Gemm(x, _)", "[n] y = Gemm(x, _, _)", []),
    "maker": ("[n] y = Sub(x, Neg(_))", "[n] y = Sub(x, Abs(_))", []),
    "makers on both sides": ("[n] y = Sub(x, Neg(_))", "[n] y = Sub(Abs(x), _)", ["E406"]),
    "makers in some order": ("[n] y = Add(Neg(x), Abs(_))", "[n] y = Add(Abs(x), Neg(_))", ["E406"]),
    "makers in fixed order": ("[n] y = ordered Add(Neg(x), Abs(_))", "[n] y = ordered Add(Abs(x), Neg(_))", []),
    "constants": ("[n] y = Sub(x, {1.0})", "[n] y = Sub(x, {2.0})", []),
    "a computed constant": ("[n] y = Sub(x, {cast(2, dtype(x))})", "[n] y = Sub(x, c); not is_const(c)", []),
    "the same constant": ("[n] y = Pow(x, {[2.0]})", "[n] y = Pow(x, {2.0})", ["E404"]),
    "types": ("[n] y = Relu(float x)", "[n] y = Relu(double x)", []),
    "ranks": ("[n] y = Relu(float[_,_] x)", "[n] y = Relu(float[_,_,_] x)", []),
    "dims": ("[n] y = Relu(float[3,...] x)", "[n] y = Relu(float[4,...] x)", []),
    "open dims": ("[n] y = Relu(float[3,...] x)", "[n] y = Relu(float[_,4,_] x)", ["E406"]),
    "outputs": ("[n] y, mask = Dropout(x)", "[n] y = Dropout(x)", ["E406"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name: str, tmp_path: Path) -> None:
    one, other, expected = PATTERNS[name]
    different = ("; rank(x) > 2", "; dtype(x) == float") if expected == ["E406"] else ("", "")
    assert between(tmp_path, pair(one + different[0], other + different[1])) == expected


TAKEN = {
    "any operand": ("y = Relu(_)", "y = Relu(x)", ["E405"]),
    "any operands": ("y = Concat(*xs)", "y = Concat(a, b)", ["E405"]),
    "all operands that there can be": ("y = LayerNormalization(*xs)", "y = LayerNormalization(x, g, b)", ["E405"]),
    "no more operands than there can be": ("y = LayerNormalization(x, g, b)", "y = LayerNormalization(x, g, *xs)", []),
    "an operand that may be missing": ("y = Clip(x, a)", "y = Clip(x, a?)", []),
    "an output that others may read": ("y = Dropout(x)", "y, mask = Dropout(x)", []),
    "an output that nobody reads": ("y, ... = Dropout(x)", "y = Dropout(x)", ["E405"]),
    "a computed constant": ("y = Sub(x, {cast(2, dtype(x))})", "y = Sub(a, b)", []),
    "a node behind an operand": ("y = Sub(x, Neg(x))", "y = Sub(x, z)", []),
    "one operand twice": ("y = Sub(x, x)", "y = Sub(a, b)", []),
    "a private tensor": ("h = Relu(x)  y = Neg(h); h", "h = Relu(x)  y = Neg(h); h", ["E405"]),
    "a private tensor of the first one": ("h = Relu(x)  y = Neg(h); h", "h = Relu(x)  y = Neg(h)", []),
    "another private tensor": ("h = Relu(x)  y = Neg(h); h", "k = Abs(x)  h = Relu(k)  y = Neg(h); k", []),
    "a private tensor with another reader": ("h = Relu(x)  y = Neg(h); h", "h = Relu(x)  z = Abs(h)  y = Neg(h); h", []),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_rule_that_never_gets_its_turn(name: str, tmp_path: Path) -> None:
    """The first rule is in the earlier phase and takes the node: at all nodes that the second one matches, or at some."""
    one, other, expected = TAKEN[name]
    rules = []
    for i, (text, phase) in enumerate(((one, "canonical"), (other, "optimize")), 1):
        match, _, name_of_private = text.partition("; ")
        private = f"private {name_of_private}\n" if name_of_private else ""
        header = f"rule A{i} r <kind: lossy, opset: 17.., phase: {phase}>"
        rules.append(f"{header}\nmatch {{ {match} }}\n{private}rewrite {{ y = Constant<value_int=1>() }}\n")
    assert between(tmp_path, "\n".join(rules)) == expected


GUARDS = {
    "exporters": ('exporter: "mxnet"', 'exporter: "pytorch"', []),
    "one exporter": ('exporter: "mxnet"', "", ["E406"]),
    "versions": ('exporter: "mxnet", versions: "<1.5"', 'exporter: "mxnet", versions: ">=1.5"', []),
    "versions that meet": ('exporter: "mxnet", versions: "<1.5"', 'exporter: "mxnet", versions: ">1.3,!=1.4"', ["E406"]),
    "opsets": ("opset: ..12", "opset: 13..", []),
    "ir": ("ir: ..6", "ir: 7..", []),
    "phases": ("phase: repair", "phase: cleanup", []),
    "before": ("before: A2", "", []),
}


@pytest.mark.parametrize("name", GUARDS)
def test_guards(name: str, tmp_path: Path) -> None:
    header, other, expected = GUARDS[name]
    assert between(tmp_path, pair(f"{RELU}; rank(x) > 2", f"{RELU}; dtype(x) == float", header, other)) == expected


INDEPENDENT = {
    "two attributes": ("n.transA = 0", "n.transB = 0", []),
    "one attribute": ("n.transA = 0", "n.transA = 1", ["E406"]),
    "two operands": ("n.inputs[0] = Neg(a)", "n.inputs[1] = Neg(b)", []),
    "an operand that the other reads": ("n.inputs[0] = Neg(a)", "n.inputs[1] = Neg(a)", ["E406"]),
    "an attribute that the other copies": ("n.transA = 0", "y = Gemm<..n>(a, b)", ["E406"]),
    "a node that the other replaces": ("n.transA = 0", "y = MatMul(a, b)", []),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_order_that_does_not_matter(name: str, tmp_path: Path) -> None:
    one, other, expected = INDEPENDENT[name]
    rules = [
        f"rule A{i} r <kind: repair, evidence: refused, opset: 11..>\nmatch {{ [n] y = Gemm<{test}=1>(a, b) }}\nrewrite {{ {text} }}\n"
        for i, (test, text) in enumerate((("transA", one), ("transB", other)), 1)
    ]
    if name in ("a node that the other replaces", "an attribute that the other copies"):
        rules[1] = rules[1].replace("transB=1", "alpha=2.0")
    if name == "one attribute":
        rules = [rule.replace("transA=1", "beta=1.0").replace("transB=1", "alpha=1.0") for rule in rules]
    assert between(tmp_path, "\n".join(rules)) == expected


# --- Ending -------------------------------------------------------------------------------------------------------------------

ENDING = {
    "fewer nodes": ("kind: exact", "h = Relu(x)  y = Relu(h)", "y = Relu(x)"),
    "fewer nodes of the operator": ("kind: lossy", "y = Div(a, b)", "y = Mul(a, Reciprocal(b))"),
    "another operator": ("kind: lossy", "[n] y = Relu(x)", 'n.op = "Abs"'),
    "another value": ("kind: lossy", "[n] y = AveragePool<!count_include_pad>(x)", "n.count_include_pad = 1"),
    "an attribute away": ("kind: repair, evidence: refused", "[n] y = BatchNormalization<spatial=0>(x, _, _, _, _)", "del n.spatial"),
    "a constant now": ("kind: lossy; not is_const(s)", "[r] y = Reshape(x, s)", "r.inputs[1] = int64{[-1]}"),
    "another type": ("kind: repair, evidence: refused; dtype(x) == bool", "[n] y = CumSum(x, axis)", "n.inputs[0] = Cast<to=int64>(x)"),
    "the operand's type": (
        "kind: repair, evidence: refused; dtype(c) != dtype(x)", "[n] y = ordered Mul(x, const c)", "n.inputs[1] = {cast(c, dtype(x))}"),
    "ones": ("kind: repair, evidence: refused; not all(g == 1)", "[n] y = Div(x, const g)", "n.inputs[1] = {ones_like(g)}"),
    "a rank": ("kind: repair, evidence: refused; rank(x) > 2", "[n] y = Gemm(x, _)", "n.inputs[0] = Flatten(x)"),
    "one of two values": (
        "kind: repair, evidence: refused; m in [1, 2]", "[n] y = Flatten<axis=m>(x)", "n.axis = 3 if m == 1 else 4"),
    "folded": ("kind: exact; known(computed(y))", "y = Neg(const c)", "y = {computed(y)}"),
    "folded, several operators": ("kind: exact; is_const(y) and size(y) < 9", "y = (Neg | Add | Mul)(...)", "y = {constant(y)}"),
    "readers": ('kind: repair, evidence: refused; any(users(y) != "Cast")', "y = ArgMax(x)", "y = Cast<to=float>(y)"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDING)
def test_rules_that_end(name: str, tmp_path: Path) -> None:
    header, match, rewrite = ENDING[name]
    kind, *conditions = header.split("; ")
    wheres = "".join(f"where {condition}\n" for condition in conditions)
    private = "private h\n" if "h = " in match else ""
    text = f"rule A1 r <{kind}, opset: 11..>\nmatch {{ {match} }}\n{private}{wheres}rewrite {{ {rewrite} }}\n"
    assert [code for code in found(tmp_path, text, pedantic=True) if code[1:] in ("407", "408")] == []


def test_a_count_that_one_rule_lowers_and_none_raises_ends_a_circle(tmp_path: Path) -> None:
    text = """
rule A1 away <kind: lossy>
match { n = Neg(x)  y = Abs(n) }
private n
rewrite { y = Relu(x) }

rule A2 back <kind: lossy>
match { y = Relu(x) }
rewrite { y = Abs(x) }
"""
    assert found(tmp_path, text, pedantic=True) == []


def test_hostile_conditions_are_left_alone(tmp_path: Path) -> None:
    lets = "".join(f"let v{i} = v{i - 1} + v{i - 1}\n" for i in range(1, 60))
    many = " and ".join(f"(rank(x) == {i} or dim(x, {i}) == 1)" for i in range(40))
    text = f"rule A1 r <kind: lossy>\nmatch {{ y = Relu(x) }}\nlet v0 = rank(x)\n{lets}where v59 > 2\nwhere {many}\nrewrite {{ y = Abs(x) }}\n"
    assert found(tmp_path, text + text.replace("A1", "A2").replace("Abs", "Neg"), pedantic=True) == ["E406"]


def test_an_operand_inside_the_match_that_is_made_anew(tmp_path: Path) -> None:
    """The reader stays and reads another node than the pattern says: nothing is known of it, and nothing breaks."""
    rule = "rule X1 mask <kind: lossy, opset: 13..> match { m = Add(s, const c)  y = Softmax(m) } private m where any(c < 0) rewrite { m = Add(s, {max(c, 0)}) }"
    assert found(tmp_path, rule) == []


GONE = (
    "GEN011 GEN015 GEN021 GEN032 MX017 MX028 MX046 MX047 MX048 MX053 MX054 OP035 OPT015 OPT016 PT065 PT067 PT071 SK005 SK007 \
TF046 TF048 TF049 TGT009 TGT010 TGT015 TGT018 TGT030 TGT032 TYP020 TYP035 TYP041 TYP042 TYP044 TYP051"
)
"""Codes that other rules took over."""
SHIPPED = load_rules()


@pytest.mark.parametrize("code", GONE.split())
def test_a_code_that_is_gone_selects_what_took_its_place(code: str) -> None:
    assert code not in {rule.code for rule in SHIPPED}
    assert SHIPPED.select([code], [])
