"""How the time of each step grows with the size of a model: load, match, rewrite, tidy, save.

    python benchmarks/growth.py [--sizes 1000,10000,100000] [--runs 3] [--shapes chain,fan,...]

Prints the best of several runs in seconds, the exponent of growth between the last two sizes (1 is linear), and the peak of
memory in all. A million nodes: `--sizes 100000,1000000 --shapes chain,blocks --runs 1`.

    chain       one node behind the other, every fifth is removed
    fan         many short branches of one tensor, joined at the end
    blocks      transformer-like: weights, attention, residuals
    hub         one tensor with many readers, each of which is removed
    crowd       one tensor with many readers, all of which read another one after one firing
    collapse    a chain that is removed node by node until nothing is left
    dominoes    a chain in which each firing enables the next; also printed: its time beside as many firings that do not

    python benchmarks/growth.py --tries [--sizes 500,2000,16000] [--shapes ones,chains,...]

Counts how often rules are tried for each node when these shapes and the random ones (growing/random_shapes.py) are optimized:
a number that is the same on every machine. Prints also the processor time, and in the last column the rules that fired.

Exits with 1 when the exponent of all steps together exceeds 1.1, or that of one step 1.15 (steps under 10 ms at the largest
size are too short to measure and do not count), or dominoes take three times as long as independent firings. With --tries:
when the tries for each node differ by more than a tenth from those of the smallest size, an optimization never fires, or the
time of `ones` grows by a quarter more than its size.
"""

from __future__ import annotations

import argparse
import gc
import math
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import rewriter

sys.path.insert(0, str(Path(__file__).parent / "growing"))
import random_shapes

from rewriter.core.engine.run import run
from rewriter.core.graph.tidy import tidy
from rewriter.core.language.rules import RuleSet

LIMIT = 1.15
WHOLE = 1.1
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


def crowd(size: int) -> onnx.ModelProto:
    """One tensor read by all nodes, made by an Identity that is to go."""
    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Identity", ["h"], ["i"])]
    nodes += [helper.make_node("Relu", ["i"], [f"b{i}"]) for i in range(size)]
    return model(nodes, [f"b{i}" for i in range(size)])


def collapse(size: int) -> onnx.ModelProto:
    """Nothing but Identity nodes."""
    names = ["x", *(f"t{i}" for i in range(size))]
    return model([helper.make_node("Identity", [a], [b]) for a, b in pairwise(names)], [names[-1]])


def dominoes(size: int) -> onnx.ModelProto:
    """A Relu before a chain of Sigmoids; a rule makes a Relu of each Sigmoid that stands behind one."""
    names = ["x", *(f"t{i}" for i in range(size))]
    edges = enumerate(pairwise(names))
    return model([helper.make_node("Sigmoid" if i else "Relu", [a], [b]) for i, (a, b) in edges], [names[-1]])


def apart(size: int) -> onnx.ModelProto:
    """As many pairs of Relu and Sigmoid, each behind a Neg: what fires at one changes nothing for the next."""
    names = ["x", *(f"t{i}" for i in range(3 * size))]
    edges = enumerate(pairwise(names))
    return model([helper.make_node(("Neg", "Relu", "Sigmoid")[i % 3], [a], [b]) for i, (a, b) in edges], [names[-1]])


SHAPES = {shape.__name__: shape for shape in (chain, fan, blocks, hub, crowd, collapse, dominoes)}
PUSH = "rule GROW1 push <kind: lossy> match { t = Relu(x)  y = Sigmoid(t) } rewrite { y = Relu(t) }"


def pushed(path: Path) -> RuleSet:
    """The rule that knocks the dominoes over."""
    path.write_text(PUSH)
    return rewriter.load_rules([path]).select(["ALL"])


def domino_ratio(size: int, runs: int, folder: Path) -> float:
    """Time of firings that each enable the next, beside that of as many independent ones."""
    rules, seconds = pushed(folder / "push.rules"), []
    for shape in (dominoes, apart):
        graphs = [rewriter.Model.from_proto(shape(size)).graph for _ in range(runs)]
        seconds.append(min(timed(lambda graph=graph: run(graph, rules, detail=False)) for graph in graphs))
    return seconds[0] / seconds[1]


def timed(step: Callable[[], object]) -> float:
    gc.collect()
    started = time.perf_counter()
    step()
    return time.perf_counter() - started


def write(shape: Callable[[int], onnx.ModelProto], size: int, path: Path) -> None:
    """Writes a model from a process of its own, since the messages that it is made of take more memory than the work on it."""
    process = get_context("fork").Process(target=lambda: path.write_bytes(shape(size).SerializeToString()))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{shape.__name__} of {size} nodes was not written")


