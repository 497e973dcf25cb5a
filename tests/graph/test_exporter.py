"""Who wrote a model, and whether a rule is meant for it."""

from __future__ import annotations

import onnx
import onnx_graphsurgeon as gs
import pytest

from rewriter.graph.exporter import Exporter, detect, matches


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
        (graph("onnx.quantize", "0.1.0", "main_graph"), "pytorch", "graph name"),
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
    assert detect(graph("onnx.quantize", "0.1.0", "main_graph")).version == ""


def test_unnamed_nodes_betray_mxnet_1_9() -> None:
    assert matches(detect(graph(name="mxnet_converted_model", node_name="")), ["mxnet"], ">=1.9") is True
    old = detect(graph(name="mxnet_converted_model"))
    assert matches(old, ["mxnet"], ">=1.3") is True
    assert matches(old, ["mxnet"], "<1.9") == (
        "the exporter is mxnet 1.3 or later (by its graph name): whether its version is <1.9 is unknown"
    )


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
