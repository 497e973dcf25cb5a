"""A model in numbers: what is counted, what is counted once, and what is not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewriter.core.errors import RewriterError
from rewriter.core.graph.model_text import attribute_text, canonical_text, type_text
from rewriter.workbench.inspect.summary import summarise

NESTED = """<ir_version: 9, opset_import: ["": 17, "local": 1, "com.acme": 2], producer_name: "tf2onnx", producer_version: "1.16">
main (bool c, float[N,3] x) => (float[N,3] y, u) {
  [pick] y = If(c) <then_branch = t () => (float[N,3] a) { a = local.twice(x) }, else_branch = e () => (float[N,3] b) { b = Relu(x) }>
  u = com.acme.Any(x)
}
<domain: "local", opset_import: ["": 17]> twice (p) => (q) { q = Add(p, p) }
"""


def written(tmp_path: Path, model: onnx.ModelProto) -> Path:
    path = tmp_path / "m.onnx"
    onnx.save(model, path)
    return path


def test_all_graphs_are_counted(tmp_path: Path) -> None:
    found = summarise(written(tmp_path, onnx.parser.parse_model(NESTED)), nodes=True)
    assert found.operators == {"If": 1, "com.acme.Any": 1, "local.twice": 1, "Relu": 1, "Add": 1}
    assert found.nodes == 5
    assert [(place.path, place.nodes) for place in found.subgraphs] == [("pick.then_branch", 1), ("pick.else_branch", 1)]
    assert [(place.path, place.nodes) for place in found.functions] == [("function local::twice", 1)]
    assert found.opsets == {"": 17, "local": 1, "com.acme": 2}
    assert found.exporter == "tensorflow 1.16 (by its producer_name)"
    assert [(port.name, port.type) for port in found.inputs] == [("c", "bool[]"), ("x", "float[N,3]")]
    assert (found.lines[0].place, found.lines[0].op) == ("main", "If")
    assert found.lines[0].attributes == {"then_branch": "graph of 1 node", "else_branch": "graph of 1 node"}


def test_weights_of_all_sorts(tmp_path: Path) -> None:
    tensors = [
        numpy_helper.from_array(np.zeros((2, 3), np.float32), "w"),
        numpy_helper.from_array(np.zeros(5, np.float16), "h"),
        helper.make_tensor("q", TensorProto.INT4, [5], [1, 2, 3, 4, 5]),
        helper.make_tensor("s", TensorProto.STRING, [2], [b"a", b"bc"]),
    ]
    constant = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.zeros(4, np.int64)))
    listed = helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([constant], "g", [listed], [helper.make_tensor_value_info("k", TensorProto.INT64, [4])], tensors)
    found = summarise(written(tmp_path, helper.make_model(graph)))
    weights = found.initializers
    assert (weights.tensors, weights.elements, weights.bytes) == (4, 18, 24 + 10 + 3)
    assert weights.by_type == {"float": 6, "float16": 5, "int4": 5, "string": 2}
    assert (found.constants.tensors, found.constants.bytes) == (1, 32)
    assert (found.inputs, found.listed) == ([], 1)


def external(name: str, offset: int, location: str = "w.bin") -> TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", offset), ("length", 16)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def test_external_data_are_counted_once_and_not_read(tmp_path: Path) -> None:
    tensors = [external("a", 0), external("tied", 0), external("b", 16), external("gone", 0, "gone.bin")]
    tensors.append(external("outside", 0, "../secret.bin"))
    path = written(tmp_path, helper.make_model(helper.make_graph([], "g", [], [], tensors)))
    (tmp_path / "w.bin").write_bytes(bytes(32))
    (tmp_path / "w.bin").chmod(0o444)
    found = summarise(path)
    assert (found.initializers.tensors, found.initializers.shared, found.initializers.elements) == (5, 1, 16)
    files = {file.location: file for file in found.external}
    assert (files["w.bin"].tensors, files["w.bin"].size, files["w.bin"].problem) == (3, 32, "")
    assert "no such file" in files["gone.bin"].problem
    assert files["../secret.bin"].problem and files["../secret.bin"].size is None


def test_a_model_of_gigabytes_is_summed_up_without_its_weights(tmp_path: Path) -> None:
    """External data of 8 GiB that are not there at all."""
    tensor = external("huge", 0)
    tensor.dims[:] = [2**31]
    path = written(tmp_path, helper.make_model(helper.make_graph([], "g", [], [], [tensor])))
    assert summarise(path).initializers.bytes == 2**33


def test_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"PK\x03\x04")
    with pytest.raises(RewriterError, match="a zip archive"):
        summarise(tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("declared", "shown"),
    [
        (helper.make_tensor_type_proto(TensorProto.FLOAT, [1, "N", None]), "float[1,N,?]"),
        (helper.make_tensor_type_proto(TensorProto.INT64, None), "int64[...]"),
        (helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [3]), "sparse float[3]"),
        (helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [])), "sequence(float[])"),
        (
            helper.make_sequence_type_proto(
                helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
            ),
            "sequence(map int64 to(float[]))",
        ),
        (onnx.TypeProto(), ""),
    ],
)
def test_types(declared: onnx.TypeProto, shown: str) -> None:
    assert type_text(declared) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, "3"),
        (0.5, "0.5"),
        ("text", '"text"'),
        ([1, 2], "[1, 2]"),
        (list(range(20)), "[0, 1, 2, 3, 4, 5, 6, 7, ...]"),
        ("x" * 100, f'"{"x" * 64}..."'),
        (numpy_helper.from_array(np.zeros((2, 3), np.float32)), "float[2,3]"),
    ],
)
def test_attribute_values(value: object, shown: str) -> None:
    assert attribute_text(helper.make_attribute("a", value)) == shown


def test_the_version_of_an_unsigned_model_is_told_by_its_nodes(tmp_path: Path) -> None:
    """MXNet 1.9 signs nothing; which version wrote a model is told by which of its operators have names."""
    path = Path(__file__).parent.parent / "models" / "mxnet-1.3.1-average-pool.onnx"
    model = onnx.load(path)
    model.opset_import[0].version = 13
    assert summarise(written(tmp_path, model)).exporter.startswith("mxnet 1.3")


def test_a_tensor_with_less_data_than_it_says_has_a_text() -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], float_data=[1, 2])
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [], [], [tensor])
    assert "float[3]#malformed" in canonical_text(helper.make_model(graph))
