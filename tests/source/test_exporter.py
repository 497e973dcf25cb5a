"""Who wrote a model, and whether a rule is meant for it."""

from __future__ import annotations

import onnx
import onnx_graphsurgeon as gs
import pytest

from rewriter.core.framework.exporter import Exporter, detect, informed, matches
from rewriter.core.graph.model import Model
from rewriter.core.language.header import Bounds, exactly


def graph(producer: str = "", version: str = "", name: str = "g", node_name: str = "n", domain: str = "") -> gs.Graph:
    x, y = gs.Variable("x"), gs.Variable("y")
    node = gs.Node("Relu", node_name, inputs=[x], outputs=[y])
    return gs.Graph(
        [node],
        [x],
        [y],
        name,
        producer_name=producer,
        producer_version=version,
        import_domains=[onnx.helper.make_opsetid(domain, 1)],
    )


@pytest.mark.parametrize(
    ("model", "name", "evidence"),
    [
        (graph("pytorch", "2.13.0+cpu", "main_graph"), "pytorch", "producer_name"),
        (graph("tf2onnx", "1.17.0 None", "tf2onnx"), "tensorflow", "producer_name"),
        (graph("keras2onnx", "1.7"), "keras", "producer_name"),
        (graph("OnnxMLTools", "1.16.0"), "onnxmltools", "producer_name"),
        (graph("skl2onnx", "1.20.0", "ONNX(Pipeline)"), "sklearn", "producer_name"),
        (graph("onnx-caffe2"), "caffe2", "producer_name"),
        (graph("jax2onnx"), "jax", "producer_name"),
        (graph("some tool"), "some tool", "producer_name"),
        (graph(name="mxnet_converted_model"), "mxnet", "graph name"),
        (graph(name="PaddlePaddle Graph in PIR mode"), "paddle", "graph name"),
        (graph(name="torch-jit-export"), "pytorch", "graph name"),
        (graph("onnx.quantize", "0.1.0", "main_graph"), "", ""),
        (graph("onnx.quantize", "0.1.0", "torch-jit-export"), "pytorch", "graph name"),
        (graph("onnxruntime-genai", "0.9", "main_graph"), "onnxruntime-genai", "producer_name"),
        (
            graph("onnxruntime.transformers", "1.20", "main_graph", domain="pkg.onnxscript.torch_lib"),
            "pytorch",
            "operator domain",
        ),
        (graph("onnx.quantize", "0.1.0", "mxnet_converted_model"), "mxnet", "graph name"),
        (graph("onnx.quantize", "0.1.0", "tf2onnx"), "tensorflow", "graph name"),
        (graph("onnxruntime.transformers", "1.20", "net"), "", ""),
        (graph(domain="pkg.onnxscript.torch_lib"), "pytorch", "operator domain"),
        (graph(name="main_graph"), "", ""),
        (graph(), "", ""),
    ],
)
def test_detection(model: gs.Graph, name: str, evidence: str) -> None:
    found = detect(model)
    assert (found.name, found.evidence) == (name, evidence)


def test_the_version_of_a_tool_that_signed_over_is_not_the_exporters() -> None:
    assert detect(graph("onnx.quantize", "0.1.0", "torch-jit-export")).version == ""


def mxnet(nodes: str, opset: int = 13) -> gs.Graph:
    text = (
        f'<ir_version: 7, opset_import: ["": {opset}]> mxnet_converted_model (float[1,2,4,4] x) => (float[1,2,4,4] y) {nodes}'
    )
    return Model.from_proto(onnx.parser.parse_model(text)).graph


POOLED = "{ [a] a = Relu(x)  p = MaxPool<kernel_shape = [1, 1]>(a)  [y] y = Relu(p) }"
EITHER, OLD, NEW = Bounds((1, 3)), Bounds((1, 3), (1, 9)), Bounds((1, 9))


