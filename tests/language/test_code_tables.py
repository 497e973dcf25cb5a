"""Rules with a table: each row is the rule that one would write without a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewriter.app.cli.main import main
from rewriter.core.language.ast import canonical, walk
from rewriter.core.language.parse import parse
from rewriter.core.language.rules import Rule
from rewriter.core.language.syntax.grammar import grammar
from rewriter.rule_tools.format import format_text
from rewriter.rule_tools.load_rules import load_rules
from tests.rule_tests import run_tests

HEAD = '<ir_version: 8, opset_import: ["": 13]>'
TABLE = f"""\
/// @op along an axis.
///
/// It is spelled "@op".
rule X1 merge
<kind: exact, opset: @since, symptom: @symptom, issue: ["https://example.com/@code"]>
table {{
  code  slug     op      attr    value  type   rank  since  symptom
  X1    first    Concat  axis    (0 - (3 - 2))     float  2     13..   "no \\"Concat\\""
  # the old name
  X22   second  (ReduceMax | ReduceMin)  axes  [0, 1]  int64  3
      7..17  _
}}
match {{ y = @op<@attr=@value>(@type[...] x) }}
where rank(x) == @rank  # @op
let least = 1
where "y" != "@op"
where size(x) >= least
rewrite {{ y = x }}
test "of all" unchanged ~~~ {HEAD} g (float[2] x) => (float[2] y) {{ y = Relu(x) }} ~~~
test X1 "one" ~~~ {HEAD} g (float[2,3] x) => (float[2,3] y) {{ y = @op<@attr: int = -1>(x) }} ~~~
becomes ~~~ {HEAD} g (float[2,3] x) => (float[2,3] y) {{ y = Identity(x) }} ~~~
test X22 "two" unchanged ~~~ {HEAD} g (float[2,3] x) => (float[2,3] y) {{ y = ReduceMax<axes = @value>(x) }} ~~~
"""
FIRST = f"""\
/// Concat along an axis.
///
/// It is spelled "Concat".
rule X1 first
<kind: exact, opset: 13.., symptom: "no \\"Concat\\"", issue: ["https://example.com/X1"]>
match {{ y = Concat<axis=(0 - (3 - 2))>(float[...] x) }}
where rank(x) == 2
let least = 1
where "y" != "Concat"
where size(x) >= least
rewrite {{ y = x }}
test "of all" unchanged ~~~ {HEAD} g (float[2] x) => (float[2] y) {{ y = Relu(x) }} ~~~
test "one" ~~~ {HEAD} g (float[2,3] x) => (float[2,3] y) {{ y = Concat<axis: int = -1>(x) }} ~~~
becomes ~~~ {HEAD} g (float[2,3] x) => (float[2,3] y) {{ y = Identity(x) }} ~~~
"""
SECOND = f"""\
/// (ReduceMax | ReduceMin) along an axis.
///
/// It is spelled "(ReduceMax | ReduceMin)".
rule X22 second
<kind: exact, opset: 7..17, issue: ["https://example.com/X22"]>
match {{ y = (ReduceMax | ReduceMin)<axes=[0, 1]>(int64[...] x) }}
where rank(x) == 3
let least = 1
where "y" != "(ReduceMax | ReduceMin)"
where size(x) >= least
rewrite {{ y = x }}
test "of all" unchanged ~~~ {HEAD} g (float[2] x) => (float[2] y) {{ y = Relu(x) }} ~~~
test "two" unchanged ~~~ {HEAD} g (float[2,3] x) => (float[2,3] y) {{ y = ReduceMax<axes = [0, 1]>(x) }} ~~~
"""


def load(folder: Path, text: str) -> list[Rule]:
    path = folder / "x.rules"
    path.write_text(text, encoding="utf-8")
    return list(load_rules([path]))


def test_a_row_is_the_rule_that_one_would_write(tmp_path: Path) -> None:
    rows = load(tmp_path, TABLE)
    plain = load(tmp_path, FIRST + SECOND)
    assert [row.front for row in rows] == [rule.front for rule in plain]
    assert [row.digest for row in rows] == [rule.digest for rule in plain]


def test_a_row_may_have_a_doc_comment(tmp_path: Path) -> None:
    shared = TABLE.replace("/// @op along an axis.\n///\n", "")
    text = shared.replace("  X1    first", "  /// @op along an axis.\n  X1    first").replace(
        "  X22   second", '  /// @op along an axis.\n  /// As "@type".\n  X22   second'
    )
    first, second = load(tmp_path, format_text(text))
    assert first.doc == 'Concat along an axis.\n\nIt is spelled "Concat".'
    assert second.title == "(ReduceMax | ReduceMin) along an axis."
    assert second.doc.split("\n")[1:3] == ['As "int64".', ""]
    assert '/// As "int64".\n' in second.text
    assert [first.digest, second.digest] == [row.digest for row in load(tmp_path, TABLE)]


def test_a_cell_may_hold_forms_and_calls_of_its_own() -> None:
    text = (
        "define single(x) = size(x) == 1\n"
        "/// @op\nrule X1 t <kind: lossy>\ntable {\n  code op when made\n"
        "  X1 Abs (single(x) and not ((((rank(x) == 1))))) (Squeeze<axes~[0]>(x))\n}\n"
        'match { y = @op(x) }\nwhere @when\nrewrite { y = @made }\ntest "a" unchanged ~~~ @op ~~~\n'
    )
    file, problems = parse(text)
    assert not problems
    assert len(file.rules[0].variants) == 2
    assert "single" not in canonical(file.rules[0].wheres)


def test_rows_are_tested_as_rules(tmp_path: Path) -> None:
    results = run_tests(load(tmp_path, TABLE))
    assert all(result.ok for result in results)
    assert [(result.rule, result.title) for result in results] == [
        *(("X1", "of all"), ("X1", "one")),
        *(("X22", "of all"), ("X22", "two")),
    ]


def test_kept_rows_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fresh = load(tmp_path, TABLE)
    kept = list(load_rules([tmp_path / "x.rules"]))
    assert kept[1].ast == fresh[1].ast
    assert kept[1].text == fresh[1].text


def test_places_are_those_of_the_written_text() -> None:
    rule_file, problems = parse(TABLE, "x.rules")
    assert not problems
    for rule in rule_file.rules:
        spans = [one.span for one in walk(rule) if one is not rule]
        assert all(0 <= span.start <= span.end <= len(TABLE) for span in spans)
        (node,) = rule.match.nodes
        assert TABLE[node.ops_span.start : node.ops_span.end] == "@op"
        assert TABLE[node.span.start : node.span.end] == "y = @op<@attr=@value>(@type[...] x)"
        assert TABLE[rule.code_span.start : rule.code_span.end] == rule.code
        assert TABLE[rule.wheres[0].span.start : rule.wheres[0].span.end] == "where rank(x) == @rank"
        (rewrite,) = rule.rewrites
        assert TABLE[rewrite.span.start : rewrite.span.end] == "rewrite { y = x }"


def test_what_a_row_says_in_its_own_words(tmp_path: Path) -> None:
    first, second = load(tmp_path, TABLE)
    assert first.words(first.ast.wheres[0].condition.span) == "rank(x) == 2"
    assert second.words(second.ast.wheres[1].condition.span) == '"y" != "(ReduceMax | ReduceMin)"'
    assert "table" not in second.text
    assert "X1" not in second.text
    assert load(tmp_path, second.text)[0].digest == second.digest


def test_rule_shows_the_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load(tmp_path, TABLE)
    assert main(["rule", "X22", "--rules", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "X22 second" in shown
    assert "  match { y = (ReduceMax | ReduceMin)<axes=[0, 1]>(int64[...] x) }\n" in shown
    assert "symptom" not in shown
    assert '"one"' not in shown


def test_rows_are_selected_by_their_codes(tmp_path: Path) -> None:
    load(tmp_path, TABLE)
    rules = load_rules([tmp_path])
    assert [rule.code for rule in rules.select(["X22"])] == ["X22"]


def test_a_column_within_a_domain(tmp_path: Path) -> None:
    text = """\
