"""Whether tools that rewrite models hand on what they have not changed: the figures of docs/alternatives.md.

    pip install '.[benchmarks]' onnxscript polygraphy onnx-graphsurgeon
    python benchmarks/untouched.py MODELS...        # files or folders; default: tests/models

Each tool gets each model. Counted are the models whose nodes and weights are all as they were, and for how many of these the
file is the same, byte for byte.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

MODELS = Path(__file__).parent.parent / "tests" / "models"


def rewriter_fix(path: Path, folder: Path) -> bytes:
    import rewriter

    rewriter.fix(path, folder / "o.onnx", runtime="no", stamp=False)
    return (folder / "o.onnx").read_bytes()


def onnxsim(path: Path, folder: Path) -> bytes:
    import onnxsim as tool

    return tool.simplify(onnx.load(path))[0].SerializeToString()


def onnxslim(path: Path, folder: Path) -> bytes:
    import onnxslim as tool

    return tool.slim(onnx.load(path)).SerializeToString()


def onnx_runtime(path: Path, folder: Path) -> bytes:
    import onnxruntime as tool

    options = tool.SessionOptions()
    options.graph_optimization_level = tool.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / "o.onnx")
    options.log_severity_level = 4
    tool.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return (folder / "o.onnx").read_bytes()


def onnxscript_rewriter(path: Path, folder: Path) -> bytes:
    from onnxscript import rewriter as tool

    return tool.rewrite(onnx.load(path)).SerializeToString()


def polygraphy(path: Path, folder: Path) -> bytes:
    program = Path(sys.executable).with_name("polygraphy")
    command = [program, "surgeon", "sanitize", path, "-o", folder / "o.onnx"]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return (folder / "o.onnx").read_bytes()


def graphsurgeon(path: Path, folder: Path) -> bytes:
    import onnx_graphsurgeon as tool

    return tool.export_onnx(tool.import_onnx(onnx.load(path))).SerializeToString()


TOOLS: dict[str, Callable[[Path, Path], bytes]] = {
    "rewriter fix": rewriter_fix,
    "onnxsim": onnxsim,
    "OnnxSlim": onnxslim,
    "ONNX Runtime, basic": onnx_runtime,
    "onnxscript.rewriter": onnxscript_rewriter,
    "Polygraphy, sanitize": polygraphy,
    "graphsurgeon": graphsurgeon,
}


def main(given: list[str]) -> None:
    roots = list(map(Path, given)) or [MODELS]
    models = sorted(path for root in roots for path in ([root] if root.is_file() else root.rglob("*.onnx")))
    print(f"{len(models)} models")
    print("| tool | no answer | nodes and weights as they were | of these the same file |\n|---|---|---|---|")
    for name, tool in TOOLS.items():
        counts: Counter[str] = Counter()
        for path in models:
            with TemporaryDirectory() as folder:
                try:
                    result = tool(path, Path(folder))
                except Exception:
                    counts["failed"] += 1
                    continue
            before = path.read_bytes()
            counts["file"] += before == result
            counts["parts"] += same_parts(onnx.load_from_string(before), onnx.load_from_string(result))
        print(f"| {name} | {counts['failed']} | {counts['parts']} | {counts['file']} |", flush=True)


def same_parts(old: onnx.ModelProto, new: onnx.ModelProto) -> bool:
    nodes = [node.SerializeToString() for node in old.graph.node] == [node.SerializeToString() for node in new.graph.node]
    weights = {tensor.SerializeToString() for tensor in new.graph.initializer}
    return nodes and {tensor.SerializeToString() for tensor in old.graph.initializer} == weights


if __name__ == "__main__":
    main(sys.argv[1:])
