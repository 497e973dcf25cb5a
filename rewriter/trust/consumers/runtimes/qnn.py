"""Qualcomm's QNN for the HTP, in its emulator on x86, which computes in float16: the plugin provider of ONNX Runtime."""

from __future__ import annotations

import os
from importlib.metadata import version as installed
from typing import Any

import onnxruntime  # type: ignore[import-untyped, unused-ignore]
import onnxruntime_qnn  # type: ignore[import-not-found, unused-ignore]

TOLERANCE = 1e-2


def version() -> str:
    return f"QNN {installed('onnxruntime-qnn')}"


def read(path: str, outputs: list[str]) -> Any:
    onnxruntime.register_execution_provider_library("QNN", onnxruntime_qnn.get_library_path())
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    backend = os.path.join(os.path.dirname(onnxruntime_qnn.get_library_path()), "libQnnHtp.so")
    devices = [device for device in onnxruntime.get_ep_devices() if "QNN" in device.ep_name]
    options.add_provider_for_devices(
        devices[:1], {"backend_path": backend, "soc_model": "57", "enable_htp_fp16_precision": "1"}
    )
    return onnxruntime.InferenceSession(path, options)


def run(session: Any, feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    return list(session.run(outputs, feed))
