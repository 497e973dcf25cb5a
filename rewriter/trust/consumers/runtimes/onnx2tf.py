"""onnx2tf, and LiteRT for the file that it makes. Inputs keep their layout; outputs come with the channels last."""

from __future__ import annotations

import re
from importlib.metadata import version as installed
from typing import Any

import numpy as np
import onnx
import onnx2tf  # type: ignore[import-not-found, unused-ignore]
from ai_edge_litert.interpreter import Interpreter  # type: ignore[import-not-found, unused-ignore]

IMAGES = "calibration_image_sample_data_20x128x128x3_float32.npy"
"""Images that onnx2tf otherwise downloads, to compare its layers on them."""


def version() -> str:
    return f"onnx2tf {installed('onnx2tf')}"


def read(path: str, outputs: list[str]) -> tuple[str, list[list[int]]]:
    ports = onnx.load(path, load_external_data=False).graph.output
    return path, [[dim.dim_value for dim in port.type.tensor_type.shape.dim] for port in ports]


def build(ready: tuple[str, list[list[int]]], feed: dict[str, Any]) -> tuple[Any, list[list[int]]]:
    path, declared = ready
    model = onnx.load(path)
    for port in model.graph.input:
        for dim, size in zip(port.type.tensor_type.shape.dim, feed[port.name].shape if port.name in feed else (), strict=False):
            dim.dim_value = size
    onnx.save(model, "model.onnx")
    np.save(IMAGES, np.random.default_rng(0).random((20, 128, 128, 3), np.float32))
    images = [name for name, value in feed.items() if 3 <= value.ndim <= 5]
    try:
        _convert(images, [name for name in feed if name not in images])
    except Exception:  # a model that is no network of images
        _convert([], list(feed))
    interpreter = Interpreter("saved/model_float32.tflite")
    interpreter.allocate_tensors()
    return interpreter, declared


def _convert(images: list[str], others: list[str]) -> None:
    """With the channels of images second, or with every input as it is."""
    try:
        onnx2tf.convert(
            input_onnx_file_path="model.onnx",
            output_folder_path="saved",
            not_use_onnxsim=True,
            keep_ncw_or_nchw_or_ncdhw_input_names=images,
            keep_shape_absolutely_input_names=others,
            verbosity="error",
        )
    except SystemExit:
        raise RuntimeError("") from None  # the reason is printed


def run(ready: tuple[Any, list[list[int]]], feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    interpreter, declared = ready
    places = {_plain(one["name"].partition("serving_default_")[2]): one for one in interpreter.get_input_details()}
    for name, value in feed.items():
        if (place := places.get(_plain(name))) is not None:
            interpreter.set_tensor(place["index"], value.astype(place["dtype"]))
    interpreter.invoke()
    found = sorted(interpreter.get_output_details(), key=lambda one: int(re.findall(r"\d+", "0" + one["name"])[-1]))
    return [_channels_first(interpreter.get_tensor(one["index"]), shape) for one, shape in zip(found, declared, strict=True)]


def _plain(name: str) -> str:
    return re.sub(r"\W", "_", name.removesuffix(":0"))


def _channels_first(value: Any, shape: list[int]) -> Any:
    """An output in the layout that the model declares."""
    fits = len(shape) == value.ndim and all(size in (0, other) for size, other in zip(shape, value.shape, strict=True))
    return value if fits or value.ndim < 3 else np.moveaxis(value, -1, 1)
