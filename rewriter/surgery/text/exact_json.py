"""Protobuf's JSON, written so that protobuf reads it: its own reader finds the shortest form of the largest float too large."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from google.protobuf import json_format  # type: ignore[import-untyped]

_LARGEST = float(np.finfo(np.float32).max)
_SHORTEST = float(f"{_LARGEST:.8g}")
_DOUBLES = "double_data"
"""The only numbers of ONNX with more bits than a float."""


def as_data(message: Any) -> dict[str, Any]:
    """A message as data for JSON, its fields by the names that ONNX gives them."""
    data: dict[str, Any] = json_format.MessageToDict(message, preserving_proto_field_name=True)
    waiting: list[Any] = [data]
    while waiting:
        held = waiting.pop()
        for place, value in held.items() if isinstance(held, dict) else enumerate(held):
            if isinstance(value, (dict, list)) and place != _DOUBLES:
                waiting.append(value)
            elif isinstance(value, float) and abs(value) == _SHORTEST:
                held[place] = math.copysign(_LARGEST, value)
    return data
