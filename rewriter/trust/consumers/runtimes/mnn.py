"""MNN. The extension module converts; the command of the package would also send the conversion's data to its makers."""

from __future__ import annotations

import os
from typing import Any

import _tools  # type: ignore[import-not-found, unused-ignore]
import MNN  # type: ignore[import-not-found, unused-ignore]
import numpy as np

TYPES = {"float32": MNN.expr.float, "int32": MNN.expr.int, "uint8": MNN.expr.uint8, "int8": MNN.expr.int8}
NARROWER = {"float64": "float32", "float16": "float32", "int64": "int32", "bool": "int32", "int16": "int32"}


def version() -> str:
    return f"MNN {MNN.version()}"


def read(path: str, outputs: list[str]) -> str:
    made = os.path.abspath("model.mnn")
    _tools.mnnconvert(["mnnconvert", "-f", "ONNX", "--modelFile", path, "--MNNModel", made, "--bizCode", "model"])
    if not os.path.exists(made):
        raise RuntimeError("")  # the reason is printed
    return made


def run(path: str, feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    expr = MNN.expr
    module = MNN.nn.load_module_from_file(path, list(feed), outputs)
    values = []
    for value in feed.values():
        value = np.asarray(value, NARROWER.get(value.dtype.name, value.dtype), order="C")
        values.append(expr.const(value, list(value.shape), expr.NCHW, TYPES[value.dtype.name]))
    found = module.onForward(values)
    return [expr.convert(value, expr.NCHW).read().copy() for value in found]
