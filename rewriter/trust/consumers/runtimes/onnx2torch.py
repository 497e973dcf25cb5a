"""onnx2torch, which makes a module of PyTorch."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Any

import numpy as np
import onnx
import onnx2torch  # type: ignore[import-not-found, unused-ignore]
import torch  # type: ignore[import-not-found, unused-ignore]


def version() -> str:
    return f"onnx2torch {installed('onnx2torch')}"


def read(path: str, outputs: list[str]) -> Any:
    model = onnx.load(path)
    weights = {tensor.name for tensor in model.graph.initializer}
    names = [port.name for port in model.graph.input if port.name not in weights]
    return onnx2torch.convert(model).eval(), names


def run(ready: tuple[Any, list[str]], feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    module, names = ready
    with torch.no_grad():
        found = module(*(torch.from_numpy(np.array(feed[name])) for name in names))
    return [value.numpy() for value in (found if isinstance(found, tuple | list) else [found])]