/// @op
rule X1 a <kind: exact>
table {
  code  op
  X1    Gelu
}
match { y = com.microsoft.@op(x) }
rewrite { y = com.microsoft.@op(x) }
test "t" unchanged ~~~ @op ~~~
"""
    _, problems = parse(text)
    assert not problems
    (rule,) = parse(text)[0].rules
    assert [(op.name, op.domain, op.param) for op in rule.match.nodes[0].ops] == [("Gelu", "com.microsoft", False)]
    assert "y = com.microsoft.@op(x)" in format_text(text)
    _, problems = parse(text.replace("microsoft.@op", "microsoft.@ops"))
    assert [problem.code for problem in problems] == ["E015", "E015"]


def test_title_in_a_column(tmp_path: Path) -> None:
    text = """\
/// Of all of them.
rule X1 a <kind: exact>
table {
  code  op    title
  X1    Relu  "Of \\"Relu\\""
  X2    Abs   "Of Abs"
}
match { y = @op(x) }
rewrite { y = x }
test "t" unchanged ~~~ @op ~~~
"""
    first, second = load(tmp_path, text)
    assert (first.title, second.title) == ('Of "Relu"', "Of Abs")
    assert second.doc == "Of Abs\nOf all of them."
    assert first.slug == second.slug == "a"


def test_an_operator_parameter_beside_columns(tmp_path: Path) -> None:
    text = """\
