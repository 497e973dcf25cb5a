"""How commands end that are not alone, or not to go on: a second run into one folder, and SIGTERM at any moment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from rewriter.core.errors import RewriterError
from rewriter.core.isolation.child import signals_wait
from rewriter.core.onnxfile.files import sole_run
from tests.cli.call import GEMM, Call, contents

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no locks and signals here")

HOLD = """
import sys, time
from rewriter.core.onnxfile.files import sole_run
with sole_run(sys.argv[1]):
    print("locked", flush=True)
    time.sleep(600)
"""


@pytest.mark.parametrize("more", [(), ("--resume",), ("--force",), ("--update",)])
def test_a_second_run_into_one_folder_stops(more: tuple[str, ...], tmp_path: Path, call: Call) -> None:
    out = tmp_path / "out"
    first = subprocess.Popen(
        [sys.executable, "-c", HOLD, out], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    )
    assert first.stdout is not None and first.stdout.readline() == "locked\n"
    done = call("fix", GEMM, "--out", out, *more)
    assert done.code == 2 and done.out == ""
    assert (
        done.err == f"rewriter: error: {out}: another run writes its results there; wait for its end, or name another folder\n"
    )
    assert contents(tmp_path) == {}
    first.kill()
    first.wait()
    assert call("fix", GEMM, "--out", out, *more).code == 0  # the lock ended with its process


def test_a_folder_that_stays_empty_is_removed(tmp_path: Path, call: Call) -> None:
    (tmp_path / "bad.rules").write_text("rule")
    assert call("fix", GEMM, "--out", tmp_path / "out", "--rules", tmp_path / "bad.rules").code == 2
    assert os.listdir(tmp_path) == ["bad.rules"]
    (tmp_path / "out").mkdir()
    with pytest.raises(RewriterError), sole_run(tmp_path / "out"):
        raise RewriterError
    assert (tmp_path / "out").is_dir()


def large_model(path: Path) -> None:
    """16 tensors of 8 MB, which take a while to be written."""
    values = np.arange(1 << 21, dtype=np.float32)
    weights = [numpy_helper.from_array(values + place, f"w{place}") for place in range(16)]
    nodes = [helper.make_node("Add", [f"x{place}", f"w{place}"], [f"x{place + 1}"]) for place in range(16)]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1 << 21]) for name in ("x0", "x16")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_a_termination_of_save_leaves_nothing_behind(tmp_path: Path) -> None:
    large_model(tmp_path / "a.onnx")
    (tmp_path / "tmp").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(tmp_path / "tmp")}
    command = [sys.executable, "-m", "rewriter", "save", "a.onnx", "--external", "-o", "b.onnx", "--runtime", "no"]
    saving = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    while saving.poll() is None and not list(tmp_path.glob(".*.rewriter-tmp")):
        time.sleep(0.001)
    saving.send_signal(signal.SIGTERM)
    said = saving.communicate()[1]
    left = {*os.listdir(tmp_path)} - {"a.onnx", "tmp"}
    assert os.listdir(tmp_path / "tmp") == []
    assert (saving.returncode, said) == (143, "terminated\n")
    assert left in (set(), {"b.onnx", "b.onnx.data"})  # all or nothing


def test_steps_of_which_all_are_done_or_none() -> None:
    steps = []
    with pytest.raises(KeyboardInterrupt), signals_wait():
        signal.raise_signal(signal.SIGINT)
        steps.append("last")
    assert steps == ["last"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler
