"""What it costs to tell that nothing can fire in a large model: a job from file to file, beside reading and copying it.

    python benchmarks/verdict.py [--nodes 10000 100000] [--runs 5]

Every measurement is the third time that a process does this, after a small model, so that imports, what is made once and
memory that was never used before do not count; milliseconds of the processor, the median of the runs. The first ratio is that
of the whole job (reading, deciding, copying) to protobuf's parsing and a copy of the file, the second that of `onnx.load` and
graphsurgeon's import to the verdict alone. Exits with 1 when the first is above 2 or the second below 20.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from onnx import TensorProto, helper

WHOLE, ALONE = 2.0, 20.0
SMALL = 2000
START = "import sys, time, numpy\nfrom pathlib import Path\nsmall, model, target = sys.argv[1:]\n"
CLOCK = """
for place in small, model, model, model:
    started = time.process_time()
    {}
print((time.process_time() - started) * 1000)
"""
RULES = """
from rewriter.app.batch.job import do
from rewriter.app.batch.work import Job, Outcome, Rewriting, Work, Writing
from rewriter.app.batch.untouched import foresee
from rewriter.rule_tools.load_rules import load_rules
work = Work(Rewriting(load_rules().select()), writing=Writing(force=True))
"""
PARSE = "onnx.ModelProto.FromString(Path(place).read_bytes()); shutil.copyfile(place, target)"
PROGRAMS = {
    "parsing and copying": START + "import shutil, onnx\n" + CLOCK.format(PARSE),
    "job, nothing to do": START + RULES + CLOCK.format("assert do(Job(place, target), work, Outcome(place)) is None"),
    "verdict alone": START + RULES + CLOCK.format("assert foresee(Job(place), work).verdict is not None"),
    "graphsurgeon's import": START
    + "import onnx, onnx_graphsurgeon as gs\n"
    + CLOCK.format("gs.import_onnx(onnx.load(place))"),
}


def make(path: Path, count: int) -> None:
    """Convolutions, activations and sums, as a network has them."""
    nodes, last = [], "x"
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [1, 1]}
    for i in range(count):
        op = ("Conv", "Relu", "Add", "Sigmoid")[i % 4]
        more = {"Conv": ["w", "b"], "Add": ["x"]}.get(op, [])
        attributes = window if op == "Conv" else {}
        nodes.append(helper.make_node(op, [last, *more], [f"/block{i}/out"], f"/block{i}/{op}", **attributes))
        last = nodes[-1].output[0]
    weights = [helper.make_tensor("w", 1, [3, 3, 3, 3], [0.0] * 81), helper.make_tensor("b", 1, [3], [0.0] * 3)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3, 8, 8]) for name in ("x", last)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parent.parent)
    missed = False
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        for count in args.nodes:
            make(folder / "small.onnx", SMALL)
            make(folder / "net.onnx", count)
            taken: dict[str, list[float]] = {label: [] for label in PROGRAMS}
            for _ in range(args.runs):
                for label, program in PROGRAMS.items():
                    files = [str(folder / f"{name}.onnx") for name in ("small", "net", "out")]
                    command = [sys.executable, "-c", program, *files]
                    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                    taken[label].append(float(done.stdout))
            median = {label: statistics.median(values) for label, values in taken.items()}
            print(f"{count} nodes")
            for label, value in median.items():
                print(f"  {label:24}{value:10.1f} ms")
            whole = median["job, nothing to do"] / median["parsing and copying"]
            alone = median["graphsurgeon's import"] / median["verdict alone"]
            missed |= whole > WHOLE or alone < ALONE
            print(f"  the job to parsing and copying {whole:.2f} (bound {WHOLE:g}){'  MISSED' if whole > WHOLE else ''}")
            print(f"  the import to the verdict      {alone:.1f} (bound {ALONE:g}){'  MISSED' if alone < ALONE else ''}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
