"""ncnn, which gets a model by way of pnnx, anew for the shapes of each input. pnnx prints the parts that it cannot convert."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import version as installed
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ncnn  # type: ignore[import-not-found, unused-ignore]
import numpy as np
import onnx

SPEC = find_spec("pnnx")  # importing it needs PyTorch, and its program does not
if SPEC is None or SPEC.origin is None:
    raise ModuleNotFoundError("pnnx")
PROGRAM = str(Path(SPEC.origin).with_name("pnnx"))
TYPES = {"float32": "f32", "float16": "f16", "float64": "f64", "int64": "i64", "int32": "i32", "uint8": "u8", "bool": "bool"}
COMPARES_SHAPES = False


def version() -> str:
    return f"ncnn {installed('ncnn')}"


def read(path: str, outputs: list[str]) -> str:
    return path


def build(path: str, feed: dict[str, Any]) -> tuple[dict[str, int], Any]:
    """The place of the batch in each input and output, which pnnx writes into an example, and the network."""
    onnx.save(onnx.load(path), "model.onnx")  # pnnx writes next to it, and this folder is not the user's
    shapes = [f"[{','.join(map(str, value.shape))}]{TYPES[value.dtype.name]}" for value in feed.values()]
    options = [f"inputshape={','.join(shapes)}"] if shapes else []
    done = subprocess.run([PROGRAM, "model.onnx", *options], check=False)
    if done.returncode:
        raise RuntimeError(f"pnnx ended with {done.returncode}")
    example = Path("model_ncnn.py").read_text(encoding="utf-8")
    batches = re.findall(r"(\w+)\.numpy\((?:\), )?batch_index=(\d+)", example)
    net = ncnn.Net()
    if net.load_param("model.ncnn.param") or net.load_model("model.ncnn.bin"):
        raise RuntimeError("")  # the reason is printed
    return {name: int(place) for name, place in batches}, net


def run(ready: tuple[dict[str, int], Any], feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    batches, net = ready
    with net.create_extractor() as extractor:
        for place, value in enumerate(feed.values()):
            plain = value.astype(np.float32 if value.dtype.kind == "f" else np.int32)
            extractor.input(f"in{place}", ncnn.Mat(np.ascontiguousarray(plain), batch_index=batches[f"in{place}"]).clone())
        return [_extracted(extractor, f"out{place}", batches) for place in range(len(outputs))]


def _extracted(extractor: Any, name: str, batches: dict[str, int]) -> Any:
    code, found = extractor.extract(name)
    if code:
        raise RuntimeError(f"extract of {name} returned {code}")
    return found.numpy(batch_index=batches[name]).copy()
