"""Verdicts: what they say of sound rules, of wrong ones, of conditions that are for nothing, and of what nobody can tell."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from rewriter.core.isolation.process import Process
from rewriter.core.language.rules import Rule
from rewriter.rule_tools.load_rules import load_rules
from rewriter.rule_tools.message_pages import message_pages
from rewriter.trust.proof.instances.instance import Instance
from rewriter.trust.proof.instances.random_arrays import TAME, feed
from rewriter.trust.proof.instances.sampling import Stream
from rewriter.trust.proof.oracles import ORACLES, Refusal
from rewriter.trust.proof.rules import verify_rule as verifying
from rewriter.trust.proof.rules.trial import VOID, WRONG, attempt
from rewriter.trust.proof.rules.verdict import COUNTEREXAMPLE, TESTED, UNVERIFIED, lock_path, read_lock, write_lock
from rewriter.trust.proof.rules.verify_rule import MIN_SAMPLES, VerifyPlan, examine, exports, verify_all, verify_rule

MODELS = Path(__file__).parent.parent / "models"
QUICK = VerifyPlan(samples=30, seconds=60)


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
    verdict = verify_rule(made(tmp_path, TRANSPOSES), replace(QUICK, samples=100))
    assert (verdict.status, verdict.samples) == (TESTED, 100)
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
rule T5 double-slope <kind: repair, evidence: guess{key}>
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


CHAIN = """
rule T20 first-half <kind: repair, evidence: refused>
match { y = com.acme.First(x) }
rewrite { y = com.acme.Second(x) }

test "one unknown operator becomes another" with T21 ~~~
  <ir_version: 8, opset_import: ["": 13, "com.acme": 1]>
  g (float[2,3] x) => (float[2,3] y) { y = com.acme.First(x) }
~~~ becomes ~~~
  <ir_version: 8, opset_import: ["": 13, "com.acme": 1]>
  g (float[2,3] x) => (float[2,3] y) { y = Neg(x) }
~~~

rule T21 second-half <kind: repair, evidence: refused>
match { y = com.acme.Second(x) }
rewrite { y = Neg(x) }
"""


def test_a_repair_that_leaves_a_rest_is_verified_with_the_rules_of_its_tests(tmp_path: Path) -> None:
    path = tmp_path / "a.rules"
    path.write_text(CHAIN)
    whole = verify_rule(load_rules([path]).rules[0], QUICK)
    assert (whole.status, whole.samples, whole.why) == (TESTED, 30, "30 rejected and then loaded")
    path.write_text(CHAIN.replace("with T21 ", "").replace("y = Neg(x) }\n~~~", "y = com.acme.Second(x) }\n~~~"))
    half = verify_rule(load_rules([path]).rules[0], QUICK)
    assert (half.status, half.samples) == (UNVERIFIED, 0)


def test_a_change_of_the_interface_can_make_a_model_load() -> None:
    rule = load_rules(None).get("CB003")
    assert rule is not None
    verdict = verify_rule(rule, QUICK)
    assert (verdict.status, verdict.why) == (TESTED, "30 rejected and then loaded")


def test_a_rule_for_models_that_fail_when_they_run_is_compared_with_the_reference() -> None:
    """ONNX Runtime loads Attention with a mask of one row and does not run it."""
    rule = load_rules(None).get("PT082")
    assert rule is not None
    verdict = verify_rule(rule, replace(QUICK, negatives=False))
    assert (verdict.status, verdict.samples) == (TESTED, 30) and verdict.tried < 120


def test_a_rule_with_few_random_models_is_not_tested(tmp_path: Path) -> None:
    text = GAMMA.replace("rewrite", 'where name(n) == "odd"\nrewrite').format(key="")
    verdict = verify_rule(made(tmp_path, text), QUICK, ["an-export"])
    why = "fewer than 20 random models; 0 rejected and then loaded; 1 recorded export repaired"
    assert (verdict.status, verdict.samples, verdict.why, verdict.acceptable) == (UNVERIFIED, 0, why, False)


def test_no_shipped_rule_is_tested_on_few_random_models() -> None:
    rules, locked = load_rules(None), read_lock(lock_path(Path(load_rules(None).rules[0].path)))
    current = [locked[rule.code] for rule in rules if rule.code in locked and locked[rule.code].digest == rule.digest]
    assert len(current) > 800
    assert [verdict.rule for verdict in current if verdict.status == TESTED and verdict.samples < MIN_SAMPLES] == []


def test_a_constant_that_equals_an_attribute_is_drawn(tmp_path: Path) -> None:
    text = "rule T23 a <kind: exact>\nmatch { a = Elu<alpha=factor>(x)  y = Mul(a, const k) }\n"
    verdict = verify_rule(made(tmp_path, f"{text}where all(k == factor)\nrewrite {{ y = Mul(k, a) }}\n"), QUICK)
    assert (verdict.status, verdict.samples) == (TESTED, 30) and verdict.tried < 150


def test_an_attribute_is_drawn_within_the_bounds_of_the_conditions(tmp_path: Path) -> None:
    text = "rule T22 a <kind: exact, opset: 16..>\nmatch {{ y = RoiAlign<sampling_ratio=n>(x, regions, images) }}\n"
    text += "where n {}\nrewrite {{ y = RoiAlign(x, regions, images) }}\n"

    def written(condition: str) -> set[int]:
        stream = islice(Stream(made(tmp_path, text.format(condition)), 0), 60)
        nodes = [instance.model.graph.node[0] for _, instance in stream if instance is not None]
        return {attribute.i for node in nodes for attribute in node.attribute if attribute.name == "sampling_ratio"}

    assert written("< 0") == {-1, -2}
    assert written("> 3") == {4, 5}
    assert written("< 9") <= {0, 1}  # the default is within


TOP_K = """
rule T6 integer-top-k <kind: repair, evidence: {evidence}, opset: {opset}>
match {{ [n] y, ... = TopK(x, ...) }}
where dtype(x) == int64
rewrite {{
  n.inputs[0] = Cast<to=double>(x)
  y = Cast<to=int64>(y)
}}
{test}"""
RUNS = """
test "an order of integers" ~~~
  <ir_version: 8, opset_import: ["": 11]>
  g (int64[5] x) => (int64[2] y) <int64[1] k = {2}> { y, i = TopK(x, k) }
~~~ becomes ~~~
  <ir_version: 8, opset_import: ["": 11]>
  g (int64[5] x) => (int64[2] y) <int64[1] k = {2}> { c = Cast<to=11>(x)  v, i = TopK(c, k)  y = Cast<to=7>(v) }
~~~
"""


def test_a_running_model_refutes_that_it_is_refused(tmp_path: Path) -> None:
    within = verify_rule(made(tmp_path, TOP_K.format(evidence="refused", opset="7..10", test="")), QUICK)
    assert within.status == TESTED and within.code == ""
    beyond = verify_rule(made(tmp_path, TOP_K.format(evidence="refused", opset="7..11", test="")), QUICK)
    assert (beyond.status, beyond.code) == (COUNTEREXAMPLE, "E503")
    assert "model from: pattern" in beyond.obligation and "opset 11" in beyond.obligation
    assert "inputs:" in beyond.obligation


def test_a_rule_that_asks_the_runtime_does_not_fire_on_what_runs(tmp_path: Path) -> None:
    """At opset 11 ONNX Runtime has the kernel, says so when it is asked, and the rule stays away."""
    verdict = verify_rule(made(tmp_path, TOP_K.format(evidence="refused(onnxruntime)", opset="7..11", test="")), QUICK)
    assert verdict.code != "E503"


def test_its_own_test_runs_though_it_says_refused(tmp_path: Path) -> None:
    verdict = verify_rule(made(tmp_path, TOP_K.format(evidence="refused", opset="7..11", test=RUNS)), QUICK)
    assert verdict.code == "E503" and "model from: an order of integers" in verdict.obligation
    guess = verify_rule(made(tmp_path, TOP_K.format(evidence="guess", opset="7..11", test=RUNS)), QUICK)
    assert guess.code != "E503"


def test_what_fails_on_every_input_is_refused(tmp_path: Path) -> None:
    """ONNX Runtime loads a remainder of floats without `fmod`, and does not run it; from opset 28 on it is defined."""
    text = "rule T7 float-remainder <kind: repair, evidence: {}, opset: 10..27>\nmatch {{ [n] y = Mod<fmod=0>(a, b) }}\n"
    text += "where dtype(a) == float\nrewrite {{ n.fmod = 1 }}\n"
    assert verify_rule(made(tmp_path, text.format("refused")), QUICK).code != "E503"


def test_random_outputs_are_not_compared(tmp_path: Path) -> None:
    text = "rule T8 dropout <kind: exact, opset: 13..>\nmatch {{ y = Dropout({}) }}\nwhere dtype(x) == float\nrewrite {{ y = x }}\n"
    verdict = verify_rule(made(tmp_path, text.format("x, {0.5}, {true}")), QUICK)
    assert verdict.status == UNVERIFIED and "random outputs" in verdict.why
    assert verify_rule(made(tmp_path, text.format("x, {0.5}, {false}")), QUICK).status == TESTED


EQUAL = """
rule T9 equal-constants <kind: exact>
match {{ y = Sub(Add(x, const c), const d) }}
where dtype(x) in [int32, int64] and all(c == d)
{}rewrite {{ y = x }}
"""


def test_equal_constants_are_drawn(tmp_path: Path) -> None:
    sound = "where broadcast(shape(c), shape(x)) == shape(x) and broadcast(shape(d), shape(x)) == shape(x)\n"
    verdict = verify_rule(made(tmp_path, EQUAL.format(sound)), replace(QUICK, negatives=False))
    assert (verdict.status, verdict.samples) == (TESTED, 30)
    assert verify_rule(made(tmp_path, EQUAL.format("")), replace(QUICK, samples=60)).status == COUNTEREXAMPLE


def test_a_verdict_names_what_was_covered(tmp_path: Path) -> None:
    verdict = verify_rule(
        made(tmp_path, "rule T10 a <kind: exact>\nmatch { y = Neg(Neg(x)) }\nrewrite { y = x }\n"), VerifyPlan()
    )
    assert set(range(7)) <= set(verdict.ranks) and {"float", "int64"} <= set(verdict.dtypes) and 13 in verdict.opsets
    assert verdict.record()["ranks"] == list(verdict.ranks)


def test_a_condition_that_no_draft_breaks_is_not_told(tmp_path: Path) -> None:
    text = "rule T11 identity <kind: exact>\nmatch {{ y = Identity(x) }}\nwhere {}\nrewrite {{ y = x }}\n"
    broken = verify_rule(made(tmp_path, text.format("rank(x) != 3")), QUICK)
    assert [found.broke > 0 for found in broken.unneeded] == [True]
    assert not verify_rule(made(tmp_path, text.format("rank(x) != 31")), QUICK).unneeded


NOTHING = """
<ir_version: 8, opset_import: ["": 13]>
g (float[1,0,3,3] x) => (float[N,C,H,W] y) { y = MaxPool<kernel_shape=[2,2], pads=[1,1,1,1]>(x) }
"""


def test_what_one_oracle_refuses_is_no_counterexample(tmp_path: Path) -> None:
    """ONNX Runtime does not pool over nothing, and onnx.reference makes up what comes out."""
    text = "rule T12 a <kind: exact>\nmatch { [p] y = MaxPool(x) }\nwhere p.kernel_shape == [2, 2]\nrewrite { y = Neg(x) }\n"
    rule = made(tmp_path, text)
    empty, full = (
        attempt(rule, Instance(onnx.parser.parse_model(NOTHING.replace("1,0", shape)), "test"), np.random.default_rng(0))
        for shape in ("1,0", "1,2")
    )
    assert (empty.status, full.status) == (VOID, WRONG)


MEAN = """
<ir_version: 8, opset_import: ["": 13]>
g (float[2] x) => (float y) { y = ReduceMean<keepdims=0>(x) }
"""


def test_oracles_that_disagree_before_are_no_counterexample(tmp_path: Path) -> None:
    """The mean of nothing is 0 in ONNX Runtime and NaN in onnx.reference."""
    text = "rule T13 a <kind: exact>\nmatch { y = ReduceMean<keepdims=0>(x) }\n"
    rule = made(tmp_path, text + "rewrite { s = ReduceMax<keepdims=0>(x)  y = Cos(s) }\n")
    empty, full = (
        attempt(rule, Instance(onnx.parser.parse_model(text), "test"), np.random.default_rng(0))
        for text in (MEAN.replace("[2]", "[0]"), MEAN)
    )
    assert (empty.status, empty.why) == (VOID, "ONNX Runtime and onnx.reference disagree before the rewrite")
    assert full.status == WRONG


@pytest.mark.parametrize(
    "node",
    [
        "y, last, cell = LSTM(x, w, r, b, lengths, h, c)",
        "y, last = GRU(x, w, r, b)",
        "y, last = RNN(x, w, r)",
        "y = BitShift(x, n)",
    ],
)
def test_most_instances_of_an_operator_with_operands_that_belong_together_run(tmp_path: Path, node: str) -> None:
    dtype = "uint8" if "BitShift" in node else "float"
    rule = made(tmp_path, f"rule T14 a <kind: lossy>\nmatch {{ {node} }}\nwhere dtype(x) == {dtype}\nrewrite {{ y = x }}\n")
    stream = Stream(rule, 0)
    instances = [instance for _, instance in islice(stream, 30) if instance is not None]
    running = 0
    for number, instance in enumerate(instances):
        loaded = ORACLES[0].load(instance.model)
        running += not isinstance(loaded, Refusal) and not isinstance(
            loaded(feed(instance, stream.generator(number), TAME)), Refusal
        )
    assert running > 15


def test_rules_are_verified_in_processes_of_their_own(tmp_path: Path) -> None:
    rule = made(tmp_path, TRANSPOSES)
    (verdict,) = verify_all([rule], VerifyPlan(samples=5, negatives=False), {}, 1)
    assert (verdict.rule, verdict.status, verdict.samples) == ("T1", TESTED, 5)


def test_every_recorded_export_has_its_row() -> None:
    tables = (MODELS / "README.md").read_text().split("\n## ")[1:]
    rows = [[line.split(" | ")[0][2:] for line in table.splitlines() if " | " in line][1:] for table in tables]
    assert rows == [sorted(names) for names in rows]
    assert sorted([name for names in rows for name in names]) == sorted(
        folder.name for folder in MODELS.iterdir() if folder.is_dir()
    )


def test_an_instance_on_which_a_process_dies_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    processes: list[Process] = []

    class Dying(verifying._Verifier):
        """The first process dies when it comes to its third instance."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if self.process not in processes:
                processes.append(self.process)
            if name == "instance" and value == 2 and len(processes) == 1:
                self.process._process.kill()

    monkeypatch.setattr(verifying, "_Verifier", Dying)
    plan = VerifyPlan(samples=400, negatives=False, seconds=60.0)
    (verdict,) = verify_all([made(tmp_path, TRANSPOSES)], plan, {}, 1)
    assert (verdict.status, verdict.crashed, len(processes)) == (TESTED, 1, 2)


def test_recorded_exports_speak_for_repairs() -> None:
    rules = load_rules(None)
    assert len(list(exports(MODELS))) > 30
    recorded = examine(rules, MODELS / "mxnet-1.3.1-avgpool-pad-default", ["MX003"])
    assert recorded.repairs == {"MX003": ["mxnet-1.3.1-avgpool-pad-default"]} and not recorded.harms


def test_a_lock_keeps_verdicts(tmp_path: Path) -> None:
    verdict = verify_rule(made(tmp_path, TRANSPOSES), VerifyPlan(samples=5, negatives=False))
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


def test_a_folder_that_vanishes_hides_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    scan = os.scandir

    def vanished(path: str) -> Any:
        if str(path).rstrip("/").endswith("gone"):
            raise FileNotFoundError(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", vanished)
    assert lock_path(tmp_path) == tmp_path / "verified.lock.json"


@pytest.mark.parametrize("code", ["E501", "E502", "E503", "W504"])
def test_page(tmp_path: Path, code: str) -> None:
    page = message_pages()[code]
    wrong, right = (verify_rule(made(tmp_path, text), QUICK) for text in (page.wrong, page.right))
    assert right.acceptable and not right.unneeded
    assert (not wrong.acceptable) if code.startswith("E") else wrong.unneeded
    assert code.startswith("W") or wrong.code == code


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 99, "rules": {}}'])
def test_what_is_no_lock_file_is_told(tmp_path: Path, text: str) -> None:
    from rewriter.core.errors import RewriterError

    place = tmp_path / "verified.lock.json"
    place.write_text(text)
    with pytest.raises(RewriterError):
        read_lock(place)
