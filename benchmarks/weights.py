"""Large models from file to file, against copying the file: seconds, their ratio, and peak memory.

    python benchmarks/weights.py [--size 1] [--external 4] [--runs 5] [--folder DIR] [--only NAME]

Makes the models (GB of weights inside, GB beside), then does each job in a process of its own, once to warm up and then
`--runs` times, in turn with copying the file, since disks are moody; before each the disk has time to write what is waiting.
The commands that cut and edit models are timed against copying what they write. Prints medians. Exits with 1 when a bound is
exceeded.
A row `private` is the command `fix` with one firing on the weights beside: private memory of all its processes together, at the
worst moment, which may be 1.1 times the weights (Linux only).
`--folder` is where the models are made and written; it needs three times their size and should not be in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

GB = 10**9
SLOW_RUNS = 3  # of peers, which take many seconds
PRIVATE = 1.1  # bytes of private memory for each byte of weights in other files, of all processes of a command together
PRIVATE_SIZES = (0.9, 2.0)  # GB; one is loaded into ONNX Runtime, and one is too large for that


@dataclass(frozen=True)
class Job:
    """A model, what to do with it, and what that may take: times copying the file (or seconds), and megabytes.

    A command has words instead of a rule; `half` is the number of the node in the middle. What it writes is copied then.
    """

    name: str
    model: str
    rule: str
    ratio: float | None
    seconds: float | None
    megabytes: int
    words: tuple[str, ...] = ()


JOBS = (
    Job("attribute edit", "inside.onnx", "GEN001", 2, None, 200),
    Job("attribute edit, weights in float_data", "floats.onnx", "GEN001", 2, None, 200),
    Job("nothing fires", "inside.onnx", "OPT003", 2, None, 200),
    Job("convolutions folded with BatchNormalization", "folded.onnx", "OPT001", 3, None, 400),
    Job("attribute edit, external data", "beside.onnx", "GEN001", None, 0.3, 150),
)

EDITS = (
    ("extract", "--to", "y{half}"),
    ("edit", "--rename", "x=images"),
    ("opset", "18"),
    ("save", "--external"),
)
COMMANDS = tuple(
    Job(f"{' '.join(words)}, {told}", model, "", 2, None, 200, words)
    for model, told in (("inside.onnx", "inside"), ("beside.onnx", "beside"))
    for words in EDITS
)


# --- models ----------------------------------------------------------------------------------------------------------------


def chain(path: Path, size: int, width: int = 2048, kind: str = "raw_data") -> None:
    """MatMul and Identity in turn, until the weights have that many bytes."""
    nodes, weights, last = [], [], "x"
    array = np.random.default_rng(0).standard_normal((width, width), dtype=np.float32)
    count = max(size // array.nbytes, 1)
    beside = path.with_suffix(".bin").open("wb") if kind == "external" else None
    for i in range(count):
        tensor = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=array.shape)
        if beside is not None:
            tensor.data_location = TensorProto.EXTERNAL
            place = {"location": path.with_suffix(".bin").name, "offset": beside.tell(), "length": array.nbytes}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            beside.write(array.data)
        elif kind == "float_data":
            tensor.MergeFromString(packed(4, array.tobytes()))
        else:
            tensor.raw_data = array.tobytes()
        weights.append(tensor)
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"], f"matmul{i}"))
        nodes.append(helper.make_node("Identity", [f"m{i}"], [f"y{i}"], f"identity{i}"))
        last = f"y{i}"
    if beside is not None:
        beside.close()
    write(path, nodes, weights, last, ["N", width])


def convolutions(path: Path, size: int, channels: int = 512) -> None:
    """Conv and BatchNormalization in turn, until the weights have that many bytes."""
    nodes, weights, last = [], [], "x"
    rng = np.random.default_rng(0)
    for i in range(max(size // (channels * channels * 36), 1)):
        kernel = rng.standard_normal((channels, channels, 3, 3), dtype=np.float32)
        weights.append(TensorProto(name=f"w{i}", data_type=1, dims=kernel.shape, raw_data=kernel.tobytes()))
        names = [f"{name}{i}" for name in ("gamma", "beta", "mean", "var")]
        for name in names:
            values = rng.random(channels, dtype=np.float32) + 1
            weights.append(TensorProto(name=name, data_type=1, dims=values.shape, raw_data=values.tobytes()))
        nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], f"conv{i}", kernel_shape=[3, 3], pads=[1] * 4))
        nodes.append(helper.make_node("BatchNormalization", [f"c{i}", *names], [f"y{i}"], f"norm{i}"))
        last = f"y{i}"
    write(path, nodes, weights, last, ["N", channels, 8, 8])


def write(path: Path, nodes: list[onnx.NodeProto], weights: list[TensorProto], last: str, shape: list[str | int]) -> None:
    values = [helper.make_tensor_value_info(name, 1, shape) for name in ("x", last)]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], initializer=weights)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString())


def packed(number: int, data: bytes) -> bytes:
    """A length-delimited field, serialised."""
    result, length = bytearray((number << 3 | 2,)), len(data)
    while length > 127:
        result.append(length & 127 | 128)
        length >>= 7
    return bytes(result) + bytes((length,)) + data


# --- ways ------------------------------------------------------------------------------------------------------------------


def ours(source: Path, target: Path, rule: str, *, stamp: bool = False) -> Callable[[], None]:
    import rewriter
    from rewriter.app.batch.job import process
    from rewriter.app.batch.work import Job, Rewriting, Work, Writing
    from rewriter.core.language.rules import RuleSet

    found = [r for r in rewriter.load_rules() if r.code == rule]
    work = Work(Rewriting(RuleSet(tuple(found), by_id=frozenset((rule,)))), writing=Writing(stamp=stamp))

    def run() -> None:
        outcome = process(Job(str(source), str(target)), work)
        assert not outcome.error and outcome.log is not None, outcome
        assert bool(outcome.log.firings) == (rule != "OPT003") and not outcome.log.rolled_back, outcome

    return run


def recorded(source: Path, target: Path, rule: str) -> Callable[[], None]:
    """As `fix` does it unless told otherwise: with a record, for which the input is digested."""
    return ours(source, target, rule, stamp=True)


def copied(source: Path, target: Path) -> Callable[[], None]:
    def run() -> None:
        shutil.copyfile(source, target)
        with open(target, "rb") as copy:
            os.fsync(copy.fileno())  # as the command does

    return run


def onnx_alone(source: Path, target: Path, rule: str) -> Callable[[], None]:
    def run() -> None:
        onnx.save(onnx.load(source, load_external_data=False), target)

    return run


def graphsurgeon(source: Path, target: Path, rule: str) -> Callable[[], None]:
    import onnx_graphsurgeon as gs

    def run() -> None:
        onnx.save(gs.export_onnx(gs.import_onnx(onnx.load(source, load_external_data=False))), target)

    return run


WAYS = {"rewriter": ours, "and a record": recorded, "onnx": onnx_alone, "graphsurgeon": graphsurgeon}


def measure(way: str, source: Path, target: Path, rule: str, runs: int) -> None:
    """Prints the seconds of each copy and each run, and the peak of memory in megabytes, as JSON."""
    both = copied(source, target), WAYS[way](source, target, rule)
    seconds: tuple[list[float], list[float]] = [], []
    for _ in range(runs + 1):
        for step, times in zip(both, seconds, strict=True):
            target.unlink(missing_ok=True)
            os.sync()
            started = time.perf_counter()
            step()
            times.append(time.perf_counter() - started)
    target.unlink()
    print(json.dumps({"copy": seconds[0][1:], "seconds": seconds[1][1:], "peak": peak()}))


def measure_command(words: Sequence[str], source: Path, target: Path, runs: int) -> None:
    """As `measure`, for a command and copies of all the files that it writes."""
    import rewriter
    from rewriter.app.cli.main import main as command

    words = [word.format(half=len(rewriter.load(source).graph.initializers) // 2) for word in words]
    seconds: tuple[list[float], list[float]] = [], []
    for _ in range(runs + 1):
        os.sync()
        started = time.perf_counter()
        code = command([words[0], str(source), *words[1:], "-o", str(target)])
        seconds[1].append(time.perf_counter() - started)
        if code:
            raise SystemExit(code)
        written = [path for path in target.parent.iterdir() if path.name.startswith(target.name)]
        os.sync()
        started = time.perf_counter()
        for path in written:
            shutil.copyfile(path, f"{path}.copy")
            with open(f"{path}.copy", "rb") as copy:
                os.fsync(copy.fileno())  # as the command does
        seconds[0].append(time.perf_counter() - started)
        for path in written:
            path.unlink()
            Path(f"{path}.copy").unlink()
    print(json.dumps({"copy": seconds[0][1:], "seconds": seconds[1][1:], "peak": peak()}))


def peak() -> float:
    """Most memory that this process has had, in megabytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the parent had before this process began
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1000
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 10**6


def measured(way: str, job: Job, folder: Path, runs: int) -> tuple[float, float, float]:
    """Medians of seconds and of seconds copying, and peak of megabytes, of a process of its own."""
    slow = way in ("onnx", "graphsurgeon")
    call = [sys.executable, __file__, "--measure", way, "--folder", str(folder), "--only", job.name]
    answer = subprocess.run([*call, "--runs", str(SLOW_RUNS if slow else runs)], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise SystemExit(answer.stderr)
    found = json.loads(answer.stdout.splitlines()[-1])
    return statistics.median(found["seconds"]), statistics.median(found["copy"]), found["peak"]


def private_peak(words: Sequence[str]) -> float:
    """The most megabytes of private memory that a command and the processes which it starts take at one moment."""
    most, command = 0.0, subprocess.Popen([sys.executable, "-m", "rewriter", *words], stdout=subprocess.DEVNULL)
    while command.poll() is None:
        most = max(most, sum(map(private, family(command.pid))))
        time.sleep(0.01)
    if command.returncode:
        raise SystemExit(command.returncode)
    return most


def private(process: int) -> float:
    """Megabytes of a process that no other process shares; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean", "Private_Dirty"))) / 1000


def family(process: int) -> list[int]:
    """A process and all that it has started, by their numbers."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found = [process]
    for one in found:
        found += children.get(one, [])
    return found


def compare_private(folder: Path) -> bool:
    """Prints private memory against the weights; whether the bound holds."""
    good = True
    for size in PRIVATE_SIZES:
        source, target = folder / f"private{size:g}.onnx", folder / f"private{size:g}.out.onnx"
        one_firing(source, int(size * GB))
        weights = source.with_suffix(".bin").stat().st_size / 10**6
        most = private_peak(("fix", str(source), "-o", str(target), "--select", "GEN001"))
        good = good and most <= PRIVATE * weights
        print(f"{f'private, {size:g} GB of external data':46}{'rewriter':14}{'':27}{most:>9.0f}", flush=True)
        print(f"{'':46}{'':14}bound: {PRIVATE * weights:.0f} MB", flush=True)
        source.with_suffix(".bin").unlink()
    return good


def one_firing(path: Path, size: int) -> None:
    """Convolutions of weights in another file, which an optimizer likes to copy into another layout, and one Identity."""
    kernel = np.random.default_rng(0).standard_normal((1024, 1024, 3, 3), dtype=np.float32)
    nodes, weights, last = [], [], "x"
    with path.with_suffix(".bin").open("wb") as beside:
        for i in range(size // kernel.nbytes):
            tensor = TensorProto(name=f"w{i}", data_type=1, dims=kernel.shape, data_location=TensorProto.EXTERNAL)
            place = {"location": path.with_suffix(".bin").name, "offset": beside.tell(), "length": kernel.nbytes}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            beside.write(kernel.data)
            weights.append(tensor)
            nodes.append(helper.make_node("Conv", [last, f"w{i}"], [f"c{i}"], f"conv{i}", kernel_shape=[3, 3], pads=[1] * 4))
            last = f"c{i}"
    nodes.append(helper.make_node("Identity", [last], ["y"], "identity"))
    write(path, nodes, weights, "y", ["N", 1024, 8, 8])


# --- all of it -------------------------------------------------------------------------------------------------------------


def make(folder: Path, job: Job, size: float, external: float) -> None:
    path = folder / job.model
    if path.exists():
        return
    if job.model == "folded.onnx":
        convolutions(path, int(size * GB))
    elif job.model == "beside.onnx":
        chain(path, int(external * GB), 4096, "external")
    else:
        chain(path, int(size * GB), kind="float_data" if job.model == "floats.onnx" else "raw_data")


def compare(folder: Path, jobs: list[Job], size: float, external: float, runs: int) -> bool:
    """Prints the table; whether every bound holds."""
    good = True
    print(f"{'job':46}{'way':14}{'seconds':>9}{'copying':>9}{'ratio':>9}{'peak MB':>9}")
    for job in jobs:
        make(folder, job, size, external)
        for way in WAYS if not job.words else ["rewriter"]:
            seconds, base, most = measured(way, job, folder, runs)
            ratio = "" if job.ratio is None else f"{seconds / base:.2f}"
            print(f"{job.name:46}{way:14}{seconds:>9.3f}{base:>9.3f}{ratio:>9}{most:>9.0f}", flush=True)
            if way == "rewriter":
                held = seconds <= (job.seconds if job.seconds is not None else (job.ratio or 0) * base)
                good = good and held and most <= job.megabytes
                limit = f"{job.seconds} s" if job.seconds is not None else f"{job.ratio} copies"
                print(f"{'':46}{'':14}bound: {limit}, {job.megabytes} MB{'' if held else '  EXCEEDED'}", flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=float, default=1.0, help="GB of weights inside")
    parser.add_argument("--external", type=float, default=4.0, help="GB of weights beside")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", help="jobs, by the beginnings of their names")
    parser.add_argument("--measure", choices=sorted(WAYS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    jobs = [job for job in (*JOBS, *COMMANDS) if job.name.startswith(args.only or "")]
    if args.measure:
        source = args.folder / jobs[0].model
        target = source.with_suffix(".out.onnx")
        if jobs[0].words:
            measure_command(jobs[0].words, source, target, args.runs)
        else:
            measure(args.measure, source, target, jobs[0].rule, args.runs)
        return 0
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        good = compare(Path(name), jobs, args.size, args.external, args.runs)
        if "private".startswith(args.only or "") or (args.only or "").startswith("private"):
            good = compare_private(Path(name)) and good
        return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
