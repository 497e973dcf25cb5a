"""The job of benchmarks/peers.py, done by this program and by what it stands on: prints its seconds as JSON."""

from __future__ import annotations

import gc
import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path


def floor(source: str, target: str) -> None:
    """Parsing the message and copying the file: nothing that looks at a model can be faster."""
    import onnx

    onnx.ModelProto.FromString(Path(source).read_bytes())
    shutil.copyfile(source, target)


def graphsurgeon(source: str, target: str) -> None:
    """Its own import, edit, cleanup, sort and export."""
    import onnx
    import onnx_graphsurgeon as gs

    graph = gs.import_onnx(onnx.load(source))
    outputs = {id(tensor) for tensor in graph.outputs}
    for node in list(graph.nodes):
        if node.op == "Identity" and id(node.outputs[0]) not in outputs:
            before, after = node.inputs[0], node.outputs[0]
            for reader in list(after.outputs):
                reader.inputs = [before if tensor is after else tensor for tensor in reader.inputs]
            node.outputs.clear()
    graph.cleanup().toposort()
    onnx.save(gs.export_onnx(graph), target)


def ours(way: str) -> Callable[[str, str], float | None]:
    """Load, rules, save; or the same with the guard around it; or the run alone."""
    import rewriter
    from rewriter.app.batch.job import process
    from rewriter.app.batch.work import Job, Reading, Rewriting, Work, Writing
    from rewriter.core.engine.run import run

    every = rewriter.load_rules()
    rules = every.select(["DEFAULT", "GEN001"], [])

    def unguarded(source: str, target: str) -> None:
        model = rewriter.load(source)
        run(model.graph, rules, detail=False)
        model.save(target, force=True)

    def guarded(source: str, target: str) -> None:
        outcome = process(Job(source, target), Work(Rewriting(rules), Reading("none"), writing=Writing(force=True)))
        assert not outcome.error, outcome.error

    def alone(source: str, target: str) -> float:
        model = rewriter.load(source)
        gc.collect()
        started = time.perf_counter()
        run(model.graph, rules, detail=False)
        return time.perf_counter() - started

    ways = {"rewriter": unguarded, "rewriter, guarded": guarded, "rewriter, nothing fires": guarded}
    return ways.get(way) or alone


def main() -> None:
    way, files, runs = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
    own = {"floor": floor, "graphsurgeon": graphsurgeon}
    job = own.get(way) or ours(way)
    suffix = "_without" if way in ("rewriter, nothing fires", "matching") else ""
    job(files["small" + suffix], files["result"])
    seconds = []
    for _ in range(runs):
        gc.collect()
        started = time.perf_counter()
        told = job(files["model" + suffix], files["result"])
        seconds.append(told if told is not None else time.perf_counter() - started)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
