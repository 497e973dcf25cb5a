"""`rewriter opset`: every step of every operator is known, and what is converted computes the same there and back."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

import rewriter
from rewriter.core.conditions.context import node_keeps_meaning
from rewriter.core.graph.model import Model
from rewriter.core.language import schema
from rewriter.core.language.meaning import CHANGES
from rewriter.core.language.operator_traits import DRAWS
from rewriter.trust.proof.oracles import newest_opset
from rewriter.trust.proof.output_agreement import Bound, differences
from rewriter.workbench.surgery.opset_conversion import conversions, convert_opset
from tests.cli.call import Call
from tests.surgery import texts

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from opset_steps import LOWEST, Runner, step_table


def test_what_happens_to_each_step_is_known() -> None:
    rows = {(row.op, row.version): row for row in step_table()}
    assert {key for key in CHANGES if key not in rows} == {("ai.onnx.ml.LabelEncoder", 2)}
    assert {key for key, row in rows.items() if row.up.startswith("rejected:")} == {("Scan", 9), ("BatchNormalization", 14)}
    assert not [row for row in rows.values() if "but refused" in row.up], "a version of an operator that takes something away"
    asked = {key for key, row in rows.items() if row.down.startswith("rejected:") and " has no " not in row.down}
    assert asked == {
        ("Scan", 9), ("BatchNormalization", 14), ("Pad", 19), ("Resize", 19), ("ScatterElements", 18), ("ScatterND", 18),
    }  # fmt: skip


def test_each_conversion_is_for_one_step_and_one_direction() -> None:
    for rule in conversions():
        assert rule.header.opset.first == rule.header.opset.last
        assert rule.code.startswith("UP" if "conversions/up" in rule.path else "DN")


_NODE_TESTS = (
    "argmax", "clip", "depthtospace", "dropout", "gather", "gemm", "gridsample", "groupnormalization", "hardmax", "hardswish",
    "logsoftmax", "onehot", "pad", "reducemean", "reducesum", "resize", "roialign", "shape", "slice", "softmax", "split", "squeeze",
    "topk", "unsqueeze",
)  # fmt: skip
_VERSIONS = (9, 10, 11, 12, 13, 17)


def _cases() -> list[Any]:
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _NODE_TESTS:
            importlib.import_module(f"onnx.backend.test.case.node.{name}")
    names = [name.replace("reduce", "reduce_") for name in _NODE_TESTS]
    wanted = tuple(f"test_{name}" for name in names)
    found = [case for case in node._NodeTestCases if case.name.startswith(wanted) and not case.name.endswith("_expanded")]
    return sorted(found, key=lambda case: str(case.name))


def _outputs(model: onnx.ModelProto, values: list[Any]) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [info.name for info in model.graph.input]
        return ReferenceEvaluator(model).run(None, dict(zip(names, values, strict=True)))  # type: ignore[no-any-return]


def _array(value: Any) -> Any:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def test_node_tests_of_onnx_are_the_same_there_and_back() -> None:
    """A sample; `benchmarks/opset_steps.py --run` has all."""
    equal = 0
    for number, case in enumerate(_cases()):
        version = _VERSIONS[number % len(_VERSIONS)]
        own = case.model.opset_import[0].version
        values = [_array(value) for value in case.data_sets[0][0]]
        expected = [_array(value) for value in case.data_sets[0][1]]
        if not all(isinstance(value, np.ndarray) for value in (*values, *expected)):
            continue
        model = Model.from_proto(case.model)
        try:
            convert_opset(model, version)
        except rewriter.RewriterError as error:
            assert any(node.op_type in str(error) for node in case.model.graph.node), error
            continue
        there = model.to_proto()
        onnx.checker.check_model(there)
        assert there.opset_import[0].version == version
        again = Model.from_proto(there)
        convert_opset(again, own)
        for found, wanted in zip(_outputs(again.to_proto(), values), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5, err_msg=f"{case.name} to {version}")
        equal += 1
    assert equal > 100


def test_a_node_that_keeps_its_meaning_computes_the_same_under_another_number() -> None:
    """At each step of its operator, for the same nodes; see `keeps_meaning`."""
    found: Counter[str] = Counter()
    for case in _cases():
        node, own = case.model.graph.node[0], case.model.opset_import[0].version
        values = [_array(value) for value in case.data_sets[0][0]]
        if len(case.model.graph.node) > 1 or node.op_type in DRAWS:
            continue
        try:
            expected = Runner(case.model).outputs(values)
        except Exception:  # no runtime has it
            continue
        [made] = Model.from_proto(case.model).graph.nodes
        for version in sorted({since - before for since in schema.versions(node.op_type) for before in (0, 1)} - {own}):
            if version < LOWEST or not node_keeps_meaning(made, "", own, version):
                continue
            model = onnx.ModelProto.FromString(case.model.SerializeToString())
            model.opset_import[0].version = version
            try:
                runner = Runner(model)
                outputs = runner.outputs(values)
            except Exception:  # an element type that this version or the runtime lacks
                continue
            words = [one.message for one in differences(expected, outputs, Bound(ulps=64, rtol=1e-3, atol=1e-5))]
            assert not any(words), f"{case.name} from {own} to {version}: {words}"
            found[runner.kind] += 1
    assert found["onnxruntime"] > 250, found  # ONNX Runtime 1.23, the last one for Python 3.10, lacks many


FUNCTION = """<ir_version: 8, opset_import: ["": 11, "local": 1]>
  g (float[2,3] x, bool c) => (float[2,3] y) <float[2,3] f> {
    f = local.F(x)
    y = If(c) <then_branch = t () => (float[2,3] a) { a = Softmax<axis=1>(f) },
               else_branch = e () => (float[2,3] b) { s = ReduceSum<axes=[0], keepdims=1>(f)  b = Add(f, s) }>
  }
  <domain: "local", opset_import: ["": 11]>
  F (a) => (b) { u = Unsqueeze<axes=[0]>(a)  b = Squeeze<axes=[0]>(u) }
