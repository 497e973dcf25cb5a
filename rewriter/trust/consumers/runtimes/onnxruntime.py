"""ONNX Runtime on the processor, in another version than the one that the outputs are compared with."""

from __future__ import annotations

from typing import Any

import onnxruntime  # type: ignore[import-untyped, unused-ignore]


def version() -> str:
    return f"onnxruntime {onnxruntime.__version__}"


def read(path: str, outputs: list[str]) -> Any:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def run(session: Any, feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    return list(session.run(outputs, feed))
