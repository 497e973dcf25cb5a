"""One job, file to file, done by this program and by its peers: every fifth node is an Identity and has to go.

    python benchmarks/peers.py [--sizes 10000,100000] [--runs 5] [--limit 300] [--venvs FOLDER] [--only NAME,...]

Each way runs in a process of its own, peers in virtual environments that are made for them (and kept in --venvs, when given).
A way is called once on a small model first, so that imports, compiled rules and the like do not count, and then --runs times;
medians are printed, in seconds of the clock, and ratios to graphsurgeon and to the fastest peer. The ways take turns by size.
A way that has not ended after --limit seconds is given up and printed as such. Where a result still holds an Identity that is
not at a graph output, the way is said to have left some.

`rewriter` is load, all shipped rules that run unasked and GEN001, and save; `rewriter, guarded` is what `rewriter fix` does,
which also puts the result before the checker and ONNX Runtime. `run` is the run of the rules alone, `matching` the same on a
model in which nothing fires; from what the one takes longer than the other follows what a firing costs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

JOBS = Path(__file__).parent / "peer_jobs"
ROOT = Path(__file__).parent.parent
OURS = ("floor", "rewriter", "rewriter, guarded", "rewriter, nothing fires", "matching", "run", "graphsurgeon")
PEERS = {
    "onnxscript, 1 rule": "onnxscript",
    "onnxscript, 100 rules": "onnxscript",
    "onnxsim": "onnxsim",
    "onnxslim": "onnxslim",
    "onnxoptimizer": "onnxoptimizer",
    "ONNX Runtime, basic": "onnxruntime",
}


def model(path: Path, size: int, *, identities: bool) -> None:
    """Blocks of five nodes with branches and a join; the last one of each is an Identity, or a Tanh."""
    nodes, last = [], "x"
    for i in range(0, size, 5):
        a, b, c, d, e = (f"t{i + k}" for k in range(5))
        nodes += [
            helper.make_node("Relu", [last], [a], f"n{i}"),
            helper.make_node("Sigmoid", [a], [b], f"n{i + 1}"),
            helper.make_node("Neg", [a], [c], f"n{i + 2}"),
            helper.make_node("Add", [b, c], [d], f"n{i + 3}"),
            helper.make_node("Identity" if identities else "Tanh", [d], [e], f"n{i + 4}"),
        ]
        last = e
    nodes.append(helper.make_node("Abs", [last], ["y"], "last"))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(made.SerializeToString())


def interpreter(package: str, folder: Path) -> str:
    """Python of the virtual environment that has a peer."""
    home = folder / package
    python = home / "bin" / "python"
    if not python.exists():
        print(f"installing {package}", file=sys.stderr)
        venv.create(home, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", package, "onnx"], check=True)
    return str(python)


def run(way: str, python: str, files: dict[str, str], runs: int, limit: float) -> dict[str, Any]:
    """What a way printed: {"seconds": [...], "left": identities}, or {"error": why}."""
    own = way in OURS
    program = JOBS / ("ours.py" if own else "peers.py")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if own:
        environment["PYTHONPATH"] = str(ROOT)
    try:
        done = subprocess.run(
            [python, str(program), way, json.dumps(files), str(runs)],
            capture_output=True,
            text=True,
            timeout=limit,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {limit:g} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1][:90]}
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def left(path: Path) -> int:
    """Identities of a result that are not at its outputs."""
    graph = onnx.load(path, load_external_data=False).graph
    outputs = {output.name for output in graph.output}
    return sum(node.op_type == "Identity" and node.output[0] not in outputs for node in graph.node)


def table(size: int, results: dict[str, dict[str, Any]]) -> None:
    """Prints what was measured at one size."""
    medians = {way: sorted(r["seconds"])[len(r["seconds"]) // 2] for way, r in results.items() if r.get("seconds")}
    fastest = min((medians[way] for way in PEERS if way in medians), default=None)
    base = medians.get("graphsurgeon")
    print(f"\n{size:,} nodes{'':14}{'seconds':>10}{'of gs':>9}{'of fastest peer':>17}")
    for way, result in results.items():
        if way not in medians:
            print(f"  {way:24}{result['error']}")
            continue
        ratios = [f"{medians[way] / other:.3f}" if other else "" for other in (base, fastest)]
        kept = f"  left {result['left']} Identities" if result.get("left") else ""
        print(f"  {way:24}{medians[way]:10.3f}{ratios[0]:>9}{ratios[1]:>17}{kept}")
    if "run" in medians and "matching" in medians:
        print(f"a firing: {(medians['run'] - medians['matching']) / (size // 5) * 1e6:.1f} microseconds")


def chosen(text: str) -> list[str]:
    """The ways in a list; a comma before a space belongs to a name, as in "rewriter, guarded"."""
    found = [name.strip() for name in re.split(r"[;,](?! )", text)]
    for name in found:
        if name not in (*OURS, *PEERS):
            raise argparse.ArgumentTypeError(f"no way is called {name!r}; there are: {'; '.join([*OURS, *PEERS])}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--limit", type=float, default=300.0)
    parser.add_argument("--venvs", type=Path)
    parser.add_argument("--only", metavar="NAME,...", type=chosen, default=[*OURS, *PEERS], help="these ways, by their names")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for size in (int(text) for text in args.sizes.split(",")):
            results = {}
            for kind, length in (("small", 50), ("model", size)):
                model(folder / f"{kind}.onnx", length, identities=True)
                model(folder / f"{kind}_without.onnx", length, identities=False)
            for way in args.only:
                files = {key: str(folder / f"{key}.onnx") for key in ("small", "model", "small_without", "model_without")}
                result = folder / "result.onnx"
                result.unlink(missing_ok=True)
                files["result"] = str(result)
                python = interpreter(PEERS[way], args.venvs or folder / "venvs") if way in PEERS else sys.executable
                results[way] = run(way, python, files, args.runs, args.limit)
                if result.exists() and way not in ("floor", "run") and "nothing" not in way:
                    results[way]["left"] = left(result)
            table(size, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
