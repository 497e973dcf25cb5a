"""What starting costs: commands from a cold process to their end, beside Python's own start and the import of ONNX.

    python benchmarks/startup.py [--runs 9]

Every command is a fresh process, and the commands take turns. Medians are printed in milliseconds of the clock and of the
processor; ratios to `python -c "import onnx, onnx_graphsurgeon"` and bounds are about the latter, so that it does not matter
what else the machine does. Caches are warm: Python has compiled the modules, and the rules have been loaded before.

Exits with 1 when a bound is exceeded.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

BASE = "import onnx, onnx_graphsurgeon"
COMMAND = "from rewriter.app.cli.main import entry; entry()"
LOADING = """
import os, time
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the command does
import rewriter
load = rewriter.load_rules
started = time.process_time()
rules = load()
print(time.process_time() - started, len(rules))
"""
LIGHT = 0.15  # seconds for a command that works on no model
LOAD = 0.030
COMPILE = 0.003  # a rule
FIX = 1.25  # of the import
CHECK = 1.3  # of the import
NOTHING = 1.0  # likewise, where nothing can fire


def model(path: Path, *, repaired: bool) -> None:
    """70 nodes of a small network; not `repaired`: pooling as MXNet exported it."""
    nodes, last = [], "x"
    for i in range(23):
        made = [f"{part}{i}" for part in "abc"]
        nodes += [
            helper.make_node("Relu", [last], [made[0]], f"relu{i}"),
            helper.make_node("Add", [made[0], last], [made[1]], f"add{i}"),
            helper.make_node("Sigmoid", [made[1]], [made[2]], f"sigmoid{i}"),
        ]
        last = made[2]
    attributes: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]} | (
        {"count_include_pad": 1} if repaired else {}
    )
    nodes.append(helper.make_node("AveragePool", [last], ["y"], "pool", **attributes))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, size, size]) for name, size in (("x", 8), ("y", 5))]
    graph = helper.make_graph(nodes, "mxnet_converted_model", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6), path)


def run(environment: dict[str, str], *arguments: str) -> tuple[float, float, str]:
    """Seconds of a process by the clock and by the processor, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode not in (0, 2):
        raise SystemExit(f"{arguments} failed:\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        return measure(Path(name), args.runs)


def measure(folder: Path, runs: int) -> int:
    root = Path(__file__).resolve().parent.parent
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(root), "PYTHONPYCACHEPREFIX": str(folder / "compiled"), "XDG_CACHE_HOME": str(folder)}
    model(folder / "good.onnx", repaired=True)
    model(folder / "bad.onnx", repaired=False)
    fix = ["fix", "--force", "-o", str(folder / "out.onnx")]
    programs: dict[str, tuple[str, ...]] = {
        "python": ("-c", "pass"),
        "import onnx, onnx_graphsurgeon": ("-c", BASE),
        "rewriter --help": ("-c", COMMAND, "--help"),
        "rewriter fix --no-such-option": ("-c", COMMAND, "fix", "--no-such-option"),
        "rewriter explain E103": ("-c", COMMAND, "explain", "E103"),
        "rewriter rules": ("-c", COMMAND, "rules"),
        "rewriter rule MX001": ("-c", COMMAND, "rule", "MX001"),
        "rewriter fix, 70 nodes, nothing to do": ("-c", COMMAND, *fix, str(folder / "good.onnx")),
        "rewriter check --runtime no, nothing to do": ("-c", COMMAND, "check", "--runtime", "no", str(folder / "good.onnx")),
        "rewriter check, which asks the runtime": ("-c", COMMAND, "check", str(folder / "good.onnx")),
        "rewriter fix, 70 nodes, one repair": ("-c", COMMAND, *fix, str(folder / "bad.onnx")),
    }
    compiled = [loading(environment) for _ in range(3) if forget(folder)][1:]  # the first also made tables and compiled modules
    for program in programs.values():
        run(environment, *program)
    times: dict[str, list[tuple[float, float]]] = {label: [] for label in programs}
    kept: list[float] = []
    for _ in range(runs):
        for label, program in programs.items():
            times[label].append(run(environment, *program)[:2])
        kept.append(loading(environment)[0])
    clock = {label: statistics.median(one for one, _ in pairs) for label, pairs in times.items()}
    medians = {label: statistics.median(one for _, one in pairs) for label, pairs in times.items()}
    return report(clock, medians, statistics.median(kept), min(compiled))


def forget(folder: Path) -> bool:
    """Throws away the rules that are kept."""
    for path in folder.glob("rewriter/rules-*"):
        path.unlink()
    return True


def loading(environment: dict[str, str]) -> tuple[float, int]:
    """Seconds inside `load_rules` of a fresh process, and how many rules it gave."""
    seconds, count = run(environment, "-c", LOADING)[2].split()
    return float(seconds), int(count)


def report(clock: dict[str, float], medians: dict[str, float], kept: float, compiled: tuple[float, int]) -> int:
    base = medians["import onnx, onnx_graphsurgeon"]
    missed = 0
    print(f"{'command':44}{'clock':>8}{'cpu ms':>8}{'ratio':>8}  bound")
    for label, seconds in medians.items():
        works, is_command = "70 nodes" in label or "check" in label, label.startswith("rewriter")
        most = NOTHING if label.endswith("nothing to do") else CHECK if "check" in label else FIX
        bound = f"{most}" if works else f"{LIGHT * 1000:.0f} ms" if is_command else ""
        good = seconds <= most * base if works else not is_command or seconds <= LIGHT
        missed += not good
        figures = f"{clock[label] * 1000:8.1f}{seconds * 1000:8.1f}{seconds / base:8.2f}"
        print(f"{label:44}{figures}  {bound}{'' if good else '  MISSED'}")
    seconds, count = compiled
    for label, value, limit in (
        (f"loading {count} rules that were kept", kept, LOAD),
        ("compiling them, a rule", seconds / count, COMPILE),
    ):
        missed += value > limit
        print(f"{label:52}{value * 1000:8.1f}{value / base:8.2f}  {limit * 1000:.0f} ms{'  MISSED' if value > limit else ''}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
