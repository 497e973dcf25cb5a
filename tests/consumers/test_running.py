"""`run --ask` and `compare --ask`: one model in a consumer, tensor by tensor."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from rewriter.trust.proof import judges
from tests.cli.call import Call
from tests.consumers.fake import fake, relu

pytestmark = pytest.mark.skipif(not judges.installed(), reason="needs ONNX Runtime")

BY_NODES = """
import onnx
values = dict(feed)
for node in onnx.load(model).graph.node:
    operand = values[node.input[0]]
    values[node.output[0]] = np.maximum(operand, 0) + WRONG if node.op_type == "Relu" else -operand
return [values[name] for name in outputs]"""


def chain(path: Path) -> Path:
    """A Neg, a Relu and a Neg."""
    model = onnx.load(relu(path))
    model.graph.node[0].input[0], model.graph.node[0].output[0] = "n", "r"
    model.graph.node.insert(0, onnx.helper.make_node("Neg", ["x"], ["n"], name="first"))
    model.graph.node.append(onnx.helper.make_node("Neg", ["r"], ["y"], name="last"))
    onnx.save(model, path)
    return path


def test_compare_names_the_first_tensor_that_a_consumer_computes_otherwise(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake(monkeypatch, tmp_path / "runtimes", run=BY_NODES.replace("WRONG", "1"))
    model = chain(tmp_path / "m.onnx")
    done = call("compare", model, model, "--ask", "fake")
    assert done.code == 1
    assert " for A, Fake 1.0 for B" in done.out
    assert "A  r, made by Relu (node)" in done.out


@pytest.mark.parametrize(
    ("tolerance", "options", "code"), [("", (), 1), ("TOLERANCE = 1e-2", (), 0), ("", ("--rtol", "1e-2"), 0)]
)
def test_compare_allows_what_check_allows(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tolerance: str, options: tuple[str, ...], code: int
) -> None:
    fake(monkeypatch, tmp_path / "runtimes", run="return [np.maximum(feed['x'], 0) * 1.005]", more=tolerance)
    model = relu(tmp_path / "m.onnx")
    assert call("compare", model, model, "--ask", "fake", *options).code == code
    fake(monkeypatch, tmp_path / "runtimes", run="return [np.maximum(feed['x'], 0) * 1.0005]", more=tolerance)
    assert call("compare", model, model, "--ask", "fake").code == 0


def test_types_and_shapes_of_a_consumer_may_differ(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch, tmp_path / "runtimes", run="return [np.maximum(feed['x'], 0).astype(np.float64).ravel()]")
    model = relu(tmp_path / "m.onnx")
    assert call("compare", model, model, "--ask", "fake").code == 0


def test_compare_names_the_node_that_a_consumer_rejects(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_relu = 'import onnx\nif any(n.op_type == "Relu" for n in onnx.load(path).graph.node): raise RuntimeError("no Relu")\nreturn path'
    fake(monkeypatch, tmp_path / "runtimes", no_relu, BY_NODES.replace("WRONG", "0"))
    model = chain(tmp_path / "m.onnx")
    done = call("compare", model, model, "--ask", "fake")
    assert done.code == 1
    assert "B does not run: node (Relu): Fake 1.0: no Relu" in done.out


def test_run_prints_the_outputs_of_a_consumer(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch, tmp_path / "runtimes", run="return [feed['x'] * 0 + 7]")
    done = call("run", relu(tmp_path / "m.onnx"), "--ask", "fake")
    assert done.code == 0
    assert "Fake 1.0, " in done.out
    assert "min 7, max 7" in done.out


def test_a_consumer_that_crashes_is_named(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch, tmp_path / "runtimes", run="os.kill(os.getpid(), signal.SIGSEGV)")
    done = call("run", relu(tmp_path / "m.onnx"), "--ask", "fake")
    assert done.code == 2
    assert "Fake 1.0: crashed (SIGSEGV)" in done.err


def test_external_data_stay_with_onnx_runtime(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch, tmp_path / "runtimes")
    model = onnx.load(relu(tmp_path / "m.onnx"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(onnx.numpy_helper.np.ones(3, "float32"), "w"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="data", size_threshold=0)
    done = call("run", tmp_path / "m.onnx", "--ask", "fake")
    assert done.code == 2
    assert "external data" in done.err
