"""What a model says of its training: repairs leave it what it names, or say that it is gone."""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import helper

from rewriter.core.graph.model import load
from rewriter.core.graph.tidy import tidy
from tests.cli.call import Call

MODEL = """<ir_version: 8, opset_import: ["": 17]>
g (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] rate = {1, 1}> { n = Neg(w)  h = Mul(x, n)  i = Identity(h)  y = Neg(i) }"""


def trained(read: str) -> onnx.ModelProto:
    """A model whose training reads a tensor and sets the weight."""
    model = onnx.parser.parse_model(MODEL)
    info = model.training_info.add()
    nodes = [helper.make_node("Mul", [read, "rate"], ["step"]), helper.make_node("Sub", ["w", "step"], ["new"])]
    result = helper.make_tensor_value_info("new", onnx.TensorProto.FLOAT, [2])
    info.algorithm.CopyFrom(helper.make_graph(nodes, "step", [], [result]))
    info.update_binding.add(key="w", value="new")
    return model


def test_what_training_names_stays(call: Call, tmp_path: Path) -> None:
    onnx.save(trained("h"), tmp_path / "net.onnx")
    assert call("optimize", tmp_path / "net.onnx", "-o", tmp_path / "out.onnx").code == 0
    made = onnx.load(tmp_path / "out.onnx")
    assert [node.op_type for node in made.graph.node] == ["Neg", "Mul", "Neg"]  # the weight is no constant
    assert {tensor.name for tensor in made.graph.initializer} == {"w", "rate"} and len(made.training_info) == 1
    assert call("audit", tmp_path / "net.onnx", tmp_path / "out.onnx").code == 0


def test_training_that_lost_a_tensor_is_left_out(call: Call, tmp_path: Path) -> None:
    onnx.save(trained("i"), tmp_path / "net.onnx")
    done = call("optimize", tmp_path / "net.onnx", "-o", tmp_path / "out.onnx")
    assert "note: the training information is left out: it names 'i', which is no tensor of the result" in done.out
    assert not onnx.load(tmp_path / "out.onnx").training_info
    assert call("audit", tmp_path / "net.onnx", tmp_path / "out.onnx").code == 0


def test_what_annotations_of_quantization_name_stays(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) <float s = {1}, float u = {1}> { y = Relu(x) }'
    )
    annotation = model.graph.quantization_annotation.add(tensor_name="y")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="s")
    onnx.save(model, tmp_path / "net.onnx")
    loaded = load(tmp_path / "net.onnx")
    assert tidy(loaded.graph).initializers == 1
    assert [tensor.name for tensor in loaded.to_proto().graph.initializer] == ["s"]
