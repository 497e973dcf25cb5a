"""What a small model costs in a batch: a folder of 500, repaired by one command.

    python benchmarks/batch.py [--models 500] [--runs 3] [--folder DIR]

Prints milliseconds a model, of the clock and of the processors, beyond start-up (the same command on two models), for `--jobs
1` and `--jobs 2`, and beside them what graphsurgeon needs to import and export the same models in one process. The ratio is
of the processors' time. The models are made up (10 to 40 nodes), in one folder nothing fires, in the other one rule in each; or
they are taken from DIR. Last comes what `--update` needs for the finished folder, as a part of the first run, start-up
included. Exits with 1 when `--jobs 2` needs more than 3 ms a model by the clock where nothing fires, more than 12 ms where
something does, or `--update` more than 15 %, which only means something on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BOUNDS = {"nothing fires": 3.0, "one rule fires": 12.0}
MOST_OF_UPDATE = 0.15
COMMAND = "from rewriter.app.cli.main import entry; entry()"
PEER = """
import sys
from pathlib import Path
import onnx
import onnx_graphsurgeon as gs
for path in sorted(Path(sys.argv[1]).glob("*.onnx")):
    onnx.save(gs.export_onnx(gs.import_onnx(onnx.load(path))), Path(sys.argv[2]) / path.name)
"""
PLAIN = ("Relu", "Sigmoid", "Tanh", "Neg", "Abs", "Exp")


def make(folder: Path, count: int, *, broken: bool) -> None:
    """Models of MXNet's converter; `broken` ones lack the Flatten before a Gemm."""
    chance = random.Random(0)
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    for number in range(count):
        nodes, last = [], "x"
        for i in range(chance.randint(10, 40)):
            op = chance.choice((*PLAIN, "MatMul", "Add"))
            more = {"MatMul": ["w"], "Add": ["x"]}.get(op, [])
            nodes.append(helper.make_node(op, [last, *more], [f"t{i}"], f"n{i}"))
            last = f"t{i}"
        if broken:
            nodes.append(helper.make_node("Gemm", [last, "full", "bias"], ["y"], "fc", transB=1))
        else:
            nodes.append(helper.make_node("Softmax", [last], ["y"], "softmax", axis=1))
        full = numpy_helper.from_array(np.ones((3, 16), np.float32), "full")
        bias = numpy_helper.from_array(np.full(3, number, np.float32), "bias")
        shape = [2, 1, 4, 4] if broken else [4, 4]
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (("x", shape), ("y", None))]
        tensors = [weight, full, bias] if broken else [weight]
        graph = helper.make_graph(nodes, "mxnet_converted_model", ends[:1], ends[1:], tensors)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
        onnx.save(made, folder / f"m{number:04}.onnx")


def timed(environment: dict[str, str], *arguments: str) -> np.ndarray:
    """Seconds of a command by the clock and by the processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", *arguments], env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    seconds = time.perf_counter() - started
    with contextlib.suppress(ChildProcessError):  # what the command has started for its work is part of its price
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return np.array([seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime])


def adopt_orphans() -> None:
    """Has processes that outlive the one that started them belong to this one, which can then count their time."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def main() -> int:
    adopt_orphans()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    reached = True
    for label, bound in BOUNDS.items() if args.folder is None else [(str(args.folder), BOUNDS["one rule fires"])]:
        with tempfile.TemporaryDirectory() as name:
            reached &= measure(Path(name), args.folder, args.models, args.runs, label, bound)
    return 0 if reached else 1


def measure(place: Path, given: Path | None, count: int, runs: int, label: str, bound: float) -> bool:
    models, out, single = place / "models", place / "out", place / "one"
    for folder in (models, single):
        folder.mkdir()
    if given is None:
        make(models, count, broken=label != "nothing fires")
    else:
        for number, path in enumerate(sorted(given.rglob("*.onnx"))[:count]):
            shutil.copy(path, models / f"m{number:04}.onnx")
    paths = sorted(models.glob("*.onnx"))
    for path in paths[:2]:
        shutil.copy(path, single)
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    root = Path(__file__).resolve().parent.parent
    environment |= {"PYTHONPATH": str(root), "PYTHONPYCACHEPREFIX": str(place / "compiled"), "XDG_CACHE_HOME": str(place)}

    def fix(folder: Path, jobs: int, *more: str) -> np.ndarray:
        if not more:
            shutil.rmtree(out, ignore_errors=True)
        return timed(environment, COMMAND, "fix", str(folder), "--out", str(out), "--jobs", str(jobs), *more)

    def peer(folder: Path, jobs: int) -> np.ndarray:
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        return timed(environment, PEER, str(folder), str(out))

    ways = {"rewriter fix --jobs 1": (fix, 1), "rewriter fix --jobs 2": (fix, 2), "graphsurgeon, import and export": (peer, 1)}
    for way, jobs in ways.values():
        way(single, jobs)
    found: dict[str, list[np.ndarray]] = {label: [] for label in ways}
    for _ in range(runs):
        for way_label, (way, jobs) in ways.items():
            seconds = way(models, jobs) - way(single, jobs)
            found[way_label].append(seconds / (len(paths) - 2) * 1000)
    medians = {way_label: np.median(values, axis=0) for way_label, values in found.items()}
    base = medians["graphsurgeon, import and export"]
    print(f"{f'{len(paths)} models, {label}':42}{'clock':>8}{'cpu':>8}{'ratio':>8}")
    for way_label, value in medians.items():
        print(f"{way_label:42}{value[0]:8.2f}{value[1]:8.2f}{value[1] / base[1]:8.2f}")
    first = fix(models, 2)
    written = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    share = fix(models, 2, "--update") / first
    if written != {path: path.stat().st_mtime_ns for path in out.rglob("*")}:
        raise SystemExit("--update wrote something anew")
    print(f"{'--update of the finished folder':42}{share[0]:8.1%}{share[1]:8.1%}")
    reached = bool(medians["rewriter fix --jobs 2"][0] <= bound and share[0] <= MOST_OF_UPDATE)
    print(f"bounds: --jobs 2 {bound:g} ms a model, --update {MOST_OF_UPDATE:.0%}{'' if reached else '  MISSED'}\n", flush=True)
    return reached


if __name__ == "__main__":
    sys.exit(main())
