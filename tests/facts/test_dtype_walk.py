"""What is found without shapes is the one that inference finds."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from rewriter import load
from rewriter.core.facts.facts import Facts
from rewriter.core.graph.index import GraphIndex
from rewriter.core.graph.model import Model

MODELS = sorted((Path(__file__).parents[1] / "models").rglob("*.onnx"))

HARD = [
    # a cycle, operands of two types, shapes that do not fit, an operator that is none, a type by an attribute
    "g (float[2] x) => (y) { a = Add(x, b) b = Relu(a) y = Neg(b) }",
    "g (float[2] x, double[2] z) => (y) { a = Add(x, z) y = Concat <axis = 0> (a, z) }",
    "g (float[2,3] x) => (y) { a = MatMul(x, x) y = Add(a, x) }",
    "g (float[2] x) => (y) { a = Nothing(x) y = Relu(a) }",
    "g (x) => (float[2] y) { a = Relu(x) y = Relu(a) }",
    "g (int64[2] x) => (y) { a = Cast <to = 10> (x) b = Cast(a) y = Relu(b) }",
    "g (float[2] x) => (y) { a = Cast <to = 99> (x) y = Relu(a) }",
    "g (int64[1] n) => (y, z) { y = ConstantOfShape(n) z = ConstantOfShape <value = int32[1] {3}> (n) }",
    "g (bool c, float16[2] x, float16[2] z) => (y, i) { a = Where(c, x, z) i = Shape(a) y = Identity(a) }",
    "g (float[4] x) => (y, z, m) { y, z = Split <axis = 0> (x) d, m = Dropout(z) }",
    "g (float[1,1,4] x) => (y, i) { y, i = MaxPool <kernel_shape = [2]> (x) }",
]


def disagreement(model: Model) -> str:
    """The first tensor of which both ways say different things."""
    index = GraphIndex(model.graph)
    plain, walking = Facts(index, model.overridable), Facts(index, model.overridable)
    with walking.unedited():
        for node in index.all_nodes():
            for tensor in (*node.inputs, *node.outputs):
                if walking.dtype(tensor) != plain.dtype(tensor):
                    return f"{tensor.name}: {walking.dtype(tensor)}, not {plain.dtype(tensor)}"
                if walking.is_constant(tensor) is not plain.is_constant(tensor):
                    return f"{tensor.name}: whether it is constant"
    return ""


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.parent.name + "/" + path.stem)
def test_real_models(path: Path) -> None:
    assert disagreement(load(path)) == ""


@pytest.mark.parametrize("version", [5, 9, 13, 21])
@pytest.mark.parametrize("text", HARD)
def test_models_that_are_wrong(text: str, version: int) -> None:
    assert (
        disagreement(Model.from_proto(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {version}]> {text}'))) == ""
    )