rule X1 a <kind: exact>
table {
  code  op    title
  X1    Relu  "Of Relu"
}
match { y = @op(x) }
param to: op = "Abs"
rewrite { y = @to(x) }
test "t" unchanged ~~~ @op ~~~
"""
    (rule,) = load(tmp_path, text)
    assert rule.words(rule.ast.rewrites[0].span) == "rewrite { y = @to(x) }"


def test_what_rows_share_is_told_once(tmp_path: Path) -> None:
    text = TABLE.replace("where rank(x)", "let z = 1\nwhere rank(x)")
    path = tmp_path / "x.rules"
    path.write_text(text, encoding="utf-8")
    (warning,) = load_rules([path]).warnings
    assert (warning.code, warning.notes) == ("W201", ())


def test_formatted() -> None:
    once = format_text(TABLE)
    assert format_text(once) == once
    start = once.index("table {")
    assert once[start : once.index("match")] == (
        "table {\n"
        "  code  slug    op                       attr  value          type   rank  since  symptom\n"
        '  X1    first   Concat                   axis  (0 - (3 - 2))  float  2     13..   "no \\"Concat\\""\n'
        "  # the old name\n"
        "  X22   second  (ReduceMax | ReduceMin)  axes  [0, 1]         int64  3     7..17  _\n"
        "}\n\n"
    )


def test_long_rows_are_broken_alike() -> None:
    rows = "".join(f'X{n} {"Relu" if n < 3 else "Abs"} "{"a" * 50 * n}" "title" "note"\n' for n in (1, 2))
    table = f"table {{ code op symptom title note\n{rows} }}\n"
    text = f'/// @note\nrule X1 a <kind: exact, symptom: @symptom> {table} match {{ y = @op(x) }} rewrite {{ y = x }} test "t" unchanged ~~~ @op ~~~'
    once = format_text(text)
    assert format_text(once) == once
    assert f"  code  op    symptom{' ' * 95}\n".rstrip() in once
    assert f'  X1    Relu  "{"a" * 50}"\n      "title"  "note"\n'.replace('"title"  "note"', '"title"  "note"') in once


def test_a_line_does_not_break_before_a_code() -> None:
    text = f"""\
/// @note
rule X1 a <kind: exact, before: @first>
table {{
  code  note           first  op
  X1    "{"a" * 100}"  ABC12345  Relu
}}
match {{ y = @op(x) }}
rewrite {{ y = x }}
test "t" unchanged ~~~ @op ~~~
"""
    assert f'  X1    "{"a" * 100}"  ABC12345\n      Relu\n' in format_text(text)


def test_lark_takes_a_table_from_the_grammar_alone() -> None:
    assert grammar().parse(TABLE[TABLE.index("///") :]).data == "start"


def test_a_table_of_too_much_text() -> None:
    rows = "".join(f'X{n} {"R" * 1000} "t"\n' for n in range(1, 150))
    table = f"table {{\ncode op title\n{rows} }}\n"
    _, problems = parse(f"rule X1 a <kind: exact> {table} match {{ {'y = @op(x) ' * 200} }} rewrite {{ y = x }}")
    assert [problem.code for problem in problems] == ["E003"]


def test_a_column_names_the_fault_and_a_cell_may_be_a_condition(tmp_path: Path) -> None:
    """What a row has not, as the evidence of a rule that repairs nothing, counts as not written; a name that one row uses is used."""
    text = """\
rule X1 t
<kind: @kind, evidence: @evidence, opset: 1..>
table {
  code  fault           kind    evidence  when                                 title
  X1    repeated_nodes  repair  refused   (len(without(["a"], [called])) > 0)  "Names twice"
  X2    unnamed_nodes   exact   _         true                                 "No names"
}
match graph { }
let called = exporter()
where model.@fault != []
where @when
rewrite { mend model.@fault }
test X1 "none" unchanged ~~~ <ir_version: 8, opset_import: ["": 13]> g (float x) => (float y) { y = Relu(x) } ~~~
test X2 "one" ~~~ <ir_version: 8, opset_import: ["": 13]> g (float x) => (float y) { y = Relu(x) } ~~~
becomes ~~~ <ir_version: 8, opset_import: ["": 13]> g (float x) => (float y) { [y] y = Relu(x) } ~~~
"""
    path = tmp_path / "x.rules"
    path.write_text(text, encoding="utf-8")
    rules = load_rules([path])
    assert (len(rules.rules), rules.warnings) == (2, ())
    assert [rule.header.evidence is None for rule in rules.rules] == [False, True]
    assert [report for report in run_tests(rules.rules) if not report.ok] == []


def test_a_cell_may_be_a_new_node(tmp_path: Path) -> None:
    """Also an operand of one."""
    head = f"{HEAD} g (float[2] x) => (float[2] y)"
    text = f"""\
rule X1 t <kind: lossy>
table {{
  code  from  made                  more      title
  X1    Abs   (Mul(x, Relu(x)))     (Neg(x))  "One"
  X2    Exp   (Add(x, {{[1]}}))       x         "Two"
}}
match {{ y = @from(x) }}
rewrite {{ h = @made  y = Add(h, @more) }}
test X1 "t" ~~~ {head} {{ y = Abs(x) }} ~~~ becomes ~~~ {head} {{ r = Relu(x)  h = Mul(x, r)  n = Neg(x)  y = Add(h, n) }} ~~~
test X2 "t" unchanged ~~~ {head} {{ y = Abs(x) }} ~~~
"""
    one, two = load(tmp_path, text)
    assert [result.message for result in run_tests([one, two])] == ["", ""]
    second = load(tmp_path, "rule X2 t <kind: lossy> match { y = Exp(x) } rewrite { h = Add(x, {[1]})  y = Add(h, x) }")
    assert canonical(two.ast.rewrites) == canonical(second[0].ast.rewrites)
    assert format_text(text).count("@made") == 1
