"""What ONNX Runtime says stays with whoever asked it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from rewriter.trust.proof import judges

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


def test_a_refusal_is_raised_and_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """Of an operator whose name is no text ONNX Runtime cannot even tell; it would try again, and say so on the terminal."""
    data = onnx.parser.parse_model(MODEL).SerializeToString().replace(b"Relu", b"R\xf8lu")
    with pytest.raises(Exception, match=r""):  # which one depends on the version
        judges.session(data, None)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_nothing_is_written_into_the_home_folder(tmp_path: Path) -> None:
    """Its telemetry would leave an identifier of the machine there."""
    program = (
        "import onnx; from rewriter.trust.proof import judges\n"
        f"judges.session(onnx.parser.parse_model({MODEL!r}).SerializeToString(), None)"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("XDG_CACHE_HOME", "ORT_DISABLE_TELEMETRY")}
    subprocess.run([sys.executable, "-c", program], check=True, env={**environment, "HOME": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


def _blocks(count: int) -> bytes:
    """A model of so many nodes in blocks of five with branches and a join; no two nodes are equal."""
    nodes, last = [], "x"
    for i in range(0, count, 5):
        a, b, c, d, e = (f"t{i + k}" for k in range(5))
        nodes += [
            helper.make_node("Relu", [last], [a]),
            helper.make_node("Sigmoid", [a], [b]),
            helper.make_node("Neg", [a], [c]),
            helper.make_node("Add", [b, c], [d]),
            helper.make_node("Tanh", [d], [e]),
        ]
        last = e
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", last)]
    graph = helper.make_graph(nodes[:count], "g", ends[:1], ends[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    data: bytes = model.SerializeToString()
    return data


def test_a_session_with_the_default_optimizations_takes_no_quadratic_time() -> None:
    """ONNX Runtime's search for equal nodes took twenty times as long for four times as many."""
    times = []
    for count in (5_000, 20_000):
        started = time.process_time()
        judges.session(_blocks(count), None, optimized=True)
        times.append(time.process_time() - started)
    assert times[1] < 10 * times[0]


def test_only_a_model_of_many_nodes_is_loaded_without_the_search_for_equal_ones() -> None:
    most = judges.MANY_NODES
    assert not judges.has_many_nodes(_blocks(most))
    assert judges.has_many_nodes(_blocks(most + 1))
    assert not judges.has_many_nodes(_blocks(most + 1)[:-100])  # no model at all


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "[ONNXRuntimeError] : 1 : FAIL : Exception during initialization: /onnxruntime_src/onnxruntime/core/framework/s.cc:294 "
            "onnxruntime::common::Status onnxruntime::utils::Save(const std::vector<int>&, std::function<void (int)>) const "
            "[with T = float] size > -1 was false.\n",
            "Exception during initialization: size > -1 was false.",
        ),
        (
            "[ONNXRuntimeError] : 1 : FAIL : Load model failed:/onnxruntime_src/onnxruntime/core/graph/model.cc:245 "
            "onnxruntime::Model::Model(onnx::ModelProto&&) Missing opset in the model.",
            "Load model Missing opset in the model.",
        ),
        ("/onnxruntime_src/onnxruntime/core/a.cc:1 the axis (3) is not below (2)", "the axis (3) is not below (2)"),
    ],
)
def test_a_reason_is_without_the_functions_of_the_runtime(message: str, line: str) -> None:
    assert judges.reason(RuntimeError(message)) == line