"""


def test_bodies_and_functions_are_converted(call: Call, tmp_path: Path) -> None:
    net, out = texts.written(tmp_path, FUNCTION), tmp_path / "out.onnx"
    done = call("opset", net, "17", "-o", out)
    assert done.code == 0 and "computes the same" in done.out, done.err
    model = onnx.load(out)
    onnx.checker.check_model(model, full_check=True)
    assert [entry.version for entry in model.functions[0].opset_import] == [17]
    assert [node.op_type for node in model.functions[0].node if len(node.input) == 2] == ["Unsqueeze", "Squeeze"]
    assert call("opset", out, "11", "-o", out, "--force").code == 0
    assert not [node for node in onnx.load(out).functions[0].node if len(node.input) == 2]


def test_an_operator_that_is_missing_is_written_out(tmp_path: Path) -> None:
    net = texts.parsed(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x, float[3] s) => (float[2,3] y) { y = LayerNormalization(x, s) }'
    )
    made = rewriter.opset(net, 13).to_proto()
    onnx.checker.check_model(made, full_check=True)
    assert "LayerNormalization" not in {node.op_type for node in made.graph.node} and made.opset_import[0].version == 13
    values = [np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(3, np.float32)]
    np.testing.assert_allclose(_outputs(made, values)[0], _outputs(net, values)[0], rtol=1e-5)


@pytest.mark.parametrize(
    ("version", "node", "words"),
    [
        (10, "Trilu(x)", "opset 13 has no Trilu"),
        (11, "Cast<to=16>(x)", "opset 11 has it not for bfloat16"),
        (12, "ReduceSum(x, k)", "ReduceSum 'y': opset 12 cannot express"),
        (9, "Softmax<axis=0>(u)", "rank of tensor 'u' is unknown"),
        (99, "Relu(x)", "no version 99"),
    ],
)
def test_what_cannot_be_converted_is_named(call: Call, tmp_path: Path, version: int, node: str, words: str) -> None:
    kind = "bfloat16" if "Cast" in node else "float"
    net = texts.written(
        tmp_path,
        f'<ir_version: 8, opset_import: ["": 14, "acme": 1]> g (float[2,3] x, int64[1] k) => ({kind}[A,B] y) '
        f"{{ u = acme.F(x)  v = acme.G(u)  y = {node} }}",
    )
    done = call("opset", net, version, "-o", tmp_path / "out.onnx")
    assert done.code == 2 and words in done.err and not (tmp_path / "out.onnx").exists(), done.err


@pytest.mark.parametrize("node", ["Softmax(x)", "ReduceSum<axes=[0]>(x)", "Dropout<ratio=0.2>(x)"])
def test_a_restamp_converts_nothing(call: Call, tmp_path: Path, node: str) -> None:
    net = texts.written(
        tmp_path, f'<ir_version: 8, opset_import: ["": 11]> g (float[2,3] x) => (float[A,B] y) {{ y = {node} }}'
    )
    done = call("opset", net, "13", "--restamp", "-o", tmp_path / "out.onnx")
    assert done.code == 2 and "is another operator" in done.err and not (tmp_path / "out.onnx").exists()
    assert call("opset", net, "12", "--restamp", "--dry-run").code == (2 if "Dropout" in node else 0)


def test_the_ir_version_can_be_lowered_as_far_as_the_model_allows(call: Call, tmp_path: Path) -> None:
    net = texts.written(tmp_path, '<ir_version: 10, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }')
    out = tmp_path / "out.onnx"
    assert call("opset", net, "11", "--ir", "6", "-o", out).code == 0
    assert (onnx.load(out).ir_version, onnx.load(out).opset_import[0].version) == (6, 11)
    assert "needs an IR version from 6" in call("opset", net, "11", "--ir", "5", "--dry-run").err


def test_other_versions_of_every_operator_are_in_the_table() -> None:
    rows = {(row.op, row.version) for row in step_table()}
    assert rows == {(op, v) for op in schema.operators() for v in schema.versions(op) if v > 1}


def test_a_sequence_that_a_loop_did_not_carry_is_named(call: Call, tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
      g (float[2] x, int64 n, bool c) => (float[A] y) {
        e = SequenceEmpty<dtype=1>()
        s = Loop(n, c, e) <body = b (int64 i, bool go, seq(float[2]) a) => (bool on, seq(float[2]) z) {
          on = Identity(go)  z = SequenceInsert(a, x) }>
        y = ConcatFromSequence<axis=0>(s)
      }
    """
    done = call("opset", texts.written(tmp_path, text), "11", "-o", tmp_path / "out.onnx")
    assert done.code == 2 and "opset 11 has it not for seq(tensor(float))" in done.err
    assert call("opset", tmp_path / "net.onnx", "13", "--dry-run").code == 0


