"""What nodes of constants compute, held against ONNX Runtime; and what is not computed at all."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from rewriter.core.facts.array_functions import FUNCTIONS
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model
from rewriter.core.language.operator_traits import of_rule

FLOATS = "float[2,3] a = {-1.5, 0.25, 2, 0.5, 3, -0.75}"
CASES = {
    "Cos": (FLOATS, "Cos(a)"),
    "Sin": (FLOATS, "Sin(a)"),
    "Exp": (FLOATS, "Exp(a)"),
    "Log": ("float[2] a = {0.5, 3}", "Log(a)"),
    "Tanh": (FLOATS, "Tanh(a)"),
    "Sigmoid": (FLOATS, "Sigmoid(a)"),
    "Pow": (f"{FLOATS}, float b = {{2}}", "Pow(a, b)"),
    "Min": (f"{FLOATS}, float[3] b = {{0, 1, 2}}", "Min(a, b)"),
    "Max": (f"{FLOATS}, float[3] b = {{0, 1, 2}}", "Max(a, b, a)"),
    "Clip": (f"{FLOATS}, float b = {{-1}}, float c = {{1}}", "Clip(a, b, c)"),
    "Sign": (FLOATS, "Sign(a)"),
    "Mod": ("int64[4] a = {7, -7, 7, -7}, int64[4] b = {3, 3, -3, -3}", "Mod(a, b)"),
    "ReduceSum": (f"{FLOATS}, int64[1] b = {{1}}", "ReduceSum<keepdims=0>(a, b)"),
    "ReduceMean": (FLOATS, "ReduceMean<axes=[0]>(a)"),
    "ReduceProd": (FLOATS, "ReduceProd(a)"),
    "ReduceMax": (FLOATS, "ReduceMax<axes=[-1]>(a)"),
    "ReduceMin": (FLOATS, "ReduceMin<axes=[0, 1], keepdims=0>(a)"),
    "MatMul": (f"{FLOATS}, float[3,1] b = {{1, 2, 3}}", "MatMul(a, b)"),
    "ScatterND": (f"{FLOATS}, int64[2,1] b = {{1, 0}}, float[2,3] c = {{1, 2, 3, 4, 5, 6}}", "ScatterND(a, b, c)"),
    "GatherND": (f"{FLOATS}, int64[2,2] b = {{1, 2, 0, 1}}", "GatherND(a, b)"),
    "Trilu": (f"{FLOATS}, int64 b = {{1}}", "Trilu<upper=0>(a, b)"),
    "CumSum": (f"{FLOATS}, int64 b = {{1}}", "CumSum(a, b)"),
}


def computed(constants: str, call: str) -> tuple[np.ndarray | None, onnx.ModelProto]:
    text = f'<ir_version: 8, opset_import: ["": 14]> g () => (float[] y) <{constants}> {{ t = {call} y = Identity(t) }}'
    proto = onnx.parser.parse_model(text)
    model = Model.from_proto(proto)
    index = GraphIndex(model.graph)
    node = next(node for node in model.graph.nodes if node.op != "Identity")
    return Facts(index).computed(node), proto


def test_each_operator_has_a_case() -> None:
    assert CASES.keys() == of_rule(*[name for name, found in FUNCTIONS.items() if found.rounded is not None])


@pytest.mark.parametrize("op", CASES)
def test_as_onnx_runtime_computes_it(op: str) -> None:
    found, proto = computed(*CASES[op])
    assert found is not None
    del proto.graph.output[0].type.tensor_type.shape.dim[:]
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    proto.graph.output[0].type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(found.dtype)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, {})[0]
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(
    ("constants", "call"),
    [
        ("int64[2] a = {7, 7}, int64[2] b = {3, 0}", "Mod(a, b)"),
        (f"{FLOATS}, int64[2,1] b = {{1, 1}}, float[2,3] c = {{1, 2, 3, 4, 5, 6}}", "ScatterND(a, b, c)"),
        (f"{FLOATS}, int64[1,1] b = {{5}}, float[1,3] c = {{1, 2, 3}}", "ScatterND(a, b, c)"),
        (f"{FLOATS}, int64[1,2] b = {{1, 9}}", "GatherND(a, b)"),
        (f"{FLOATS}, int64 b = {{7}}", "CumSum(a, b)"),
        ("float[0] a = {}", "ReduceMax<axes=[0]>(a)"),
        (FLOATS, "Erf(a)"),
    ],
)
def test_what_is_left_to_the_runtime(constants: str, call: str) -> None:
    assert computed(constants, call)[0] is None


def test_a_product_of_large_matrices_is_not_begun() -> None:
    text = """<ir_version: 8, opset_import: ["": 14]> g () => (float[4096,4096] y) <int64[2] s = {4096, 4096}>
      { a = ConstantOfShape(s) t = MatMul(a, a) y = Identity(t) }"""
    model = Model.from_proto(onnx.parser.parse_model(text))
    node = next(node for node in model.graph.nodes if node.op == "MatMul")
    assert Facts(GraphIndex(model.graph)).computed(node) is None
