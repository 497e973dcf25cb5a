"""IREE, compiled for the processor by way of its importer of ONNX."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Any

import iree.compiler as compiler  # type: ignore[import-not-found, unused-ignore]
import iree.runtime as runtime  # type: ignore[import-not-found, unused-ignore]
import onnx
from iree.compiler.tools.import_onnx import __main__ as importer  # type: ignore[import-not-found, unused-ignore]

OPTIONS = ["--iree-llvmcpu-target-cpu=host", "--mlir-print-op-on-diagnostic=false"]


def version() -> str:
    return f"IREE {installed('iree-base-compiler')}"


def read(path: str, outputs: list[str]) -> Any:
    importer.main(importer.parse_arguments([path, "-o", "model.mlir"]))
    try:
        code = compiler.compile_file("model.mlir", input_type="onnx", target_backends=["llvm-cpu"], extra_args=OPTIONS)
    except compiler.CompilerToolError as error:
        lines = [line.partition("error: ")[2] for line in str(error).splitlines() if "error: " in line]
        raise RuntimeError(lines[0] if lines else str(error)) from None
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    module = runtime.VmModule.copy_buffer(context.instance, code)
    context.add_vm_module(module)
    names = [name for name in module.function_names if not name.endswith("$async") and name != "__init"]
    graph = onnx.load(path, load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    return context.modules[module.name][names[0]], [port.name for port in graph.input if port.name not in weights]


def run(ready: tuple[Any, list[str]], feed: dict[str, Any], outputs: list[str]) -> list[Any]:
    function, names = ready
    found = function(*(feed[name] for name in names))
    return [value.to_host() for value in (found if isinstance(found, tuple) else [found])]
