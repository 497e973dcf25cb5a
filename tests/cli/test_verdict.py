"""What is decided without importing anything is what the ordinary way decides, too, byte for byte."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from rewriter.app.batch import untouched
from rewriter.app.batch.job import process
from rewriter.app.batch.untouched import Outlook
from rewriter.app.batch.work import Job, Outcome, Reading, Rewriting, Work, Writing
from rewriter.core.engine.attempt import Attempt
from rewriter.core.language.rules import RuleSet
from rewriter.core.log import Log
from rewriter.core.onnxfile import files
from rewriter.core.record import replace
from rewriter.rule_tools.load_rules import load_rules
from rewriter.trust.source.find import find
from tests.cli.call import MODELS

HEAVY = ("numpy", "onnx", "onnx_graphsurgeon", "onnxruntime", "rich", "lark", "google.protobuf")
RELU = '<ir_version: 8, opset_import: ["": 13]> g (float[2] x) => (float[2] y) { y = Relu(x) }'
_DTYPES = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE, TensorProto.BOOL, TensorProto.BFLOAT16, TensorProto.INT32)
_OPS = (
    "Relu", "Add", "Mul", "Sub", "Min", "Max", "Where", "Cast", "Shape", "Gather", "Reshape", "Concat", "Clip", "Pad", "Conv",
    "AveragePool", "MaxPool", "Gemm", "MatMul", "Sigmoid", "Softmax", "ReduceSum", "ReduceMean", "Pow", "Equal", "Unsqueeze",
    "Squeeze", "Dropout", "BatchNormalization", "Resize", "Upsample", "ConstantOfShape", "Split", "TopK", "Einsum", "Crop",
)  # fmt: skip
_ATTRIBUTES: dict[str, tuple[Any, ...]] = {
    "axis": (0, 1, -1), "broadcast": (0, 1), "axes": ([0], [1, 2]), "pads": ([0, 0, 0, 0], [1, 1, 1, 1], [3, 3, 3, 3]),
    "kernel_shape": ([2, 2],), "strides": ([1, 1], [2, 2]), "dilations": ([1, 1], [2, 2]), "auto_pad": ("SAME_UPPER", "NOTSET"),
    "ceil_mode": (0, 1), "to": (1, 7, 11), "mode": ("linear", "nearest"), "consumed_inputs": ([0, 0],), "is_test": (0, 1),
    "shape": ([1, -1],), "ratio": (0.5,), "spatial": (0, 1), "alpha": (1.0, 0.1), "min": (0.0,), "count_include_pad": (0, 1),
}  # fmt: skip


@pytest.fixture(scope="module")
def rules() -> RuleSet:
    return load_rules().select()


def both(path: Path, folder: Path, work: Work) -> tuple[Outcome, Outcome, bool]:
    """What becomes of a model with and without the verdict, and whether the verdict was reached."""
    fast, slow = folder / "fast.onnx", folder / "slow.onnx"
    reached: list[Outlook] = []
    with pytest.MonkeyPatch.context() as patch:
        foresee = untouched.foresee
        patch.setattr(untouched, "foresee", lambda *given: reached.append(foresee(*given)) or reached[-1])
        with_it = process(Job(str(path), str(fast)), work)
        patch.setattr(untouched, "foresee", lambda *given: Outlook())
        without = process(Job(str(path), str(slow)), work)
    if with_it.output is not None or without.output is not None:
        assert fast.read_bytes() == slow.read_bytes()
    return with_it, without, [one.verdict is not None for one in reached] == [True]


def comparable(outcome: Outcome) -> dict[str, Any]:
    log = outcome.log or Log()
    for firing in log.firings:
        firing.microseconds = 0
    found = {**asdict(outcome), "log": {**asdict(log), "tries": 0}}  # the fast way tries none
    return {name: value for name, value in found.items() if name not in ("seconds", "output")}


EXPORTS = sorted(MODELS.rglob("*.onnx"))


@pytest.mark.parametrize(
    ("path", "source"),
    [*((path, "auto") for path in EXPORTS), *((path, "none") for path in EXPORTS if find(path) is not None)],
    ids=lambda one: one if isinstance(one, str) else str(one.relative_to(MODELS)),
)
def test_both_ways_say_and_write_the_same(path: Path, source: str, tmp_path: Path, rules: RuleSet) -> None:
    fast, slow, _ = both(path, tmp_path, Work(Rewriting(rules), Reading(source), writing=Writing(force=True)))
    assert comparable(fast) == comparable(slow)


def made_up(chance: random.Random) -> onnx.ModelProto:
    """A model of nodes that need not fit each other, of any types."""
    types = chance.choices(_DTYPES, (12, 4, 1, 1, 1, 2), k=3)
    shape = numpy_helper.from_array(np.array([1, 1, -1, 4], np.int64), "shape")
    weight = helper.make_tensor("w", chance.choice(_DTYPES[:3]), [1], [1])
    known, nodes = ["x0", "x1", "x2", "shape", "w"], []
    for i in range(chance.randint(1, 9)):
        op = chance.choice(_OPS)
        operands = chance.choices(known[-6:], k=chance.randint(1, 4 if op in ("Where", "Resize", "Pad", "Clip") else 3))
        operands = [name if chance.random() > 0.05 else "" for name in operands]
        picked = chance.sample(sorted(_ATTRIBUTES), k=chance.choice((0, 0, 1, 2)))
        attributes = {name: chance.choice(_ATTRIBUTES[name]) for name in picked}
        if op == "Cast":
            attributes["to"] = chance.choice((1, 7, 9, 11))
        name = "" if chance.random() < 0.2 else f"n{i}" if chance.random() > 0.03 else "n0"
        output = f"t{i}" if chance.random() > 0.03 else "t0"
        domain = "com.acme" if chance.random() < 0.02 else ""
        nodes.append(helper.make_node(op, operands, [output], name, domain=domain, **attributes))
        known.append(f"t{i}")
    if chance.random() < 0.1:
        chance.shuffle(nodes)
    ends = [helper.make_tensor_value_info(f"x{i}", kind, [1, 1, 4, 4]) for i, kind in enumerate(types)]
    infos = [
        helper.make_tensor_value_info(name, chance.choice(_DTYPES[:2]), None) for name in known[5:] if chance.random() < 0.2
    ]
    outputs = [helper.make_tensor_value_info(known[-1], chance.choice(_DTYPES[:2]), None)]
    name = chance.choice(("mxnet_converted_model", "torch-jit-export", "g"))
    graph = helper.make_graph(nodes, name, ends, outputs, [shape, weight], value_info=infos)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", chance.randint(7, 21))], ir_version=8)


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_both_ways_agree_on_models_that_nobody_exported(
    tmp_path_factory: pytest.TempPathFactory, rules: RuleSet, seed: int
) -> None:
    folder = tmp_path_factory.mktemp("made")
    onnx.save(made_up(random.Random(seed)), folder / "net.onnx")
    fast, slow, reached = both(
        folder / "net.onnx", folder, Work(Rewriting(rules), Reading("none"), writing=Writing(force=True))
    )
    assert slow.log is not None
    told = fast.log.blocked if fast.log is not None else []
    if reached:
        assert (slow.log.firings, slow.error, fast.error) == ([], "", "")
    elif not slow.log.firings and not told:  # then the rules that cannot fire were not tried
        assert comparable(fast) == comparable(replace(slow, log=replace(slow.log, blocked=[])))
    else:
        assert comparable(fast) == comparable(slow)
    if slow.log.blocked and not told:  # what is unknown about nodes that are wrong in themselves need not be told
        with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError)):
            onnx.checker.check_model(str(folder / "net.onnx"), full_check=True)


def test_most_of_what_needs_no_repair_is_decided(tmp_path: Path, rules: RuleSet) -> None:
    reached, quiet = 0, 0
    for path in EXPORTS[::8]:
        _, slow, decided = both(path, tmp_path, Work(Rewriting(rules), Reading("none"), writing=Writing(force=True)))
        quiet += slow.log is not None and not slow.log.firings and not slow.log.blocked
        reached += decided
    assert reached <= quiet
    assert reached >= quiet // 2


@pytest.mark.parametrize("command", [["check"], ["fix", "--force", "-o", "out.onnx"], ["fix", "--force", "--out", "folder"]])
def test_nothing_is_imported_for_a_model_in_which_nothing_can_fire(command: list[str], tmp_path: Path) -> None:
    model = onnx.parser.parse_model(RELU)
    onnx.save(model, tmp_path / "net.onnx")
    program = (
        "import sys, rewriter.app.cli.main as m\n"
        "code = m.main(sys.argv[1:])\n"
        f"found = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "assert not found, found\n"
        "assert code == 0, code\n"
    )
    for _ in range(2):  # the first one compiles the rules, if no other test has
        done = subprocess.run(
            [sys.executable, "-c", program, *command, "--runtime", "no", "net.onnx"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr


def test_a_large_model_is_judged_without_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: RuleSet) -> None:
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 64]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "net.onnx")
    monkeypatch.setattr(files, "LARGE", 0)
    fast, slow, reached = both(tmp_path / "net.onnx", tmp_path, Work(Rewriting(rules), writing=Writing(force=True)))
    assert reached
    assert comparable(fast) == comparable(slow)


def test_what_is_damaged_is_left_to_the_ordinary_way(tmp_path: Path, rules: RuleSet) -> None:
    whole = onnx.parser.parse_model(RELU).SerializeToString()
    for stop in range(len(whole)):
        (tmp_path / "net.onnx").write_bytes(whole[:stop])
        fast, slow, reached = both(tmp_path / "net.onnx", tmp_path, Work(Rewriting(rules), writing=Writing(force=True)))
        assert comparable(fast) == comparable(slow)
        assert not reached or not slow.error


def test_a_report_for_machines_is_the_same(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    onnx.save(onnx.parser.parse_model(RELU), tmp_path / "net.onnx")
    found = []
    for foresee in (untouched.foresee, lambda *given: Outlook()):
        monkeypatch.setattr(untouched, "foresee", foresee)
        report = json.loads(call("check", tmp_path / "net.onnx", "--format", "json", "--runtime", "no").out)
        for one in (report["summary"], *report["models"]):
            one.pop("seconds")
        found.append(report)
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("node", "expected"), [("Relu(x)", True), ("Add(x, x)", False), ("Sum(x, x)", True), ("Clip(x)", True)]
)
def test_an_old_opset_is_in_order_where_the_runtime_has_its_operators(
    node: str, expected: bool, tmp_path: Path, rules: RuleSet
) -> None:
    text = f'<ir_version: 3, opset_import: ["": 6]> g (float[2] x) => (float[2] y) {{ y = {node} }}'
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    fast, slow, reached = both(
        tmp_path / "net.onnx", tmp_path, Work(Rewriting(rules), Reading("none"), writing=Writing(force=True))
    )
    assert reached is expected
    assert comparable(fast) == comparable(slow)


def test_what_cannot_fire_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: RuleSet) -> None:
    text = """<ir_version: 8, opset_import: ["": 13]> g (float[2] x, int64 length) => (float[2] y) <float w = {1}> {
        z = ConstantOfShape(length) d = Cast<to = 11>(x) e = Cast<to = 1>(d) a = Mul(e, w) b = Add(a, w) y = Sub(b, z) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    tried = set()
    at_node = Attempt.at_node
    monkeypatch.setattr(
        Attempt, "at_node", lambda self, rule, root: tried.add((self.rewrites, rule.code)) or at_node(self, rule, root)
    )
    fast, slow, reached = both(
        tmp_path / "net.onnx", tmp_path, Work(Rewriting(rules), Reading("none"), writing=Writing(force=True))
    )
    assert not reached
    assert comparable(fast) == comparable(slow)
    assert {code for rewrites, code in tried if not rewrites} == {"OP055"}
    assert {code for rewrites, code in tried if rewrites} >= {"OP034", "OP055"}
