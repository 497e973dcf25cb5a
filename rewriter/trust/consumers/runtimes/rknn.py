"""RKNN-Toolkit2 and its simulator of a chip, which computes in float16: built anew for the shapes of each input."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Any

import numpy as np
from rknn.api import RKNN  # type: ignore[import-not-found, unused-ignore]

TOLERANCE = 1e-2
CHIP = "rk3588"


def version() -> str:
    return f"RKNN {installed('rknn-toolkit2')}"


def read(path: str, outputs: list[str]) -> str:
    return path


def build(path: str, feed: dict[str, Any]) -> Any:
    rknn = RKNN(verbose=False)
    rknn.config(target_platform=CHIP)
    shapes = [list(value.shape) for value in feed.values()]
    try:
        rknn.load_onnx(model=path, inputs=list(feed) or None, input_size_list=shapes or None)
        rknn.build(do_quantization=False)
        rknn.init_runtime()
    except Exception as error:  # the last line of a text that begins with where it was raised
        raise RuntimeError(str(error).strip().splitlines()[-1]) from None
    return rknn


def run(rknn: Any, feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    values = [np.asarray(value, order="C") for value in feed.values()]
    found = rknn.inference(inputs=values, data_format=["nchw"] * len(values))
    if found is None:
        raise RuntimeError("")
    return list(found)
