"""tract, with the shapes that a model declares; if it rejects those, with the shapes of each input that it is run on."""

from __future__ import annotations

from typing import Any

import numpy as np
import tract  # type: ignore[import-not-found, unused-ignore]

TYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bool": "bool"}
TYPES |= {f"{kind}int{bits}": f"{kind or 'i'}{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)}


def version() -> str:
    return f"tract {tract.version()}"


def read(path: str, outputs: list[str]) -> tuple[str, list[str]]:
    model = tract.onnx().load(path)
    return path, [model.input_name(place) for place in range(model.input_count())]


def run(ready: tuple[str, list[str]], feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    path, names = ready
    values = [np.asarray(feed[name], order="C") for name in names]
    try:
        return _run(path, values, pins=False)
    except tract.TractError:
        try:
            return _run(path, values, pins=True)
        except tract.TractError as error:
            raise RuntimeError(str(error).partition("Stack backtrace")[0]) from None


def _run(path: str, values: list[Any], *, pins: bool) -> list[Any]:
    model = tract.onnx().load(path)
    for place, value in enumerate(values if pins else ()):
        model.set_input_fact(place, ",".join([*map(str, value.shape), TYPES[value.dtype.name]]))
    return [value.to_numpy() for value in model.into_model().into_runnable().run(values)]
