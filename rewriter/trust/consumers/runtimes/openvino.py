"""OpenVINO on the processor, in float32. `Core.read_model` has no telemetry; the converter of the command line does."""

from __future__ import annotations

from typing import Any

import openvino  # type: ignore[import-not-found, unused-ignore]


def version() -> str:
    return f"OpenVINO {openvino.__version__.partition('-')[0]}"


def read(path: str, outputs: list[str]) -> Any:
    core = openvino.Core()
    model = core.read_model(path)
    return core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}), [port.any_name for port in model.inputs]


def run(ready: tuple[Any, list[str]], feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    model, names = ready
    found = model({place: feed[name] for place, name in enumerate(names) if name in feed})
    return [found[place] for place in range(len(outputs))]
