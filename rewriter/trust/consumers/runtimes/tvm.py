"""TVM's Relax, compiled for the processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import tvm  # type: ignore[import-not-found, unused-ignore]
from onnx import helper
from tvm import relax  # type: ignore[import-not-found, unused-ignore]
from tvm.relax.frontend.onnx import from_onnx  # type: ignore[import-not-found, unused-ignore]


def version() -> str:
    return f"TVM {tvm.__version__}"


def read(path: str, outputs: list[str]) -> Any:
    model = onnx.load(path)
    weights = {tensor.name for tensor in model.graph.initializer}
    types = {port.name: port.type.tensor_type.elem_type for port in model.graph.input if port.name not in weights}
    dtypes = {name: helper.tensor_dtype_to_np_dtype(kind).name for name, kind in types.items()}
    module = from_onnx(model, dtype_dict=dtypes)
    return relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu()), list(types)


def run(ready: tuple[Any, list[str]], feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    machine, names = ready
    found = machine["main"](*(tvm.runtime.tensor(np.asarray(feed[name], order="C")) for name in names))
    return [value.numpy() for value in (found if len(outputs) > 1 else [found])]
