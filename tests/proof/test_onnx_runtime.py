"""What ONNX Runtime says stays with whoever asked it."""

from __future__ import annotations

import onnx
import pytest

from rewriter.proof import onnx_runtime

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


def test_a_refusal_is_raised_and_not_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """Of an operator whose name is no text ONNX Runtime cannot even tell; it would try again, and say so on the terminal."""
    data = onnx.parser.parse_model(MODEL).SerializeToString().replace(b"Relu", b"R\xf8lu")
    with pytest.raises(UnicodeDecodeError):
        onnx_runtime.session(data, None)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
