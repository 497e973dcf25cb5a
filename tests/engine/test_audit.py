"""What the log says of firings when an audit is asked for, and that asking changes nothing else."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from rewriter.core.conditions.recorded_graph import Knowledge
from rewriter.core.engine.firing_audit import FiringAudit, digest
from rewriter.core.engine.run import Hooks, run
from rewriter.core.graph.model import load
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Box, Log
from rewriter.rule_tools.load_rules import load_rules
from tests.engine.helpers import rewrite_model, rewrite_text

MODELS = sorted((Path(__file__).parent.parent / "models").rglob("*.onnx"))
FLAT = "rule X1 flat <kind: repair, evidence: refused> match { [g] y = Gemm(x, w, ...) } where rank(x) > 2 rewrite { f = Flatten<axis=1>(x) g.inputs[0] = f }"
DROP = "rule X1 drop <kind: exact> match { y = Identity(x) } rewrite { y = x }"
VALUES = ",".join(map(str, range(15)))
GEMM = f"g (float[2,3,1,1] x) => (float[2,5] y) <float[3,5] w = {{{VALUES}}}> {{ y = Gemm(x, w) }}"


@pytest.fixture(scope="module")
def every_rule() -> RuleSet:
    rules = load_rules().select(["ALL"])
    suited = [rule for rule in rules if all(param.default is not None for param in rule.ast.params)]
    return rules.select([rule.code for rule in suited])


@pytest.mark.parametrize("path", MODELS[::3], ids=lambda path: path.parent.name if path.stem == "model" else path.stem)
def test_an_audited_run_does_what_a_run_does(path: Path, every_rule: RuleSet) -> None:
    logs: list[Log] = []
    protos: list[bytes] = []
    for audit in (None, FiringAudit(snapshots=1_000)):
        model = load(path)
        logs.append(run(model.graph, every_rule, Knowledge(overridable=model.overridable), hooks=Hooks(audit=audit)))
        protos.append(model.to_proto().SerializeToString(deterministic=True))
    plain, audited = logs
    assert protos[0] == protos[1]
    assert [(f.rule, f.place, f.root, f.matched, f.parents) for f in plain.firings] == [
        (f.rule, f.place, f.root, f.matched, f.parents) for f in audited.firings
    ]
    assert all(firing.snapshot is not None for firing in audited.firings)
    assert not any(firing.snapshot or firing.weights or any(c.found for c in firing.conditions) for firing in plain.firings)


def test_conditions_say_what_they_saw() -> None:
    outcome = rewrite_text(GEMM, FLAT, audit=FiringAudit())
    condition = outcome.log.firings[0].conditions[0]
    assert (condition.text, condition.value) == ("rank(x) > 2", "true")
    assert condition.found == "rank(x) is 4; x is 'x', an input of the graph"


def test_what_a_define_asks_is_not_told_under_the_name_of_the_whole_condition() -> None:
    rule = "define deep(x) = rank(x) > 2 and dim(x, 2) == 1\n" + FLAT.replace("rank(x) > 2 rewrite", "deep(x) rewrite")
    (condition,) = rewrite_text(GEMM, rule, audit=FiringAudit()).log.firings[0].conditions
    assert (condition.text, condition.found) == ("deep(x)", "x is 'x', an input of the graph")


def test_weights_are_named_by_type_and_hash() -> None:
    (weight,) = rewrite_text(GEMM, FLAT, audit=FiringAudit()).log.firings[0].weights
    wanted = sha256(np.arange(15, dtype="<f4").tobytes()).hexdigest()
    assert (weight.name, weight.type, weight.sha256, weight.used) == ("w", "float[3,5]", wanted, "both")
    assert weight.text == f"float[3,5]#{wanted[:12]}"
    assert weight.values == ""


def test_a_constant_that_is_replaced_stands_before_and_after() -> None:
    rule = "rule X1 half <kind: lossy> match { [m] y = Mul(x, const c) } where all(c == 2) rewrite { m.inputs[1] = {c * 2} }"
    text = "g (float[2] x) => (float[2] y) <float[1] two = {2.0}> { y = Mul(x, two) }"
    weights = rewrite_text(text, rule, audit=FiringAudit()).log.firings[0].weights
    assert [(weight.values, weight.used) for weight in weights] == [("{2}", "before"), ("{4}", "after")]


def test_weights_that_cannot_be_read_have_no_hash() -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3, 5], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="missing.bin")
    node = helper.make_node("Gemm", ["x", "w"], ["y"])
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [2, 3, 1]), ("y", [2, 5]))]
    model = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:], [tensor]))
    (weight,) = rewrite_model(model, FLAT, audit=FiringAudit()).log.firings[0].weights
    assert (weight.text, weight.sha256) == ("float[3,5]#?", "")


def test_digests_go_by_value_and_not_by_byte_order_or_layout() -> None:
    array = np.arange(6, dtype="<i4").reshape(2, 3)
    assert digest(array) == digest(array.astype(">i4")) == digest(np.asfortranarray(array))
    assert digest(np.array(["ab", "c"], object)) != digest(np.array(["a", "bc"], object))
    assert digest(np.zeros((0, 3), np.float32)) == sha256(b"").hexdigest()


def test_without_details_nothing_is_audited() -> None:
    (firing,) = rewrite_text(GEMM, FLAT, audit=FiringAudit(snapshots=1), detail=False).log.firings
    assert (firing.changes, firing.conditions, firing.weights, firing.snapshot) == ((), (), (), None)


def test_what_the_model_declares_is_told_before_and_after() -> None:
    rule = (
        "rule X1 batch <kind: interface> match graph { input x output y } where dim(x, 0) == 2 "
        'rewrite { x.shape[0] = "N" x.dtype = double model.ir_version = 9 model.opset["ai.onnx.ml"] = 3 }'
    )
    firing, follows = rewrite_text("g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }", rule).log.firings
    assert [(change.before, change.after) for change in follows.changes] == [("y: float[2,3]", "y: double[N,3]")]
    assert [(change.name, change.before, change.after) for change in firing.changes] == [
        ("x", "x: float[2,3]", "x: double[N,3]"),
        ("model", "model.ir_version = 8", "model.ir_version = 9"),
        ("model", None, 'model.opset["ai.onnx.ml"] = 3'),
    ]


def test_changes_that_are_left_out_are_counted() -> None:
    nodes = " ".join(f"a{i} = Relu(h)" for i in range(100))
    text = f"g (float[2] x) => (float[2] a99) {{ h = Identity(x) {nodes} }}"
    plain, audited = (rewrite_text(text, DROP, **options).log.firings[0] for options in ({}, {"audit": FiringAudit()}))
    assert (len(plain.changes), plain.omitted) == (64, 37)
    assert (len(audited.changes), audited.omitted) == (101, 0)


def roles(boxes: tuple[Box, ...]) -> dict[str, str]:
    return {box.op: box.role for box in boxes}


def test_a_snapshot_shows_what_stood_there_and_what_stands_there() -> None:
    rule = "rule X1 one <kind: exact> match { t = Neg(x) y = Neg(t) } rewrite { y = Abs(x) }"
    text = "g (float[2,N] a) => (float[2,N] b) { r = Relu(a) s = Neg(r) t = Neg(s) u = Exp(t) b = Log(u) }"
    snapshot = rewrite_text(text, rule, audit=FiringAudit(snapshots=1)).log.firings[0].snapshot
    assert snapshot is not None
    assert roles(snapshot.before.boxes) == {"Relu": "around", "Exp": "around", "Neg": "removed"}
    assert roles(snapshot.after.boxes) == {"Relu": "around", "Exp": "around", "Abs": "added"}
    same = {box.op: box.key for box in snapshot.before.boxes}
    assert {box.op: box.key for box in snapshot.after.boxes}["Exp"] == same["Exp"]
    assert {port.type for box in (*snapshot.before.boxes, *snapshot.after.boxes) for port in box.outputs} == {"float[2,N]"}
    assert [port.name for port in snapshot.before.given] == ["a"]
    assert snapshot.before.wanted == ()


def test_an_edited_node_is_shown_as_it_was_and_as_it_is() -> None:
    snapshot = rewrite_text(GEMM, FLAT, audit=FiringAudit(snapshots=1)).log.firings[0].snapshot
    assert snapshot is not None
    assert roles(snapshot.before.boxes) == {"Gemm": "edited"}
    assert roles(snapshot.after.boxes) == {"Gemm": "edited", "Flatten": "added"}
    before, after = snapshot.before.boxes[0], snapshot.after.boxes[0]
    assert (before.inputs[0].name, after.inputs[0].tensor) == ("x", snapshot.after.boxes[1].outputs[0].tensor)
    assert before.inputs[1].constant.startswith("float[3,5] #")


def test_readers_that_are_not_shown_are_counted() -> None:
    nodes = " ".join(f"a{i} = Relu(h)" for i in range(10))
    rule = "rule X1 exp <kind: lossy> match { y = Tanh(x) } rewrite { y = Sigmoid(x) }"
    snapshot = (
        rewrite_text(f"g (float[2] x) => (float[2] a9) {{ h = Tanh(x) {nodes} }}", rule, audit=FiringAudit(snapshots=1))
        .log.firings[0]
        .snapshot
    )
    assert snapshot is not None
    for view, op in ((snapshot.before, "Tanh"), (snapshot.after, "Sigmoid")):
        (box,) = (box for box in view.boxes if box.op == op)
        assert box.outputs[0].more == 7
        assert len(view.boxes) == 4


def test_snapshots_are_taken_of_the_first_firings_of_each_rule_and_of_one_more() -> None:
    text = "g (float[2] x) => (float[2] y) { a = Identity(x) b = Identity(a) c = Identity(b) d = Identity(c) y = Relu(d) }"
    log = rewrite_text(text, DROP, audit=FiringAudit(snapshots=1, snapshot_of=3)).log
    assert [firing.snapshot is not None for firing in log.firings] == [True, False, True, False]
