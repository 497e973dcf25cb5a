"""What a rewrite from file to file costs beside the same edit in an onnx-graphsurgeon script.

    python benchmarks/roundtrip.py [--nodes 100000] [--runs 5]

Rules fire on a fifth of the nodes, the process is warm, all shipped rules are loaded. Prints the medians, in seconds of the
processor, of: graphsurgeon's import, edit, cleanup, toposort and export; loading, running and saving here; and the ratio of the
sums.

    remove   transformer-like blocks with names, weights and declared types; Identity nodes are bypassed (GEN001)
    mend     Unsqueeze with the attribute of an older opset, which becomes an operand (OP002)
    idle     the blocks again, where no rule fires; beside parsing the file and copying it

What a thousand rules cost beside ten is in many_rules.py, how the time grows in growth.py.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_graphsurgeon as gs
from growth import model
from onnx import TensorProto, helper

import rewriter
from rewriter.core.engine.run import run
from rewriter.core.language.rules import RuleSet

Steps = list[tuple[str, Callable[[], object]]]


def blocks(size: int, spare: bool = True) -> onnx.ModelProto:
    """Attention and a residual, ten nodes each, every type declared; two of the ten are Identity, if any are to be spare."""
    nodes, last = [], "x"
    for i in range(size // 10):
        n = [f"layer.{i}/{part}" for part in "qkvtsaproi"]
        nodes += [helper.make_node("MatMul", [last, "w"], [n[j]], name=n[j]) for j in range(3)]
        nodes.append(helper.make_node("Transpose", [n[1]], [n[3]], name=n[3], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", [n[0], n[3]], [n[4]], name=n[4]))
        nodes.append(helper.make_node("Softmax", [n[4]], [n[5]], name=n[5], axis=-1))
        nodes.append(helper.make_node("MatMul", [n[5], n[2]], [n[6]], name=n[6]))
        nodes.append(helper.make_node("Identity" if spare else "Neg", [n[6]], [n[7]], name=n[7]))
        nodes.append(helper.make_node("Add", [n[7], last], [n[8]], name=n[8]))
        nodes.append(helper.make_node("Identity" if spare else "Neg", [n[8]], [n[9]], name=n[9]))
        last = n[9]
    result = model(nodes, [last], {"w": np.eye(4, dtype=np.float32)})
    for node in nodes:
        shape = [4, 2] if node.op_type == "Transpose" else [2, 2] if node.output[0][-1] in "sa" else [2, 4]
        result.graph.value_info.append(helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, shape))
    return result


def old_axes(size: int) -> onnx.ModelProto:
    """A chain in which every fifth node is an Unsqueeze of before opset 13."""
    nodes, last = [], "x"
    for i in range(size // 5):
        n = [f"layer.{i}/{part}" for part in "ruvna"]
        nodes.append(helper.make_node("Relu", [last], [n[0]], name=n[0]))
        nodes.append(helper.make_node("Unsqueeze", [n[0]], [n[1]], name=n[1], axes=[0]))
        nodes.append(helper.make_node("Reshape", [n[1], "shape"], [n[2]], name=n[2]))
        nodes.append(helper.make_node("Neg", [n[2]], [n[3]], name=n[3]))
        nodes.append(helper.make_node("Add", [n[3], last], [n[4]], name=n[4]))
        last = n[4]
    return model(nodes, [last], {"shape": np.array([2, 4], np.int64)})


def bypass(graph: gs.Graph) -> None:
    for node in graph.nodes:
        if node.op == "Identity":
            for user in list(node.outputs[0].outputs):
                user.inputs[[tensor is node.outputs[0] for tensor in user.inputs].index(True)] = node.inputs[0]
            if not any(tensor is node.outputs[0] for tensor in graph.outputs):
                node.outputs.clear()


def move_axes(graph: gs.Graph) -> None:
    for i, node in enumerate(graph.nodes):
        if node.op == "Unsqueeze":
            node.inputs.append(gs.Constant(f"axes{i}", np.array(node.attrs.pop("axes"), np.int64)))


def by_hand(path: Path, edit: Callable[[gs.Graph], None]) -> Steps:
    held: list[gs.Graph] = []
    return [
        ("import", lambda: held.append(gs.import_onnx(onnx.load(path)))),
        ("edit", lambda: edit(held[0])),
        ("cleanup", lambda: held[0].cleanup()),
        ("toposort", lambda: held[0].toposort()),
        ("export", lambda: onnx.save(gs.export_onnx(held[0]), path.with_name("hand.onnx"))),
    ]


def by_rules(path: Path, rules: RuleSet) -> Steps:
    held: list[rewriter.Model] = []
    return [
        ("load", lambda: held.append(rewriter.load(path))),
        ("run", lambda: run(held[0].graph, rules, detail=False)),
        ("save", lambda: held[0].save(path.with_name("rules.onnx"), force=True)),
    ]


def copied(path: Path) -> Steps:
    return [
        ("parse", lambda: onnx.load(path)),
        ("copy", lambda: path.with_name("copy.onnx").write_bytes(path.read_bytes())),
    ]


def measured(steps: Callable[[], Steps], runs: int) -> dict[str, float]:
    """Median seconds of processor time of each step."""
    found: dict[str, list[float]] = {}
    for _ in range(runs):
        gc.collect()
        for name, step in steps():
            started = time.process_time()
            step()
            found.setdefault(name, []).append(time.process_time() - started)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


def shown(times: dict[str, float]) -> str:
    return " + ".join(f"{name} {seconds:.3f}" for name, seconds in times.items()) + f" = {sum(times.values()):.3f} s"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    rules = rewriter.load_rules().select(["DEFAULT", "GEN001"])
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.onnx"
        for title, proto, edit in (("remove", blocks, bypass), ("mend", old_axes, move_axes)):
            path.write_bytes(proto(args.nodes).SerializeToString())
            hand = measured(lambda edit=edit: by_hand(path, edit), args.runs)
            here = measured(lambda: by_rules(path, rules), args.runs)
            print(f"{title:8}graphsurgeon: {shown(hand)}\n{'':8}rewriter:     {shown(here)}")
            print(f"{'':8}ratio {sum(here.values()) / sum(hand.values()):.3f}", flush=True)
        path.write_bytes(blocks(args.nodes, spare=False).SerializeToString())
        plain = measured(lambda: copied(path), args.runs)
        here = measured(lambda: by_rules(path, rewriter.load_rules().select()), args.runs)
        print(f"{'idle':8}rewriter:     {shown(here)}; parsing and copying {sum(plain.values()):.3f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