def test_a_node_is_converted_beside_a_function_of_its_name() -> None:
    """Calls of the function say its overload; the operator of ONNX has none."""
    text = """<ir_version: 10, opset_import: ["": 12]>
    g (float[2,2,2] x) => (float[2,2,2] y, float[2,2,2] z) { y = Softmax(x)  z = Softmax(x) }
    <domain: "", opset_import: ["": 12]> Softmax (u) => (r) { r = Neg(u) }"""
    model = onnx.parser.parse_model(text)
    model.functions[0].overload = model.graph.node[1].overload = "mine"
    converted = Model.from_proto(model)
    convert_opset(converted, 13)
    assert "Flatten" in {node.op_type for node in converted.to_proto().graph.node}


@pytest.mark.parametrize("operands", [", go, x", "n, , x", "n, go, x"])
@pytest.mark.parametrize("version", [11, 15, 19, min(24, newest_opset())])
def test_a_loop_without_a_count_or_a_condition_is_converted(tmp_path: Path, operands: str, version: int) -> None:
    """Both may be left out, before operands of which there are as many as the loop carries."""
    net = texts.written(
        tmp_path,
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[2] x) => (float[2] y) <bool go = {1}, int64 n = {3}> {
          y = Loop(OPERANDS) <body = b (int64 i, bool c, float[2] p) => (bool on, float[2] q) {
            two = Constant<value = int64 {2}>()  on = Less(i, two)  q = Add(p, x) }> }""".replace("OPERANDS", operands),
    )
    made = rewriter.opset(net, version, output=tmp_path / "out.onnx").to_proto()
    assert [entry.version for entry in made.opset_import] == [version]
    x = np.ones(2, np.float32)
    assert texts.ran(tmp_path / "out.onnx", {"x": x})["y"].tolist() == texts.ran(net, {"x": x})["y"].tolist()


@pytest.mark.parametrize("shape, axis", [("N,4,0", 1), ("0,3,4", 0), ("N,0,4", 1), ("0,3", 1)])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
def test_a_tensor_without_elements_stays_one(tmp_path: Path, op: str, shape: str, axis: int) -> None:
    """Reshape reads a length of 0 as the length of another tensor's axis."""
    text = f'<ir_version: 8, opset_import: ["": 10]> g (float[{shape}] x) => (float[{shape}] y) {{ y = {op}<axis={axis}>(x) }}'
    net = texts.written(tmp_path, text)
    rewriter.opset(net, 17, output=tmp_path / "out.onnx")
    x = np.zeros([2 if length == "N" else int(length) for length in shape.split(",")], np.float32)
    assert texts.ran(tmp_path / "out.onnx", {"x": x})["y"].shape == texts.ran(net, {"x": x})["y"].shape == x.shape
