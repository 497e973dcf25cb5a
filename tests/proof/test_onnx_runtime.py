"""What ONNX Runtime says stays with whoever asked it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from rewriter.trust.proof import onnx_runtime

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


def test_a_refusal_is_raised_and_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """Of an operator whose name is no text ONNX Runtime cannot even tell; it would try again, and say so on the terminal."""
    data = onnx.parser.parse_model(MODEL).SerializeToString().replace(b"Relu", b"R\xf8lu")
    with pytest.raises(Exception, match=r""):  # which one depends on the version
        onnx_runtime.session(data, None)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_nothing_is_written_into_the_home_folder(tmp_path: Path) -> None:
    """Its telemetry would leave an identifier of the machine there."""
    program = (
        "import onnx, sys; from rewriter.trust.proof import onnx_runtime\n"
        f"onnx_runtime.session(onnx.parser.parse_model({MODEL!r}).SerializeToString(), None)"
    )
    environment = {name: value for name, value in os.environ.items() if name not in ("XDG_CACHE_HOME", "ORT_DISABLE_TELEMETRY")}
    subprocess.run([sys.executable, "-c", program], check=True, env={**environment, "HOME": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []
