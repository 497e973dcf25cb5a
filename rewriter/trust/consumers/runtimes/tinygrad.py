"""tinygrad on the processor, which needs clang. Compiled code is not kept."""

from __future__ import annotations

import os
from importlib.metadata import version as installed
from typing import Any

os.environ |= {"DEV": "CPU", "CACHELEVEL": "0"}

from tinygrad import Tensor  # type: ignore[import-not-found, unused-ignore]
from tinygrad.nn.onnx import OnnxRunner  # type: ignore[import-not-found, unused-ignore]


def version() -> str:
    return f"tinygrad {installed('tinygrad')}"


def read(path: str, outputs: list[str]) -> str:
    OnnxRunner(path)
    return path


def run(path: str, feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    runner = OnnxRunner(path)  # for one size of each dimension
    found = runner({name: Tensor(value) for name, value in feed.items()})
    return [found[name].numpy() for name in outputs]
