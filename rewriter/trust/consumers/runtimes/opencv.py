"""OpenCV's `cv2.dnn`, 4 and 5. OpenCV 4 has no tensors of rank 0 or 1 and no 64-bit integers: shapes are not compared."""

from __future__ import annotations

from typing import Any

import cv2  # type: ignore[import-not-found, unused-ignore]
import numpy as np

COMPARES_SHAPES = False


def version() -> str:
    return f"OpenCV {cv2.__version__}"


def read(path: str, outputs: list[str]) -> Any:
    return cv2.dnn.readNetFromONNX(path)


def run(net: Any, feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    is_old = cv2.__version__ < "5"
    for name, value in feed.items():
        if value.dtype == np.bool_ or (is_old and value.dtype == np.int64):
            value = value.astype(np.int32 if value.dtype == np.int64 else np.uint8 if is_old else np.bool_)
        net.setInput(np.asarray(value, order="C"), name)
    return list(net.forward(outputs))
