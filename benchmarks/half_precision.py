"""Converts models to float16 with this program and with onnxconverter-common, and holds casts and results against each other.

    python benchmarks/half_precision.py FOLDER [--models 40] [--peer PYTHON] [--dtype float16]

FOLDER is searched for model.onnx; of every kind of model (the name before `--`) one is taken. PYTHON is an interpreter that has
onnxconverter-common. Both keep the types of inputs and outputs. Printed are the Cast nodes of the model and of both results,
and the largest difference from what the model gave, relative to the largest number of an output, on the inputs in data.npz
beside the model (in_NAME) or made-up ones. "As few as can be": one for each input and output that is float.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from rewriter.core.errors import RewriterError
from rewriter.trust.proof.model_inputs import feed_sets
from rewriter.workbench.surgery.finish import Checks
from rewriter.workbench.surgery.float_type import in_type
from rewriter.workbench.surgery.opened import Opened

PEER = (
    "import sys, onnx; from onnxconverter_common import float16; "
    "onnx.save(float16.convert_float_to_float16(onnx.load(sys.argv[1]), keep_io_types=True), sys.argv[2])"
)
CLOSE = 1e-2


def session(model: onnx.ModelProto | str) -> Any:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    data = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def casts(model: onnx.ModelProto) -> int:
    found, graphs = 0, [model.graph]
    while graphs:
        for node in graphs.pop().node:
            found += node.op_type == "Cast"
            graphs += [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return found


def far(before: list[Any], after: list[Any]) -> float:
    """The largest difference of an output, relative to its largest number."""
    worst = 0.0
    for one, other in zip(before, after, strict=True):
        if not isinstance(one, np.ndarray) or one.dtype.kind != "f" or not one.size:
            continue
        size = max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(one), one, 0)))))
        with np.errstate(invalid="ignore"):
            found = np.where(one == other, 0, np.abs(one.astype(np.float64) - other.astype(np.float64)))
        worst = max(worst, float(np.nan_to_num(found, nan=np.inf, posinf=np.inf).max()) / size)
    return worst


def recorded(path: Path, model: onnx.ModelProto) -> dict[str, Any]:
    """The inputs that are recorded beside a model, or made-up ones."""
    file = path.with_name("data.npz")
    given = {info.name for info in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
    held = {} if not file.exists() else {k[3:]: v for k, v in np.load(file, allow_pickle=True).items() if k.startswith("in_")}
    return held if set(held) == given else dict(next(iter(next(iter(feed_sets(model)))[0].choices())))


def float_ports(model: onnx.ModelProto) -> int:
    ports = [*model.graph.input, *model.graph.output]
    held = {tensor.name for tensor in model.graph.initializer}
    return sum(info.type.tensor_type.elem_type == onnx.TensorProto.FLOAT and info.name not in held for info in ports)


def tried(model: onnx.ModelProto | str, feed: Any, before: list[Any]) -> str:
    try:
        return f"{far(before, session(model).run(None, feed)):.1e}"
    except Exception as error:
        return f"does not run: {str(error)[:60]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--peer")
    parser.add_argument("--dtype", default="float16")
    args = parser.parse_args()
    totals: Counter[str] = Counter()
    kinds: set[str] = set()
    print(f"{'model':52} {'nodes':>5} {'casts':>5}   ours: casts  difference   peer: casts  difference")
    for path in sorted(args.folder.rglob("model.onnx")):
        kind = path.parent.name.split("--")[0]
        if kind in kinds or totals["models"] == args.models:
            continue
        model = onnx.load(path)
        try:
            feed = recorded(path, model)
            before = session(str(path)).run(None, feed)
        except Exception:
            continue
        kinds.add(kind)
        totals["models"] += 1
        try:
            made = in_type(Opened(path), args.dtype, checks=Checks("no", False)).model.to_proto()
            ours, own = tried(made, feed, before), casts(made)
        except RewriterError as error:
            ours, own = f"refused: {error}"[:60], 0
        theirs, peer = "-", None
        if args.peer:
            with tempfile.TemporaryDirectory() as folder:
                out = f"{folder}/out.onnx"
                done = subprocess.run([args.peer, "-c", PEER, str(path), out], capture_output=True, text=True, check=False)
                if done.returncode:
                    theirs = "fails: " + (done.stderr.strip().splitlines() or ["?"])[-1][:60]
                else:
                    theirs, peer = tried(out, feed, before), casts(onnx.load(out))
        good = [text[0].isdigit() and float(text) <= CLOSE for text in (ours, theirs)]
        totals["ours: runs, close"] += good[0]
        totals["peer: runs, close"] += good[1]
        if peer is not None:
            totals["fewer casts" if own < peer else "more casts" if own > peer else "as many casts"] += 1
            totals["as many casts, and as few as can be"] += own == peer <= float_ports(model)
        name = str(path.parent.relative_to(args.folder))
        print(f"{name:52} {len(model.graph.node):5} {casts(model):5}   {own:11}  {ours:10}   {peer!s:11}  {theirs}", flush=True)
    print(dict(totals))


if __name__ == "__main__":
    main()
