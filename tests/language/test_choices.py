"""Forms that stand for several plain ones: what they become, and what is said where they cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from rewriter.core.engine.compile import compile_rule, plan
from rewriter.core.language import ast
from rewriter.core.language.ast import walk
from rewriter.core.language.expand.variants import MAX_VARIANTS, groupings
from rewriter.core.language.parse import parse
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.rule_tests import run_test
from tests.language.test_check import check_text
from tests.rule_tests import run_tests

RULES = Path(__file__).parent / "choices.rules"


def forms(match: str, more: str = "", rewrite: str = "y = x", header: str = "kind: lossy") -> tuple[ast.Rule, ...]:
    """The plain rules that one stands for."""
    file, problems = parse(f"rule T1 t <{header}>\nmatch {{ {match} }}\n{more}\nrewrite {{ {rewrite} }}\n")
    assert not problems
    return file.rules[0].variants or file.rules


def text(operand: ast.Operand) -> str:
    """A pattern on one line."""
    if isinstance(operand, ast.NodePattern):
        return f"{'|'.join(op.name for op in operand.ops)}({', '.join(map(text, operand.inputs))})"
    return operand.name if isinstance(operand, ast.Capture) else type(operand).__name__


def patterns(match: str, more: str = "") -> list[str]:
    return [" ".join(f"{node.outputs[0].name}={text(node)}" for node in rule.match.nodes) for rule in forms(match, more)]


def test_rules_that_use_them_do_what_they_say() -> None:
    rules = load_rules([RULES])
    assert [(result.title, result.message) for result in run_tests(rules) if not result.ok] == []


def test_a_node_that_may_be_absent_is_its_first_operand() -> None:
    assert patterns("y = Relu(maybe Cast(x))") == ["y=Relu(Cast(x))", "y=Relu(x)"]
    assert patterns("h = maybe Cast(x)  y = Relu(h)") == ["h=Cast(x) y=Relu(h)", "y=Relu(x)"]
    assert patterns("y = Relu(maybe Cast(maybe Neg(x)))") == [
        "y=Relu(Cast(Neg(x)))",
        "y=Relu(Cast(x))",
        "y=Relu(Neg(x))",
        "y=Relu(x)",
    ]
    assert patterns("h = Neg(x)  y = maybe Cast(h)") == ["h=Neg(x) y=Cast(h)", "h=Neg(x)"]


def test_alternatives_are_nodes_of_one_line() -> None:
    assert patterns("h = Neg(x) | Abs(Neg(x))  y = Relu(h)") == ["h=Neg(x) y=Relu(h)", "h=Abs(Neg(x)) y=Relu(h)"]


@pytest.mark.parametrize("operands", [2, 3, 4])
def test_a_chain_is_grouped_in_every_way_once(operands: int) -> None:
    found = patterns(f"y = Mul*({', '.join('abcd'[:operands])})")
    assert len(set(found)) == len(found) == groupings(operands) == [1, 3, 15][operands - 2]


def test_what_a_pattern_does_not_bind_is_none_in_conditions_and_absent_in_rewrites() -> None:
    with_cast, without = forms(
        "y = Relu([c] maybe Cast<to=t>(x))", "where not matched(c) or t == float\nlet used = t", "y = Neg<..c, to=used>(x)"
    )
    assert isinstance(with_cast.wheres[0].condition, ast.Logic | ast.Compare)
    assert without.wheres[0].condition == ast.Literal(True, without.wheres[0].condition.span)
    assert not any(isinstance(part, ast.AttrCopy) for part in walk(without.rewrites))


def test_a_condition_can_exclude_a_form() -> None:
    assert patterns("y = Relu([c] maybe Cast(x))", "where matched(c)") == ["y=Relu(Cast(x))"]


def test_an_attribute_or_an_operand_follows_the_opset() -> None:
    old, new = forms("y = ReduceMean<axes~a, keepdims=1>(x)", "where len(a) == 1", "y = ReduceMean<axes~a>(x)")
    assert [text(rule.match.nodes[0]) for rule in (old, new)] == ["ReduceMean(x)", "ReduceMean(x, a~)"]
    assert [rule.meta[-1].value for rule in (old, new)] == [ast.OpsetRange(7, 17), ast.OpsetRange(18, None)]
    assert [let.name for let in new.lets] == ["a"]
    build = new.rewrites[0].statements[0]
    assert isinstance(build, ast.Build)
    assert (len(build.inputs), build.attrs) == (2, ())


def test_operators_that_moved_at_different_opsets_stand_apart() -> None:
    found = forms("y = (ReduceSum | ReduceMean)<axes~a>(x)", "where len(a) == 1")
    assert [text(rule.match.nodes[0]) for rule in found] == [
        *("ReduceSum|ReduceMean(x)", "ReduceSum(x, a~)", "ReduceMean(x)", "ReduceSum|ReduceMean(x, a~)"),
    ]


def test_an_optional_operand_that_is_absent_has_the_default_of_the_attribute() -> None:
    old, *_, new = forms("y = Pad<pads~p, value~v>(x)", "where v == 0 and len(p) == 2", "y = x")
    assert [text(rule.match.nodes[0]) for rule in (old, new)] == ["Pad(x)", "Pad(x, p~, v~)"]
    pads, value = new.match.nodes[0].inputs[1:]
    assert isinstance(pads, ast.Capture)
    assert isinstance(value, ast.Capture)
    assert (pads.optional, value.optional) == (False, True)
    (given,) = (let.value for let in new.lets if let.name == "v")
    assert isinstance(given, ast.Call)
    (held,) = given.args
    assert isinstance(held, ast.Call)
    assert (given.function, held.function, held.args[1]) == ("float", "default", ast.Literal(0.0, held.span))


def test_blocks_of_other_opsets_go() -> None:
    file, _ = parse(
        "rule T1 t <kind: lossy>\nmatch { y = ReduceMean<axes~[1]>(x) }\n"
        "rewrite opset ..17 { y = Neg(x) }\nrewrite opset 18.. { y = Abs(x) }\n"
    )
    assert [len(rule.rewrites) for rule in file.rules[0].variants] == [1, 1]


def test_all_patterns_of_a_rule_go_before_those_of_another(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text(
        "rule T1 late <kind: lossy>\nmatch { y = Relu(maybe Neg(Abs(x))) }\nrewrite { y = x }\n"
        "rule T2 early <kind: lossy, before: T1>\nmatch { y = Relu(maybe Neg(x)) }\nrewrite { y = x }\n"
    )
    rules = [compile_rule(variant, {}) for rule in load_rules([path]) for variant in rule.variants]
    (phase,) = plan(rules)
    (roots,) = phase.by_root.values()
    assert [rule.code for rule in roots] == ["T2", "T2", "T1", "T1"]


# --- Defines ------------------------------------------------------------------------------------------------------------------


def test_a_define_is_written_out_where_it_is_called() -> None:
    both = "define one(x) = size(x) == 1\ndefine both(a, b) = one(a) and one(b)\n"
    rule = "rule T1 t <kind: lossy>\nmatch { y = Mul(a, b) }\nwhere CONDITION\nrewrite { y = a }\n"
    called, _ = parse(both + rule.replace("CONDITION", "both(b, a)"))
    written, _ = parse(rule.replace("CONDITION", "size(b) == 1 and size(a) == 1"))
    from rewriter.rule_tools.format import same

    assert same(called.rules, written.rules)


def test_a_define_takes_an_axis(tmp_path: Path) -> None:
    """What is computed along height and width is written once: the axis may be an argument, in facts, ranges and functions."""
    path = tmp_path / "a.rules"
    path.write_text(
        "/// The sizes of an axis and of those behind it, and the sums of a constant along it.\n"
        "define along(axis, x, c) = concat([dim(x, axis)], shape(x)[axis + 1..], sum(take(c, 0..1, axis), axis), 0)\n"
        "rule T1 t <kind: lossy>\nmatch { y = Sum(float[2, 3, 4] x, const c) }\n"
        "rewrite { y = Sum(x, {along(0, x, c)}, {along(1, x, c)}) }\n"
        'test "both axes" ~~~\n<ir_version: 8, opset_import: ["": 13]>\n'
        "g (float[2,3,4] x) => (y) <int64[2,2] c = {1, 2, 3, 4}> { y = Sum(x, c) }\n~~~ becomes ~~~\n"
        '<ir_version: 8, opset_import: ["": 13]>\n'
        "g (float[2,3,4] x) => (y) <int64[5] h = {2, 3, 4, 4, 6}, int64[4] w = {3, 4, 3, 7}> { y = Sum(x, h, w) }\n~~~\n"
    )
    (rule,) = load_rules([path])
    result = run_test(rule, rule.ast.tests[0])
    assert result.ok, result.message


def test_an_item_of_a_define_is_no_name_of_its_caller() -> None:
    file, _ = parse(
        "define holds_in(xs, y) = any x in xs: x == y\n"
        "rule T1 t <kind: lossy>\nmatch { y = Concat(x, *xs) }\nwhere holds_in(xs, x)\nrewrite { y = x }\n"
    )
    condition = file.rules[0].wheres[0].condition
    assert isinstance(condition, ast.Quantified)
    assert condition.name == "holds_in.x"
    assert isinstance(condition.condition, ast.Compare)
    assert condition.condition.right == ast.Name("x", condition.condition.right.span)


def test_defines_of_a_folder_and_of_the_folder_above(tmp_path: Path) -> None:
    inner = tmp_path / "pack" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "pack" / "defines.rules").write_text("define one(x) = size(x) == 1\ndefine two(x) = size(x) == 2\n")
    (inner / "defines.rules").write_text("define two(x) = size(x) == 2 and rank(x) == 1\n")
    rule = "rule {} t <kind: lossy>\nmatch {{ y = Neg(x) }}\nwhere {}(x)\nrewrite {{ y = x }}\n"
    (inner / "a.rules").write_text(rule.format("T1", "one") + rule.format("T2", "two"))
    first, second = load_rules([inner / "a.rules"])
    assert isinstance(first.ast.wheres[0].condition, ast.Compare)
    assert isinstance(second.ast.wheres[0].condition, ast.Logic)
    (inner / "defines.rules").write_text("define two(x) = size(x) == 3\n")
    assert [rule.digest for rule in load_rules([inner / "a.rules"])] != [first.digest, second.digest]


def test_defines_that_grow_without_bound_are_refused(tmp_path: Path) -> None:
    lines = ["define d0(x) = size(x) == 1"] + [f"define d{n}(x) = d{n - 1}(x) and d{n - 1}(x)" for n in range(1, 40)]
    found = check_text(tmp_path, "\n".join(lines) + "\nrule T1 t <kind: lossy>\nmatch { y = Neg(x) }\nrewrite { y = x }\n")
    assert "E003" in {one.code for one in found}


def test_choices_that_multiply_are_refused_at_once(tmp_path: Path) -> None:
    operand = "x"
    for _ in range(20):
        operand = f"Add*(maybe Neg({operand}), maybe Abs(z), maybe Relu(w))"
    found = check_text(tmp_path, f"rule T1 t <kind: lossy>\nmatch {{ y = {operand} }}\nrewrite {{ y = x }}\n")
    assert [one.code for one in found] == ["E003"]
    assert str(MAX_VARIANTS) in found[0].message


# --- Codes of rules that one has taken the place of ------------------------------------------------------------------------------


def test_a_code_that_is_gone_selects_the_rule_in_its_place() -> None:
    rules = load_rules()
    assert [rule.code for rule in rules.select(["OPT015"])] == ["OPT014"]
    assert rules.select(["OPT015"]).by_id == {"OPT014"}
    assert "OPT014" not in [rule.code for rule in rules.select(["OPT"], ["OPT016"])]
    gone = rules.get("OPT011")
    assert gone is not None
    assert gone.code == "OPT010"


def test_a_code_cannot_be_gone_and_there(tmp_path: Path) -> None:
    rule = "rule {} t <kind: lossy{}>\nmatch {{ y = {}(x) }}\nrewrite {{ y = x }}\n"
    found = check_text(tmp_path, rule.format("T1", ", replaces: T2", "Neg") + rule.format("T2", "", "Abs"))
    assert [one.code for one in found] == ["E401"]


def test_attributes_are_copied_beside_one_that_moved() -> None:
    *_, new = forms("[n] y = ReduceMean<axes~a>(x)", "where len(a) == 1", "y = ReduceMean<..n, axes~a>(x)")
    build = new.rewrites[0].statements[0]
    assert isinstance(build, ast.Build)
    assert (len(build.inputs), [type(attr) for attr in build.attrs]) == (2, [ast.AttrCopy])
