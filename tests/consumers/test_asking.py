"""Consumers are asked in processes of their own: what they say, how they fail, and that nothing else fails with them."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto

from rewriter.core.errors import RewriterError
from rewriter.core.isolation.budget import Budget, budgeted
from rewriter.core.record import replace
from rewriter.trust.consumers.asking import ask, find, known
from rewriter.trust.consumers.consumer_verdict import Verdict
from rewriter.trust.proof import judges
from tests.consumers.fake import RELU, fake, relu

needs_runtime = pytest.mark.skipif(not judges.installed(), reason="needs ONNX Runtime")


def test_the_consumers_that_can_be_asked() -> None:
    names = "iree mnn ncnn onnx2tf onnx2torch onnxruntime opencv openvino ortweb qnn rknn tinygrad tract tvm"
    assert known() == names.split()


@needs_runtime
@pytest.mark.parametrize(
    ("read", "run", "state", "reason"),
    [
        ("return path", RELU, "equal", ""),
        ("return path", "return [feed['x']]", "differs", "output 'y' differs in "),
        ("return path", "return [np.maximum(feed['x'], 0)[:1]]", "differs", "has shape [1, 3], and not [2, 3]"),
        ("return path", "return []", "differs", "it has 0 outputs, and not 1"),
        ("raise ValueError('no Relu here')", RELU, "rejects", "ValueError: no Relu here"),
        ("print('chatter'); print('Error: no Relu'); raise RuntimeError", RELU, "rejects", "Error: no Relu"),
        ("return path", "raise RuntimeError('broken kernel')", "fails", "broken kernel"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", RELU, "ends", "SIGSEGV, while it reads the model"),
        ("return path", "os.abort()", "ends", "SIGABRT, while it runs the model"),
        ("return path", "os._exit(3)", "ends", "3, while it runs the model"),
    ],
)
def test_what_a_consumer_makes_of_a_model(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, read: str, run: str, state: str, reason: str
) -> None:
    consumer = fake(monkeypatch, tmp_path / "runtimes", read, run)
    verdict = ask(consumer, relu(tmp_path / "m.onnx"))
    assert (verdict.consumer, verdict.state) == ("Fake 1.0", state)
    assert reason in verdict.reason if reason else not verdict.reason


def test_a_crash_is_named() -> None:
    verdict = Verdict("OpenCV 5.0.0", "ends", "SIGSEGV, while it reads the model")
    assert verdict.sentence == "OpenCV 5.0.0 ended the process: SIGSEGV, while it reads the model"


@needs_runtime
def test_a_second_batch_size_is_asked_where_the_batch_is_free(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    consumer = fake(
        monkeypatch, tmp_path / "runtimes", run="return [np.maximum(feed['x'], 0)[:2] * (1 + (len(feed['x']) == 1))]"
    )
    assert ask(consumer, relu(tmp_path / "free.onnx")).state == "differs"
    assert ask(consumer, relu(tmp_path / "fixed.onnx", batch=2)).state == "equal"


def test_one_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    consumer = fake(monkeypatch, tmp_path / "runtimes", read="time.sleep(1000)")
    with budgeted(Budget(6)):
        verdict = ask(consumer, relu(tmp_path / "m.onnx"))
    assert verdict.state == "silent"
    assert verdict.reason.startswith("did not answer within ")


def test_one_that_takes_too_much_memory_is_kept_from_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    consumer = fake(monkeypatch, tmp_path / "runtimes", read="return bytearray(1 << 31)")
    with budgeted(Budget(60, 1 << 30)):
        verdict = ask(consumer, relu(tmp_path / "m.onnx"))
    assert (verdict.state, verdict.reason) == ("rejects", "it exceeds the memory limit")


def test_one_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(monkeypatch, tmp_path / "runtimes", more="import no_such_consumer")
    assert find("fake", []) is None
    with pytest.raises(RewriterError, match="there is no Python in it"):
        find("fake", [str(tmp_path)])


def test_an_environment_is_given_by_its_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    consumer = fake(monkeypatch, tmp_path / "runtimes")
    (tmp_path / "env" / "bin").mkdir(parents=True)
    python = tmp_path / "env" / "bin" / "python"  # a link would leave the packages of an environment behind
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    found = find("fake", [str(tmp_path / "env")])
    assert found == replace(consumer, python=str(python))


@needs_runtime
@pytest.mark.parametrize(
    ("build", "state", "reason"),
    [
        ("return model", "equal", ""),
        ("raise RuntimeError('no such shape')", "rejects", "no such shape"),
        ("os.abort()", "ends", "SIGABRT, while it reads the model"),
        ("if len(feed['x']) == 1: raise RuntimeError('no batch of 1')\n    return model", "fails", "no batch of 1"),
    ],
)
def test_one_that_is_built_for_the_shapes_of_an_input(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, build: str, state: str, reason: str
) -> None:
    more = f"import os\ndef build(model, feed):\n    {build}\n"
    verdict = ask(fake(monkeypatch, tmp_path / "runtimes", more=more), relu(tmp_path / "m.onnx"))
    assert (verdict.state, verdict.reason) == (state, reason)


@needs_runtime
@pytest.mark.parametrize(("kind", "state"), [(TensorProto.FLOAT16, "equal"), (TensorProto.FLOAT, "differs")])
def test_halves_have_three_digits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: int, state: str) -> None:
    model = onnx.load(relu(tmp_path / "m.onnx"))
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.elem_type = kind
    onnx.save(model, tmp_path / "m.onnx")
    consumer = fake(
        monkeypatch, tmp_path / "runtimes", run="return [(np.maximum(feed['x'], 0) * 1.005).astype(feed['x'].dtype)]"
    )
    assert ask(consumer, tmp_path / "m.onnx").state == state


@needs_runtime
def test_programs_that_a_consumer_started_end_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started = tmp_path / "pid"
    read = f"import subprocess\nchild = subprocess.Popen(['sleep', '100'])\nopen({str(started)!r}, 'w').write(str(child.pid))"
    consumer = fake(monkeypatch, tmp_path / "runtimes", read=f"{read}\ntime.sleep(100)")
    with budgeted(Budget(6)):
        assert ask(consumer, relu(tmp_path / "m.onnx")).state == "silent"
    status = Path(f"/proc/{started.read_text()}/stat")
    for _ in range(600):
        if not status.exists() or status.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("it still runs")


@needs_runtime
def test_one_that_prints_without_end_is_kept_from_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    consumer = fake(monkeypatch, tmp_path / "runtimes", read="while True: os.write(1, b'x' * 1_000_000)")
    with budgeted(Budget(60, 1 << 28)):
        verdict = ask(consumer, relu(tmp_path / "m.onnx"))
    assert (verdict.state, verdict.reason) == ("rejects", "OSError: [Errno 27] File too large")


@needs_runtime
def test_one_that_is_built_is_also_built_without_inputs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """ONNX Runtime does not run the model, so that there is nothing to compare."""
    consumer = fake(
        monkeypatch, tmp_path / "runtimes", more="def build(model, feed):\n    raise RuntimeError(f'built with {feed}')\n"
    )
    model = relu(tmp_path / "m.onnx", op="NoSuchOperator")
    assert ask(consumer, model).reason == "built with {}"
