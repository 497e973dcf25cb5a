"""Verdicts: what they say of sound rules, of wrong ones, of conditions that are for nothing, and of what nobody can tell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rewriter.language.pages.page import Page
from rewriter.language.pages.trust import PAGES
from rewriter.language.rules import Rule, load_rules
from rewriter.proof.lock import lock_path, read_lock, write_lock
from rewriter.proof.recorded import examine, exports
from rewriter.proof.sampling import Stream
from rewriter.proof.verdict import COUNTEREXAMPLE, TESTED, UNVERIFIED
from rewriter.proof.verify import Plan, verify_rule
from rewriter.proof.workers import verify_all

MODELS = Path(__file__).parent.parent / "models"
QUICK = Plan(samples=30, seconds=60)


def made(folder: Path, text: str) -> Rule:
    """The only rule of a text."""
    path = folder / "a.rules"
    path.write_text(text)
    (found,) = load_rules([path])
    return found


TRANSPOSES = """
rule T1 transpose-transpose <kind: exact>
match { t = Transpose<perm=p>(x)  y = Transpose<perm=q>(t) }
rewrite { y = Transpose<perm=take(p, q)>(x) }
"""


def test_a_sound_rule_is_tested(tmp_path: Path) -> None:
    verdict = verify_rule(made(tmp_path, TRANSPOSES), QUICK)
    assert (verdict.status, verdict.samples) == (TESTED, 30)
    assert verdict.acceptable and len(verdict.opsets) > 2 and len(verdict.dtypes) > 1


def test_a_verdict_is_the_same_again(tmp_path: Path) -> None:
    rule = made(tmp_path, TRANSPOSES)
    one, other = (replace(verify_rule(rule, QUICK), seconds=0.0) for _ in range(2))
    assert one == other
    assert verify_rule(rule, replace(QUICK, seed=1)).dtypes is not None


def test_every_shape_of_a_small_pattern_is_tried(tmp_path: Path) -> None:
    rule = made(tmp_path, "rule T2 negated-twice <kind: exact>\nmatch { y = Neg(Neg(x)) }\nrewrite { y = x }\n")
    stream, shapes = Stream(rule, 0), set()
    for index, instance in stream:
        if index > 300:
            break
        if instance is not None:
            stream.accepted()
            shapes |= {tuple(d.dim_value for d in i.type.tensor_type.shape.dim) for i in instance.model.graph.input}
    assert {(a, b) for a in (1, 2, 3) for b in (1, 2, 3)} <= shapes


def test_a_condition_that_never_matters_is_told(tmp_path: Path) -> None:
    rule = made(
        tmp_path,
        "rule T3 identity <kind: exact>\nmatch { y = Identity(x) }\nwhere rank(x) != 3\nrewrite { y = x }\n",
    )
    verdict = verify_rule(rule, QUICK)
    assert verdict.status == TESTED
    assert [(found.line, found.text) for found in verdict.unneeded] == [(3, "where rank(x) != 3")]


def test_a_condition_that_matters_is_not(tmp_path: Path) -> None:
    text = "rule T4 split-concat <kind: exact>\nmatch { *parts = Split<axis=a>(x, ...)  y = Concat<axis=b>(*parts) }\n"
    verdict = verify_rule(made(tmp_path, f"{text}where axis(a, x) == axis(b, x)\nrewrite {{ y = x }}\n"), QUICK)
    assert verdict.status == TESTED and not verdict.unneeded


def test_its_own_test_comes_first(tmp_path: Path) -> None:
    text = TRANSPOSES + '\ntest "not so" unchanged ~~~\n  <ir_version: 8, opset_import: ["": 13]>\n'
    text += "  g (float[2,3] x) => (float[2,3] y) { t = Transpose<perm=[1,0]>(x)  y = Transpose<perm=[1,0]>(t) }\n~~~\n"
    verdict = verify_rule(made(tmp_path, text), QUICK)
    assert verdict.status == COUNTEREXAMPLE and "its own test fails" in verdict.why


GAMMA = """
rule T5 double-slope <kind: repair{key}>
match {{ [n] y = LeakyRelu<alpha=1.0>(x) }}
rewrite {{ n.alpha = 0.5 }}
"""


def test_a_repair_of_numbers_needs_a_reference_or_a_reason(tmp_path: Path) -> None:
    bare = verify_rule(made(tmp_path, GAMMA.format(key="")), QUICK)
    assert bare.status == UNVERIFIED and not bare.acceptable and "no recorded export" in bare.why
    excused = verify_rule(made(tmp_path, GAMMA.format(key=', unverified: "only the framework knows"')), QUICK)
    assert excused.status == UNVERIFIED and excused.acceptable and excused.why == "only the framework knows"
    recorded = verify_rule(made(tmp_path, GAMMA.format(key="")), QUICK, ["an-export"])
    assert recorded.status == TESTED and recorded.recorded == ("an-export",)


def test_a_repair_is_refused_before_and_accepted_after() -> None:
    rule = load_rules(None).get("TYP006")
    assert rule is not None
    verdict = verify_rule(rule, QUICK)
    assert verdict.status == TESTED and verdict.counts == {"repaired": 30}


def test_rules_are_verified_in_processes_of_their_own(tmp_path: Path) -> None:
    rule = made(tmp_path, TRANSPOSES)
    (verdict,) = verify_all([rule], Plan(samples=5, negatives=False), {}, 1)
    assert (verdict.rule, verdict.status, verdict.samples) == ("T1", TESTED, 5)


def test_recorded_exports_speak_for_repairs() -> None:
    rules = load_rules(None)
    assert len(list(exports(MODELS))) > 30
    recorded = examine(rules, MODELS / "mxnet-1.3.1-avgpool-pad-default", ["MX003"])
    assert recorded.repairs == {"MX003": ["mxnet-1.3.1-avgpool-pad-default"]} and not recorded.harms


def test_a_lock_keeps_verdicts(tmp_path: Path) -> None:
    verdict = verify_rule(made(tmp_path, TRANSPOSES), Plan(samples=5, negatives=False))
    place = lock_path(tmp_path)
    write_lock(place, [verdict], {"onnx": "1"})
    first = place.read_bytes()
    locked = read_lock(place)["T1"]
    assert locked.locked and locked.record() == verdict.record()
    write_lock(place, [locked], {"onnx": "1"})
    assert place.read_bytes() == first
    inner = tmp_path / "more" / "b.rules"
    inner.parent.mkdir()
    assert lock_path(inner) == place


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.code)
def test_page(tmp_path: Path, page: Page) -> None:
    wrong, right = (verify_rule(made(tmp_path, text), QUICK) for text in (page.wrong, page.right))
    assert right.acceptable and not right.unneeded
    assert (not wrong.acceptable) if page.code.startswith("E") else wrong.unneeded
    assert page.code != "E501" or wrong.status == COUNTEREXAMPLE


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 99, "rules": {}}'])
def test_what_is_no_lock_file_is_told(tmp_path: Path, text: str) -> None:
    from rewriter.errors import RewriterError

    place = tmp_path / "verified.lock.json"
    place.write_text(text)
    with pytest.raises(RewriterError):
        read_lock(place)
