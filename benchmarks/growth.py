"""How the time of each step grows with the size of a model: load, match, rewrite, tidy, save.

    python benchmarks/growth.py [--sizes 1000,10000,100000] [--runs 3]

Prints the best of several runs in seconds and the exponent of growth between the smallest and the largest size (1 is linear).
Exits with 1 when an exponent exceeds 1.15 (steps under 10 ms at the largest size are too short to measure and do not count).
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import rewriter
from rewriter.engine.run import run
from rewriter.graph.tidy import tidy
from rewriter.language.rules import RuleSet

LIMIT = 1.15
STEPS = ("load", "match", "rewrite", "tidy", "save")


def model(nodes: list[onnx.NodeProto], outputs: list[str], weights: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, results, initializer=tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def chain(size: int) -> onnx.ModelProto:
    """One node behind the other, every fifth an Identity."""
    nodes, last = [], "x"
    for i in range(size):
        nodes.append(helper.make_node("Relu" if i % 5 else "Identity", [last], [f"t{i}"]))
        last = f"t{i}"
    return model(nodes, [last])


def fan(size: int) -> onnx.ModelProto:
    """Many short branches of one tensor, joined by a single Sum at the end."""
    nodes, ends = [], []
    for i in range(size // 3):
        nodes += [helper.make_node("Relu", ["x"], [f"a{i}"]), helper.make_node("Identity", [f"a{i}"], [f"b{i}"])]
        nodes.append(helper.make_node("Neg", [f"b{i}"], [f"c{i}"]))
        ends.append(f"c{i}")
    nodes.append(helper.make_node("Sum", ends, ["y"]))
    return model(nodes, ["y"])


def blocks(size: int) -> onnx.ModelProto:
    """Transformer-like blocks: projections with weights, attention, a residual, an Identity."""
    weights = {"w": np.eye(4, dtype=np.float32)}
    nodes, last = [], "x"
    for i in range(size // 8):
        n = [f"{part}{i}" for part in "qkvtspri"]
        nodes += [helper.make_node("MatMul", [last, "w"], [n[j]]) for j in range(3)]
        nodes.append(helper.make_node("Transpose", [n[1]], [n[3]], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", [n[0], n[3]], [n[4]]))
        nodes.append(helper.make_node("MatMul", [n[4], n[2]], [n[5]]))
        nodes.append(helper.make_node("Add", [n[5], last], [n[6]]))
        nodes.append(helper.make_node("Identity", [n[6]], [n[7]]))
        last = n[7]
    return model(nodes, [last], weights)


def hub(size: int) -> onnx.ModelProto:
    """One tensor read by almost every node; each reader is an Identity that is to go."""
    nodes = [helper.make_node("Relu", ["x"], ["h"])]
    for i in range(size // 2):
        nodes += [helper.make_node("Identity", ["h"], [f"a{i}"]), helper.make_node("Relu", [f"a{i}"], [f"b{i}"])]
    return model(nodes, [f"b{i}" for i in range(size // 2)])


def timed(step: Callable[[], object]) -> float:
    gc.collect()
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def measure(proto: onnx.ModelProto, folder: Path) -> list[float]:
    """Seconds of each step, once."""
    path = folder / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    held: list[rewriter.Model] = []
    load = timed(lambda: held.append(rewriter.load(path)))
    loaded = held[0]
    rules = rewriter.load_rules()
    removal = RuleSet(tuple(r for r in rules if r.code == "GEN001"), by_id=frozenset({"GEN001"}))
    idle = RuleSet(tuple(r for r in rules if r.code == "OPT003"), by_id=frozenset({"OPT003"}))
    match = timed(lambda: run(loaded.graph, idle, detail=False))
    rewrite = timed(lambda: run(loaded.graph, removal, detail=False))
    clean = timed(lambda: tidy(loaded.graph))
    save = timed(lambda: loaded.save(folder / "out.onnx", force=True))
    return [load, match, rewrite, clean, save]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    sizes = [int(text) for text in args.sizes.split(",")]
    worst = 0.0
    print(f"{'graph':8}{'nodes':>9}" + "".join(f"{step:>10}" for step in STEPS))
    with tempfile.TemporaryDirectory() as name:
        for shape in (chain, fan, blocks, hub):
            best = []
            for size in sizes:
                proto = shape(size)
                runs = [measure(proto, Path(name)) for _ in range(args.runs)]
                best.append([min(step) for step in zip(*runs, strict=True)])
                print(f"{shape.__name__:8}{size:>9}" + "".join(f"{seconds:>10.4f}" for seconds in best[-1]), flush=True)
            span = math.log(sizes[-1] / sizes[-2])
            exponents = [math.log(b / a) / span for a, b in zip(best[-2], best[-1], strict=True)]
            print(f"{'':8}{'growth':>9}" + "".join(f"{value:>10.2f}" for value in exponents))
            worst = max(worst, *(value for value, seconds in zip(exponents, best[-1], strict=True) if seconds > 0.01))
    print(f"largest exponent {worst:.2f}, limit {LIMIT}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