@pytest.mark.parametrize(
    ("nodes", "opset", "bounds"),
    [
        (POOLED, 13, NEW),
        (POOLED.replace("p =", "[p] p ="), 13, EITHER),  # as HYG010 leaves it
        (POOLED.replace("[a]", ""), 13, EITHER),  # 1.9 names every Relu: a tool took the names away
        (POOLED, 8, OLD),  # 1.9 cannot write opset 8
        ("{ [a] a = MaxPool<kernel_shape = [1, 1]>(x)  b = Identity(a)  [y] y = Relu(b) }", 13, EITHER),
        ("{ [a] a = MaxPool<kernel_shape = [1, 1]>(x)  b = MaxPool<kernel_shape = [1, 1]>(a)  [y] y = Relu(b) }", 13, EITHER),
        ("{ [a] a = Relu(x)  b = Identity(a)  [y] y = Relu(b) }", 13, EITHER),
        ("<int64[4] reshape_attr_tensor1 = {1, 2, 4, 4}> { [y] y = Reshape(x, reshape_attr_tensor1) }", 13, OLD),
        ("<int64[4] reshape_attr_tensor1 = {1, 2, 4, 4}> { m = Exp(x) [y] y = Reshape(m, reshape_attr_tensor1) }", 13, OLD),
    ],
)
def test_what_the_version_of_mxnet_is_told_by(nodes: str, opset: int, bounds: Bounds) -> None:
    assert detect(mxnet(nodes, opset)).bounds == bounds


@pytest.mark.parametrize("nodes", [POOLED, POOLED.replace("[a]", ""), "{ [a] a = Relu(x)  y = Softmax(a) }"])
@pytest.mark.parametrize("opset", [8, 13])
def test_naming_the_nodes_makes_no_version_surer(nodes: str, opset: int) -> None:
    graph = mxnet(nodes, opset)
    before = detect(graph).bounds
    for node in graph.nodes:  # as HYG010 does it to other models
        node.name = node.name or node.outputs[0].name
    assert detect(graph).bounds in (before, EITHER)


def test_bounds_are_told_in_words() -> None:
    assert matches(detect(mxnet(POOLED.replace("p =", "[p] p ="))), ["mxnet"], "<1.9") == (
        "the exporter is mxnet 1.3 or later (by its graph name): whether its version is <1.9 is unknown"
    )
    assert str(detect(mxnet("{ [y] y = Relu(x) }", 8))) == "mxnet 1.3 or later, before 1.9 (by its graph name)"


@pytest.mark.parametrize(
    ("bounds", "version", "expected"),
    [
        (EITHER, "1.5.1", exactly((1, 5, 1))),
        (NEW, "1.6.0", exactly((1, 6))),  # names of nodes are weaker than what the file says
        (OLD, "1.9.1", OLD),  # what 1.9 cannot write is stronger
        (EITHER, "0.9.5", EITHER),  # a file of a version that could not export
        (EITHER, "", EITHER),
    ],
)
def test_the_version_of_the_source_file(bounds: Bounds, version: str, expected: Bounds) -> None:
    assert informed(Exporter("mxnet", evidence="graph name", bounds=bounds), "mxnet", version).bounds == expected


@pytest.mark.parametrize(
    ("names", "versions", "expected"),
    [
        ([], None, True),
        (["tensorflow"], "", True),
        (["mxnet", "TF2ONNX"], ">=1.16,<2", True),
        (["mxnet", "pytorch"], None, "the exporter is tensorflow, not mxnet or pytorch"),
        ([], "<1.10", "the exporter is tensorflow 1.17.0 None (by its producer_name), not <1.10"),
    ],
)
def test_guards(names: list[str], versions: str | None, expected: bool | str) -> None:
    assert matches(detect(graph("tf2onnx", "1.17.0 None")), names, versions) == expected


def test_an_unknown_exporter_is_nobodys() -> None:
    assert matches(Exporter(), ["mxnet"]) == "the exporter is unknown, not mxnet"
    assert matches(Exporter(), []) is True
    assert str(Exporter()) == "unknown"