def measure(path: Path, folder: Path, own: RuleSet | None) -> list[float]:
    """Seconds of each step, once."""
    held: list[rewriter.Model] = []
    load = timed(lambda: held.append(rewriter.load(path)))
    loaded = held[0]
    rules = rewriter.load_rules()
    removal = own or RuleSet(tuple(r for r in rules if r.code == "GEN001"), by_id=frozenset({"GEN001"}))
    idle = RuleSet(tuple(r for r in rules if r.code == "OPT003"), by_id=frozenset({"OPT003"}))
    match = timed(lambda: run(loaded.graph, idle, detail=False))
    rewrite = timed(lambda: run(loaded.graph, removal, detail=False))
    clean = timed(lambda: tidy(loaded.graph))
    save = timed(lambda: loaded.save(folder / "out.onnx", force=True))
    return [load, match, rewrite, clean, save]


ALIKE, FEW = 0.1, 0.05
"""By what part tries for each node may differ; and by how many, for shapes in which next to nothing is tried."""


SHADOWED = ["GEN031", "GEN035", "GEN037", "OPT035", "OPT038"]
"""In the models of their tests, OPT086, OPT078, OPT040, OPT103 and OPT102 do first what these rules do."""


def count_tries(sizes: list[int], shapes: list[str]) -> int:
    """Prints tries of rules for each node by size, and returns the exit code."""
    rules = rewriter.load_rules().select(["OPTIMIZE"], ignore=SHADOWED)
    makers: dict[str, Callable[[int], onnx.ModelProto]] = {**SHAPES, **random_shapes.SHAPES}
    for opset in random_shapes.OPSETS:
        makers[f"opset{opset}"] = random_shapes.mixture(rules, opset)
    wrong, silent = False, {rule.code for rule in rules}
    print(f"{'graph':12}" + "".join(f"{size:>9}" for size in sizes) + f"{'seconds':>12}{'firings':>9}{'rules':>7}")
    for name in shapes or makers:
        found, seconds = [], []
        for size in sizes:
            graph = rewriter.Model.from_proto(makers[name](size)).graph
            count, started = len(graph.nodes), time.process_time()
            log = run(graph, rules, detail=False)
            seconds.append((time.process_time() - started) / count * size)
            found.append(log.tries / count)
        silent -= log.counts.keys()
        grown = max(abs(number - found[0]) for number in found) > max(FEW, ALIKE * found[0])
        slow = name == "ones" and seconds[-1] / seconds[0] > 1.25 * sizes[-1] / sizes[0]
        wrong = wrong or grown or slow
        line = "".join(f"{number:>9.2f}" for number in found) + f"{seconds[-1]:>12.2f}{len(log.firings):>9}{len(log.counts):>7}"
        print(f"{name:12}{line}{'  grows' * grown}{'  slow' * slow}", flush=True)
    if not shapes and silent:
        print(f"never fired: {', '.join(sorted(silent))}")
    return int(wrong or bool(silent and not shapes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", action="store_true")
    parser.add_argument("--sizes")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--shapes")
    args = parser.parse_args()
    sizes = [int(text) for text in (args.sizes or ("500,2000,16000" if args.tries else "1000,10000,100000")).split(",")]
    shapes = args.shapes.split(",") if args.shapes else []
    if args.tries:
        return count_tries(sizes, shapes)
    worst = whole = 0.0
    print(f"{'graph':10}{'nodes':>9}" + "".join(f"{step:>10}" for step in (*STEPS, "together")))
    with tempfile.TemporaryDirectory() as name:
        for shape in [SHAPES[name] for name in shapes or SHAPES]:
            best = []
            own = pushed(Path(name) / "push.rules") if shape is dominoes else None
            for size in sizes:
                write(shape, size, path := Path(name) / "model.onnx")
                runs = [measure(path, Path(name), own) for _ in range(args.runs)]
                steps = [min(step) for step in zip(*runs, strict=True)]
                best.append([*steps, sum(steps)])
                print(f"{shape.__name__:10}{size:>9}" + "".join(f"{seconds:>10.4f}" for seconds in best[-1]), flush=True)
            span = math.log(sizes[-1] / sizes[-2])
            exponents = [math.log(b / a) / span for a, b in zip(best[-2], best[-1], strict=True)]
            print(f"{'':10}{'growth':>9}" + "".join(f"{value:>10.2f}" for value in exponents))
            whole = max(whole, exponents.pop())
            worst = max(worst, *(value for value, seconds in zip(exponents, best[-1], strict=False) if seconds > 0.01))
        ratio = domino_ratio(min(sizes[-1], 10_000), args.runs, Path(name)) if not shapes or "dominoes" in shapes else 0.0
    print(f"largest exponent of all steps together {whole:.2f}, limit {WHOLE}; of one step {worst:.2f}, limit {LIMIT}")
    print(f"dominoes take {ratio:.2f} times as long as independent firings, limit 3")
    print(f"peak of memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    return 0 if whole <= WHOLE and worst <= LIMIT and ratio <= 3 else 1


if __name__ == "__main__":
    sys.exit(main())
